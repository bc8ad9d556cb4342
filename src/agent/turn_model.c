// Around one request to the model: on_before_model, requests.jsonl, on_after_model, and steering.
//
//     t->request ──on_before_model──> requests.jsonl ──> turn_stream.c ──> on_after_model ──> tools, end

#include <assert.h>
#include <fcntl.h>
#include <unistd.h>

#include "agent/agent_int.h"
#include "agent/make.h"
#include "base/path.h"
#include "base/redact.h"
#include "base/time.h"

// ---- before the model ---------------------------------------------------------------------------

/// Take an answer {text, tool_calls, usage, stop_reason} that a plugin gave in the model's place.
static void take_response(struct turn *t, const struct json *response)
{
    const struct json *calls = json_get(response, "tool_calls");
    struct json *list = make_arr(&t->step_arena, calls != NULL ? calls->n : 0);
    struct json *content = make_arr(&t->step_arena, 1 + (size_t)(calls != NULL ? calls->n : 0));
    t->reply.text = json_get_text(response, "text");
    t->reply.stop_reason = json_str(json_get(response, "stop_reason"), "end_turn");
    if (json_get(response, "usage") != NULL) {
        t->reply.usage = provider_read_usage(json_get(response, "usage"));
    }
    if (t->reply.text.n != 0) {
        make_push(content, make_text(&t->step_arena, t->reply.text));
    }
    json_foreach_item (it, calls) {
        struct str id = json_get_text(it, "id");
        struct json *call = make_obj(&t->step_arena, 3), *item = make_obj(&t->step_arena, 4);
        if (id.n == 0) {
            id = str_of(arena_printf(&t->step_arena, "call_%s_%u_%u", t->id, t->n_steps, list->n));
        }
        make_put(item, "type", make_strz("tool_call"));
        for (int i = 0; i < 2; i++) {
            struct json *o = i == 0 ? call : item;
            make_put(o, "id", make_str(id));
            make_put(o, "name", *json_get(it, "name"));
            make_put(o, "input", *json_get(it, "input"));
        }
        make_push(list, *call);
        make_push(content, *item);
    }
    t->reply.calls = list;
    t->reply.content = content;
}

static void on_before_model(struct pipe *p, void *arg)
{
    struct turn *t = arg;
    if (turn__fail_if_blocked(t, POINT_BEFORE_MODEL)) {
        return;
    }
    t->request = pipe_value(p);
    const struct json *response = json_get(t->request, "response");
    if (response != NULL) {
        take_response(t, response);
        turn__go(t, TURN_AFTER_MODEL);
    } else {
        turn__go(t, t->s->engine != NULL ? TURN_ENGINE : TURN_REQUEST);
    }
}

void turn__before_model(struct turn *t)
{
    assert(t->request != NULL && t->call == NULL);
    turn__raise(t, POINT_BEFORE_MODEL, t->request, on_before_model);
}

// ---- requests.jsonl -----------------------------------------------------------------------------

struct keeping {
    struct turn *t;
    char *path;
    struct buf line;
};

static void keep_line(void *arg) // on a lane
{
    struct keeping *k = arg;
    // O_NONBLOCK: opening a FIFO must not hang
    int flags = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
    int fd = open(k->path, flags, 0600);
    if (fd >= 0) {
        (void)!path_write_fd(fd, buf_str(&k->line));
        close(fd);
    }
}

static void on_kept(void *arg)
{
    struct keeping *k = arg;
    struct turn *t = k->t;
    assert(t->keeping);
    t->keeping = false;
    free(k->path);
    buf_fini(&k->line);
    free(k);
    if (turn__resume(t)) {
        turn__ask(t);
    }
}

