// Terminals: started, listed, typed into, ended. Each lives in a keeper; see keep/terms.h. Their bytes go
// over a WebSocket (server/ws.c), not through here.

#include <stdlib.h>

#include "agent/make.h"
#include "api/api_int.h"
#include "api/handlers.h"
#include "api/policy.h"
#include "bot/bots.h"
#include "keep/terms.h"

enum { NAME_MAX_BYTES = 100, ROWS = 24, COLS = 80, MORE_VARS = 28 };

// ---- start ---------------------------------------------------------------------------------

struct opening { // in the arena of the call
    struct op_call *call;
    char id[13];
    const char *cwd, *name, *type, *prompt, *run, *worktree, *branch, *repository;
};

static void fail(struct op_call *c, const struct err *e)
{
    enum problem p = e->code == ERR_NOT_FOUND     ? PROBLEM_NOT_FOUND
                     : e->code == ERR_CONFLICT    ? PROBLEM_CONFLICT
                     : e->code == ERR_UNREACHABLE ? PROBLEM_STOPPING
                                                  : PROBLEM_INVALID_BODY;
    op_fail(c, p, NULL, "%s", e->msg);
}

static void on_started(void *arg, const struct term *t, const struct err *e)
{
    struct opening *o = arg;
    struct op_call *c = o->call;
    if (o->run != NULL && o->call->api->bots != NULL) {
        (t != NULL ? bots_terminal_runs : bots_terminal_failed)(o->call->api->bots, str_of(o->id));
    }
    if (t == NULL) {
        op_fail(c, PROBLEM_INVALID_BODY, NULL, "%s", e->msg);
    } else {
        c->location = arena_printf(c->arena, "/pty/%s", term_id(t));
        term_write(t, op_begin(c));
        op_end(c, 201);
    }
}

/// The environment that the client sent. One without PATH, or none, only adds to what every program needs.
static const struct json *full_env(const struct json *sent, struct arena *a)
{
    static const char *const names[] = {"HOME", "LANG",  "LC_ALL", "LOGNAME",
                                        "PATH", "SHELL", "TZ",     "USER"};
    if (json_get(sent, "PATH") != NULL) {
        return sent;
    }
    struct json *env = make_obj(a, ARRAY_LEN(names) + (sent != NULL ? sent->n : 0));
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        if (getenv(names[i]) != NULL && json_get(sent, names[i]) == NULL) {
            make_put(env, names[i], make_strz(getenv(names[i])));
        }
    }
    json_foreach_member (m, sent) {
        env->members[env->n++] = *m;
    }
    return env;
}

/// The context that a program in a terminal of ours has: who started it, and how to reach the hub.
static void add_context(const struct opening *o, const char *vars[MORE_VARS])
{
    const struct home *h = o->call->api->o.hub->home;
    const struct {
        const char *name, *value;
    } all[] = {{"TERM", "xterm-256color"},     {"COLORTERM", "truecolor"},
               {"AFLOAT_PTY", o->id},          {"AFLOAT_HOME", h->dir},
               {"AFLOAT_RUNTIME", h->runtime}, {"AFLOAT_PTY_NAME", o->name},
               {"AFLOAT_PTY_TYPE", o->type},   {"AFLOAT_PROMPT", o->prompt},
               {"AFLOAT_RUN", o->run},         {"AFLOAT_WORKTREE", o->worktree},
               {"AFLOAT_BRANCH", o->branch},   {"AFLOAT_PROJECT", o->repository}};
    size_t n = 0;
    for (size_t i = 0; i < ARRAY_LEN(all); i++) {
        if (all[i].value != NULL && all[i].value[0] != '\0') {
            vars[n++] = all[i].name;
            vars[n++] = all[i].value;
        }
    }
    vars[n] = NULL;
}

static void start(struct opening *o)
{
    const struct json *p = o->call->params;
    const char *vars[MORE_VARS];
    struct buf about = {.max = SIZE_MAX};
    add_context(o, vars);
    struct jw w = {.out = &about};
    jw_obj(&w);
    jw_kstrz(&w, "name", o->name);
    jw_ktext(&w, "type", str_of(o->type));
    jw_ktext(&w, "prompt", str_of(o->prompt));
    jw_kstrz(&w, "run_id", o->run);
    jw_kstrz(&w, "worktree", o->worktree);
    jw_kstrz(&w, "branch", o->branch);
    jw_kstrz(&w, "repository", o->repository);
    jw_end_obj(&w);
    struct terms_spec spec = {
        .cmd = arena_strdup(o->call->arena, json_get_text(p, "cmd")),
        .cwd = o->cwd,
        .args = json_get(p, "args"),
        .env = full_env(json_get(p, "env"), o->call->arena),
        .more = vars,
        .about = buf_str(&about),
        .rows = (int)json_int(json_get(p, "rows"), ROWS),
        .cols = (int)json_int(json_get(p, "cols"), COLS),
        .history = config_int(o->call->api->o.hub->config->now, "pty.history"),
        .abandon_s = config_int(o->call->api->o.hub->config->now, "pty.abandon_s"),
    };
    terms_start(o->call->api->terms, o->id, &spec, on_started, o);
    buf_fini(&about);
}

