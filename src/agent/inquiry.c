// What a running tool may ask for: an answer of the user, an answer of the model, the directories of the session.
//
//     ctx.elicit, an MCP server's elicitation/create ──> question.asked, one for each field of the form ──┐
//     ctx.sample, sampling/createMessage ──> permission ──> the session's model, its cost counted ────────┼─> the tool
//     ctx.roots, roots/list ──> the directories that the session may write ───────────────────────────────┘
//
// The requests are those of MCP, since plugins and MCP servers make them alike (struct hook_caller). A form is asked
// field by field, so that every client that shows questions can answer it; a client that can show forms answers the
// `form` in the event at once, with {action, content}. A sampling request is judged as a call of a tool "sample",
// with the mode, the hooks and the rules of the session.
//
// Invariants:
//   - the first inquiry of a call is the one that is being answered; the others wait.
//   - an inquiry lives until answered() or forget(), whichever comes first.

#include <assert.h>

#include "agent/agent_int.h"
#include "agent/make.h"
#include "base/log.h"
#include "base/path.h"
#include "base/schema.h"

enum { MAX_TOKENS = 1000, TRIES = 3 };

struct inquiry {
    struct inquiry *next;
    struct tool_call *c;
    struct hook_ask *ask;
    struct arena arena;
    const struct json *requests; // {key: {method, params}}
    struct json *answers;        // {key: result}, as far as they are known
    struct loop_task *task;
    const struct json *call; // the call of "sample" while it is judged; else NULL
    struct provider_call *model;
    // of a form
    uint32_t field; // the one that is asked now
    unsigned tries; // answers to it that did not fit
    struct json *content;
    const char *again; // why the last answer did not fit; NULL: it did
};

/// The request that is being answered; NULL: all are.
static const struct json *request_of(const struct inquiry *q)
{
    return q->answers->n < q->requests->n ? &q->requests->members[q->answers->n].value : NULL;
}

static const struct json *params_of(const struct inquiry *q)
{
    return json_get(request_of(q), "params");
}

static bool is_about(const struct inquiry *q, const char *method)
{
    return str_eqz(json_get_text(request_of(q), "method"), method);
}

static void step(void *arg);

static void go_on(struct inquiry *q)
{
    if (q->task == NULL) {
        q->task = loop_defer(q->c->site->agent->o.hub->loop, step, q);
    }
}

/// Remove it from the list of its call. If it was the first one, the next begins.
static void take_out(struct inquiry *q)
{
    struct inquiry **at = &q->c->inquiries;
    while (*at != q) {
        at = &(*at)->next;
    }
    *at = q->next;
    if (at == &q->c->inquiries && q->next != NULL) {
        go_on(q->next);
    }
    if (q->task != NULL) {
        loop_cancel(q->c->site->agent->o.hub->loop, q->task);
    }
}

static void inquiry_free(struct inquiry *q)
{
    struct arena arena = q->arena; // `q` is in it
    arena_fini(&arena);
}

static void finish(struct inquiry *q, const struct err *e)
{
    take_out(q);
    q->ask->answered(q->ask, e == NULL ? q->answers : NULL, e);
    inquiry_free(q);
}

static void fail(struct inquiry *q, const char *why)
{
    struct err e;
    err_set(&e, ERR_DENIED, "%.200s", why);
    finish(q, &e);
}

static void put_answer(struct inquiry *q, struct json v)
{
    q->answers->members[q->answers->n] =
        (struct json_member){q->requests->members[q->answers->n].key, v};
    q->answers->n++;
    q->field = q->tries = 0;
    q->content = NULL;
    q->again = NULL;
    go_on(q);
}

// ---- directories --------------------------------------------------------------------------------

static void push_root(struct arena *a, struct json *list, const char *dir)
{
    struct json *root = make_obj(a, 2);
    struct str name = path_base(str_of(dir));
    make_put(root, "uri", make_strz(arena_printf(a, "file://%s", dir)));
    make_put(root, "name", make_str(arena_str(a, name)));
    make_push(list, *root);
}

static struct json roots_of(const struct tool_call *c, struct arena *a)
{
    const struct session *s = agent__session_root(tool_call__session(c->site));
    struct json *list = make_arr(a, 1 + s->writable.n), *v = make_obj(a, 1);
    push_root(a, list, agent__session_place(s));
    vec_foreach (it, &s->writable) {
        push_root(a, list, *it);
    }
    make_put(v, "roots", *list);
    return *v;
}

