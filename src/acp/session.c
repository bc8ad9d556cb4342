// The methods of an agent: sessions of the hub for an editor. turn.c has those about a turn.
//
// Modes are the permission modes of the session. What a session is lives in the hub: here is only what its turn under
// way needs.

#include <assert.h>

#include "acp/acp_int.h"

static const struct {
    const char *id, *name, *description;
} modes[] = {
    {"ask", "Ask", "you allow each call that writes, runs a command or uses the network"},
    {"edits", "Edit", "file tools run, commands ask"},
    {"plan", "Plan", "nothing is written, run or sent"},
    {"auto", "Auto", "what the sandbox allows runs"},
};

// ---- sessions -----------------------------------------------------------------------------------

struct acp_session *acp__find(const struct acp *a, struct str id)
{
    vec_foreach (it, &a->sessions) {
        if (str_eqz(id, (*it)->id)) {
            return *it;
        }
    }
    return NULL;
}

struct acp_session *acp__session(struct acp *a, struct str id, struct str dir)
{
    struct acp_session *s = acp__find(a, id);
    if (s == NULL) {
        s = xcalloc(1, sizeof *s);
        s->acp = a;
        snprintf(s->id, sizeof s->id, STR_FMT, STR_ARG(id));
        buf_init(&s->problem, 1 << 20);
        s->dir = str_dup(dir);
        vec_push(&a->sessions, s);
    }
    return s;
}

void acp__session_free(struct acp_session *s)
{
    acp__unfollow(s);
    acp__link_drop(s);
    assert(s->prompt == NULL && s->errands.n == 0);
    sse_fini(&s->sse);
    sse_fini(&s->link_sse);
    vec_fini(&s->errands);
    free(s->servers);
    buf_fini(&s->problem);
    vec_fini_each(&s->calls, acp__progress_free);
    free(s->path);
    free(s->body);
    free(s->dir);
    free(s);
}

/// An id of the editor's goes into a path: only what ids are made of. False: refused.
static bool check_id(struct acp_request *r, const char *name, struct str id)
{
    bool ok = id.n != 0 && id.n < ACP_ID;
    for (size_t i = 0; i < id.n && ok; i++) {
        char c = id.p[i];
        ok = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
             c == '-' || c == '_';
    }
    if (!ok) {
        acp__refuse(r, RPC_INVALID_PARAMS, "'%s' is not an id", name);
    }
    return ok;
}

static struct str param(const struct acp_request *r, const char *key)
{
    return json_str(json_get(r->params, key), "");
}

static void write_modes(struct jw *w, struct str current)
{
    jw_kobj(w, "modes");
    jw_kstr(w, "currentModeId", current);
    jw_karr(w, "availableModes");
    bool listed = false;
    for (size_t i = 0; i < ARRAY_LEN(modes); i++) {
        listed = listed || str_eqz(current, modes[i].id);
        jw_obj(w);
        jw_kstrz(w, "id", modes[i].id);
        jw_kstrz(w, "name", modes[i].name);
        jw_kstrz(w, "description", modes[i].description);
        jw_end_obj(w);
    }
    if (!listed) {
        jw_obj(w);
        jw_kstr(w, "id", current);
        jw_kstr(w, "name", current);
        jw_end_obj(w);
    }
    jw_end_arr(w);
    jw_end_obj(w);
}

// ---- commands -----------------------------------------------------------------------------------

struct told {
    struct acp *acp;
    char session[ACP_ID];
};

struct str acp__short_name(struct str full)
{
    return str_starts(full, "mcp:") ? str_from(full, 4) : full;
}

static void on_commands(void *arg, const struct json *v, const char *why)
{
    struct told *t = arg;
    struct acp_message u;
    (void)why;
    struct jw *w = acp__update(&u, t->acp, t->session, "available_commands_update");
    jw_karr(w, "availableCommands");
    jw_obj(w);
    jw_kstrz(w, "name", "compact");
    jw_kstrz(w, "description", "replace earlier messages by a summary");
    jw_end_obj(w);
    json_foreach_item (it, json_get(v, "commands")) {
        struct str description = json_get_text(it, "description");
        jw_obj(w);
        jw_kstr(w, "name", acp__short_name(json_get_text(it, "name")));
        jw_kstr(w, "description", description);
        jw_kobj(w, "input");
        jw_kstrz(w, "hint", "arguments");
        jw_end_obj(w);
        jw_end_obj(w);
    }
    jw_end_arr(w);
    acp__update_end(&u);
    free(t);
}