/// Requests to the scripted model are always kept, those to others when the session asks for it.
void turn__request(struct turn *t)
{
    struct session *s = t->s;
    assert(t->request != NULL && t->call == NULL && !t->keeping);
    if (turn__load_pictures(t)) {
        return;
    }
    s->requests++;
    if (strcmp(s->choice.kind, "scripted") != 0 && !s->keep_requests) {
        turn__ask(t);
        return;
    }
    struct keeping *k = xcalloc(1, sizeof *k);
    k->t = t;
    k->path = agent__session_path(s, "requests.jsonl");
    buf_init(&k->line, SIZE_MAX);
    char at[TIME_TEXT];
    struct jw w = {.out = &k->line};
    jw_obj(&w);
    jw_kint(&w, "n", (int64_t)t->s->requests);
    jw_kstrz(&w, "at", time_format(loop_wall(t->s->agent->o.hub->loop), at));
    jw_kstrz(&w, "provider", t->s->choice.provider);
    jw_kvalue(&w, "body", t->request);
    jw_end_obj(&w);
    redact_json(&k->line);
    buf_addc(&k->line, '\n');
    t->keeping = true;
    work_submit(s->agent->requests, 0, keep_line, on_kept, k);
}

// ---- after the model ----------------------------------------------------------------------------

/// The content of the reply with `text` in place of its texts; sealed reasoning stays in front.
static const struct json *content_with(struct turn *t, struct str text)
{
    const struct json *old = t->reply.content;
    struct json *list = make_arr(&t->step_arena, (size_t)old->n + 1);
    struct json item = make_text(&t->step_arena, text);
    bool put = text.n == 0;
    json_foreach_item (it, old) {
        struct str type = json_get_text(it, "type");
        if (!put && !str_eqz(type, "reasoning")) {
            make_push(list, item);
            put = true;
        }
        if (!str_eqz(type, "text")) {
            make_push(list, *it);
        }
    }
    if (!put) {
        make_push(list, item);
    }
    return list;
}

struct str turn__share_text(struct arena *a, const struct json *content, struct str text)
{
    json_foreach_item (it, content) {
        struct str said = json_get_text(it, "text");
        if (str_eq(said, text)) {
            return said;
        }
    }
    return arena_str(a, text);
}

void turn__set_reply(struct turn *t, struct str text)
{
    struct json *content = make_arr(&t->step_arena, 1);
    if (text.n != 0) {
        make_push(content, make_text(&t->step_arena, text));
    }
    t->reply = (struct turn_reply){.text = text, .content = content};
}

void turn__note_reply(struct turn *t, struct str text, const struct pipe *changed)
{
    struct note n;
    const struct json *content = changed != NULL ? content_with(t, text) : t->reply.content;
    struct jw *w = note__begin(&n, t->s, t, EVENT_MESSAGE_COMPLETED);
    jw_kstrz(w, "role", "assistant");
    jw_kstr(w, "text", text);
    if (changed != NULL) {
        jw_kstr(w, "original_text", t->reply.text);
        pipe_write_changed(changed, w);
    }
    if (t->reply.left_out != 0) {
        jw_kint(w, "left_out", (int64_t)t->reply.left_out);
    }
    bool plain = content->n == 0 ||
                 (content->n == 1 && str_eqz(json_get_text(content->items, "type"), "text"));
    if (!plain) { // `text` alone does not say it all
        jw_kvalue(w, "content", content);
    }
    if (t->reply.cut) {
        jw_kbool(w, "cut", true);
    }
    jw_kint(w, "request", (int64_t)t->s->requests);
    if (t->heard != 0) {
        jw_kint(w, "heard", (int64_t)t->heard);
    }
    note__end(&n, STORE_WRITTEN, NULL, NULL);
    if (t->reply.cut) {
        talk_cut(t->s->talk, text);
        t->final = arena_str(&t->arena, text);
    } else {
        const struct json *kept = talk_assistant(t->s->talk, content, t->reply.left_out);
        t->final = turn__share_text(&t->arena, kept, text);
    }
    t->final_left_out = t->reply.left_out;
    task__tell(t, STR(""), text);
}

