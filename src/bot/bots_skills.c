// Skills, of the user and of one bot, for people; models have a tool (tools.c).

#include "bot/ask.h"
#include "bot/skillset.h"

static void free_set(void *data)
{
    skillset_fini(data);
    free(data);
}

static void read_set(struct ask *a) // on the lane
{
    skillset_read(a->data, store_shelf(a->b->o.hub->store), a->b->o.hub->home->dir, a->bot,
                  a->real);
}

static void begin_read(struct ask *a, ask_fn *then)
{
    a->data = xcalloc(1, sizeof(struct skillset));
    a->free_data = free_set;
    ask__work(a, read_set, then);
}

static void write_row(struct jw *w, const struct skillset_item *it)
{
    jw_kstr(w, "name", it->skill->name);
    jw_kstr(w, "description", it->skill->description);
    jw_kstrz(w, "source", skill_origin_name(it->origin));
    jw_kstr(w, "path", it->skill->file);
}

// ---- list ---------------------------------------------------------------------------------------

static void listed(struct ask *a)
{
    struct skillset *s = a->data;
    struct jw *w = &a->w;
    skillset_judge(s, a->b->o.hub->trust);
    skillset_add_shipped(s);
    jw_obj(w);
    jw_key(w, "skills");
    jw_arr(w);
    vec_foreach (it, &s->list) {
        jw_obj(w);
        write_row(w, it);
        jw_end_obj(w);
    }
    jw_end_arr(w);
    jw_key(w, "diagnostics");
    jw_arr(w);
    vec_foreach (d, &s->skills.faults) {
        jw_obj(w);
        jw_kstr(w, "path", d->file);
        jw_kstr(w, "message", d->message);
        jw_end_obj(w);
    }
    jw_end_arr(w);
    jw_kint(w, "untrusted", (int64_t)s->untrusted);
    jw_key(w, "next");
    jw_null(w);
    jw_end_obj(w);
    ask__answer(a);
}

static void list(struct ask *a)
{
    begin_read(a, listed);
}

void bots_skill_list(struct bots *b, const struct json *params, bots_text_cb *cb, void *arg)
{
    ask__locate(ask__new(b, params, cb, arg), 0, list);
}

// ---- show ---------------------------------------------------------------------------------------

static void shown(struct ask *a)
{
    struct str name = ask__str(a, "name");
    skillset_judge(a->data, a->b->o.hub->trust);
    skillset_add_shipped(a->data);
    const struct skillset_item *it = skillset_find(a->data, name);
    if (it == NULL) {
        ask__no(a, PROBLEM_NOT_FOUND, "`afloat skills list` lists them", "there is no skill '%.*s'",
                (int)MIN(name.n, (size_t)64), name.p);
        return;
    }
    jw_obj(&a->w);
    write_row(&a->w, it);
    jw_kstr(&a->w, "body", it->skill->body);
    jw_end_obj(&a->w);
    ask__answer(a);
}

static void show(struct ask *a)
{
    begin_read(a, shown);
}

void bots_skill_show(struct bots *b, const struct json *params, bots_text_cb *cb, void *arg)
{
    ask__locate(ask__new(b, params, cb, arg), 0, show);
}

// ---- save, remove -------------------------------------------------------------------------------

static void do_save(struct ask *a) // on the lane
{
    struct skillset_new n = {.name = ask__str(a, "name"),
                             .description = ask__str(a, "description"),
                             .body = ask__str(a, "body")};
    a->rc = skillset_save(store_shelf(a->b->o.hub->store), a->b->o.hub->home->dir, a->name, &n,
                          NULL, &a->e);
}

void bots_skill_save(struct bots *b, const struct json *params, bots_text_cb *cb, void *arg)
{
    struct ask *a = ask__new(b, params, cb, arg);
    struct err e = {0};
    if (skillset_name_check(ask__str(a, "name"), &e) < 0) {
        ask__no(a, PROBLEM_INVALID_NAME, NULL, "%s", e.msg);
    } else {
        ask__locate_work(a, 0, do_save, show);
    }
}

static void do_remove(struct ask *a) // on the lane
{
    a->rc = skillset_remove(store_shelf(a->b->o.hub->store), a->b->o.hub->home->dir, a->name,
                            ask__str(a, "name"), &a->e);
}

static void removed(struct ask *a)
{
    jw_obj(&a->w);
    jw_kstr(&a->w, "removed", ask__str(a, "name"));
    jw_end_obj(&a->w);
    ask__answer(a);
}

void bots_skill_remove(struct bots *b, const struct json *params, bots_text_cb *cb, void *arg)
{
    ask__locate_work(ask__new(b, params, cb, arg), 0, do_remove, removed);
}
