// Skills, of the user and of one bot, for people; models have a tool (tools.c).

#include "bot/ask.h"
#include "bot/skillset.h"

static void free_set(void *data)
{
    skillset_fini(data);
    free(data);
}

/// a->data becomes a skillset: all zeros until read_set().
static void hold_set(struct ask *a)
{
    a->data = xcalloc(1, sizeof(struct skillset));
    a->free_data = free_set;
}

static void read_set(struct ask *a) // on the lane
{
    skillset_read(a->data, a->b->shelf, a->b->home, a->bot, a->real);
}

static void write_row(struct jw *w, const struct skillset_item *it)
{
    jw_kstr(w, "name", it->skill->name);
    jw_kstr(w, "description", it->skill->description);
    jw_kstrz(w, "source", skill_origin_name(it->origin));
    jw_kstr(w, "path", it->skill->file);
}

// ---- list, show ---------------------------------------------------------------------------------

static void listed(struct ask *a)
{
    struct skillset *s = a->data;
    struct jw *w = &a->w;
    skillset_judge(s, a->b->o.hub->trust);
    skillset_add_shipped(s);
    jw_obj(w);
    jw_karr(w, "skills");
    vec_foreach (it, &s->list) {
        jw_obj(w);
        write_row(w, it);
        jw_end_obj(w);
    }
    jw_end_arr(w);
    jw_kint(w, "untrusted", (int64_t)s->untrusted);
    jw_karr(w, "diagnostics");
    vec_foreach (d, &s->skills.faults) {
        jw_obj(w);
        jw_kstr(w, "path", d->file);
        jw_kstr(w, "message", d->message);
        jw_end_obj(w);
    }
    ask__answer_list(a);
}

void bots_skill_list(struct ask *a)
{
    hold_set(a);
    ask__locate_work(a, 0, read_set, listed);
}

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

void bots_skill_show(struct ask *a)
{
    hold_set(a);
    ask__locate_work(a, 0, read_set, shown);
}

// ---- save, remove -------------------------------------------------------------------------------

static void save(struct ask *a) // on the lane
{
    struct skillset_new n = {.name = ask__str(a, "name"),
                             .description = ask__str(a, "description"),
                             .body = ask__str(a, "body")};
    a->rc = skillset_save(a->b->shelf, a->b->home, a->name, &n, &a->e);
    if (a->rc == 0) {
        read_set(a);
    }
}

void bots_skill_save(struct ask *a)
{
    struct err e = {0};
    if (skillset_name_check(ask__str(a, "name"), &e) < 0) {
        ask__no(a, PROBLEM_INVALID_NAME, NULL, "%s", e.msg);
    } else {
        hold_set(a);
        ask__locate_work(a, 0, save, shown);
    }
}

static void drop(struct ask *a) // on the lane
{
    struct str name = ask__str(a, "name");
    a->rc = skillset_remove(a->b->shelf, a->b->home, a->name, name, &a->e);
    jw_obj(&a->w);
    jw_kstr(&a->w, "removed", name);
    jw_end_obj(&a->w);
}

void bots_skill_remove(struct ask *a)
{
    ask__locate_work(a, 0, drop, ask__answer);
}
