// The conversation of a session.
//
// Messages are in one arena that only grows: what compaction discards is freed with the talk, when the session has
// been idle for long. They have the form that requests have, so that a request shares them and no step copies them.

#include "agent/talk.h"

#include <assert.h>
#include <math.h>

#include "agent/make.h"
#include "base/utf8.h"

static const char no_result[] = "there is no result: the turn ended first";
static const char interrupted[] = "[the user interrupted the turn before this point]";

/// The messages before a turn or a rewind: the first `n` of an epoch.
struct talk_point {
    struct str id;
    size_t epoch, n;
};

struct talk_epoch {
    struct json *p;
    size_t n;
};

struct talk {
    struct arena arena;
    vec(struct json) messages;
    vec(struct talk_epoch) past; // lists that compaction and rewinding replaced, in the arena
    vec(struct talk_point) points;
    struct json view;          // the array over `messages`
    const struct json *asking; // content of the last assistant message while calls are open
    vec(struct json) results;  // so far, in the order in which they came
    vec(struct str) said;      // and not heard yet
    size_t heard;              // in this turn
    struct str cut;            // the start of an answer that the user interrupted in this turn
};

struct talk *talk_new(void)
{
    return xcalloc(1, sizeof(struct talk));
}

void talk_free(struct talk *t)
{
    if (t != NULL) {
        vec_fini(&t->messages);
        vec_fini(&t->results);
        vec_fini(&t->said);
        vec_fini(&t->past);
        vec_fini(&t->points);
        arena_fini(&t->arena);
        free(t);
    }
}

// ---- messages -----------------------------------------------------------------------------------

static void add(struct talk *t, const char *role, struct json content)
{
    vec_push(&t->messages, make_message(&t->arena, role, content));
}

static bool is_call(const struct json *item)
{
    return str_eqz(json_get_text(item, "type"), "tool_call");
}

static struct json make_result(struct talk *t, struct str id, struct str output, bool success)
{
    struct json *r = make_obj(&t->arena, 4);
    make_put(r, "type", make_strz("tool_result"));
    make_put(r, "tool_call_id", make_str(id));
    make_put(r, "output", make_str(output));
    make_put(r, "success", make_bool(success));
    return *r;
}

/// Give the open calls their results, in the order of the calls. A result that never came is a failed one.
static void settle(struct talk *t)
{
    if (t->asking == NULL) {
        return;
    }
    struct json *list = make_arr(&t->arena, t->asking->n);
    json_foreach_item (it, t->asking) {
        struct str id = json_get_text(it, "id");
        if (!is_call(it)) {
            continue;
        }
        size_t i = 0;
        while (i < t->results.n && !str_eq(json_get_text(&t->results.p[i], "tool_call_id"), id)) {
            i++;
        }
        if (i == t->results.n) {
            make_push(list, make_result(t, id, str_of(no_result), false));
        } else {
            make_push(list, t->results.p[i]);
            vec_remove(&t->results, i);
        }
    }
    t->asking = NULL;
    t->results.n = 0;
    add(t, "tool", *list);
}

const struct json *talk_messages(struct talk *t)
{
    settle(t);
    t->view = (struct json){.type = JSON_ARR, .n = (uint32_t)t->messages.n, .items = t->messages.p};
    return &t->view;
}

/// The content of a message with pictures: the pictures first, then the text.
static struct json make_shown(struct talk *t, struct str text, const struct json *images)
{
    struct json *list = make_arr(&t->arena, (size_t)images->n + 1);
    json_foreach_item (it, images) {
        struct json *own = json_clone(&t->arena, it),
                    *item = make_obj(&t->arena, (size_t)own->n + 1);
        make_put(item, "type", make_strz("image"));
        json_foreach_member (m, own) {
            make_put(item, arena_strdup(&t->arena, m->key), m->value);
        }
        make_push(list, *item);
    }
    make_push(list, make_text(&t->arena, text));
    return *list;
}

void talk_user(struct talk *t, struct str text, const struct json *images)
{
    struct str own = arena_str(&t->arena, text);
    bool shown = images != NULL && images->type == JSON_ARR && images->n != 0;
    talk_hear(t, SIZE_MAX);
    settle(t);
    t->heard = 0;
    add(t, "user", shown ? make_shown(t, own, images) : make_str(own));
}

void talk_say(struct talk *t, struct str text)
{
    if (t->cut.n != 0) { // this message cuts an answer off: the part of the answer comes first
        struct json cut = make_str(t->cut);
        talk_assistant(t, &cut, 0);
        t->cut = STR_NULL;
    }
    vec_push(&t->said, arena_str(&t->arena, text));
}

size_t talk_unheard(const struct talk *t)
{
    return t->said.n;
}

