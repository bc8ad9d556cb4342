// What was said before in a session that is taken up again.
//
// Its journal is read once: user's messages become history of the input, and on a terminal the end of
// the talk is printed as it was, so that one sees where it stopped. The same reading writes it to a file.

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "cli/chat_int.h"
#include "cli/sessions.h"

enum { SHOWN = 40 };

struct past {
    struct arena arena;
    vec(const struct json *) events; // that show something, in `arena`
};

static bool is_message(const struct json *ev, const char *role)
{
    return str_eqz(json_get_text(ev, "type"), "message.completed") &&
           json_get_text(ev, "text").n != 0 && str_eqz(json_get_text(ev, "role"), role);
}

static bool is_shown(const struct json *ev)
{
    return is_message(ev, "user") || is_message(ev, "assistant") ||
           str_eqz(json_get_text(ev, "type"), "tool.called");
}

// Read all events; `seq` is where the journal ends.
static int read_past(struct chat *t, struct past *p, uint64_t *seq)
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
            if (is_shown(ev)) {
                vec_push(&p->events, json_clone(&p->arena, ev));
            }
        }
        more = json_at(events, 0) != NULL;
        *seq = (uint64_t)json_int(json_get(v, "next"), (int64_t)*seq);
        arena_fini(&arena);
    }
    return code;
}

static void past_fini(struct past *p)
{
    vec_fini(&p->events);
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
            view_markdown(&t->view, json_get_text(ev, "text"));
        } else {
            view_event(&t->view, json_get_text(ev, "type"), ev, STR_NULL);
        }
    }
}

int chat__show_past(struct chat *t)
{
    struct past p = {0};
    arena_init(&p.arena);
    int code = read_past(t, &p, &t->seq);
    vec_foreach (ev, &p.events) { // a message that a plugin has changed is not what was said
        if (is_message(*ev, "user") && json_get(*ev, "original_text") == NULL) {
            edit_remember(&t->line, json_get_text(*ev, "text"));
        }
    }
    if (code == EXIT_OK) {
        out_note(&t->c->out, "session %s goes on", t->id);
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
    arena_init(&p.arena);
    int code = read_past(t, &p, &seq);
    if (code == EXIT_OK) {
        write_markdown(&p, &text);
        int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        bool whole = fd >= 0 && write(fd, buf_z(&text), text.n) == (ssize_t)text.n;
        if (whole) {
            out_note(&t->c->out, "written to %s", path);
        } else {
            out_error(&t->c->out, "cannot write '%s': %s", path, err_text(-errno));
            code = EXIT_FAILED;
        }
        if (fd >= 0) {
            close(fd);
        }
    }
    buf_fini(&text);
    past_fini(&p);
    return code;
}