// ---- forms --------------------------------------------------------------------------------------

static const struct json *fields_of(const struct inquiry *q)
{
    return json_get(json_get(params_of(q), "requestedSchema"), "properties");
}

static const struct json_member *field_of(const struct inquiry *q)
{
    const struct json *fields = fields_of(q);
    bool any = fields != NULL && fields->type == JSON_OBJ && q->field < fields->n;
    return any ? &fields->members[q->field] : NULL;
}

static bool is_required(const struct inquiry *q, struct str name)
{
    json_foreach_item (it, json_ptr(params_of(q), "/requestedSchema/required")) {
        if (str_eq(json_str(it, ""), name)) {
            return true;
        }
    }
    return false;
}

/// The values that a field may have: `enum`, or `oneOf` and `anyOf` of {const, title}; NULL: any value.
static const struct json *values_of(const struct json *schema)
{
    static const char *const keys[] = {"enum", "oneOf", "anyOf"};
    const struct json *list = NULL;
    for (size_t i = 0; i < ARRAY_LEN(keys) && list == NULL; i++) {
        list = json_get(schema, keys[i]);
    }
    return list != NULL && list->type == JSON_ARR ? list : NULL;
}

static const struct json *value_at(const struct json *schema, const struct json *it, bool title)
{
    const struct json *names = json_get(schema, "enumNames");
    size_t i = (size_t)(it - values_of(schema)->items);
    if (it->type == JSON_OBJ) {
        const struct json *shown = title ? json_get(it, "title") : NULL;
        return shown != NULL ? shown : json_get(it, "const");
    }
    return title && names != NULL && names->type == JSON_ARR && i < names->n ? &names->items[i]
                                                                             : it;
}

static bool has_type(const struct json *schema, const char *type)
{
    return str_eqz(json_get_text(schema, "type"), type);
}

static void write_choices(const struct inquiry *q, struct jw *w)
{
    const struct json_member *f = field_of(q);
    const struct json *schema = f != NULL ? &f->value : NULL;
    const struct json *values = f != NULL ? values_of(schema) : NULL;
    bool yes_or_no = f == NULL || has_type(schema, "boolean");
    if (!yes_or_no && values == NULL) {
        jw_kvalue(w, "choices", NULL);
        return;
    }
    jw_karr(w, "choices");
    if (yes_or_no) {
        jw_strz(w, "yes");
        jw_strz(w, "no");
    }
    json_foreach_item (it, values) {
        jw_str(w, json_str(value_at(schema, it, true), ""));
    }
    if (f != NULL) {
        jw_strz(w, "decline");
    }
    jw_end_arr(w);
}

bool inquiry__write_question(const struct tool_call *c, struct jw *w)
{
    const struct inquiry *q = c->inquiries;
    if (q == NULL || c->asking != ASK_QUESTION) {
        return false;
    }
    const struct json_member *f = field_of(q);
    struct str about = f != NULL ? json_get_text(&f->value, "description") : STR_NULL;
    struct str title = f != NULL ? json_get_text(&f->value, "title") : STR_NULL;
    struct str url = json_get_text(params_of(q), "url");
    struct buf text = {.max = SIZE_MAX};
    buf_addf(&text, STR_FMT " asks: " STR_FMT, STR_ARG(c->name),
             STR_ARG(json_get_text(params_of(q), "message")));
    if (url.n != 0) {
        buf_addf(&text, "\n" STR_FMT, STR_ARG(url));
    }
    if (f != NULL) {
        title = title.n != 0 ? title : f->key;
        buf_addf(&text, "\n" STR_FMT "%s" STR_FMT, STR_ARG(title), about.n != 0 ? ": " : "",
                 STR_ARG(about));
        buf_addz(&text, is_required(q, f->key) ? "" : " (optional)");
    }
    if (q->again != NULL) {
        buf_addf(&text, "\n%s", q->again);
    }
    jw_kstr(w, "question", buf_str(&text));
    write_choices(q, w);
    jw_kstr(w, "by", c->name);
    jw_kvalue(w, "form", params_of(q));
    buf_fini(&text);
    return true;
}

