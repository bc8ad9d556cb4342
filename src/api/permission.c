// Permission rules: those of the configuration and those that users made by their answers.

#include "agent/agent.h"
#include "api/api_int.h"
#include "api/handlers.h"

/// False, answered: the hub starts or stops.
static bool require_book(struct api *api, struct op_call *c)
{
    bool there = api->agent != NULL && agent_book(api->agent) != NULL;
    if (!there) {
        op_fail(c, PROBLEM_STOPPING, NULL, "the hub starts or stops");
    }
    return there;
}

// ---- list ---------------------------------------------------------------------------------------

static void answer_rules(struct op_call *c, const struct rules *remembered)
{
    const struct rules *const lists[] = {agent_rules(c->api->agent), remembered};
    struct jw *w = op_begin_obj(c);
    jw_karr(w, "rules");
    for (size_t k = 0; k < ARRAY_LEN(lists); k++) {
        for (size_t i = 0; lists[k] != NULL && i < lists[k]->n; i++) {
            const struct rule *r = &lists[k]->p[i];
            const char *scope = r->session != NULL ? "session"
                                : r->at_ms != 0    ? "project"
                                                   : "config";
            jw_obj(w);
            jw_kstrz(w, "id", r->id);
            jw_kstrz(w, "tool", r->tool);
            jw_kstrz(w, "match", r->match);
            if (r->exact) {
                jw_kbool(w, "exact", true);
            }
            jw_kstrz(w, "decision", permit_verdict_name(r->decision));
            jw_kstrz(w, "scope", scope);
            if (r->session != NULL) {
                jw_kstrz(w, "session", r->session);
            }
            jw_ktime(w, "at", r->at_ms);
            jw_end_obj(w);
        }
    }
    jw_end_arr(w);
    op_end_obj(c, 200);
}

static void on_rules(void *arg, struct book_project *p, const struct err *e)
{
    struct op_call *c = arg;
    if (p == NULL) {
        op_fail(c, PROBLEM_STORE_FAILED, NULL, "%s", e->msg);
    } else {
        answer_rules(c, book_rules(p));
    }
}

void op_PERMISSION_LIST(struct api *api, struct op_call *c)
{
    struct str path = json_get_text(c->params, "path");
    if (path.n != 0 && path.p[0] != '/') {
        op_fail(c, PROBLEM_INVALID_BODY, NULL, "'path' has to be an absolute path");
    } else if (require_book(api, c)) {
        if (path.n != 0) {
            book_find(agent_book(api->agent), arena_strdup(c->arena, path), on_rules, c);
        } else {
            answer_rules(c, NULL);
        }
    }
}

// ---- remove -------------------------------------------------------------------------------------

static void on_removed(void *arg, const struct rule *r, const struct err *e)
{
    struct op_call *c = arg;
    (void)r;
    if (e == NULL) {
        struct jw *w = op_begin_obj(c);
        jw_kstr(w, "deleted", json_get_text(c->params, "id"));
        op_end_obj(c, 200);
    } else {
        op_fail(c, e->code == ERR_NOT_FOUND ? PROBLEM_NOT_FOUND : PROBLEM_STORE_FAILED,
                e->code == ERR_NOT_FOUND ? "`afloat permission list` shows the rules" : NULL, "%s",
                e->msg);
    }
}

void op_PERMISSION_REMOVE(struct api *api, struct op_call *c)
{
    struct str id = json_get_text(c->params, "id");
    if (str_starts(id, "permission.")) {
        op_fail(c, PROBLEM_CONFLICT, "edit config.toml",
                "rule '" STR_FMT "' is in the configuration", STR_ARG(id));
    } else if (require_book(api, c)) {
        book_remove(agent_book(api->agent), id, on_removed, c);
    }
}