static const char *text_of(struct op_call *c, const struct json *v, const char *key)
{
    return arena_strdup(c->arena, json_str(json_get(v, key), ""));
}

static void on_worktree(void *arg, struct str json, const char *name, const struct agent_no *no)
{
    struct opening *o = arg;
    struct op_call *c = o->call;
    struct json *v = NULL;
    (void)name;
    if (no != NULL) {
        api__refuse(c, no);
    } else if (o->call->api->terms == NULL ||
               json_parse(&v, c->arena, arena_str(c->arena, json), NULL, NULL) < 0) {
        op_fail(c, PROBLEM_STOPPING, NULL, "the hub is stopping");
    } else {
        o->run = text_of(c, v, "run_id");
        o->cwd = text_of(c, v, "dir");
        o->worktree = text_of(c, v, "worktree");
        o->branch = text_of(c, v, "branch");
        o->repository = text_of(c, v, "repository");
        snprintf(o->id, sizeof o->id, "%s", text_of(c, v, "terminal"));
        start(o);
    }
}

/// A run like a bot's, whose program is this one: with a worktree and a branch of its own.
static void make_run(struct opening *o)
{
    static const char *const kept[] = {"cmd", "args", "name", "type", "resume"};
    struct op_call *c = o->call;
    struct json *params = make_obj(c->arena, ARRAY_LEN(kept) + 1);
    make_put(params, "working_dir", make_strz(o->cwd));
    for (size_t i = 0; i < ARRAY_LEN(kept); i++) {
        const struct json *v = json_get(c->params, kept[i]);
        if (v != NULL) {
            make_put(params, kept[i], *v);
        }
    }
    if (o->call->api->bots == NULL) {
        op_fail(c, PROBLEM_STOPPING, NULL, "the hub starts or stops");
    } else {
        bots_ask(o->call->api->bots, bots_terminal, params, on_worktree, o);
    }
}

/// True when all of them are strings that can be passed to a program; else it has been answered.
static bool check_strings(struct op_call *c)
{
    bool good = true;
    json_foreach_item (it, json_get(c->params, "args")) {
        good &= it->type == JSON_STR && str_index(json_str(it, ""), '\0') < 0;
    }
    json_foreach_member (m, json_get(c->params, "env")) {
        good &= m->value.type == JSON_STR && m->key.n != 0 && str_index(m->key, '=') < 0 &&
                str_index(m->key, '\0') < 0 && str_index(json_str(&m->value, ""), '\0') < 0;
    }
    if (!good) {
        op_fail(c, PROBLEM_INVALID_BODY, NULL,
                "'args' is an array of strings, 'env' an object of strings");
    }
    return good;
}

static void open_pty(struct api *api, struct op_call *c)
{
    const struct json *p = c->params;
    struct str cwd = json_get_text(p, "cwd"), name = json_get_text(p, "name");
    const char *home = getenv("HOME");
    if (api->terms == NULL) {
        op_fail(c, PROBLEM_STOPPING, NULL, "the hub starts or stops");
        return;
    }
    if (!check_strings(c)) {
        return;
    }
    if (json_get_text(p, "cmd").n == 0) {
        op_fail(c, PROBLEM_INVALID_BODY, NULL, "'cmd' is missing");
        return;
    }
    if ((cwd.n != 0 && cwd.p[0] != '/') || name.n > NAME_MAX_BYTES) {
        op_fail(c, PROBLEM_INVALID_BODY, NULL,
                "'cwd' is an absolute path, 'name' has at most %d bytes", NAME_MAX_BYTES);
        return;
    }
    struct opening *o = arena_alloc(c->arena, sizeof *o);
    *o = (struct opening){.call = c};
    terms_new_id(o->id);
    o->cwd = cwd.n != 0 ? arena_strdup(c->arena, cwd) : home != NULL ? home : "/";
    o->name = arena_strdup(c->arena, name);
    o->type = arena_strdup(c->arena, json_get_text(p, "type"));
    o->prompt = arena_strdup(c->arena, json_get_text(p, "prompt"));
    if (json_bool(json_get(p, "worktree"), false) || json_get(p, "resume") != NULL) {
        make_run(o);
    } else {
        start(o);
    }
}