static void end_form(struct inquiry *q, const char *action)
{
    struct json *v = make_obj(&q->arena, 2);
    make_put(v, "action", make_strz(action));
    if (strcmp(action, "accept") == 0 && q->content != NULL) {
        make_put(v, "content", *q->content);
    }
    put_answer(q, *v);
}

static void ask_field(struct inquiry *q)
{
    if (tool_call__can_ask(q->c)) {
        q->c->n_asked++;
        tool_call__ask_user(q->c);
    } else {
        end_form(q, "cancel");
    }
}

/// The value whose title is `text`; the text itself when there is none. An entry of a form may have no value.
static struct json value_named(const struct json *schema, struct str text)
{
    json_foreach_item (it, values_of(schema)) {
        const struct json *value = value_at(schema, it, false);
        if (value != NULL && str_eq(json_str(value_at(schema, it, true), ""), text)) {
            return *value;
        }
    }
    return make_str(text);
}

/// Read what the user chose or typed as a value of the field. False: `q->again` says what is wrong with it.
static bool read_value(struct inquiry *q, const struct json *schema, const struct json *answer,
                       struct json *out)
{
    struct str text = json_str(answer, "");
    struct json *parsed = NULL;
    const struct json *items = json_get(schema, "items");
    bool chosen = answer->type == JSON_STR && values_of(schema) != NULL;
    bool typed = answer->type == JSON_STR && !has_type(schema, "string") && !chosen;
    struct err e = {0};
    *out = chosen ? value_named(schema, text) : *answer;
    if (typed && has_type(schema, "boolean")) {
        *out = make_bool(str_eqz(text, "yes") || str_eqz(text, "true"));
    } else if (typed && json_parse(&parsed, &q->arena, text, NULL, NULL) == 0) {
        *out = *parsed;
    } else if (typed && has_type(schema, "array")) { // texts with commas between them
        struct json *list = make_arr(&q->arena, text.n + 1);
        for (struct str rest = text; rest.n != 0;) {
            make_push(list, value_named(items, str_trim(str_cut(&rest, ','))));
        }
        *out = *list;
    }
    if (schema_check(schema, NULL) == 0 && schema_fit(schema, out, "the answer", &e) < 0) {
        q->again = arena_printf(&q->arena, "That does not fit: %s.", e.msg);
        return false;
    }
    return true;
}

/// Take the answer to a field; then ask the next one, or end the form.
static void take_field(struct inquiry *q, const struct json_member *f, const struct json *answer)
{
    struct json value;
    struct str text = json_str(answer, "");
    bool empty = answer->type == JSON_STR && text.n == 0, required = is_required(q, f->key);
    const struct json *fallback = json_get(&f->value, "default");
    if (str_eqz(text, "decline") || (empty && required && fallback == NULL)) {
        end_form(q, "decline");
        return;
    }
    bool given = !empty && read_value(q, &f->value, answer, &value);
    if (!empty && !given) {
        if (++q->tries < TRIES) {
            ask_field(q);
        } else {
            end_form(q, "cancel");
        }
        return;
    }
    if (q->content == NULL) {
        q->content = make_obj(&q->arena, fields_of(q)->n);
    }
    if (given || fallback != NULL) {
        q->content->members[q->content->n++] =
            (struct json_member){f->key, given ? value : *fallback};
    }
    q->again = NULL;
    q->field++;
    if (field_of(q) != NULL) {
        ask_field(q);
    } else {
        end_form(q, "accept");
    }
}

bool inquiry__answered(struct tool_call *c, uint64_t number, struct str json)
{
    struct inquiry *q = c->inquiries;
    struct json *answer = NULL;
    if (number == 0) {
        return false;
    }
    assert(q != NULL && c->n_asked == number);
    (void)!json_parse(&answer, &q->arena, arena_str(&q->arena, json), NULL, NULL);
    const struct json_member *f = field_of(q);
    const struct json *action = json_get(answer, "action");
    if (answer == NULL || answer->type == JSON_NULL) {
        end_form(q, "cancel");
    } else if (action != NULL) { // the whole form at once
        const struct json *content = json_get(answer, "content");
        const struct json *schema = json_get(params_of(q), "requestedSchema");
        bool fills =
            content != NULL && content->type == JSON_OBJ && schema_check(schema, NULL) == 0;
        const struct json *whole = fills ? schema_defaults(schema, content, &q->arena) : content;
        q->content = whole != NULL ? json_clone(&q->arena, whole) : NULL;
        static const char *const known[] = {"accept", "decline"};
        ptrdiff_t i = str_lookup(json_str(action, ""), known, ARRAY_LEN(known));
        end_form(q, i >= 0 ? known[i] : "cancel");
    } else if (f == NULL) {
        struct str text = json_str(answer, "");
        end_form(q, str_eqz(text, "yes") || json_bool(answer, false) ? "accept" : "decline");
    } else {
        take_field(q, f, answer);
    }
    return true;
}

