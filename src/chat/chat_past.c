// What was said before in a session that is taken up again.
//
// Its journal is read once: user's messages become history of the input, and on a terminal the end of
// the talk is printed as it was, so that one sees where it stopped. The same reading writes it to a file.
//
// What is shown is the conversation as the model knows it. A message of the user stands where its turn began, not where
// it was accepted. A rewind goes back to where a turn began, and can be undone, so each event knows the one before it and
// nothing is ever removed:
//
//     t1 <── t2 <── t3          rewound to t2, then another turn
//      └──── t4                 rewound to the first rewind's own id: t3 is the last one again
//
// A turn that still runs ends what is shown: the chat follows it from its start, see chat__follow().

#include <assert.h>

#include "base/path.h"
#include "chat/chat_int.h"
#include "cli/sessions.h"

enum { SHOWN = 40 };

/// One event that shows something, after the ones before it.
struct past_event {
    const struct past_event *before; // NULL: the first
    const struct json *ev;
};

/// Where a turn began or a rewind happened.
struct past_point {
    struct str id;
    const struct past_event *last; // of the conversation there
};

struct past {
    struct arena arena;            // of all that is borrowed here
    const struct past_event *last; // NULL: nothing was said
    vec(struct past_point) points;
    vec(const struct json *) waiting; // messages of the user whose turn has not begun
    vec(const struct json *) events;  // what is shown, in order; from read_past() on
    struct past_point open;           // the turn that has begun and not ended; no id: none
    uint64_t open_seq;                // where it began
};

static bool is_message(const struct json *ev, const char *role)
{
    return str_eqz(json_get_text(ev, "type"), "message.completed") &&
           json_get_text(ev, "text").n != 0 && str_eqz(json_get_text(ev, "role"), role);
}

static void add_shown(struct past *p, const struct json *ev)
{
    struct past_event *it = arena_alloc(&p->arena, sizeof *it);
    *it = (struct past_event){p->last, json_clone(&p->arena, ev)};
    p->last = it;
}

static void add_point(struct past *p, struct str id)
{
    vec_push(&p->points, ((struct past_point){arena_str(&p->arena, id), p->last}));
}

// The turn begins with the message that it was made for.
static void begin_turn(struct past *p, struct str turn)
{
    for (size_t i = 0; i < p->waiting.n; i++) {
        const struct json *said = p->waiting.p[i];
        if (str_eq(json_get_text(said, "turn"), turn)) {
            vec_remove(&p->waiting, i);
            add_point(p, turn);
            add_shown(p, said);
            return;
        }
    }
}

static void go_back(struct past *p, const struct json *ev)
{
    struct str to = json_get_text(ev, "to");
    const struct past_event *now = p->last;
    bool talk = json_bool(json_get(ev, "conversation"), false); // else files alone went back
    for (size_t i = 0; talk && i < p->points.n; i++) {          // the last that fits counts
        if (str_eq(p->points.p[i].id, to)) {
            now = p->points.p[i].last;
        }
    }
    add_point(p, json_get_text(ev, "checkpoint"));
    p->last = now;
}

static void take_past(struct past *p, const struct json *ev)
{
    bool changed = json_get(ev, "original_text") != NULL,
         steers = json_bool(json_get(ev, "steer"), false);
    struct str type = json_get_text(ev, "type");
    if (is_message(ev, "user") && !changed && !steers) {
        vec_push(&p->waiting, json_clone(&p->arena, ev));
        return;
    }
    struct str turn = json_get_text(ev, "turn");
    begin_turn(p, turn);
    if (str_eqz(type, "turn.started")) {
        p->open = (struct past_point){arena_str(&p->arena, turn), p->last};
        p->open_seq = (uint64_t)json_int(json_get(ev, "seq"), 0);
    } else if (str_starts(type, "turn.") && str_eq(turn, p->open.id)) {
        p->open = (struct past_point){0};
    }
    if (is_message(ev, "assistant") || (is_message(ev, "user") && !changed) ||
        str_eqz(type, "tool.called")) {
        add_shown(p, ev);
    } else if (str_eqz(type, "session.rewound")) {
        go_back(p, ev);
    }
}

