// Tools that need the session itself: skill, ask_user, plugin_save, plugin_diagnostics.

#include "agent/use_int.h"
#include "gen/engine.h"

static void run_skill(struct use *u, const struct json *input)
{
    struct skills skills;
    struct str name = json_str(json_get(input, "name"), "");
    turn__skills(u->t, &skills);
    const struct skill *sk = skills_find(&skills, name);
    if (sk != NULL) {
        use__finish(u, sk->body, true, NULL);
    } else {
        const char *why = arena_printf(&u->t->step_arena, "there is no skill '%.*s'",
                                       (int)MIN(name.n, (size_t)64), name.p);
        use__finish(u, STR(""), false, why);
    }
    skills_fini(&skills);
}

// ---- plugin_save --------------------------------------------------------------------------------

/// Waits for the report of a reload; the turn may be gone by then.
struct use_save {
    struct use *u; // NULL: nobody wants to know
    struct agent *agent;
    char *unit;
};

static bool has_failed(const struct gen_report *r, const char *unit)
{
    for (size_t i = 0; i < r->n_rows; i++) {
        if (strcmp(r->rows[i].name, unit) == 0) {
            return r->rows[i].state == GEN_FAILED;
        }
    }
    return false;
}

static void on_saved(void *arg, const struct gen_report *r, const struct err *e)
{
    struct use_save *sv = arg;
    struct use *u = sv->u;
    struct buf out;
    struct jw w;
    buf_init(&out, SIZE_MAX);
    if (u != NULL) {
        u->saving = NULL;
    }
    if (u != NULL && r != NULL) {
        bool failed = has_failed(r, sv->unit);
        jw_init(&w, &out);
        gen_report_write(r, &w);
        use__finish(u, buf_str(&out), !failed, failed ? "the plugin was not taken" : NULL);
    } else if (u != NULL) {
        use__finish(u, STR(""), false, e != NULL ? e->msg : "the hub is stopping");
    }
    buf_fini(&out);
    agent__release(sv->agent);
    free(sv->unit);
    free(sv);
}

static void run_save(struct use *u, const struct json *input)
{
    const struct agent_host *h = &u->t->s->agent->o.host;
    struct str name = json_str(json_get(input, "name"), "");
    struct use_save *sv = xcalloc(1, sizeof *sv);
    *sv = (struct use_save){.u = u, .agent = u->t->s->agent};
    sv->unit = xasprintf("improvements/" STR_FMT, STR_ARG(name));
    u->saving = sv;
    agent__hold(sv->agent);
    h->save(h->arg, name, json_str(json_get(input, "content"), ""), u->t->s->id, on_saved, sv);
}

void use__drop_save(struct use *u)
{
    if (u->saving != NULL) {
        u->saving->u = NULL;
        u->saving = NULL;
    }
}

static void run_diagnostics(struct use *u, const struct json *input)
{
    const struct gen_report *r = gen_last_report(u->t->s->agent->o.engine);
    struct buf out;
    struct jw w;
    (void)input;
    buf_init(&out, SIZE_MAX);
    jw_init(&w, &out);
    if (r != NULL) {
        gen_report_write(r, &w);
    } else {
        jw_null(&w);
    }
    use__finish(u, buf_str(&out), true, NULL);
    buf_fini(&out);
}

void use__run_own(struct use *u)
{
    static void (*const runs[])(struct use * u, const struct json *input) = {
        [OWN_SKILL] = run_skill,
        [OWN_ASK_USER] = use__ask_user,
        [OWN_PLUGIN_SAVE] = run_save,
        [OWN_PLUGIN_DIAGNOSTICS] = run_diagnostics,
    };
    runs[u->tool->own](u, json_get(u->call, "input"));
}