// ---- the model ----------------------------------------------------------------------------------

/// The text of a sampling message; other content is only named.
static struct str content_text(struct arena *a, const struct json *content)
{
    struct str type = json_get_text(content, "type");
    if (content != NULL && content->type == JSON_ARR) {
        struct buf all = {.max = SIZE_MAX};
        json_foreach_item (it, content) {
            buf_adds(&all, content_text(a, it));
        }
        struct str text = arena_str(a, buf_str(&all));
        buf_fini(&all);
        return text;
    }
    return str_eqz(type, "text") ? json_get_text(content, "text")
                                 : str_of(arena_printf(a, "[" STR_FMT " left out]", STR_ARG(type)));
}

static const struct json *sample_messages(struct arena *a, const struct json *params)
{
    const struct json *given = json_get(params, "messages");
    struct json *list = make_arr(a, given != NULL ? given->n : 0);
    json_foreach_item (it, given) {
        bool assistant = str_eqz(json_get_text(it, "role"), "assistant");
        make_push(list, make_message(a, assistant ? "assistant" : "user",
                                     make_str(content_text(a, json_get(it, "content")))));
    }
    return list;
}

static const struct json *sample_request(struct arena *a, const struct json *params)
{
    const struct json *temperature = json_get(params, "temperature");
    int64_t max = json_int(json_get(params, "maxTokens"), MAX_TOKENS);
    struct json *v = make_obj(a, 4), *more = make_obj(a, 2);
    make_put(more, "max_tokens", make_int(MAX(max, 1)));
    if (temperature != NULL &&
        (temperature->type == JSON_INT || temperature->type == JSON_DOUBLE)) {
        make_put(more, "temperature", *temperature);
    }
    make_put(v, "system", make_str(json_get_text(params, "systemPrompt")));
    make_put(v, "messages", *sample_messages(a, params));
    make_put(v, "tools", *make_arr(a, 0));
    make_put(v, "params", *more);
    return v;
}

static void on_sampled(struct provider_call *call, const struct provider_response *r, void *arg)
{
    struct inquiry *q = arg;
    struct turn *t = q->c->site->turn;
    struct arena *a = &q->arena;
    struct json *v = make_obj(a, 4);
    bool cut = strcmp(r->stop_reason, "max_tokens") == 0;
    (void)call;
    q->model = NULL;
    turn__count(t, &r->usage, false);
    make_put(v, "role", make_strz("assistant"));
    make_put(v, "content", make_text(a, arena_str(a, r->text)));
    make_put(v, "model", make_strz(arena_strdup(a, str_of(t->s->choice.model))));
    make_put(v, "stopReason", make_strz(cut ? "maxTokens" : "endTurn"));
    put_answer(q, *v);
}

static void on_sample_failed(struct provider_call *call, const struct provider_error *why,
                             void *arg)
{
    struct inquiry *q = arg;
    (void)call;
    q->model = NULL;
    fail(q, why->message);
}

/// Ask the model: the call was allowed.
static void sample(struct inquiry *q)
{
    static const struct provider_cb callbacks = {.on_done = on_sampled,
                                                 .on_fail = on_sample_failed};
    struct turn *t = q->c->site->turn;
    const char *spent = turn__spent(t);
    struct err e = {0};
    if (spent != NULL || !t->s->chosen) {
        fail(q, spent != NULL ? spent : "this session has no model of its own");
        return;
    }
    struct provider_ask ask = {.choice = &t->s->choice,
                               .request = sample_request(&q->arena, params_of(q)),
                               .n = ++t->s->requests};
    if (provider_start(&q->model, t->s->agent->o.providers, &ask, &callbacks, q, &e) < 0) {
        q->model = NULL;
        fail(q, e.msg);
    }
}

