// One request to the model: prompt, on_before_model, the stream, on_after_model.
//
// Pieces of the stream are journaled as they come, several of one turn of the loop as one event, and
// while one is being written the next gather behind it. A model that talks faster than the disk takes is
// paused at DELTA_MAX bytes, so memory does not depend on how much it says.
//
//     on_delta ──> delta.text ──deferred──> message.delta ──written──> the next one
//
// A try that failed makes its pieces void: message.aborted says so, and the answer begins anew.

#include <fcntl.h>
#include <math.h>
#include <unistd.h>

#include "agent/agent_int.h"
#include "agent/make.h"
#include "base/path.h"
#include "base/time.h"

enum { DELTA_MAX = 64 * 1024 };

// ---- the generation of a step -------------------------------------------------------------------

bool turn__pin(struct turn *t)
{
    struct gen *g = gen_current(t->s->agent->o.engine);
    struct gen_unit **units;
    struct arena a;
    struct err e = {0};
    size_t n;
    if (g == NULL) {
        turn__fail(t, "STOPPING", "the hub is stopping");
        return false;
    }
    arena_init(&a);
    if (agent__session_units(t->s, g, &a, &units, &n, &e) < 0) {
        arena_fini(&a);
        turn__fail(t, "PLUGIN_UNAVAILABLE", "%s", e.msg);
        return false;
    }
    struct str *names = arena_calloc(&a, n + 1, sizeof *names);
    for (size_t i = 0; i < n; i++) {
        names[i] = str_of(units[i]->name);
    }
    hook_set_free(t->hooks);
    struct gen *old = t->gen;
    t->gen = gen_pin(g);
    t->hooks = gen_hooks_of(g, names, n);
    gen_unpin(old);
    arena_fini(&t->unit_arena);
    t->unit_arena = a;
    t->units = units;
    t->n_units = n;
    return true;
}

// ---- the prompt ---------------------------------------------------------------------------------

/// The skills of the session: files', then plugins'.
static void plugin_skills(const struct turn *t, struct skills *out)
{
    const struct agent_host *h = &t->s->agent->o.host;
    for (size_t i = 0; i < t->n_units; i++) {
        for (size_t k = 0; k < gen_unit_count(t->units[i]); k++) {
            const struct gen_item *it = gen_unit_at(t->units[i], k);
            struct json *about;
            struct skill sk;
            struct str text = arena_str(&out->arena, str_of(gen_item_about(it)));
            if (gen_item_kind(it) != GEN_SKILL || gen_item_is_off(it) ||
                json_parse(&about, &out->arena, text, NULL, NULL) < 0) {
                continue;
            }
            const char *path = arena_strdup(&out->arena, json_str(json_get(about, "path"), ""));
            struct str bytes = h->file(h->arg, t->units[i], path);
            struct str name = arena_str(&out->arena, str_of(gen_item_name(it)));
            if (bytes.p != NULL &&
                skill_parse(&sk, arena_str(&out->arena, bytes), name, &out->arena, NULL) == 0 &&
                skills_find(out, sk.name) == NULL) {
                vec_push(&out->list, sk);
            }
        }
    }
}

void turn__skills(const struct turn *t, struct skills *out)
{
    skills_init(out);
    vec_foreach (sk, &t->files->skills.list) {
        vec_push(&out->list, *sk);
    }
    plugin_skills(t, out);
}

static struct str make_prompt(struct turn *t, const struct prompt_section *sections, size_t n)
{
    struct session *s = t->s;
    struct skills skills;
    struct buf out;
    turn__skills(t, &skills);
    struct prompt_parts parts = {.working_dir = s->working_dir,
                                 .sandbox = box_mode_name(s->sandbox),
                                 .network = s->network,
                                 .agents = t->files->agents,
                                 .sections = sections,
                                 .n_sections = n,
                                 .skills = skills.list.p,
                                 .n_skills = skills.list.n};
    buf_init(&out, SIZE_MAX);
    prompt_write(&out, &parts);
    struct str text = arena_str(&t->step_arena, buf_str(&out));
    buf_fini(&out);
    skills_fini(&skills);
    return text;
}

/// The messages, and behind them what plugins put into ctx.memory.
static struct json make_messages(struct turn *t)
{
    const struct json *said = talk_messages(t->s->talk), *memory = t->ctx.memory;
    struct json *list = make_arr(&t->step_arena, said->n + (size_t)memory->n);
    json_foreach_item (it, said) {
        make_push(list, *it);
    }
    json_foreach_item (it, memory) {
        if (it->type == JSON_STR) {
            struct json *m = make_obj(&t->step_arena, 2);
            make_put(m, "role", make_strz("system"));
            make_put(m, "content", *it);
            make_push(list, *m);
        } else {
            make_push(list, *it);
        }
    }
    return *list;
}

