// What a session does, as the user sees it.
//
//     message.delta      live: whole blocks are printed, the one in hand is in view_tail(); plain: gathered
//     message.completed  printed for good. Its text counts: a plugin's on_final may have changed it
//     tool.called        ┐ a card: the call in one line, the result in a few. On a terminal they are
//     tool.progress      │ part of the talk, and the end of the output is in view_tail() while the
//     tool.completed     ┘ tool runs; elsewhere they are notes on stderr
//     the rest           a line, or nothing
//
// In plain mode a message is printed when it is whole: what has gone down a pipe cannot be taken back,
// and what is last is what counts.

#include <assert.h>

#include "base/path.h"
#include "base/visible.h"
#include "pty/tty.h"
#include "term/text.h"
#include "view/view_int.h"

enum { LINE_MAX_COLS = 120, NAMES_SHOWN = 4 };

// ---- one line --------------------------------------------------------------------------------

size_t view__cols(const struct view *v)
{
    size_t wide = v->cols != 0 ? v->cols : tty_size(STDOUT_FILENO).ws_col;
    return v->mode == VIEW_LIVE ? MAX(wide, 20) : LINE_MAX_COLS;
}

size_t view__room(const struct view *v)
{
    return MIN(view__cols(v), LINE_MAX_COLS) - 4;
}

size_t view__print(struct view *v, enum out_tint tint, struct str text, size_t cols)
{
    struct buf safe = {.max = SIZE_MAX}, shown = {.max = SIZE_MAX};
    visible_add(&safe, text, false);
    text_add_cut(&shown, buf_str(&safe), cols);
    out_tinted(v->out, tint, buf_str(&shown));
    size_t width = text_width(buf_str(&shown));
    buf_fini(&safe);
    buf_fini(&shown);
    return width;
}

void view__print_line(struct view *v, enum out_tint tint, struct str text, size_t used)
{
    view__print(v, tint, text, view__room(v) + 1 - MIN(used, view__room(v) / 2));
    out_add(v->out, STR("\n"));
}

void view_text(struct out *o, struct str text)
{
    out_add(o, text);
    out_add(o, str_ends(text, "\n") ? STR("") : STR("\n"));
}

// ---- events that are a line --------------------------------------------------------------------

static void on_plugin_error(struct view *v, const struct json *ev)
{
    struct str plugin = json_get_text(ev, "plugin"), message = json_get_text(ev, "message");
    struct str hook = json_get_text(ev, "hook"), path = json_get_text(ev, "path");
    struct str file = path_base(path);
    long long line = json_int(json_get(ev, "line"), 0);
    char at[160] = "";
    if (file.n != 0 && line > 0) {
        snprintf(at, sizeof at, " (" STR_FMT ":%lld)", (int)MIN(file.n, 120), file.p, line);
    }
    view_settle(v);
    if (plugin.n != 0) {
        out_note(v->out, "plugin '" STR_FMT "'%s" STR_FMT ": " STR_FMT "%s", STR_ARG(plugin),
                 hook.n != 0 ? ", " : "", STR_ARG(hook), STR_ARG(message), at);
    } else if (line > 0) { // of the settings
        out_note(v->out, STR_FMT ":%lld: " STR_FMT, STR_ARG(path), line, STR_ARG(message));
    } else {
        out_note(v->out, STR_FMT, STR_ARG(message));
    }
}

static void add_names(struct buf *line, const char *verb, const struct json *names)
{
    size_t n = 0;
    json_foreach_item (it, names) {
        if (n++ < NAMES_SHOWN) {
            buf_addf(line, "%s%s" STR_FMT,
                     n > 1          ? ","
                     : line->n != 0 ? ";"
                                    : ":",
                     n > 1 ? " " : verb, STR_ARG(json_str(it, "")));
        }
    }
    if (n > NAMES_SHOWN) {
        buf_addf(line, " and %zu more", n - NAMES_SHOWN);
    }
}

static void on_committed(struct view *v, const struct json *ev)
{
    struct buf line = {.max = SIZE_MAX};
    if (str_eqz(json_get_text(ev, "trigger"), "start")) { // everything is added then
        buf_addz(&line, ": the hub was started again");
    } else {
        add_names(&line, " added ", json_get(ev, "added"));
    }
    add_names(&line, " changed ", json_get(ev, "changed"));
    add_names(&line, " removed ", json_get(ev, "removed"));
    if (line.n != 0) {
        view_settle(v);
        out_note(v->out, "generation %lld%s", (long long)json_int(json_get(ev, "generation"), 0),
                 buf_z(&line));
    }
    buf_fini(&line);
}

// Faults come as events of their own.
static void on_config(struct view *v, const struct json *ev)
{
    if (json_int(json_get(ev, "diagnostics"), 0) == 0) {
        view_settle(v);
        out_note(v->out, "the settings were read again");
    }
}

/// Its first line says what is wrong; `afloat env` shows the rest.
static void on_env_failed(struct view *v, const struct json *ev)
{
    struct str rest = json_get_text(ev, "error"), line = str_cut(&rest, '\n');
    view_settle(v);
    out_note(v->out, "no new environment for commands: " STR_FMT, STR_ARG(line));
}