/// Have hooks, rules and the user judge it, as a call of a tool "sample".
static void ask_permission(struct inquiry *q)
{
    struct arena *a = &q->arena;
    struct json *input = make_obj(a, 3), *call = make_obj(a, 3);
    make_put(input, "for", make_str(q->c->name));
    make_put(input, "max_tokens",
             make_int(json_int(json_get(params_of(q), "maxTokens"), MAX_TOKENS)));
    make_put(input, "messages", *sample_messages(a, params_of(q)));
    make_put(call, "tool_name", make_strz("sample"));
    make_put(call, "tool_call_id", make_str(q->c->id));
    make_put(call, "input", *input);
    q->call = call;
    q->c->ask_id[0] = '\0'; // it was the id of the tool's own question
    q->c->n_asked++;
    tool_call__permit(q->c);
}

const struct json *tool_call__about(const struct tool_call *c)
{
    const struct inquiry *q = c->inquiries;
    return q != NULL && q->call != NULL ? q->call : c->call;
}

bool inquiry__is_judged(const struct tool_call *c)
{
    return tool_call__about(c) != c->call;
}

bool inquiry__decided(struct tool_call *c, const char *refused)
{
    struct inquiry *q = c->inquiries;
    if (q == NULL || q->call == NULL) {
        return false;
    }
    q->call = NULL;
    if (refused != NULL) {
        fail(q, refused);
    } else {
        sample(q);
    }
    return true;
}

// ---- step by step -------------------------------------------------------------------------------

static void step(void *arg)
{
    struct inquiry *q = arg;
    q->task = NULL;
    if (request_of(q) == NULL) {
        finish(q, NULL);
    } else if (is_about(q, "roots/list")) {
        put_answer(q, roots_of(q->c, &q->arena));
    } else if (is_about(q, "elicitation/create")) {
        ask_field(q);
    } else if (is_about(q, "sampling/createMessage")) {
        ask_permission(q);
    } else {
        fail(q, "a session answers elicitation/create, sampling/createMessage and roots/list");
    }
}

static int ask(void *arg, struct hook_ask *ask, const struct json *requests,
               const struct json **answers, struct err *e)
{
    struct tool_call *c = arg;
    struct inquiry **end = &c->inquiries;
    struct arena arena = {0};
    (void)answers;
    if (c->cancelled || c->over) {
        return err_set(e, UV_ECANCELED, "the call is over");
    }
    struct inquiry *q = arena_calloc(&arena, 1, sizeof *q);
    q->c = c;
    q->ask = ask;
    q->requests = json_clone(&arena, requests);
    q->answers = make_obj(&arena, requests->n);
    q->arena = arena;
    while (*end != NULL) {
        end = &(*end)->next;
    }
    *end = q;
    if (end == &c->inquiries) {
        go_on(q);
    }
    return 1;
}

static void forget(void *arg, struct hook_ask *ask)
{
    struct tool_call *c = arg;
    for (struct inquiry *q = c->inquiries; q != NULL; q = q->next) {
        if (q->ask != ask) {
            continue;
        }
        if (q == c->inquiries) {
            tool_call__stop_asking(c);
            pipe_cancel(&c->pipe);
            c->n_asked++; // so that an answer on its way to the disk is ignored
        }
        if (q->model != NULL) {
            provider_cancel(q->model);
        }
        take_out(q);
        inquiry_free(q);
        return;
    }
}

static void progress(void *arg, struct str text, double done, double total)
{
    (void)done;
    (void)total;
    tool_call__tell_progress(arg, text);
}

static void take_log(void *arg, struct str level, const struct json *data)
{
    const struct tool_call *c = arg;
    struct buf text = {.max = 4096};
    json_write(&text, data, 0);
    log_info(LOG_HUB, "session=%s tool=%s level=%s text=%s", tool_call__session(c->site)->id,
             LOGQ(c->name).z, LOGQ(level).z, LOGQ(buf_str(&text)).z);
    buf_fini(&text);
}

const struct hook_caller inquiry__caller = {
    .progress = progress, .log = take_log, .ask = ask, .forget = forget};
