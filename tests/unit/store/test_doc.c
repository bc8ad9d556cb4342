#include <sys/stat.h>

#include "store/doc.h"
#include "unit/store/util.h"

TEST(a_document_that_does_not_exist_is_empty)
{
    struct box b;
    box_open(&b, NULL);
    CHECK_INT(box_doc_get(&b, "choices.json"), 0);
    CHECK_INT(b.text.n, 0);
    CHECK_INT(box_close(&b), 0);
}

TEST(a_document_is_read_back_after_a_restart)
{
    struct box b;
    box_open(&b, NULL);
    CHECK_INT(box_doc_put(&b, "choices.json", "{\"features\":{\"x\":true}}"), 0);
    CHECK_INT(box_close(&b), 0);
    box_open(&b, NULL);
    CHECK_INT(box_doc_get(&b, "choices.json"), 0);
    CHECK(strstr(buf_z(&b.text), "\"x\": true") != NULL);
    struct stat st;
    CHECK_INT(stat(box_path(&b, "choices.json"), &st), 0);
    CHECK_INT(st.st_mode & 0777, 0600);
    CHECK_INT(box_close(&b), 0);
}

TEST(setting_one_key_keeps_all_others)
{
    struct box b;
    box_open(&b, NULL);
    CHECK_INT(box_doc_set(&b, "state/hub.json", "held", "{\"a\":[1,2]}"), 0);
    CHECK_INT(box_doc_set(&b, "state/hub.json", "mark", "7"), 0);
    CHECK_INT(box_doc_set(&b, "state/hub.json", "mark", "8"), 0);
    CHECK_INT(box_doc_set(&b, "state/hub.json", "gone", "1"), 0);
    CHECK_INT(box_doc_set(&b, "state/hub.json", "gone", ""), 0);
    CHECK_INT(box_doc_get(&b, "state/hub.json"), 0);
    CHECK_STR(buf_z(&b.text), "{\n  \"held\": {\n    \"a\": [\n      1,\n      2\n    ]\n  },\n"
                              "  \"mark\": 8\n}");
    CHECK_INT(box_close(&b), 0);
}

static unsigned answers;

static void count(void *arg, int status, const struct err *e)
{
    (void)arg;
    (void)e;
    CHECK_INT(status, 0);
    answers++;
}

TEST(many_changes_at_once_are_all_kept)
{
    struct box b;
    box_open(&b, NULL);
    for (int i = 0; i < 100; i++) {
        char key[16], value[16];
        snprintf(key, sizeof key, "k%d", i);
        snprintf(value, sizeof value, "%d", i);
        store_doc_set(b.store, STR("state/hub.json"), str_of(key), str_of(value), count, NULL);
    }
    CHECK_INT(answers, 0); // never from inside the call
    CHECK_INT(box_doc_get(&b, "state/hub.json"), 0);
    CHECK_INT(answers, 100);
    CHECK(strstr(buf_z(&b.text), "\"k0\": 0,") != NULL);
    CHECK(strstr(buf_z(&b.text), "\"k99\": 99") != NULL);
    CHECK_INT(box_close(&b), 0);
}

TEST(a_document_that_is_not_json_is_refused_and_left_alone)
{
    struct box b;
    box_open(&b, NULL);
    file_write(box_path(&b, "choices.json"), "{\"a\":", 5);
    CHECK_INT(box_doc_get(&b, "choices.json"), ERR_CORRUPT);
    CHECK(strstr(b.err.msg, "fsck --repair") != NULL);
    CHECK_INT(box_doc_set(&b, "choices.json", "k", "1"), ERR_CORRUPT);
    CHECK_INT(box_doc_put(&b, "choices.json", "{}"), ERR_CORRUPT);
    char *text = file_text(box_path(&b, "choices.json"), NULL);
    CHECK_STR(text, "{\"a\":");
    free(text);
    CHECK_INT(box_close(&b), 0);
}

TEST(a_change_that_is_not_json_fails_alone)
{
    struct box b;
    box_open(&b, NULL);
    store_doc_set(b.store, STR("choices.json"), STR("a"), STR("1"), count, NULL);
    store_doc_set(b.store, STR("choices.json"), STR("b"), STR("nope"), box_done, &b);
    store_doc_set(b.store, STR("choices.json"), STR("c"), STR("3"), count, NULL);
    CHECK_INT(box_wait(&b), ERR_PARSE);
    CHECK_INT(box_doc_get(&b, "choices.json"), 0);
    CHECK_INT(answers, 2);
    CHECK_STR(buf_z(&b.text), "{\n  \"a\": 1,\n  \"c\": 3\n}");
    CHECK_INT(box_close(&b), 0);
}

TEST(names_that_lead_elsewhere_are_refused)
{
    static const char *const names[] = {"../x.json", "/etc/x.json", "a/../b.json",
                                        "x.txt",     ".x.json",     "",
                                        "a//b.json", "a/.b/c.json"};
    struct box b;
    box_open(&b, NULL);
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        CHECK_INT(box_doc_put(&b, names[i], "{}"), ERR_INVALID);
        CHECK_INT(box_doc_get(&b, names[i]), ERR_INVALID);
    }
    CHECK(doc_name_valid(STR("bots/x/workspaces/y/memory.json")));
    CHECK_INT(box_close(&b), 0);
}