// Read all events; `seq` is where the journal ends, or where `turn` began if that is open.
static int read_past(struct chat *t, struct past *p, const char *turn, uint64_t *seq)
{
    assert(t->id[0] != '\0');
    int code = EXIT_OK;
    *seq = 0;
    for (bool more = true; more && code == EXIT_OK;) {
        struct arena arena = {0};
        const struct json *v;
        code = sessions__events(t->c, t->id, *seq, &arena, &v);
        const struct json *events = json_get(v, "events");
        json_foreach_item (ev, events) {
            take_past(p, ev);
        }
        more = json_at(events, 0) != NULL;
        *seq = (uint64_t)json_int(json_get(v, "next"), (int64_t)*seq);
        arena_fini(&arena);
    }
    if (p->open.id.n != 0 && str_eqz(p->open.id, turn)) {
        p->last = p->open.last;
        *seq = p->open_seq;
    } else {
        p->open = (struct past_point){0};
    }
    for (const struct past_event *it = p->last; it != NULL; it = it->before) {
        vec_push(&p->events, it->ev);
    }
    for (size_t i = 0; i < p->events.n / 2; i++) {
        const struct json *other = p->events.p[p->events.n - 1 - i];
        p->events.p[p->events.n - 1 - i] = p->events.p[i];
        p->events.p[i] = other;
    }
    vec_foreach (said, &p->waiting) {
        vec_push(&p->events, *said);
    }
    return code;
}

static void past_fini(struct past *p)
{
    vec_fini(&p->events);
    vec_fini(&p->waiting);
    vec_fini(&p->points);
    arena_fini(&p->arena);
}

static void show(struct chat *t, const struct past *p)
{
    struct out *o = &t->c->out;
    size_t from = p->events.n > SHOWN ? p->events.n - SHOWN : 0;
    if (from != 0) {
        out_note(o, "%zu earlier messages and calls; /export writes all of them to a file", from);
    }
    for (size_t i = from; i < p->events.n; i++) {
        const struct json *ev = p->events.p[i];
        if (is_message(ev, "user")) {
            chat__print_line(t, "> ", json_get_text(ev, "text"));
        } else if (is_message(ev, "assistant")) {
            view_markdown(&t->view, json_get_text(ev, "text"),
                          json_bool(json_get(ev, "cut"), false));
        } else {
            view_event(&t->view, json_get_text(ev, "type"), ev, STR_NULL);
        }
    }
}

int chat__show_past(struct chat *t)
{
    struct past p = {0};
    int code = read_past(t, &p, t->input != NULL ? t->turn : "", &t->seq);
    t->joins = p.open.id.n != 0;
    vec_foreach (ev, &p.events) {
        if (is_message(*ev, "user")) {
            edit_remember(&t->line, json_get_text(*ev, "text"));
        }
    }
    if (code == EXIT_OK) {
        out_note(&t->c->out, "continuing session %s", t->id);
    }
    if (code == EXIT_OK && t->view.mode == VIEW_LIVE) {
        show(t, &p);
        out_flush(&t->c->out);
    }
    past_fini(&p);
    return code;
}

static void write_markdown(const struct past *p, struct buf *out)
{
    vec_foreach (it, &p->events) {
        const struct json *ev = *it;
        if (is_message(ev, "user") || is_message(ev, "assistant")) {
            buf_addf(out, "## %s\n\n", is_message(ev, "user") ? "User" : "Assistant");
            buf_adds(out, str_trim(json_get_text(ev, "text")));
            buf_addz(out, "\n\n");
        } else {
            buf_addf(out, "`" STR_FMT "` ", STR_ARG(json_get_text(ev, "tool")));
            json_write(out, json_get(ev, "input"), 0);
            buf_addz(out, "\n\n");
        }
    }
}

int chat__export(struct chat *t, const char *path)
{
    struct past p = {0};
    struct buf text = {.max = SIZE_MAX};
    uint64_t seq;
    int code = read_past(t, &p, "", &seq);
    if (code == EXIT_OK) {
        struct err e;
        write_markdown(&p, &text);
        if (path_write_new(path, buf_str(&text), 0600, &e) == 0) {
            out_note(&t->c->out, "written to %s", path);
        } else {
            out_error(&t->c->out, "%s", e.msg);
            code = EXIT_FAILED;
        }
    }
    buf_fini(&text);
    past_fini(&p);
    return code;
}
