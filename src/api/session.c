// Sessions: begin, list, show, change, end, copy.

#include "api/handlers.h"
#include "api/policy.h"
#include "api/session_int.h"
#include "base/time.h"
#include "bot/bots.h"

enum { DEFAULT_LIST = 50, LONGEST_LIST = 1000 };

// ---- shared -------------------------------------------------------------------------------------

static bool require_agent(struct api *api, struct op_call *c)
{
    if (api->agent == NULL) {
        op_fail(c, PROBLEM_STOPPING, NULL, "there are no sessions: the hub starts or stops");
    }
    return api->agent != NULL;
}

static bool require_bots(struct api *api, struct op_call *c)
{
    if (api->bots == NULL) {
        op_fail(c, PROBLEM_STOPPING, NULL, "there are no bots: the hub starts or stops");
    }
    return api->bots != NULL;
}

static struct session_op *op_new(struct api *api, struct op_call *c)
{
    struct session_op *o = xcalloc(1, sizeof *o);
    *o = (struct session_op){.api = api, .call = c};
    return o;
}

void api__refuse(struct op_call *c, const struct agent_no *no)
{
    op_fail(c, no->problem, no->hint[0] != '\0' ? no->hint : NULL, "%s", no->detail);
}

void api__session_no(struct session_op *o, const struct agent_no *no)
{
    assert(no != NULL);
    api__refuse(o->call, no);
    free(o);
}

struct jw *api__session_begin(struct session_op *o, const struct agent_no *no)
{
    if (no != NULL) {
        api__session_no(o, no);
        return NULL;
    }
    struct jw *w = op_begin(o->call);
    jw_obj(w);
    return w;
}

void api__session_end(struct session_op *o, int status)
{
    jw_end_obj(&o->call->w);
    op_end(o->call, status);
    free(o);
}

static void on_found(void *arg, struct session *s, const struct agent_no *no)
{
    struct session_op *o = arg;
    if (s == NULL) {
        api__session_no(o, no);
    } else {
        o->run(o, s);
    }
}

void api__with_session(struct api *api, struct op_call *c,
                       void (*run)(struct session_op *o, struct session *s))
{
    api__with_session_of(api, c, json_str(json_get(c->params, "id"), ""), run);
}

void api__with_session_of(struct api *api, struct op_call *c, struct str id,
                          void (*run)(struct session_op *o, struct session *s))
{
    if (require_agent(api, c)) {
        struct session_op *o = op_new(api, c);
        o->run = run;
        agent_session_get(api->agent, id, on_found, o);
    }
}

void api__session_text(void *arg, struct str json, const struct agent_no *no)
{
    struct session_op *o = arg;
    if (no != NULL) {
        api__session_no(o, no);
        return;
    }
    op_answer(o->call, 200, json);
    free(o);
}

void api__session_ok(void *arg, const struct agent_no *no)
{
    api__session_text(arg, STR("{\"ok\":true}"), no);
}

static void answer_row(struct session_op *o, int status, const struct session *s)
{
    struct jw *w = op_begin(o->call);
    agent_session_write(s, w);
    op_end(o->call, status);
    free(o);
}

void api__session_row(void *arg, struct session *s, const struct agent_no *no)
{
    if (s == NULL) {
        api__session_no(arg, no);
    } else {
        answer_row(arg, 200, s);
    }
}

static void on_made(void *arg, struct session *s, const struct agent_no *no)
{
    struct session_op *o = arg;
    if (s == NULL) {
        api__session_no(o, no);
        return;
    }
    o->call->location = arena_printf(o->call->arena, "/session/%s", agent_session_id(s));
    answer_row(o, 201, s);
}

// ---- handlers -----------------------------------------------------------------------------------

static void begin(struct api *api, struct op_call *c)
{
    bool bots = json_str(json_get(c->params, "bot"), "").n != 0 ||
                json_bool(json_get(c->params, "worktree"), false);
    if (bots && require_bots(api, c)) {
        bots_chat(api->bots, c->params, on_made, op_new(api, c));
    } else if (!bots && require_agent(api, c)) {
        agent_session_new(api->agent, c->params, NULL, on_made, op_new(api, c));
    }
}

void op_SESSION_NEW(struct api *api, struct op_call *c)
{
    api__decide(api, c, "chat", begin);
}