size_t talk_hear(struct talk *t, size_t total)
{
    while (t->said.n != 0 && t->heard < total) {
        settle(t);
        add(t, "user", make_str(t->said.p[0]));
        vec_remove(&t->said, 0);
        t->heard++;
    }
    return t->heard;
}

static struct str role_of(const struct json *message)
{
    return json_get_text(message, "role");
}

void talk_replace_user(struct talk *t, struct str text)
{
    for (size_t i = t->messages.n; i-- > 0;) {
        if (str_eqz(role_of(&t->messages.p[i]), "user")) {
            struct json *content = &t->messages.p[i].members[1].value;
            struct str own = arena_str(&t->arena, text);
            if (content->type == JSON_ARR) { // the text comes after the pictures
                content->items[content->n - 1] = make_text(&t->arena, own);
            } else {
                *content = make_str(own);
            }
            return;
        }
    }
}

/// A copy of the model's answer, which it reads with the next request. One that was not kept whole gets a text that
/// says so.
static struct json *copy_said(struct talk *t, const struct json *content, uint64_t left_out)
{
    struct json *mine = json_clone(&t->arena, content);
    if (left_out == 0) {
        return mine;
    }
    struct json *list = make_arr(&t->arena, (mine->type == JSON_ARR ? mine->n : 1) + (size_t)1);
    json_foreach_item (it, mine) {
        make_push(list, *it);
    }
    if (mine->type == JSON_STR) {
        make_push(list, make_text(&t->arena, mine->s));
    }
    const char *told = arena_printf(&t->arena, "[%llu bytes of this answer were not kept]",
                                    (unsigned long long)left_out);
    make_push(list, make_text(&t->arena, str_of(told)));
    return list;
}

const struct json *talk_assistant(struct talk *t, const struct json *content, uint64_t left_out)
{
    bool list = content != NULL && content->type == JSON_ARR;
    bool says = list ? content->n != 0 : json_str(content, "").n != 0;
    settle(t);
    if (!says) {
        return NULL; // APIs take no empty message
    }
    struct json *mine = copy_said(t, content, left_out);
    add(t, "assistant", *mine);
    json_foreach_item (it, mine) {
        if (is_call(it)) {
            t->asking = mine;
        }
    }
    return mine;
}

void talk_result(struct talk *t, struct str call_id, struct str output, bool success,
                 struct str error)
{
    struct str id = arena_str(&t->arena, call_id), text = arena_str(&t->arena, output);
    if (!success && error.n != 0) { // not every API has a field for the error
        text = str_of(arena_printf(&t->arena, STR_FMT "%s[failed: " STR_FMT "]", STR_ARG(output),
                                   output.n != 0 ? "\n" : "", STR_ARG(error)));
    }
    vec_push(&t->results, make_result(t, id, text, success));
}

/// Add a remark of role system.
static void remark(struct talk *t, struct str text)
{
    settle(t);
    add(t, "system", make_str(arena_str(&t->arena, text)));
}

void talk_cut(struct talk *t, struct str text)
{
    t->cut = arena_str(&t->arena, text);
}

void talk_interrupted(struct talk *t)
{
    if (t->cut.n != 0) {
        remark(t, str_of(arena_printf(&t->arena, "%s\n[of your answer there was:]\n" STR_FMT,
                                      interrupted, STR_ARG(t->cut))));
    } else {
        remark(t, str_of(interrupted));
    }
    t->cut = STR_NULL;
}

// ---- going back ---------------------------------------------------------------------------------

/// Keep the list of messages as an epoch; the caller then makes a new list.
static void begin_epoch(struct talk *t)
{
    size_t n = t->messages.n;
    struct json *copy = arena_calloc(&t->arena, n + 1, sizeof *copy);
    if (n != 0) {
        memcpy(copy, t->messages.p, n * sizeof *copy);
    }
    vec_push(&t->past, ((struct talk_epoch){copy, n}));
}

void talk_mark(struct talk *t, struct str point)
{
    talk_hear(t, SIZE_MAX);
    settle(t);
    t->cut = STR_NULL;
    struct talk_point p = {arena_str(&t->arena, point), t->past.n, t->messages.n};
    vec_push(&t->points, p);
}

static const struct talk_point *find_point(const struct talk *t, struct str point)
{
    for (size_t i = t->points.n; i-- > 0;) {
        if (str_eq(t->points.p[i].id, point)) {
            return &t->points.p[i];
        }
    }
    return NULL;
}

bool talk_has_mark(const struct talk *t, struct str point)
{
    return find_point(t, point) != NULL;
}

bool talk_rewind(struct talk *t, struct str point, struct str as)
{
    if (!talk_has_mark(t, point)) {
        return false;
    }
    talk_mark(t, as);
    struct talk_point to = *find_point(t, point);
    begin_epoch(t);
    const struct talk_epoch *was = &t->past.p[to.epoch];
    assert(to.n <= was->n);
    t->messages.n = 0;
    for (size_t i = 0; i < to.n; i++) {
        vec_push(&t->messages, was->p[i]);
    }
    return true;
}