static void tell_commands(struct acp_session *s)
{
    struct told *t = xcalloc(1, sizeof *t);
    t->acp = s->acp;
    memcpy(t->session, s->id, sizeof t->session);
    acp__call(s->acp, "GET", "/command", STR_NULL, on_commands, t);
}

// ---- beginning and taking up again ----------------------------------------------------------------

/// A session that is to be answered once the hub knows what the editor does for it.
struct opening {
    struct acp_request *r;
    struct acp_session *s;
    const struct json *row; // in the arena of `r`
    bool fresh;
};

static void set_servers(struct acp_session *s, const struct json *list)
{
    struct buf text = {.max = SIZE_MAX};
    free(s->servers);
    s->servers = NULL;
    if (list != NULL && list->type == JSON_ARR && list->n != 0) {
        json_write(&text, list, 0);
        s->servers = buf_take(&text, NULL);
    }
    buf_fini(&text);
}

static void on_linked(void *arg)
{
    struct opening o = *(struct opening *)arg;
    struct acp_request *r = o.r;
    struct acp_session *s = o.s;
    bool fallback = json_bool(json_get(o.row, "fallback"), false);
    struct buf text = {.max = SIZE_MAX};
    struct jw w = {.out = &text};
    jw_obj(&w);
    free(arg);
    if (o.fresh) {
        jw_kstrz(&w, "sessionId", s->id);
    }
    write_modes(&w, json_str(json_get(o.row, "permission"), "auto"));
    jw_end_obj(&w);
    acp__answer(r, buf_str(&text));
    buf_fini(&text);
    tell_commands(s);
    if (fallback) {
        acp__say(s, "agent_message_chunk",
                 STR("no model key found: this is the scripted demo model\n\n"));
    }
}

/// The answer to session/new, load and resume.
static void answer_row(struct acp_request *r, const struct json *row, bool fresh)
{
    struct opening *o = xmalloc(sizeof *o);
    struct acp_session *s =
        acp__session(r->acp, json_get_text(row, "id"), json_str(json_get(row, "working_dir"), "/"));
    *o = (struct opening){r, s, json_clone(&r->arena, row), fresh};
    set_servers(s, json_get(r->params, "mcpServers"));
    acp__link_drop(s); // the servers may be others
    acp__link(s, on_linked, o);
}

static void on_new(void *arg, const struct json *v, const char *why)
{
    struct acp_request *r = arg;
    if (v == NULL) {
        acp__refuse(r, RPC_INTERNAL_ERROR, "%s", why);
    } else {
        answer_row(r, v, true);
    }
}

static void m_new(struct acp_request *r)
{
    struct str dir = param(r, "cwd");
    const struct json *more = json_get(r->params, "additionalDirectories");
    struct buf body = {.max = SIZE_MAX};
    if (dir.n == 0 || dir.p[0] != '/') {
        acp__refuse(r, RPC_INVALID_PARAMS, "'cwd' must be an absolute path");
        return;
    }
    buf_addz(&body, "{\"working_dir\":");
    struct jw w = {.out = &body};
    jw_str(&w, dir);
    if (more != NULL && more->type == JSON_ARR && more->n != 0) {
        buf_addz(&body, ",\"writable\":");
        json_write(&body, more, 0);
    }
    buf_addf(&body, "%s" STR_FMT ",\"env\":" STR_FMT "}", r->acp->o.choices.n != 0 ? "," : "",
             STR_ARG(r->acp->o.choices), STR_ARG(r->acp->o.env));
    acp__call(r->acp, "POST", "/session", buf_str(&body), on_new, r);
    buf_fini(&body);
}

/// A session whose past is being told.
struct loading {
    struct acp_request *r;
    struct arena arena;
    const struct json *row;
    bool silent; // resume: the editor has the past
};