static void on_page(void *arg, const struct agent_page *p, const struct agent_no *no)
{
    struct session_op *o = arg;
    struct jw *w = api__session_begin(o, no);
    if (w == NULL) {
        return;
    }
    jw_karr(w, "sessions");
    for (size_t i = 0; i < p->n; i++) {
        agent_session_write(p->sessions[i], w);
    }
    jw_end_arr(w);
    if (p->next.n != 0) {
        jw_kstr(w, "next", p->next);
    } else {
        jw_kstrz(w, "next", NULL);
    }
    api__session_end(o, 200);
}

void op_SESSION_LIST(struct api *api, struct op_call *c)
{
    int64_t limit = json_int(json_get(c->params, "limit"), DEFAULT_LIST);
    if (limit < 1 || limit > LONGEST_LIST) {
        op_fail(c, PROBLEM_INVALID_BODY, NULL, "'limit' must be 1 to %d", LONGEST_LIST);
    } else if (require_agent(api, c)) {
        const struct agent_filter which = {.state = json_str(json_get(c->params, "state"), ""),
                                           .parent = json_str(json_get(c->params, "parent"), "")};
        agent_session_list(api->agent, &which, json_str(json_get(c->params, "cursor"), ""),
                           (size_t)limit, on_page, op_new(api, c));
    }
}

static void show(struct session_op *o, struct session *s)
{
    agent_session_look(s, api__session_row, o);
}

void op_SESSION_SHOW(struct api *api, struct op_call *c)
{
    api__with_session(api, c, show);
}

static void patch(struct session_op *o, struct session *s)
{
    agent_session_patch(s, o->call->params, api__session_row, o);
}

void op_SESSION_PATCH(struct api *api, struct op_call *c)
{
    api__with_session(api, c, patch);
}

static void end(struct session_op *o, struct session *s)
{
    bool purge = json_bool(json_get(o->call->params, "purge"), false);
    agent_session_end(s, purge, api__session_row, o);
}

void op_SESSION_END(struct api *api, struct op_call *c)
{
    api__with_session(api, c, end);
}

static void on_pruned(void *arg, const struct agent_pruned *list, size_t n,
                      const struct agent_no *no)
{
    struct session_op *o = arg;
    struct jw *w = api__session_begin(o, no);
    char at[TIME_TEXT];
    if (w == NULL) {
        return;
    }
    jw_karr(w, "pruned");
    for (size_t i = 0; i < n; i++) {
        jw_obj(w);
        jw_kstrz(w, "id", list[i].id);
        jw_kstrz(w, "title", list[i].title[0] != '\0' ? list[i].title : NULL);
        jw_kstrz(w, "working_dir", list[i].working_dir);
        jw_kstrz(w, "used_at", time_format(list[i].used_at, at));
        jw_end_obj(w);
    }
    jw_end_arr(w);
    jw_kbool(w, "dry_run", json_bool(json_get(o->call->params, "dry_run"), false));
    api__session_end(o, 200);
}

void op_SESSION_PRUNE(struct api *api, struct op_call *c)
{
    enum { DEFAULT_DAYS = 30, MOST_DAYS = 36500 };
    const int64_t day_ms = 24 * 3600 * 1000;
    int64_t days = json_int(json_get(c->params, "older_than"), DEFAULT_DAYS);
    if (days < 0 || days > MOST_DAYS) {
        op_fail(c, PROBLEM_INVALID_BODY, NULL, "'older_than' must be 0 to %d days", MOST_DAYS);
    } else if (require_agent(api, c)) {
        agent_session_prune(api->agent, loop_wall(api->o.hub->loop) - days * day_ms,
                            json_bool(json_get(c->params, "dry_run"), false), on_pruned,
                            op_new(api, c));
    }
}

static void copy(struct session_op *o, struct session *s)
{
    const struct json *given = json_get(o->call->params, "seq");
    int64_t seq = json_int(given, 0); // 0: all of them
    if (given != NULL && given->type != JSON_NULL && seq < 1) {
        op_fail(o->call, PROBLEM_INVALID_BODY, NULL, "'seq' must be the number of an event");
        free(o);
        return;
    }
    agent_session_fork(s, (uint64_t)seq, on_made, o);
}

void op_SESSION_FORK(struct api *api, struct op_call *c)
{
    api__with_session(api, c, copy);
}

static void pipeline(struct session_op *o, struct session *s)
{
    struct jw *w = op_begin(o->call);
    agent_session_write_pipeline(s, w);
    op_end(o->call, 200);
    free(o);
}

void op_SESSION_PIPELINE(struct api *api, struct op_call *c)
{
    api__with_session(api, c, pipeline);
}
