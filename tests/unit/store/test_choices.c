#include <sys/stat.h>
#include <unistd.h>

#include "store/choices.h"
#include "unit/store/util.h"

// Choices over a real store; a write is made to fail by a file that is not a document any more.

struct fixture {
    struct box box;
    struct choices *c;
};

static void open_choices(struct fixture *f)
{
    box_open(&f->box, NULL);
    f->c = choices_new(f->box.store);
}

static int load(struct fixture *f)
{
    choices_load(f->c, box_done, &f->box);
    return box_wait(&f->box);
}

static int set(struct fixture *f, const char *key, const char *value)
{
    choices_set(f->c, str_of(key), str_of(value), box_done, &f->box);
    return box_wait(&f->box);
}

static void close_choices(struct fixture *f)
{
    CHECK_INT(box_close(&f->box), 0);
    choices_free(f->c);
}

/// The value of a key as JSON, "absent" without one.
static const char *value(const struct fixture *f, const char *key)
{
    static char text[200];
    const struct json *v = choices_get(f->c, str_of(key));
    struct buf b;
    if (v == NULL) {
        return "absent";
    }
    buf_init(&b, sizeof text - 1);
    json_write(&b, v, 0);
    snprintf(text, sizeof text, "%s", buf_z(&b));
    buf_fini(&b);
    return text;
}

static void damage(struct fixture *f)
{
    file_write(box_path(&f->box, "choices.json"), "{\"a\":", 5);
}

static void mend(struct fixture *f, const char *text)
{
    file_write(box_path(&f->box, "choices.json"), text, strlen(text));
}

TEST(nothing_is_chosen_without_a_document)
{
    struct fixture f;
    open_choices(&f);
    CHECK_STR(value(&f, "a"), "absent");
    CHECK_INT(load(&f), 0);
    CHECK_STR(value(&f, "a"), "absent");
    CHECK_INT(choices_all(f.c)->type, JSON_OBJ);
    CHECK_INT(choices_all(f.c)->n, 0);
    close_choices(&f);
}

TEST(choices_survive_a_restart_under_their_dotted_names)
{
    struct fixture f;
    open_choices(&f);
    CHECK_INT(load(&f), 0);
    CHECK_INT(set(&f, "features.plugins", "false"), 0);
    CHECK_INT(set(&f, "plugins.x.enabled", "true"), 0);
    CHECK_INT(set(&f, "plugin_entries", "[{\"path\":\"/p\"}]"), 0);
    close_choices(&f);
    open_choices(&f);
    CHECK_STR(value(&f, "features.plugins"), "absent"); // not before it was read
    CHECK_INT(load(&f), 0);
    CHECK_STR(value(&f, "features.plugins"), "false");
    CHECK_STR(value(&f, "plugins.x.enabled"), "true");
    CHECK_STR(value(&f, "plugin_entries"), "[{\"path\":\"/p\"}]");
    CHECK_INT(choices_all(f.c)->n, 3);
    close_choices(&f);
}

TEST(a_choice_counts_at_once_and_an_empty_one_is_forgotten)
{
    struct fixture f;
    open_choices(&f);
    choices_set(f.c, STR("a"), STR("1"), NULL, NULL);
    CHECK_STR(value(&f, "a"), "1");
    choices_set(f.c, STR("a"), STR("[2]"), NULL, NULL);
    CHECK_STR(value(&f, "a"), "[2]");
    CHECK_INT(choices_all(f.c)->n, 1);
    CHECK_INT(set(&f, "a", ""), 0);
    CHECK_STR(value(&f, "a"), "absent");
    CHECK_INT(box_doc_get(&f.box, "choices.json"), 0);
    CHECK_STR(buf_z(&f.box.text), "{}");
    close_choices(&f);
}

TEST(a_choice_that_could_not_be_written_is_taken_back)
{
    struct fixture f;
    open_choices(&f);
    CHECK_INT(set(&f, "a", "1"), 0);
    damage(&f);
    choices_set(f.c, STR("a"), STR("2"), NULL, NULL);
    choices_set(f.c, STR("b"), STR("3"), box_done, &f.box);
    CHECK_STR(value(&f, "a"), "2");
    CHECK_STR(value(&f, "b"), "3");
    CHECK_INT(box_wait(&f.box), ERR_CORRUPT); // and a failed before it: answers keep the order
    CHECK_STR(value(&f, "a"), "1");
    CHECK_STR(value(&f, "b"), "absent");
    mend(&f, "{\"a\":1}");
    CHECK_INT(set(&f, "c", "4"), 0);
    CHECK_STR(value(&f, "b"), "absent");
    CHECK_STR(value(&f, "c"), "4");
    close_choices(&f);
}

TEST(a_failure_does_not_take_back_what_was_chosen_after_it)
{
    struct fixture f;
    open_choices(&f);
    CHECK_INT(set(&f, "a", "1"), 0);
    choices_set(f.c, STR("a"), STR("not json"), box_done, &f.box); // the store refuses it
    CHECK_STR(value(&f, "a"), "1");
    choices_set(f.c, STR("a"), STR("2"), NULL, NULL);
    CHECK_INT(box_wait(&f.box), ERR_PARSE);
    CHECK_STR(value(&f, "a"), "2");
    CHECK_INT(set(&f, "b", "true"), 0);
    CHECK_STR(value(&f, "a"), "2");
    CHECK_INT(box_doc_get(&f.box, "choices.json"), 0);
    CHECK(strstr(buf_z(&f.box.text), "\"a\": 2") != NULL);
    close_choices(&f);
}

TEST(what_is_lent_out_stays_when_a_write_succeeds)
{
    struct fixture f;
    open_choices(&f);
    choices_set(f.c, STR("a"), STR("\"text\""), box_done, &f.box);
    const struct json *v = choices_get(f.c, STR("a"));
    CHECK_INT(box_wait(&f.box), 0);
    CHECK(choices_get(f.c, STR("a")) == v);
    CHECK_SPAN(json_str(v, ""), "text");
    close_choices(&f);
}

TEST(a_damaged_document_is_said_and_chooses_nothing)
{
    struct fixture f;
    open_choices(&f);
    damage(&f);
    CHECK_INT(load(&f), ERR_CORRUPT);
    CHECK_INT(choices_all(f.c)->n, 0);
    close_choices(&f);
}

TEST(a_document_that_is_no_object_is_said_chooses_nothing_and_is_left_alone)
{
    struct fixture f;
    open_choices(&f);
    mend(&f, "[1]");
    CHECK_INT(load(&f), ERR_CORRUPT);
    CHECK_INT(choices_all(f.c)->type, JSON_OBJ);
    CHECK_INT(choices_all(f.c)->n, 0);
    CHECK_INT(set(&f, "a", "1"), ERR_INVALID);
    CHECK_STR(value(&f, "a"), "absent");
    CHECK_INT(box_doc_get(&f.box, "choices.json"), 0);
    CHECK_INT(choices_all(f.c)->n, 0);
    close_choices(&f);
}