static void loading_end(struct loading *l, const char *why)
{
    struct acp_request *r = l->r;
    if (why != NULL) {
        acp__refuse(r, RPC_INVALID_PARAMS, "%s", why);
    } else {
        answer_row(r, l->row, false);
    }
    arena_fini(&l->arena);
    free(l);
}

static void read_past(struct loading *l, int64_t after);

static void on_past(void *arg, const struct json *v, const char *why)
{
    struct loading *l = arg;
    const struct json *events = json_get(v, "events");
    if (v == NULL) {
        loading_end(l, why);
        return;
    }
    if (events == NULL || events->n == 0) {
        loading_end(l, NULL);
        return;
    }
    struct acp_session *s = acp__session(l->r->acp, json_get_text(l->row, "id"),
                                         json_str(json_get(l->row, "working_dir"), "/"));
    json_foreach_item (ev, events) {
        acp__tell(s, json_get_text(ev, "type"), ev, true);
    }
    read_past(l, json_int(json_get(v, "next"), INT64_MAX));
}

static void read_past(struct loading *l, int64_t after)
{
    char path[ACP_ID + 64];
    struct str id = json_get_text(l->row, "id");
    snprintf(path, sizeof path, "/session/" STR_FMT "/events?after=%lld", STR_ARG(id),
             (long long)after);
    acp__call(l->r->acp, "GET", path, STR_NULL, on_past, l);
}

static void on_found(void *arg, const struct json *v, const char *why)
{
    struct loading *l = arg;
    if (v == NULL) {
        loading_end(l, why);
        return;
    }
    l->row = json_clone(&l->arena, v);
    if (l->silent) {
        loading_end(l, NULL);
    } else {
        read_past(l, 0);
    }
}

static void load(struct acp_request *r, bool silent)
{
    struct str id = param(r, "sessionId");
    char path[ACP_ID + 16];
    if (!check_id(r, "sessionId", id)) {
        return;
    }
    struct loading *l = xcalloc(1, sizeof *l);
    *l = (struct loading){.r = r, .silent = silent};
    snprintf(path, sizeof path, "/session/" STR_FMT, STR_ARG(id));
    acp__call(r->acp, "GET", path, STR_NULL, on_found, l);
}

static void m_load(struct acp_request *r)
{
    load(r, false);
}

static void m_resume(struct acp_request *r)
{
    load(r, true);
}

static void on_list(void *arg, const struct json *v, const char *why)
{
    struct acp_request *r = arg;
    struct str dir = param(r, "cwd"), next = json_get_text(v, "next");
    struct buf text = {.max = SIZE_MAX};
    if (v == NULL) {
        acp__refuse(r, RPC_INTERNAL_ERROR, "%s", why);
        return;
    }
    struct jw w = {.out = &text};
    jw_obj(&w);
    jw_karr(&w, "sessions");
    json_foreach_item (row, json_get(v, "sessions")) {
        struct str own = json_get_text(row, "working_dir");
        struct str title = json_get_text(row, "title");
        bool ended = str_eqz(json_get_text(row, "state"), "ended");
        if (ended || (dir.n != 0 && !str_eq(dir, own)) || json_get_text(row, "run_id").n != 0) {
            continue;
        }
        title = title.n != 0 ? title : json_get_text(row, "prompt_summary");
        jw_obj(&w);
        jw_kstr(&w, "sessionId", json_get_text(row, "id"));
        jw_kstr(&w, "cwd", own);
        if (title.n != 0) {
            jw_kstr(&w, "title", title);
        }
        jw_kstr(&w, "updatedAt", json_get_text(row, "started_at"));
        jw_end_obj(&w);
    }
    jw_end_arr(&w);
    if (next.n != 0) {
        jw_kstr(&w, "nextCursor", next);
    }
    jw_end_obj(&w);
    acp__answer(r, buf_str(&text));
    buf_fini(&text);
}

static void m_list(struct acp_request *r)
{
    struct str cursor = param(r, "cursor");
    char path[128];
    if (cursor.n != 0 && !check_id(r, "cursor", cursor)) {
        return;
    }
    snprintf(path, sizeof path, "/session?limit=100%s" STR_FMT, cursor.n != 0 ? "&cursor=" : "",
             STR_ARG(cursor));
    acp__call(r->acp, "GET", path, STR_NULL, on_list, r);
}