static void on_after_model(struct pipe *p, void *arg)
{
    struct turn *t = arg;
    const struct json *before = t->reply.content;
    if (turn__fail_if_blocked(t, POINT_AFTER_MODEL)) {
        return;
    }
    if (p->run.result == HOOK_VALUE) {
        take_response(t, pipe_value(p));
        // The reasoning stays, also when a plugin changed the rest: it goes back to the API that made it.
        const struct json *after = t->reply.content;
        struct json *list = make_arr(&t->step_arena, (size_t)before->n + after->n);
        json_foreach_item (it, before) {
            if (str_eqz(json_get_text(it, "type"), "reasoning")) {
                make_push(list, *it);
            }
        }
        json_foreach_item (it, after) {
            make_push(list, *it);
        }
        t->reply.content = list;
    }
    t->compacted = false;
    bool more = t->reply.calls->n != 0 || str_eqz(t->reply.stop_reason, "pause_turn") ||
                talk_unheard(t->s->talk) != 0;
    if (!more) {
        turn__go(t, TURN_FINAL);
        return;
    }
    turn__note_reply(t, t->reply.text, NULL);
    turn__go(t, t->reply.calls->n != 0 ? TURN_TOOLS : TURN_PROMPT);
}

/// {input, cached, output, reasoning}, null where unknown.
static struct json usage_value(struct arena *a, const struct provider_usage *u)
{
    const struct {
        const char *key;
        int64_t n;
    } counts[] = {{"input", u->input},
                  {"cached", u->cached},
                  {"output", u->output},
                  {"reasoning", u->reasoning}};
    struct json *o = make_obj(a, ARRAY_LEN(counts));
    for (size_t i = 0; i < ARRAY_LEN(counts); i++) {
        make_put(o, counts[i].key, counts[i].n < 0 ? make_null() : make_int(counts[i].n));
    }
    return *o;
}

void turn__after_model(struct turn *t)
{
    assert(t->call == NULL && t->reply.calls != NULL);
    if (!pipe_heard(t->site.hooks, POINT_AFTER_MODEL)) {
        t->pipe.run.result = HOOK_KEEP;
        on_after_model(&t->pipe, t);
        return;
    }
    struct json *r = make_obj(&t->step_arena, 4);
    make_put(r, "text", make_str(t->reply.text));
    make_put(r, "tool_calls", *t->reply.calls);
    make_put(r, "usage", usage_value(&t->step_arena, &t->reply.usage));
    make_put(r, "stop_reason", make_str(t->reply.stop_reason));
    turn__raise(t, POINT_AFTER_MODEL, r, on_after_model);
}

// ---- steering -----------------------------------------------------------------------------------

struct steering {
    agent_done_cb *cb;
    void *arg;
};

static void on_steered(void *arg, int status, const struct err *e)
{
    struct steering q = *(struct steering *)arg;
    struct agent_no no;
    free(arg);
    q.cb(q.arg, agent__no_store(&no, status, e));
}

void agent_steer(struct session *s, struct str text, agent_done_cb *cb, void *arg)
{
    struct turn *t = s->turn;
    struct agent_no no;
    struct note n;
    bool late = t == NULL || t->interrupted || t->only_compacts || t->step == TURN_LOAD ||
                t->step >= TURN_FINAL;
    if (late) {
        agent_no_set(&no, PROBLEM_NO_TURN, "POST /session/{id}/message begins one",
                     "no turn runs in session '%s'", s->id);
        cb(arg, &no);
        return;
    }
    struct steering *q = xmalloc(sizeof *q);
    *q = (struct steering){.cb = cb, .arg = arg};
    // the user has read the answer so far: it stays in the conversation
    if (t->step == TURN_MODEL) {
        if (!turn__cut_model(t)) {
            note__begin(&n, s, t, EVENT_MESSAGE_ABORTED);
            note__end(&n, STORE_WRITTEN, NULL, NULL);
        }
        turn__go(t, TURN_PROMPT);
    }
    talk_say(s->talk, text);
    if (t->step == TURN_ENGINE) {
        turn__steer_engine(t, text);
    }
    struct jw *w = note__begin(&n, s, t, EVENT_MESSAGE_COMPLETED);
    jw_kstrz(w, "role", "user");
    jw_kstr(w, "text", text);
    jw_kbool(w, "steer", true);
    note__end(&n, STORE_SYNCED, on_steered, q);
}