static void on_sections(const struct prompt_section *sections, size_t n, void *arg)
{
    static const struct json no_params = {.type = JSON_OBJ};
    struct turn *t = arg;
    struct json *request = make_obj(&t->step_arena, 5);
    t->prompt = NULL;
    make_put(request, "model", make_strz(t->s->choice.model));
    make_put(request, "system", make_str(make_prompt(t, sections, n)));
    make_put(request, "messages", make_messages(t));
    make_put(request, "tools", *toolbox_json(&t->tools, &t->step_arena));
    make_put(request, "params", no_params);
    t->request = request;
    turn__go(t, TURN_BEFORE_MODEL);
}

void turn__prompt(struct turn *t)
{
    struct session *s = t->s;
    struct toolbox_rules rules = {.choices = s->agent->o.choices,
                                  .disabled = s->disabled_tools.p,
                                  .n_disabled = s->disabled_tools.n};
    if (!turn__pin(t)) {
        return;
    }
    turn__retire_tools(t);
    arena_fini(&t->step_arena);
    arena_init(&t->step_arena);
    t->reply = (struct turn_reply){0};
    t->n_steps++;
    t->heard = talk_hear(s->talk, SIZE_MAX);
    toolbox_fill(&t->tools, t->gen, t->units, t->n_units, &rules, &t->step_arena);
    struct prompt_job *job =
        prompt_sections(t->units, t->n_units, &t->ctx, &t->step_arena, on_sections, t);
    if (job != NULL) {
        t->prompt = job;
    }
}

// ---- before the model ---------------------------------------------------------------------------

