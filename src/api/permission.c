// Permission rules: those of the configuration and those that users made by their answers.

#include "agent/agent.h"
#include "api/api_int.h"
#include "api/handlers.h"

struct permission_op {
    struct api *api;
    struct op_call *call;
};

/// False, answered: the hub starts or stops.
static bool find_book(struct api *api, struct op_call *c, struct permission_op **out)
{
    if (api->agent == NULL || agent_book(api->agent) == NULL) {
        op_fail(c, PROBLEM_STOPPING, NULL, "the hub starts or stops");
        return false;
    }
    *out = xmalloc(sizeof **out);
    **out = (struct permission_op){.api = api, .call = c};
    return true;
}

// ---- list ---------------------------------------------------------------------------------------

static void write_rule(struct jw *w, const struct rule *r)
{
    jw_obj(w);
    jw_kstrz(w, "id", r->id);
    jw_kstrz(w, "tool", r->tool);
    jw_kstrz(w, "match", r->match);
    if (r->exact) {
        jw_kbool(w, "exact", true);
    }
    jw_kstrz(w, "decision", permit_verdict_name(r->decision));
    jw_kstrz(w, "scope", r->session != NULL ? "session" : r->at_ms != 0 ? "project" : "config");
    if (r->session != NULL) {
        jw_kstrz(w, "session", r->session);
    }
    jw_ktime(w, "at", r->at_ms);
    jw_end_obj(w);
}

static void answer_rules(struct permission_op *o, const struct rules *remembered)
{
    const struct rules *const lists[] = {agent_rules(o->api->agent), remembered};
    struct jw *w = op_begin(o->call);
    jw_obj(w);
    jw_karr(w, "rules");
    for (size_t k = 0; k < ARRAY_LEN(lists); k++) {
        for (size_t i = 0; lists[k] != NULL && i < lists[k]->n; i++) {
            write_rule(w, &lists[k]->p[i]);
        }
    }
    jw_end_arr(w);
    jw_end_obj(w);
    op_end(o->call, 200);
    free(o);
}

static void on_rules(void *arg, struct book_project *p, const struct err *e)
{
    struct permission_op *o = arg;
    if (p == NULL) {
        op_fail(o->call, PROBLEM_STORE_FAILED, NULL, "%s", e->msg);
        free(o);
    } else {
        answer_rules(o, book_rules(p));
    }
}

void op_PERMISSION_LIST(struct api *api, struct op_call *c)
{
    struct str path = json_str(json_get(c->params, "path"), "");
    struct permission_op *o;
    if (path.n != 0 && path.p[0] != '/') {
        op_fail(c, PROBLEM_INVALID_BODY, NULL, "'path' has to be an absolute path");
    } else if (find_book(api, c, &o)) {
        if (path.n != 0) {
            book_find(agent_book(api->agent), arena_strdup(c->arena, path), on_rules, o);
        } else {
            answer_rules(o, NULL);
        }
    }
}

// ---- remove -------------------------------------------------------------------------------------

static void on_removed(void *arg, const struct rule *r, const struct err *e)
{
    struct permission_op *o = arg;
    (void)r;
    if (e == NULL) {
        struct jw *w = op_begin(o->call);
        jw_obj(w);
        jw_kstr(w, "deleted", json_str(json_get(o->call->params, "id"), ""));
        jw_end_obj(w);
        op_end(o->call, 200);
    } else {
        op_fail(o->call, e->code == ERR_NOT_FOUND ? PROBLEM_NOT_FOUND : PROBLEM_STORE_FAILED,
                e->code == ERR_NOT_FOUND ? "`afloat permission list` shows the rules" : NULL, "%s",
                e->msg);
    }
    free(o);
}

void op_PERMISSION_REMOVE(struct api *api, struct op_call *c)
{
    struct str id = json_str(json_get(c->params, "id"), "");
    struct permission_op *o;
    if (str_starts(id, "permission.")) {
        op_fail(c, PROBLEM_CONFLICT, "edit config.toml",
                "rule '" STR_FMT "' is in the configuration", STR_ARG(id));
    } else if (find_book(api, c, &o)) {
        book_remove(agent_book(api->agent), id, on_removed, o);
    }
}
