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
    bool there = api->agent != NULL && !agent_has_stopped(api->agent);
    if (!there) {
        op_fail(c, PROBLEM_STOPPING, NULL, "there are no sessions: the hub starts or stops");
    }
    return there;
}

void api__refuse(struct op_call *c, const struct agent_no *no)
{
    op_fail(c, no->problem, no->hint[0] != '\0' ? no->hint : NULL, "%s", no->detail);
}

struct jw *api__session_begin(struct op_call *c, const struct agent_no *no)
{
    if (no != NULL) {
        api__refuse(c, no);
        return NULL;
    }
    return op_begin_obj(c);
}

/// A session that is looked up, in the arena of the call.
struct finding {
    struct op_call *call;
    session_fn *run;
    bool here; // no other hub may run a turn in it
};

static void on_found(void *arg, struct session *s, const struct agent_no *no)
{
    struct finding *f = arg;
    if (s == NULL) {
        api__refuse(f->call, no);
    } else if (f->here) {
        f->here = false;
        agent_session_get_here(s, on_found, f);
    } else {
        f->run(f->call, s);
    }
}

void api__with_session(struct op_call *c, struct str id, bool here, session_fn *run)
{
    if (require_agent(c->api, c)) {
        struct finding *f = arena_alloc(c->arena, sizeof *f);
        *f = (struct finding){.call = c, .run = run, .here = here};
        agent_session_get(c->api->agent, id, on_found, f);
    }
}

void api__session_text(void *arg, struct str json, const struct agent_no *no)
{
    if (no != NULL) {
        api__refuse(arg, no);
    } else {
        op_answer(arg, 200, json);
    }
}

void api__session_ok(void *arg, const struct agent_no *no)
{
    api__session_text(arg, STR("{\"ok\":true}"), no);
}

static void answer_row(struct op_call *c, int status, const struct session *s)
{
    struct jw *w = op_begin(c);
    agent_session_write(s, w);
    op_end(c, status);
}

static void on_session(void *arg, struct session *s, const struct agent_no *no)
{
    if (s == NULL) {
        api__refuse(arg, no);
    } else {
        answer_row(arg, 200, s);
    }
}

static void on_made(void *arg, struct session *s, const struct agent_no *no)
{
    struct op_call *c = arg;
    if (s == NULL) {
        api__refuse(c, no);
        return;
    }
    c->location = arena_printf(c->arena, "/session/%s", agent_session_id(s));
    answer_row(c, 201, s);
}

// ---- handlers -----------------------------------------------------------------------------------

static void begin(struct api *api, struct op_call *c)
{
    bool bots =
        json_get_text(c->params, "bot").n != 0 || json_bool(json_get(c->params, "worktree"), false);
    if (bots && api->bots == NULL) {
        op_fail(c, PROBLEM_STOPPING, NULL, "there are no bots: the hub starts or stops");
    } else if (bots) {
        bots_chat(api->bots, c->params, on_made, c);
    } else if (require_agent(api, c)) {
        agent_session_new(api->agent, c->params, NULL, on_made, c);
    }
}

void op_SESSION_NEW(struct api *api, struct op_call *c)
{
    api__decide(api, c, "chat", begin);
}

static void on_page(void *arg, const struct agent_page *p, const struct agent_no *no)
{
    struct op_call *c = arg;
    struct jw *w = api__session_begin(c, no);
    if (w == NULL) {
        return;
    }
    jw_karr(w, "sessions");
    for (size_t i = 0; i < p->n; i++) {
        agent_session_write(p->sessions[i], w);
    }
    jw_end_arr(w);
    jw_ktext(w, "next", p->next);
    op_end_obj(c, 200);
}

void op_SESSION_LIST(struct api *api, struct op_call *c)
{
    int64_t limit = json_int(json_get(c->params, "limit"), DEFAULT_LIST);
    if (limit < 1 || limit > LONGEST_LIST) {
        op_fail(c, PROBLEM_INVALID_BODY, NULL, "'limit' must be 1 to %d", LONGEST_LIST);
    } else if (require_agent(api, c)) {
        const struct agent_filter which = {.state = json_get_text(c->params, "state"),
                                           .parent = json_get_text(c->params, "parent")};
        agent_session_list(api->agent, &which, json_get_text(c->params, "cursor"), (size_t)limit,
                           on_page, c);
    }
}

static void show(struct op_call *c, struct session *s)
{
    agent_session_look(s, on_session, c);
}

OF_SESSION(SESSION_SHOW, show)

static void patch(struct op_call *c, struct session *s)
{
    agent_session_patch(s, c->params, on_session, c);
}

OF_SESSION(SESSION_PATCH, patch)

static void end(struct op_call *c, struct session *s)
{
    bool purge = json_bool(json_get(c->params, "purge"), false);
    agent_session_end(s, purge, on_session, c);
}

OF_SESSION_HERE(SESSION_END, end)

static void on_pruned(void *arg, const struct agent_pruned *list, size_t n,
                      const struct agent_no *no)
{
    struct op_call *c = arg;
    struct jw *w = api__session_begin(c, no);
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
    jw_kbool(w, "dry_run", json_bool(json_get(c->params, "dry_run"), false));
    op_end_obj(c, 200);
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
                            json_bool(json_get(c->params, "dry_run"), false), on_pruned, c);
    }
}

static void copy(struct op_call *c, struct session *s)
{
    const struct json *given = json_get(c->params, "seq");
    int64_t seq = json_int(given, 0); // 0: all of them
    if (given != NULL && seq < 1) {
        op_fail(c, PROBLEM_INVALID_BODY, NULL, "'seq' must be the number of an event");
        return;
    }
    agent_session_fork(s, (uint64_t)seq, on_made, c);
}

OF_SESSION(SESSION_FORK, copy)

static void pipeline(struct op_call *c, struct session *s)
{
    struct jw *w = op_begin(c);
    agent_session_write_pipeline(s, w);
    op_end(c, 200);
}

OF_SESSION(SESSION_PIPELINE, pipeline)
