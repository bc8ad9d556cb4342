// Commands that plugins contribute: list them, run one.

#include "api/handlers.h"
#include "api/plugin_int.h"

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
    struct op_call *call;
    struct gen *gen; // pinned
    struct gen_call target;
};

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
    free(r);
}

void op_COMMAND_RUN(struct api *api, struct op_call *c)
{
    static const struct json none = {.type = JSON_ARR};
    struct str name = api__name(c);
    struct gen *g = api__current(api, c);
    if (g == NULL) {
        return;
    }
    struct gen_item *it = gen_item_find(g, GEN_COMMAND, name);
    if (it == NULL) {
        op_fail(c, PROBLEM_NOT_FOUND, "`afloat x` lists them", "there is no command '%.*s'",
                (int)MIN(name.n, 100), name.p);
        return;
    }
    const struct json *args = json_get(c->params, "args");
    const struct gen_target *face = gen_item_face(it);
    struct command_run *r = xcalloc(1, sizeof *r);
    r->call = c;
    r->gen = gen_pin(g);
    r->target =
        (struct gen_call){.input = args != NULL ? args : &none, .done = on_output, .arg = r};
    face->call(gen_item_data(it), &r->target);
}
