// A session as JSON: metadata.json and the row that clients see.
//
// Of the client's environment only a few variables (`kept`) are stored on disk, so that a session that continues
// after a restart finds its programs. Keys and everything else that a provider needs stay in memory. A client that
// resumes a session sends its environment again.

#include <assert.h>
#include <math.h>

#include "agent/agent_int.h"
#include "base/log.h"
#include "base/redact.h"
#include "base/time.h"

static const char *const kept[] = {"PATH",  "HOME", "USER", "LOGNAME",
                                   "SHELL", "LANG", "TZ",   "TERM"};

static const char *const state_names[] = {[SESSION_IDLE] = "idle",
                                          [SESSION_RUNNING] = "running",
                                          [SESSION_WAITING] = "waiting",
                                          [SESSION_ENDED] = "ended",
                                          [SESSION_CRASHED] = "crashed"};

const char *agent__session_state_name(enum session_state state)
{
    assert(state < ARRAY_LEN(state_names));
    return state_names[state];
}

bool agent__session_state_find(struct str name, enum session_state *state)
{
    ptrdiff_t at = str_lookup(name, state_names, ARRAY_LEN(state_names));
    if (at >= 0) {
        *state = (enum session_state)at;
    }
    return at >= 0;
}

static void write_names(struct jw *w, const char *key, char *const *names, size_t n)
{
    jw_kstrs(w, key, (const char *const *)names, n);
}

void agent__session_write_usage(struct jw *w, const struct provider_usage *u, double cost)
{
    jw_kobj(w, "usage");
    provider_write_usage(w, u);
    jw_key(w, "cost_usd");
    jw_double(w, cost); // null when it is not known
    jw_end_obj(w);
}

static int64_t window_of(const struct session *s)
{
    return s->chosen ? s->choice.facts.context : 0;
}

void agent__session_write_context(struct jw *w, const struct session *s)
{
    int64_t window = window_of(s);
    jw_kobj(w, "context");
    jw_kint_or_null(w, "used", s->context != 0, s->context);
    jw_kint_or_null(w, "window", window != 0, window);
    jw_end_obj(w);
}

/// The members that the row and metadata.json have in common.
static void write_settings(const struct session *s, struct jw *w)
{
    jw_kstrz(w, "state", agent__session_state_name(s->state));
    jw_kstrz(w, "title", s->title);
    if (s->all_plugins) {
        jw_kstrz(w, "plugins", "*");
    } else {
        write_names(w, "plugins", s->plugins.p, s->plugins.n);
    }
    write_names(w, "disabled_tools", s->disabled_tools.p, s->disabled_tools.n);
    if (s->parent != NULL) {
        jw_kstrz(w, "parent", s->parent);
    }
    if (s->some_tools) {
        write_names(w, "tools", s->tools.p, s->tools.n);
    }
    write_names(w, "writable", s->writable.p, s->writable.n);
    jw_kstrz(w, "working_dir", s->working_dir);
    jw_kstrz(w, "provider", s->provider);
    jw_kstrz(w, "model", s->model);
    jw_kstrz(w, "engine", s->engine != NULL ? s->engine : "native");
    jw_kbool(w, "fallback", s->fallback);
    jw_kstrz(w, "sandbox", box_mode_name(s->sandbox));
    jw_kbool(w, "network", s->network);
    jw_kstrz(w, "permission", agent__session_permission_name(s->permission));
    jw_kbool(w, "keep_requests", s->keep_requests);
    if (s->max_steps != 0) {
        jw_kint(w, "max_steps", s->max_steps);
    }
    if (s->max_cost > 0) {
        jw_key(w, "max_cost");
        jw_double(w, s->max_cost);
    }
    agent__session_write_role(s, w);
    jw_ktime(w, "started_at", s->started_at);
    jw_ktime(w, "ended_at", s->ended_at);
    jw_kstrz(w, "prompt_summary", s->prompt_summary);
    jw_kstrz(w, "response_summary", s->response_summary);
    jw_kstrz(w, "end_reason", s->end_reason);
    agent__session_write_usage(w, &s->usage, s->cost);
    agent__session_write_context(w, s);
    jw_kint(w, "turns", (int64_t)s->turns);
}

void agent__session_write_meta(const struct session *s, struct jw *w)
{
    jw_obj(w);
    jw_kstrz(w, "session_id", s->id);
    write_settings(s, w);
    jw_kobj(w, "tokens");
    provider_write_tokens(w, "input_tokens", s->usage.input);
    provider_write_tokens(w, "cached_input_tokens", s->usage.cached);
    provider_write_tokens(w, "output_tokens", s->usage.output);
    provider_write_tokens(w, "reasoning_output_tokens", s->usage.reasoning);
    int64_t window = window_of(s);
    jw_kint_or_null(w, "context_window", window != 0, window);
    jw_end_obj(w);
    jw_kint(w, "command_count", (int64_t)s->calls);
    jw_kint(w, "requests", (int64_t)s->requests);
    jw_kint(w, "duration_secs", s->ended_at != 0 ? (s->ended_at - s->started_at) / 1000 : 0);
    if (s->role.before.n != 0) {
        jw_kstr(w, "before", s->role.before);
    }
    jw_kbool(w, "autonomous", s->role.autonomous);
    jw_kstrz(w, "want_provider", s->want_provider);
    jw_kstrz(w, "want_model", s->want_model);
    if (s->engine_thread != NULL) {
        jw_kstrz(w, "engine_thread", s->engine_thread);
        jw_kstrz(w, "engine_dir", s->engine_dir);
    }
    jw_kobj(w, "env");
    for (char **it = s->environment; it != NULL && *it != NULL; it++) {
        struct str value = str_of(*it), name = str_cut(&value, '=');
        if (str_lookup(name, kept, ARRAY_LEN(kept)) >= 0) {
            jw_key_str(w, name);
            jw_str(w, value);
        }
    }
    jw_end_obj(w);
    jw_end_obj(w);
}