/// Somebody answered in the model's place: {text, tool_calls, usage, stop_reason}.
static void take_response(struct turn *t, const struct json *response)
{
    const struct json *calls = json_get(response, "tool_calls");
    struct json *list = make_arr(&t->step_arena, calls != NULL ? calls->n : 0);
    struct json *content = make_arr(&t->step_arena, 1 + (size_t)list->n + (calls ? calls->n : 0));
    t->reply.text = json_str(json_get(response, "text"), "");
    t->reply.stop_reason = json_str(json_get(response, "stop_reason"), "end_turn");
    if (t->reply.text.n != 0) {
        struct json *text = make_obj(&t->step_arena, 2);
        make_put(text, "type", make_strz("text"));
        make_put(text, "text", make_str(t->reply.text));
        make_push(content, *text);
    }
    json_foreach_item (it, calls) {
        struct str id = json_str(json_get(it, "id"), "");
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
    if (turn__blocked(t, POINT_BEFORE_MODEL)) {
        return;
    }
    t->request = pipe_value(p);
    const struct json *response = json_get(t->request, "response");
    if (response != NULL) {
        take_response(t, response);
        turn__go(t, TURN_AFTER_MODEL);
    } else {
        turn__go(t, TURN_REQUEST);
    }
}

void turn__before_model(struct turn *t)
{
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
    int fd = open(k->path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd >= 0) {
        for (size_t at = 0; at < k->line.n;) {
            ssize_t n = write(fd, k->line.p + at, k->line.n - at);
            at = n > 0 ? at + (size_t)n : k->line.n;
        }
        close(fd);
    }
}

static void on_kept(void *arg)
{
    struct keeping *k = arg;
    struct turn *t = k->t;
    t->keeping = false;
    free(k->path);
    buf_fini(&k->line);
    free(k);
    if (turn__alive(t)) {
        turn__ask(t);
    }
}

static void write_kept(struct turn *t, struct buf *line)
{
    struct jw w;
    char at[TIME_TEXT];
    jw_init(&w, line);
    jw_obj(&w);
    jw_kint(&w, "n", (int64_t)t->s->requests);
    jw_kstrz(&w, "at", time_format(loop_wall(t->s->agent->o.loop), at));
    jw_kstrz(&w, "provider", t->s->choice.provider);
    jw_key(&w, "body");
    jw_value(&w, t->request);
    jw_end_obj(&w);
    buf_addc(line, '\n');
}

/// The scripted model's requests are kept always, those of others on demand.
void turn__request(struct turn *t)
{
    struct session *s = t->s;
    s->requests++;
    if (strcmp(s->choice.kind, "scripted") != 0 && !s->keep_requests) {
        turn__ask(t);
        return;
    }
    struct keeping *k = xcalloc(1, sizeof *k);
    k->t = t;
    k->path = xasprintf("%s/%s/requests.jsonl", s->agent->o.home->sessions, s->id);
    buf_init(&k->line, SIZE_MAX);
    write_kept(t, &k->line);
    t->keeping = true;
    work_submit(s->agent->requests, 0, keep_line, on_kept, k);
}

// ---- the stream ---------------------------------------------------------------------------------

static void write_delta(struct turn *t);

static void on_delta_written(void *arg, int status, const struct err *e)
{
    struct turn *t = arg;
    struct turn_delta *d = &t->delta;
    (void)e;
    d->writing = false;
    if (status < 0 && t->call != NULL) { // nothing is shown that is not written: it cannot go on
        turn__cancel_model(t);
        turn__fail(t, "STORE_FAILED", "the journal cannot be written: %s", e->msg);
        return;
    }
    if (d->text.n != 0) {
        write_delta(t);
    }
    if (d->paused && t->call != NULL) {
        d->paused = false;
        provider_pause(t->call, false);
    }
}

/// Journal what has gathered.
static void write_delta(struct turn *t)
{
    struct turn_delta *d = &t->delta;
    struct note n;
    if (d->text.n != 0) {
        struct jw *w = note__begin(&n, t->s, t, EVENT_MESSAGE_DELTA);
        jw_kstr(w, d->reasoning ? "reasoning" : "text", buf_str(&d->text));
        buf_clear(&d->text);
        d->writing = true;
        note__end(&n, STORE_WRITTEN, on_delta_written, t);
    }
}

static void on_delta_task(void *arg)
{
    struct turn *t = arg;
    t->delta.task = NULL;
    if (!t->delta.writing) {
        write_delta(t);
    }
}

static void flush_deltas(struct turn *t)
{
    if (t->delta.task != NULL) {
        loop_cancel(t->s->agent->o.loop, t->delta.task);
        t->delta.task = NULL;
    }
    write_delta(t);
}

/// Handlers of on_model_delta see every piece, and may not wait.
static void raise_delta(struct turn *t, const char *kind, struct str text)
{
    struct pipe p = {0};
    struct arena a;
    arena_init(&a);
    struct json *delta = make_obj(&a, 1);
    make_put(delta, kind, make_str(text));
    struct pipe_opts o = {.hooks = t->hooks,
                          .point = POINT_MODEL_DELTA,
                          .ctx = &t->ctx,
                          .arena = &a,
                          .a = delta,
                          .failed = turn__hook_failed,
                          .failed_arg = t};
    pipe_start(&p, &o);
    pipe_fini(&p);
    arena_fini(&a);
}

static void on_delta(struct provider_call *call, const struct provider_delta *piece, void *arg)
{
    struct turn *t = arg;
    struct turn_delta *d = &t->delta;
    bool reasoning = piece->reasoning.n != 0;
    struct str text = reasoning ? piece->reasoning : piece->text;
    if (t->compacting) {
        return;
    }
    if (pipe_heard(t->hooks, POINT_MODEL_DELTA)) {
        raise_delta(t, reasoning ? "reasoning" : "text", text);
    }
    if (d->reasoning != reasoning) {
        write_delta(t);
        d->reasoning = reasoning;
    }
    buf_adds(&d->text, text);
    if (!d->writing && d->task == NULL) {
        d->task = loop_defer(t->s->agent->o.loop, on_delta_task, t);
    }
    if (d->text.n > DELTA_MAX && d->writing && !d->paused) {
        d->paused = true;
        provider_pause(call, true);
    }
}

static void on_retry(struct provider_call *call, const struct provider_error *why, uint64_t wait_ms,
                     void *arg)
{
    struct turn *t = arg;
    struct note n;
    (void)call;
    flush_deltas(t);
    struct jw *w = note__begin(&n, t->s, t, EVENT_MESSAGE_ABORTED);
    jw_key(w, "error");
    provider_write_error(w, why);
    jw_kint(w, "retry_in_ms", (int64_t)wait_ms);
    note__end(&n, STORE_WRITTEN, NULL, NULL);
}

/// Sum up; what is unknown once stays so.
static void add_tokens(int64_t *sum, int64_t n)
{
    *sum = *sum < 0 || n < 0 ? -1 : *sum + n;
}

static void add_usage(struct provider_usage *sum, const struct provider_usage *u)
{
    add_tokens(&sum->input, u->input);
    add_tokens(&sum->cached, u->cached);
    add_tokens(&sum->output, u->output);
    add_tokens(&sum->reasoning, u->reasoning);
}

static void count_usage(struct turn *t, const struct provider_usage *u)
{
    struct session *s = t->s;
    struct note n;
    double cost = provider_cost(&s->choice, u);
    add_usage(&s->usage, u);
    add_usage(&t->usage, u);
    s->cost += cost; // NAN stays NAN
    t->cost += cost;
    struct jw *w = note__begin(&n, s, t, EVENT_USAGE_UPDATED);
    agent__session_write_usage(w, &s->usage, s->cost);
    jw_kint(w, "request", (int64_t)s->requests);
    note__end(&n, STORE_WRITTEN, NULL, NULL);
}

static const struct json *copy_calls(struct turn *t, const struct provider_response *r)
{
    struct json *list = make_arr(&t->step_arena, r->n_tool_calls);
    for (size_t i = 0; i < r->n_tool_calls; i++) {
        const struct provider_tool_call *c = &r->tool_calls[i];
        struct json *call = make_obj(&t->step_arena, 4);
        make_put(call, "id", make_str(arena_str(&t->step_arena, c->id)));
        make_put(call, "name", make_str(arena_str(&t->step_arena, c->name)));
        make_put(call, "input", *json_clone(&t->step_arena, c->input));
        if (c->bad_input != NULL) {
            make_put(call, "bad_input", make_str(arena_str(&t->step_arena, str_of(c->bad_input))));
        }
        make_push(list, *call);
    }
    return list;
}

/// The text of an answer with one piece of it is that piece; only more than one are joined anew.
static struct str text_of(struct turn *t, const struct provider_response *r,
                          const struct json *content)
{
    json_foreach_item (it, content) {
        struct str text = json_str(json_get(it, "text"), NULL);
        if (text.n == r->text.n && str_eqz(json_str(json_get(it, "type"), ""), "text")) {
            return text;
        }
    }
    return arena_str(&t->step_arena, r->text);
}

static void on_response(struct provider_call *call, const struct provider_response *r, void *arg)
{
    struct turn *t = arg;
    (void)call;
    t->call = NULL;
    flush_deltas(t);
    count_usage(t, &r->usage);
    if (t->compacting) {
        turn__compact_reply(t, r->text);
        return;
    }
    const struct json *content = json_clone(&t->step_arena, &r->content);
    t->reply = (struct turn_reply){
        .text = text_of(t, r, content),
        .content = content,
        .calls = copy_calls(t, r),
        .stop_reason = arena_str(&t->step_arena, str_of(r->stop_reason)),
        .left_out = r->text_left_out,
    };
    turn__go(t, TURN_AFTER_MODEL);
}

static void on_fail(struct provider_call *call, const struct provider_error *why, void *arg)
{
    struct turn *t = arg;
    (void)call;
    t->call = NULL;
    flush_deltas(t);
    if (why->fault == PROVIDER_CONTEXT && !t->compacted && !t->compacting) {
        turn__go(t, TURN_COMPACT);
        return;
    }
    turn__fail(t, provider_fault_name(why->fault), "%s", why->message);
}

void turn__ask(struct turn *t)
{
    static const struct provider_cb callbacks = {
        .on_delta = on_delta, .on_retry = on_retry, .on_done = on_response, .on_fail = on_fail};
    struct session *s = t->s;
    struct provider_ask q = {.choice = &s->choice, .request = t->request, .n = s->requests};
    struct err e = {0};
    if (!t->compacting) {
        t->step = TURN_MODEL;
    }
    if (provider_start(&t->call, s->agent->o.providers, &q, &callbacks, t, &e) < 0) {
        t->call = NULL;
        turn__fail(t, "INVALID_REQUEST", "%s", e.msg);
    }
}

void turn__cancel_model(struct turn *t)
{
    if (t->call != NULL) {
        provider_cancel(t->call);
        t->call = NULL;
    }
    flush_deltas(t);
}

// ---- after the model ----------------------------------------------------------------------------

/// The content of a reply whose text is another one now: what the API sealed stays in front.
static const struct json *content_with(struct turn *t, struct str text)
{
    const struct json *old = t->reply.content;
    struct json *list = make_arr(&t->step_arena, (size_t)old->n + 1);
    struct json *item = make_obj(&t->step_arena, 2);
    bool put = text.n == 0;
    make_put(item, "type", make_strz("text"));
    make_put(item, "text", make_str(text));
    json_foreach_item (it, old) {
        struct str type = json_str(json_get(it, "type"), "");
        if (!put && !str_eqz(type, "reasoning")) {
            make_push(list, *item);
            put = true;
        }
        if (!str_eqz(type, "text")) {
            make_push(list, *it);
        }
    }
    if (!put) {
        make_push(list, *item);
    }
    return list;
}

/// More than one text: the journal has to keep it as it is.
static bool is_plain(const struct json *content)
{
    return content->n == 0 ||
           (content->n == 1 && str_eqz(json_str(json_get(content->items, "type"), ""), "text"));
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
    if (!is_plain(content)) {
        jw_key(w, "content");
        jw_value(w, content);
    }
    jw_kint(w, "request", (int64_t)t->s->requests);
    if (t->heard != 0) {
        jw_kint(w, "heard", (int64_t)t->heard);
    }
    note__end(&n, STORE_WRITTEN, NULL, NULL);
    talk_assistant(t->s->talk, content);
    t->final = arena_str(&t->arena, text);
}

static const struct json *make_response(struct turn *t)
{
    struct json *r = make_obj(&t->step_arena, 4);
    struct json *usage = make_obj(&t->step_arena, 2);
    make_put(usage, "input", make_int(t->usage.input));
    make_put(usage, "output", make_int(t->usage.output));
    make_put(r, "text", make_str(t->reply.text));
    make_put(r, "tool_calls", *t->reply.calls);
    make_put(r, "usage", *usage);
    make_put(r, "stop_reason", make_str(t->reply.stop_reason));
    return r;
}

/// Reasoning goes back to the API that made it, also when a plugin changed the rest.
static void keep_reasoning(struct turn *t, const struct json *before)
{
    const struct json *after = t->reply.content;
    struct json *list = make_arr(&t->step_arena, (size_t)before->n + after->n);
    json_foreach_item (it, before) {
        if (str_eqz(json_str(json_get(it, "type"), ""), "reasoning")) {
            make_push(list, *it);
        }
    }
    json_foreach_item (it, after) {
        make_push(list, *it);
    }
    t->reply.content = list;
}

static void on_after_model(struct pipe *p, void *arg)
{
    struct turn *t = arg;
    const struct json *before = t->reply.content;
    if (turn__blocked(t, POINT_AFTER_MODEL)) {
        return;
    }
    if (p->run.result == HOOK_VALUE) {
        take_response(t, pipe_value(p));
        keep_reasoning(t, before);
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

void turn__after_model(struct turn *t)
{
    if (!pipe_heard(t->hooks, POINT_AFTER_MODEL)) {
        t->pipe.run.result = HOOK_KEEP;
        on_after_model(&t->pipe, t);
        return;
    }
    turn__raise(t, POINT_AFTER_MODEL, make_response(t), on_after_model);
}

// ---- steering -----------------------------------------------------------------------------------

struct steering {
    struct session *s;
    agent_text_cb *cb;
    void *arg;
};

static void on_steered(void *arg, int status, const struct err *e)
{
    struct steering q = *(struct steering *)arg;
    struct agent_no no;
    free(arg);
    if (status < 0) {
        agent__no(&no, PROBLEM_STORE_FAILED, NULL, "%s", e->msg);
    }
    q.cb(q.arg, STR("{\"ok\":true}"), status < 0 ? &no : NULL);
}

/// Said too late to be heard?
static bool is_ending(const struct turn *t)
{
    return t->interrupted || t->only_compacts || t->step == TURN_LOAD || t->step >= TURN_FINAL;
}

void agent_steer(struct session *s, struct str text, agent_text_cb *cb, void *arg)
{
    struct turn *t = s->turn;
    struct agent_no no;
    struct note n;
    if (t == NULL || is_ending(t)) {
        agent__no(&no, PROBLEM_NO_TURN, "POST /session/{id}/message begins one",
                  "no turn runs in session '%s'", s->id);
        cb(arg, STR_NULL, &no);
        return;
    }
    struct steering *q = xmalloc(sizeof *q);
    *q = (struct steering){.s = s, .cb = cb, .arg = arg};
    if (t->step == TURN_MODEL) { // what it was saying is not heard by anybody: it begins anew
        turn__cancel_model(t);
        note__begin(&n, s, t, EVENT_MESSAGE_ABORTED);
        note__end(&n, STORE_WRITTEN, NULL, NULL);
        turn__go(t, TURN_PROMPT);
    }
    talk_say(s->talk, text);
    struct jw *w = note__begin(&n, s, t, EVENT_MESSAGE_COMPLETED);
    jw_kstrz(w, "role", "user");
    jw_kstr(w, "text", text);
    jw_kbool(w, "steer", true);
    note__end(&n, STORE_SYNCED, on_steered, q);
}