/// The conversation becomes shorter by itself; asked for, the user knows.
static void on_compacting(struct view *v, const struct json *ev)
{
    long long used = json_int(json_get(ev, "used"), 0),
              window = json_int(json_get(ev, "window"), 0);
    view_settle(v);
    if (used > 0 && window > 0) {
        out_note(v->out, "the context is %lld%% full: older messages become a summary",
                 used * 100 / window);
    } else if (json_bool(json_get(ev, "refused"), false)) {
        out_note(v->out,
                 "the conversation is too long for the model: older messages become a summary");
    }
}

/// In a turn that only compacts, the command tells its user.
static void on_compacted(struct view *v, const struct json *ev)
{
    if (v->echo || !v->compacts) {
        view_settle(v);
        out_note(v->out,
                 "conversation compacted: earlier messages were replaced by a summary of %zu bytes",
                 json_get_text(ev, "summary").n);
    }
}

static void on_trimmed(struct view *v, const struct json *ev)
{
    view_settle(v);
    out_note(v->out,
             "the context was nearly full: %lld long results of tools were cut for the model",
             (long long)json_int(json_get(ev, "results"), 0));
}

/// For those who follow the session: the client that rewound it has told its user.
static void on_rewound(struct view *v, const struct json *ev)
{
    struct str to = json_get_text(ev, "to");
    if (v->echo) {
        bool talk = json_bool(json_get(ev, "conversation"), true);
        view_settle(v);
        out_note(v->out, "%s went back to before turn " STR_FMT,
                 talk ? "the conversation" : "the files", STR_ARG(to));
    }
}

/// The model's list of steps, as a checklist.
static void on_todo(struct view *v, const struct json *ev)
{
    static const struct {
        const char *state, *mark;
        enum out_tint tint;
    } marks[] = {{"done", "  [x] ", OUT_DIM},
                 {"active", "  [>] ", OUT_BOLD},
                 {"pending", "  [ ] ", OUT_PLAIN}};
    view_settle(v);
    json_foreach_item (it, json_get(ev, "items")) {
        size_t i = 0;
        while (i + 1 < ARRAY_LEN(marks) && !str_eqz(json_get_text(it, "state"), marks[i].state)) {
            i++;
        }
        if (v->mode == VIEW_PLAIN) {
            struct str text = json_get_text(it, "text");
            out_note(v->out, "%s" STR_FMT, marks[i].mark, STR_ARG(text));
        } else {
            out_add(v->out, str_of(marks[i].mark));
            view__print_line(v, marks[i].tint, json_get_text(it, "text"), strlen(marks[i].mark));
        }
    }
}

static const struct {
    const char *type;
    void (*show)(struct view *v, const struct json *ev);
} shown[] = {
    {"turn.started", view__on_started},
    {"message.delta", view__on_delta},
    {"message.completed", view__on_message},
    {"message.aborted", view__on_aborted},
    {"tool.called", view__on_call},
    {"tool.progress", view__on_progress},
    {"tool.completed", view__on_result},
    {"turn.completed", view__on_completed},
    {"turn.failed", view__on_failed},
    {"turn.interrupted", view__on_interrupted},
    {"plugin.error", on_plugin_error},
    {"generation.committed", on_committed},
    {"config.changed", on_config},
    {"env.failed", on_env_failed},
    {"todo.updated", on_todo},
    {"session.compacting", on_compacting},
    {"session.compacted", on_compacted},
    {"session.trimmed", on_trimmed},
    {"session.rewound", on_rewound},
};

// ---- public ----------------------------------------------------------------------------------

void view_init(struct view *v, enum view_mode mode, struct out *out)
{
    assert(out != NULL);
    *v = (struct view){.mode = mode, .out = out};
    mdstream_init(&v->md);
    buf_init(&v->thought, SIZE_MAX);
    buf_init(&v->progress, SIZE_MAX);
    buf_init(&v->diffs_shown, SIZE_MAX);
    buf_init(&v->said, SIZE_MAX);
    buf_init(&v->final, SIZE_MAX);
    buf_init(&v->fault, SIZE_MAX);
}

void view_fini(struct view *v)
{
    mdstream_fini(&v->md);
    view__forget_calls(v);
    vec_fini(&v->calls);
    buf_fini(&v->thought);
    buf_fini(&v->progress);
    buf_fini(&v->diffs_shown);
    buf_fini(&v->said);
    buf_fini(&v->final);
    buf_fini(&v->fault);
}

bool view_event(struct view *v, struct str type, const struct json *ev, struct str data)
{
    assert(v->out != NULL);
    if (v->mode == VIEW_JSON) {
        out_add(v->out, data);
        out_add(v->out, STR("\n"));
        return out_flush(v->out);
    }
    for (size_t i = 0; i < ARRAY_LEN(shown); i++) {
        if (str_eqz(type, shown[i].type)) {
            shown[i].show(v, ev);
        }
    }
    return out_flush(v->out);
}