static void on_done(void *arg, const struct json *v, const char *why)
{
    struct acp_request *r = arg;
    if (v == NULL && why != NULL) {
        acp__refuse(r, RPC_INTERNAL_ERROR, "%s", why);
    } else {
        acp__answer(r, STR("{}"));
    }
}

static void m_delete(struct acp_request *r)
{
    struct str id = param(r, "sessionId");
    char path[ACP_ID + 32];
    if (check_id(r, "sessionId", id)) {
        snprintf(path, sizeof path, "/session/" STR_FMT "?purge=true", STR_ARG(id));
        acp__call(r->acp, "DELETE", path, STR_NULL, on_done, r);
    }
}

/// The editor no longer needs it; it stays in the hub.
static void m_close(struct acp_request *r)
{
    struct acp_session *s = acp__find(r->acp, param(r, "sessionId"));
    acp__cancel(r->acp, param(r, "sessionId"));
    if (s != NULL) {
        acp__link_drop(s);
        set_servers(s, NULL);
    }
    acp__answer(r, STR("{}"));
}

static void m_mode(struct acp_request *r)
{
    struct str id = param(r, "sessionId"), mode = param(r, "modeId");
    char path[ACP_ID + 16];
    struct buf body = {.max = SIZE_MAX};
    if (!check_id(r, "sessionId", id)) {
        return;
    }
    struct jw w = {.out = &body};
    jw_obj(&w);
    jw_kstr(&w, "permission", mode);
    jw_end_obj(&w);
    snprintf(path, sizeof path, "/session/" STR_FMT, STR_ARG(id));
    acp__call(r->acp, "PATCH", path, buf_str(&body), on_done, r);
    buf_fini(&body);
}

// ---- the others ---------------------------------------------------------------------------------------

static void m_initialize(struct acp_request *r)
{
    struct acp *a = r->acp;
    struct buf text = {.max = SIZE_MAX};
    const struct json *can = json_get(r->params, "clientCapabilities");
    a->reads_files = json_bool(json_ptr(can, "/fs/readTextFile"), false);
    a->writes_files = json_bool(json_ptr(can, "/fs/writeTextFile"), false);
    a->terminals = json_bool(json_get(can, "terminal"), false);
    const struct json *form = json_ptr(can, "/elicitation/form");
    a->forms = form != NULL && form->type == JSON_OBJ;
    struct jw w = {.out = &text};
    jw_obj(&w);
    jw_kint(&w, "protocolVersion", 1);
    jw_key(&w, "agentCapabilities");
    jw_raw(&w, STR("{\"loadSession\":true,\"promptCapabilities\":{\"image\":true,\"audio\":false,"
                   "\"embeddedContext\":true},\"mcpCapabilities\":{\"http\":true,\"sse\":false},"
                   "\"sessionCapabilities\":{\"list\":{},\"resume\":{},\"close\":{},\"delete\":{},"
                   "\"additionalDirectories\":{}}}"));
    jw_kobj(&w, "agentInfo");
    jw_kstrz(&w, "name", "afloat");
    jw_kstrz(&w, "title", "Afloat");
    jw_kstrz(&w, "version", a->o.version);
    jw_end_obj(&w);
    jw_karr(&w, "authMethods");
    jw_end_arr(&w);
    jw_end_obj(&w);
    acp__answer(r, buf_str(&text));
    buf_fini(&text);
}

static void m_nothing(struct acp_request *r)
{
    acp__answer(r, STR("{}"));
}

static const struct {
    const char *name;
    void (*run)(struct acp_request *r);
} methods[] = {
    {"initialize", m_initialize}, {"authenticate", m_nothing},     {"logout", m_nothing},
    {"session/new", m_new},       {"session/load", m_load},        {"session/resume", m_resume},
    {"session/list", m_list},     {"session/close", m_close},      {"session/delete", m_delete},
    {"session/set_mode", m_mode}, {"session/prompt", acp__prompt},
};

bool acp__method(struct acp_request *r, struct str name)
{
    for (size_t i = 0; i < ARRAY_LEN(methods); i++) {
        if (str_eqz(name, methods[i].name)) {
            methods[i].run(r);
            return true;
        }
    }
    return false;
}