// ---- making it shorter --------------------------------------------------------------------------

size_t talk_tail(struct talk *t)
{
    settle(t);
    for (size_t i = t->messages.n; i-- > 0;) {
        if (str_eqz(role_of(&t->messages.p[i]), "user")) {
            return t->messages.n - i;
        }
    }
    return 0;
}

void talk_compact(struct talk *t, struct str summary, size_t keep)
{
    settle(t);
    begin_epoch(t);
    keep = MIN(keep, t->messages.n);
    assert(t->asking == NULL); // settled
    struct json *last = t->messages.p + (t->messages.n - keep);
    const char *text =
        arena_printf(&t->arena, "[Summary of the conversation so far]\n" STR_FMT, STR_ARG(summary));
    struct json *kept = arena_calloc(&t->arena, keep + 1, sizeof *kept);
    if (keep != 0) {
        memcpy(kept, last, keep * sizeof *kept);
    }
    t->messages.n = 0;
    add(t, "user", make_strz(text));
    for (size_t i = 0; i < keep; i++) {
        vec_push(&t->messages, kept[i]);
    }
}

size_t talk_trim(struct talk *t, size_t max)
{
    size_t n = 0;
    settle(t);
    vec_foreach (m, &t->messages) {
        struct json *content = &m->members[1].value;
        for (size_t i = 0; str_eqz(role_of(m), "tool") && i < content->n; i++) {
            struct str *output = &content->items[i].members[2].value.s;
            if (output->n > max) {
                size_t cut = utf8_cut(output->p, output->n, max);
                *output = str_of(arena_printf(&t->arena, "%.*s\n[%zu bytes left out]", (int)cut,
                                              output->p, output->n - cut));
                n++;
            }
        }
    }
    return n;
}

// ---- as text ------------------------------------------------------------------------------------

static void add_part(struct buf *out, struct str text, size_t max)
{
    size_t n = utf8_cut(text.p, text.n, max);
    buf_add(out, text.p, n);
    if (n < text.n) {
        buf_addf(out, " [%zu bytes left out]", text.n - n);
    }
}

void talk_write_content(struct buf *out, const struct json *message, size_t max)
{
    const struct json *content = json_get(message, "content");
    if (content != NULL && content->type == JSON_STR) {
        add_part(out, content->s, max);
        buf_addc(out, '\n');
    }
    json_foreach_item (it, content) {
        struct str type = json_get_text(it, "type");
        struct str name = json_get_text(it, "name");
        if (str_eqz(type, "text") || str_eqz(type, "tool_result")) {
            bool text = str_eqz(type, "text");
            add_part(out, json_get_text(it, text ? "text" : "output"), max);
        } else if (is_call(it)) {
            struct buf input = {.max = SIZE_MAX};
            json_write(&input, json_get(it, "input"), 0);
            buf_addf(out, "[called " STR_FMT " ", STR_ARG(name));
            add_part(out, buf_str(&input), max);
            buf_addc(out, ']');
            buf_fini(&input);
        } else if (str_eqz(type, "image")) {
            buf_addf(out, "[picture " STR_FMT "]", STR_ARG(name));
        } else {
            continue; // reasoning is for the model that made it
        }
        buf_addc(out, '\n');
    }
}

// ---- from a journal -----------------------------------------------------------------------------

static void free_call(struct talk_call *c)
{
    free(c->id);
    free(c->tool);
    free(c->turn);
}

static void forget_calls(struct talk_facts *f)
{
    vec_foreach (c, &f->running) {
        free_call(c);
    }
    f->running.n = 0;
}

void talk_facts_fini(struct talk_facts *f)
{
    vec_fini_each(&f->open, free);
    forget_calls(f);
    vec_fini(&f->running);
}

/// The number in "t12", "p3"; 0: it has none.
static uint64_t number_of(const struct json *id)
{
    uint64_t n = 0;
    return str_to_u64(str_from(json_str(id, ""), 1), &n) ? n : 0;
}

/// A count; 0 when it is missing.
static size_t count_in(const struct json *ev, const char *key)
{
    return (size_t)MAX(json_int(json_get(ev, key), 0), 0);
}

/// The index of the turn among the open ones; -1: it is not open.
static ptrdiff_t find_open(const struct talk_facts *f, struct str id)
{
    return str_lookup(id, (const char *const *)f->open.p, f->open.n);
}