/// Read a text member into `*place`.
static void read_text(char **place, const struct json *meta, const char *key)
{
    agent__session_set(place, json_get_text(meta, key));
}

/// Read a count; one that is missing or negative is 0.
static uint64_t read_count(const struct json *meta, const char *key)
{
    return (uint64_t)MAX(json_int(json_get(meta, key), 0), 0);
}

void agent__session_read_meta(struct session *s, const struct json *meta)
{
    static const char *const reasons[] = {"complete", "limit", "interrupted", "failed", "crashed"};
    struct str reason = json_get_text(meta, "end_reason");
    ptrdiff_t why = str_lookup(reason, reasons, ARRAY_LEN(reasons));
    agent__session_state_find(json_get_text(meta, "state"), &s->state);
    agent__session_take_stored(s, meta);
    read_text(&s->working_dir, meta, "working_dir");
    read_text(&s->provider, meta, "provider");
    read_text(&s->model, meta, "model");
    read_text(&s->want_provider, meta, "want_provider");
    read_text(&s->want_model, meta, "want_model");
    read_text(&s->engine_thread, meta, "engine_thread");
    read_text(&s->engine_dir, meta, "engine_dir");
    read_text(&s->parent, meta, "parent");
    read_text(&s->prompt_summary, meta, "prompt_summary");
    read_text(&s->response_summary, meta, "response_summary");
    s->fallback = json_bool(json_get(meta, "fallback"), false);
    s->end_reason = why >= 0 ? reasons[why] : NULL;
    const struct json *u = json_get(meta, "usage");
    s->usage = provider_read_usage(u);
    s->cost = json_double(json_get(u, "cost_usd"), (double)NAN);
    s->context = MAX(json_int(json_get(json_get(meta, "context"), "used"), 0), 0);
    s->turns = read_count(meta, "turns");
    s->requests = read_count(meta, "requests");
    s->calls = read_count(meta, "command_count");
    time_parse(json_get_text(meta, "started_at"), &s->started_at);
    if (!time_parse(json_get_text(meta, "ended_at"), &s->ended_at)) {
        s->ended_at = 0;
    }
}

struct session *agent__session_of_row(struct agent *a, const struct store_row *row)
{
    struct session *s = agent__session_new(a, row->id);
    struct arena arena = {0};
    struct json *meta = NULL;
    if (json_parse(&meta, &arena, row->meta, NULL, NULL) < 0) {
        meta = NULL;
    }
    struct str dir = json_get_text(meta, "working_dir");
    const char *fault = meta == NULL             ? "its metadata.json is missing or not JSON"
                        : meta->type != JSON_OBJ ? "its metadata.json is not an object"
                        : dir.n == 0 || dir.p[0] != '/'
                            ? "its metadata.json names no working directory"
                            : NULL;
    agent__session_read_meta(s, meta);
    agent__session_read_role(s, meta, row->dir);
    s->last_seq = row->last_seq;
    s->broken = fault != NULL;
    agent__session_set(&s->damage, fault != NULL ? str_of(fault) : row->damage);
    arena_fini(&arena);
    return s;
}

struct saving {
    struct agent *agent;
    char *id;
    store_done *cb;
    void *arg;
};

static void on_saved(void *arg, int status, const struct err *e)
{
    struct saving sv = *(struct saving *)arg;
    struct session *s = map_get(&sv.agent->sessions, str_of(sv.id));
    free(arg);
    free(sv.id);
    if (s != NULL && s->saving != 0) {
        s->saving--;
    }
    if (status < 0) {
        log_error(LOG_STORE, "metadata=lost reason=%s", LOGQ(str_of(e->msg)).z);
    }
    if (sv.cb != NULL) {
        sv.cb(sv.arg, status, e);
    }
    agent__release(sv.agent);
}

void agent__session_save(struct session *s, store_done *cb, void *arg)
{
    struct saving *sv = xmalloc(sizeof *sv);
    *sv = (struct saving){.agent = s->agent, .id = xstrdup(s->id), .cb = cb, .arg = arg};
    s->saving++;
    agent__hold(s->agent);
    struct buf out = {.max = SIZE_MAX};
    struct jw w = {.out = &out};
    agent__session_write_meta(s, &w);
    redact_json(&out);
    store_session_meta(s->agent->o.hub->store, str_of(s->id), buf_str(&out), on_saved, sv);
    buf_fini(&out);
}

void agent_session_write(const struct session *s, struct jw *w)
{
    jw_obj(w);
    jw_kstrz(w, "id", s->id);
    write_settings(s, w);
    jw_kstrz(w, "sandbox_reason", s->sandbox_reason);
    jw_kstrz(w, "turn", s->turn != NULL ? s->turn->id : NULL);
    jw_kint(w, "queued", (int64_t)s->queue.n);
    jw_kint(w, "last_seq", (int64_t)s->last_seq);
    write_names(w, "instructions", s->instructions.p, s->instructions.n);
    agent__session_write_pending(s, w);
    if (s->damage != NULL) {
        jw_kstrz(w, "damaged", s->damage);
    }
    jw_end_obj(w);
}