/// What the run was started with, where the request does not say it. Its prompt has been typed before.
static void on_past(void *arg, struct str json, const char *name, const struct agent_no *no)
{
    struct op_call *c = arg;
    struct json *past = NULL;
    (void)name;
    if (no != NULL) {
        api__refuse(c, no);
        return;
    }
    int rc = json_parse(&past, c->arena, arena_str(c->arena, json), NULL, NULL);
    assert(rc == 0); // we wrote it
    (void)rc;
    const struct json *old = json_get(past, "options");
    bool other = json_get(c->params, "cmd") != NULL; // then with arguments of its own
    struct json *params = make_obj(c->arena, c->params->n + old->n + 2);
    json_foreach_member (m, c->params) {
        if (!str_eqz(m->key, "cwd") && (other || !str_eqz(m->key, "args"))) {
            params->members[params->n++] = *m;
        }
    }
    json_foreach_member (m, old) {
        bool program = str_eqz(m->key, "cmd") || str_eqz(m->key, "args");
        if (!(other && program) && json_get_str(params, m->key) == NULL) {
            params->members[params->n++] = *m;
        }
    }
    make_put(params, "cwd", *json_get(past, "working_dir"));
    if (json_get(params, "prompt") == NULL) {
        make_put(params, "prompt", make_strz(""));
    }
    c->params = params;
    api__decide(c->api, c, "pty", open_pty);
}

void op_PTY_NEW(struct api *api, struct op_call *c)
{
    if (!check_strings(c)) {
        return;
    }
    if (json_get(c->params, "resume") == NULL) {
        api__decide(api, c, "pty", open_pty);
    } else if (api->bots == NULL) {
        op_fail(c, PROBLEM_STOPPING, NULL, "the hub starts or stops");
    } else {
        bots_ask(api->bots, bots_terminal_past, c->params, on_past, c);
    }
}

// ---- the others ----------------------------------------------------------------------------

/// An operation that waits for the keepers which the hub found when it started.
struct settling {
    struct op_call *call;
    op_fn *run;
};

static void on_settled(void *arg)
{
    const struct settling *s = arg;
    s->run(s->call->api, s->call);
}

static void when_settled(struct api *api, struct op_call *c, op_fn *run)
{
    if (api->terms == NULL) {
        run(api, c);
        return;
    }
    struct settling *s = arena_alloc(c->arena, sizeof *s);
    *s = (struct settling){c, run};
    terms_settle(api->terms, on_settled, s);
}

#define SETTLED(id, run)                                                                           \
    void op_##id(struct api *api, struct op_call *c)                                               \
    {                                                                                              \
        when_settled(api, c, run);                                                                 \
    }

static struct term *find(struct api *api, struct op_call *c)
{
    struct err e = {0};
    struct str id = json_get_text(c->params, "id");
    struct term *t = NULL;
    if (api->terms == NULL) {
        err_set(&e, ERR_UNREACHABLE, "the hub starts or stops");
    } else {
        t = terms_find(api->terms, id, &e);
    }
    if (t == NULL) {
        fail(c, &e);
    }
    return t;
}

static void list(struct api *api, struct op_call *c)
{
    struct jw *w = op_begin_obj(c);
    jw_karr(w, "ptys");
    for (size_t i = 0; api->terms != NULL && i < terms_count(api->terms); i++) {
        term_write(terms_at(api->terms, i), w);
    }
    jw_end_arr(w);
    jw_kstrz(w, "next", NULL);
    op_end_obj(c, 200);
}

SETTLED(PTY_LIST, list)

static void show(struct api *api, struct op_call *c)
{
    struct term *t = find(api, c);
    if (t != NULL) {
        term_write(t, op_begin(c));
        op_end(c, 200);
    }
}

SETTLED(PTY_SHOW, show)

static void on_killed(void *arg, struct str text, const struct err *e)
{
    struct op_call *c = arg;
    (void)text;
    (void)e;
    struct jw *w = op_begin_obj(c);
    jw_kstr(w, "deleted", json_get_text(c->params, "id"));
    op_end_obj(c, 200);
}

static void end(struct api *api, struct op_call *c)
{
    struct term *t = find(api, c);
    if (t != NULL) {
        terms_kill(t, on_killed, c);
    }
}

SETTLED(PTY_KILL, end)

static void on_screen(void *arg, struct str text, const struct err *e)
{
    struct op_call *c = arg;
    if (e != NULL) {
        fail(c, e);
        return;
    }
    struct jw *w = op_begin_obj(c);
    jw_kstr(w, "text", text);
    op_end_obj(c, 200);
}

static void read_screen(struct api *api, struct op_call *c)
{
    struct term *t = find(api, c);
    if (t != NULL) {
        terms_screen(t, on_screen, c);
    }
}

SETTLED(PTY_SCREEN, read_screen)

static void type(struct api *api, struct op_call *c)
{
    struct term *t = find(api, c);
    if (t != NULL && term_is_ended(t)) {
        op_fail(c, PROBLEM_CONFLICT, NULL, "the program in this terminal has ended");
    } else if (t != NULL) {
        terms_type(t, json_get_text(c->params, "text"));
        op_answer(c, 200, STR("{\"ok\":true}"));
    }
}

SETTLED(PTY_INPUT, type)