static void replay_message(struct talk *t, struct talk_facts *f, const struct json *ev)
{
    const struct json *content = json_get(ev, "content"), *text = json_get(ev, "text");
    struct str said = json_str(text, ""), turn = json_get_text(ev, "turn");
    bool user = str_eqz(json_get_text(ev, "role"), "user");
    if (user && json_get(ev, "original_text") != NULL) {
        talk_replace_user(t, said);
    } else if (user && json_bool(json_get(ev, "steer"), false)) {
        talk_say(t, said);
    } else if (user) { // turn.started puts it into the conversation, when its turn begins
        f->turns = MAX(f->turns, number_of(json_get(ev, "turn")));
        if (find_open(f, turn) < 0) {
            vec_push(&f->open, str_dup(turn));
        }
    }
    if (user) {
        return;
    }
    talk_hear(t, count_in(ev, "heard"));
    if (json_bool(json_get(ev, "cut"), false)) {
        talk_cut(t, said);
        return;
    }
    talk_assistant(t, content != NULL ? content : text, count_in(ev, "left_out"));
}

static void replay_result(struct talk *t, struct talk_facts *f, const struct json *ev)
{
    f->calls++;
    for (size_t i = f->running.n; i-- > 0;) {
        if (str_eqz(json_get_text(ev, "call_id"), f->running.p[i].id)) {
            free_call(&f->running.p[i]);
            vec_remove(&f->running, i);
        }
    }
    talk_result(t, json_get_text(ev, "call_id"), json_get_text(ev, "output"),
                json_bool(json_get(ev, "success"), true), json_get_text(ev, "error"));
}

static void replay_ended(struct talk *t, struct talk_facts *f, const struct json *ev, bool cut)
{
    ptrdiff_t i = find_open(f, json_get_text(ev, "turn"));
    if (i >= 0) {
        free(f->open.p[i]);
        vec_remove(&f->open, i);
    }
    forget_calls(f);
    talk_hear(t, SIZE_MAX);
    if (cut) {
        talk_interrupted(t);
    }
}

/// A call waits for permission, or a question was asked.
static void replay_asked(struct talk_facts *f, const struct json *ev)
{
    const struct json *id = json_get(ev, "request_id"), *call = json_get(ev, "call");
    f->asks = MAX(f->asks, number_of(id != NULL ? id : json_get(ev, "question_id")));
    vec_foreach (c, &f->running) {
        // compare the name too: a running tool may ask for permission of another call (`sample`)
        c->waits = c->waits || (str_eqz(json_get_text(call, "tool_call_id"), c->id) &&
                                str_eqz(json_get_text(call, "tool_name"), c->tool));
    }
}

void talk_replay(struct talk *t, struct talk_facts *f, const struct json *ev)
{
    struct str type = json_get_text(ev, "type");
    f->requests = MAX(f->requests, count_in(ev, "request"));
    if (str_eqz(type, "message.completed")) {
        replay_message(t, f, ev);
    } else if (str_eqz(type, "turn.started")) {
        talk_mark(t, json_get_text(ev, "turn"));
        if (!json_bool(json_get(ev, "compact"), false)) {
            talk_user(t, json_get_text(ev, "text"), json_get(ev, "images"));
        }
    } else if (str_eqz(type, "tool.called")) {
        vec_push(&f->running, ((struct talk_call){.id = str_dup(json_get_text(ev, "call_id")),
                                                  .tool = str_dup(json_get_text(ev, "tool")),
                                                  .turn = str_dup(json_get_text(ev, "turn"))}));
    } else if (str_eqz(type, "tool.completed")) {
        replay_result(t, f, ev);
    } else if (str_eqz(type, "usage.updated")) {
        const struct json *u = json_get(ev, "usage");
        f->usage = provider_read_usage(u);
        f->cost = json_double(json_get(u, "cost_usd"), (double)NAN);
        f->has_usage = true;
    } else if (str_eqz(type, "session.compacted")) {
        talk_hear(t, count_in(ev, "heard"));
        talk_compact(t, json_get_text(ev, "summary"), count_in(ev, "kept"));
    } else if (str_eqz(type, "session.trimmed") && count_in(ev, "max") != 0) {
        talk_trim(t, count_in(ev, "max"));
    } else if (str_eqz(type, "session.rewound")) {
        struct str as = json_get_text(ev, "checkpoint");
        if (json_bool(json_get(ev, "conversation"), false)) {
            talk_rewind(t, json_get_text(ev, "to"), as);
        } else {
            talk_mark(t, as);
        }
    } else if (str_eqz(type, "turn.completed") || str_eqz(type, "turn.failed")) {
        replay_ended(t, f, ev, false);
    } else if (str_eqz(type, "turn.interrupted")) {
        replay_ended(t, f, ev, json_get(ev, "step") != NULL); // without a step it never began
    } else if (str_eqz(type, "permission.requested") || str_eqz(type, "question.asked")) {
        replay_asked(f, ev);
    } else if (str_eqz(type, "permission.decided")) {
        vec_foreach (c, &f->running) {
            c->waits = c->waits && !str_eqz(json_get_text(ev, "call_id"), c->id);
        }
    }
}
