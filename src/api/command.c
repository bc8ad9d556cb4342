// Commands that plugins contribute: list them, run one.

#include "agent/agent.h"
#include "api/handlers.h"
#include "api/plugin_int.h"
#include "hook/args.h"

void op_COMMAND_LIST(struct api *api, struct op_call *c)
{
    struct gen *g = api__current(api, c);
    if (g == NULL) {
        return;
    }
    struct jw *w = op_begin_obj(c);
    jw_karr(w, "commands");
    struct gen_walk all = gen_walk(g, GEN_COMMAND);
    for (const struct gen_item *it; (it = gen_walk_next(&all)) != NULL;) {
        const struct json *about = gen_item_read_about(it, c->arena);
        jw_obj(w);
        jw_key(w, "name");
        jw_strf(w, "%s:%s", gen_item_unit(it)->name, gen_item_name(it));
        jw_kbool(w, "plain", gen_item_is_plain(g, it));
        jw_kvalue(w, "description", json_get(about, "description"));
        if (json_bool(json_get(about, "prompt"), false)) {
            jw_kbool(w, "prompt", true); // its output is a message for a model
        }
        jw_end_obj(w);
    }
    jw_end_arr(w);
    op_end_obj(c, 200);
}

struct command_run {
    struct api *api; // the call is gone when it is answered
    struct op_call *call;
    char *dir; // entered; NULL: none
    struct hook_ctx ctx;
    struct gen *gen; // pinned
    struct gen_call target;
};

static void run_free(struct command_run *r)
{
    if (r->dir != NULL && r->api->plugins != NULL) { // a hub that stops has no plugins to leave
        agent_leave(r->api->agent, r->dir);
    }
    free(r->dir);
    free(r);
}

static void on_output(struct gen_call *target, int status, const struct json *output,
                      const struct err *e)
{
    struct command_run *r = target->arg;
    if (status < 0) {
        op_fail(r->call, status == ERR_TIMEOUT ? PROBLEM_PLUGIN_TIMEOUT : PROBLEM_PLUGIN_FAILED,
                NULL, "%s", e->msg);
    } else {
        struct jw *w = op_begin_obj(r->call);
        jw_kvalue(w, "output", output);
        jw_kint(w, "generation", (int64_t)gen_number(r->gen));
        op_end_obj(r->call, 200);
    }
    gen_unpin(r->gen);
    run_free(r);
}

static void run(struct command_run *r)
{
    static const struct json none = {.type = JSON_ARR};
    struct op_call *c = r->call;
    struct str name = api__name(c);
    struct gen *g = api__current(r->api, c);
    struct gen_item *it = g != NULL ? gen_item_find(g, GEN_COMMAND, name) : NULL;
    if (g != NULL && it == NULL) {
        op_fail(c, PROBLEM_NOT_FOUND, "`afloat x` lists them", "there is no command '%.*s'",
                (int)MIN(name.n, 100), name.p);
    }
    if (it == NULL) {
        run_free(r); // answered
        return;
    }
    const struct json *args = json_get(c->params, "args");
    const struct gen_target *face = gen_item_face(it);
    r->gen = gen_pin(g);
    r->ctx.working_dir = str_of(r->dir);
    r->target = (struct gen_call){.input = args != NULL ? args : &none,
                                  .ctx = r->dir != NULL ? &r->ctx : NULL,
                                  .done = on_output,
                                  .arg = r};
    face->call(gen_item_data(it), &r->target);
}

static void on_entered(void *arg, const char *real_dir)
{
    struct command_run *r = arg;
    if (real_dir == NULL) {
        op_fail(r->call, PROBLEM_INVALID_BODY, NULL,
                "'working_dir' is not a directory that exists");
        run_free(r);
        return;
    }
    r->dir = xstrdup(real_dir);
    run(r);
}

/// The project of the working directory is entered first: the command may be one of its plugins'.
void op_COMMAND_RUN(struct api *api, struct op_call *c)
{
    struct str dir = json_get_text(c->params, "working_dir");
    if (dir.n != 0 && dir.p[0] != '/') {
        op_fail(c, PROBLEM_INVALID_BODY, NULL, "'working_dir' has to be an absolute path");
        return;
    }
    struct command_run *r = xcalloc(1, sizeof *r);
    r->api = api;
    r->call = c;
    if (dir.n == 0 || api->agent == NULL) {
        run(r);
    } else {
        agent_enter(api->agent, arena_strdup(c->arena, dir), on_entered, r);
    }
}
