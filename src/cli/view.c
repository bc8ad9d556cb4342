// What a session does, as a person sees it.
//
//     message.delta      drawn as it comes (live), gathered (plain)
//     message.completed  printed for good. Its text counts: a plugin's on_final may have changed it
//     tool.called        ┐ a card: the call in one line, the result in a few. On a terminal they are
//     tool.completed     ┘ part of the talk; elsewhere they are notes on stderr
//     the rest           a line, or nothing
//
// In plain mode a message is printed when it is whole: what has gone down a pipe cannot be taken back,
// and what is last is what counts.

#include "cli/view.h"

#include "base/path.h"
#include "base/utf8.h"
#include "base/visible.h"
#include "pty/tty.h"

enum { CARD_LINES = 4, DIFF_LINES = 24, LINE_MAX_COLS = 120 };

static struct str text_of(const struct json *v, const char *key)
{
    return json_str(json_get(v, key), "");
}

// ---- small texts ---------------------------------------------------------------------------

static size_t room_of(const struct view *v)
{
    size_t cols = v->mode == VIEW_LIVE ? tty_size(STDOUT_FILENO).ws_col : LINE_MAX_COLS;
    return MIN(MAX(cols, 20), LINE_MAX_COLS) - 4;
}

// The front of `s` that fits into `cols`, and whether that is all of it.
static struct str fit(struct str s, size_t cols, bool *all)
{
    size_t n = 0, width = 0;
    while (n < s.n) {
        uint32_t cp;
        size_t k = utf8_decode(str_from(s, n), &cp);
        width += (size_t)utf8_char_width(cp);
        if (width > cols) {
            break;
        }
        n += k;
    }
    *all = n == s.n;
    return (struct str){s.p, n};
}

// One line of `text`, cut where the window ends.
static void print_cut(struct view *v, enum out_tint tint, struct str text, size_t used)
{
    struct buf safe;
    bool all;
    buf_init(&safe, SIZE_MAX);
    visible_add(&safe, text, false);
    struct str shown = fit(buf_str(&safe), room_of(v) - MIN(used, room_of(v) / 2), &all);
    out_tinted(v->out, tint, shown);
    out_add(v->out, all ? STR("\n") : STR("…\n"));
    buf_fini(&safe);
}

// What a call is about, in one line: its command, its file if its text would not fit in a line, the one text
// it was given, else all of its input.
static void write_input(struct buf *out, const struct json *input)
{
    const struct json_member *only = json_members(input);
    bool writes = json_get(input, "content") != NULL || json_get(input, "new") != NULL;
    if (only != NULL && input->n == 1 && only->value.type == JSON_STR) {
        buf_adds(out, only->value.s);
    } else if (json_get(input, "cmd") != NULL) {
        buf_adds(out, text_of(input, "cmd"));
    } else if (writes && json_get(input, "path") != NULL) {
        buf_adds(out, text_of(input, "path"));
    } else {
        json_write(out, input, 0);
    }
}

// ---- messages ------------------------------------------------------------------------------

static void clear_hint(struct view *v)
{
    if (v->thinking) {
        live_drop(&v->live);
    }
    v->thinking = false;
}

static void on_delta(struct view *v, const struct json *ev)
{
    struct str text = text_of(ev, "text");
    if (v->mode != VIEW_LIVE) {
        return;
    }
    if (text.n != 0) {
        clear_hint(v);
        buf_adds(&v->said, text);
        live_add(&v->live, text);
    } else if (json_get(ev, "reasoning") != NULL && v->said.n == 0) {
        live_hint(&v->live, "thinking…");
        v->thinking = true;
    }
}

// The message as it is in the end. What is on the screen already is kept where it is the same.
static void finish_live(struct view *v, struct str text, bool cut)
{
    struct str said = buf_str(&v->said);
    size_t both = MIN(said.n, text.n);
    bool same = both == 0 || memcmp(said.p, text.p, both) == 0;
    bool longer = said.n <= text.n && same;
    clear_hint(v);
    if (cut && same && !longer) {
        // more of it is on the screen than was kept
    } else if (longer) {
        live_add(&v->live, str_from(text, said.n));
    } else if (!v->live.begun) {
        live_drop(&v->live);
        live_add(&v->live, text);
    } else {
        live_end(&v->live);
        out_tinted(v->out, OUT_DIM, STR("(a plugin changed the answer; it reads:)"));
        out_add(v->out, STR("\n"));
        live_add(&v->live, text);
    }
    live_end(&v->live);
}

static void show_message(struct view *v, const struct json *ev)
{
    struct str text = text_of(ev, "text");
    int64_t left_out = json_int(json_get(ev, "left_out"), 0);
    if (v->mode == VIEW_LIVE) {
        finish_live(v, text, left_out != 0);
    } else if (text.n != 0) {
        view_text(v->out, text);
    }
    if (left_out != 0) {
        out_note(v->out,
                 "the answer was too long to be kept whole: %lld bytes at its end are left out",
                 (long long)left_out);
    }
    buf_clear(&v->said);
    buf_clear(&v->final);
    buf_adds(&v->final, text);
}

static void on_message(struct view *v, const struct json *ev)
{
    struct str text = text_of(ev, "text");
    bool seen = v->mode == VIEW_LIVE && v->said.n == 0 && str_eq(text, buf_str(&v->final));
    if (str_eqz(text_of(ev, "role"), "assistant") && !seen) {
        show_message(v, ev);
    } else if (str_eqz(text_of(ev, "role"), "user") && v->echo) {
        view_settle(v);
        out_tinted(v->out, OUT_BOLD, STR("> "));
        view_text(v->out, text);
    }
}

// The stream of a message broke off: it comes again from its beginning.
static void on_aborted(struct view *v, const struct json *ev)
{
    (void)ev;
    if (v->mode == VIEW_LIVE && v->said.n != 0) {
        bool begun = v->live.begun;
        live_drop(&v->live);
        buf_clear(&v->said);
        if (begun) {
            out_tinted(v->out, OUT_DIM, STR("(the answer broke off; once more:)"));
            out_add(v->out, STR("\n"));
        }
    }
}

// ---- tools ---------------------------------------------------------------------------------

static void on_call(struct view *v, const struct json *ev)
{
    struct str tool = text_of(ev, "tool"), by = text_of(ev, "changed_by");
    struct buf input;
    buf_init(&input, SIZE_MAX);
    write_input(&input, json_get(ev, "input"));
    if (v->mode == VIEW_PLAIN) {
        bool all;
        struct str shown = fit(buf_str(&input), room_of(v), &all);
        out_note(v->out, STR_FMT ": " STR_FMT "%s", STR_ARG(tool), STR_ARG(shown), all ? "" : "…");
    } else {
        view_settle(v);
        out_add(v->out, STR("● "));
        out_tinted(v->out, OUT_BOLD, tool);
        out_add(v->out, STR("  "));
        print_cut(v, OUT_PLAIN, buf_str(&input), tool.n + 4);
        if (by.n != 0) {
            out_add(v->out, STR("  "));
            out_tinted(v->out, OUT_YELLOW, STR("changed by "));
            print_cut(v, OUT_YELLOW, by, 11);
        }
    }
    buf_fini(&input);
}

static void print_more(struct view *v, struct str rest)
{
    size_t more = 1;
    for (ptrdiff_t at; (at = str_index(rest, '\n')) >= 0; more++) {
        rest = str_from(rest, (size_t)at + 1);
    }
    out_addf(v->out, "  … %zu more line%s\n", more, more == 1 ? "" : "s");
}

void view_diff(struct view *v, struct str diff, size_t lines)
{
    struct str rest = str_trim(diff);
    for (size_t i = 0; i < lines && rest.n != 0; i++) {
        struct str line = str_cut(&rest, '\n');
        bool head = str_starts(line, "---") || str_starts(line, "+++");
        enum out_tint tint = head                    ? OUT_BOLD
                             : str_starts(line, "+") ? OUT_GREEN
                             : str_starts(line, "-") ? OUT_RED
                             : str_starts(line, "@") ? OUT_DIM
                                                     : OUT_PLAIN;
        out_add(v->out, STR("  "));
        print_cut(v, tint, line, 2);
    }
    if (rest.n != 0) {
        print_more(v, rest);
    }
}

static void print_output(struct view *v, const struct json *output)
{
    struct buf text;
    buf_init(&text, SIZE_MAX);
    if (output != NULL && output->type == JSON_STR) {
        buf_adds(&text, output->s);
    } else if (output != NULL && output->type != JSON_NULL) {
        json_write(&text, output, 0);
    }
    struct str rest = str_trim(buf_str(&text));
    for (int i = 0; i < CARD_LINES && rest.n != 0; i++) {
        out_add(v->out, STR("  "));
        print_cut(v, OUT_DIM, str_cut(&rest, '\n'), 2);
    }
    if (rest.n != 0) {
        print_more(v, rest);
    }
    buf_fini(&text);
}

static void on_result(struct view *v, const struct json *ev)
{
    bool ok = json_bool(json_get(ev, "success"), true);
    struct str tool = text_of(ev, "tool"), error = text_of(ev, "error");
    if (v->mode == VIEW_PLAIN) {
        if (!ok) {
            out_note(v->out, STR_FMT " failed: " STR_FMT, STR_ARG(tool), STR_ARG(error));
        }
        return;
    }
    struct str diff = text_of(ev, "diff");
    view_settle(v);
    if (diff.n == 0) {
        print_output(v, json_get(ev, "output"));
    } else if (!v->diff_shown) {
        view_diff(v, diff, DIFF_LINES);
    }
    v->diff_shown = false;
    out_add(v->out, STR("  "));
    out_tinted(v->out, ok ? OUT_GREEN : OUT_RED, ok ? STR("✓ ") : STR("✗ "));
    out_tinted(v->out, OUT_DIM, tool);
    out_addf(v->out, " %lld ms", (long long)json_int(json_get(ev, "duration_ms"), 0));
    out_add(v->out, error.n != 0 ? STR("  ") : STR(""));
    print_cut(v, OUT_RED, error, tool.n + 16);
}

// ---- the ends of a turn, and what goes wrong -------------------------------------------------

static void on_started(struct view *v, const struct json *ev)
{
    (void)ev;
    buf_clear(&v->final);
}

static void on_completed(struct view *v, const struct json *ev)
{
    struct str text = text_of(ev, "text");
    if (text.n != 0 && !str_eq(text, buf_str(&v->final))) {
        show_message(v, ev);
    }
    view_settle(v);
}

static void on_failed(struct view *v, const struct json *ev)
{
    const struct json *error = json_get(ev, "error");
    struct str code = text_of(error, "code"), message = text_of(error, "message");
    view_settle(v);
    buf_clear(&v->fault);
    buf_adds(&v->fault, message);
    out_error(v->out, "the turn failed: " STR_FMT "%s" STR_FMT "%s", STR_ARG(message),
              code.n != 0 ? " (" : "", STR_ARG(code), code.n != 0 ? ")" : "");
}

static void on_interrupted(struct view *v, const struct json *ev)
{
    (void)ev;
    view_settle(v);
    out_note(v->out, "interrupted");
}

static void on_plugin_error(struct view *v, const struct json *ev)
{
    struct str plugin = text_of(ev, "plugin"), message = text_of(ev, "message");
    struct str hook = text_of(ev, "hook"), file = path_base(text_of(ev, "path"));
    long long line = json_int(json_get(ev, "line"), 0);
    char at[160] = "";
    if (file.n != 0 && line > 0) {
        snprintf(at, sizeof at, " (" STR_FMT ":%lld)", (int)MIN(file.n, 120), file.p, line);
    }
    view_settle(v);
    out_note(v->out, "plugin '" STR_FMT "'%s" STR_FMT ": " STR_FMT "%s", STR_ARG(plugin),
             hook.n != 0 ? ", " : "", STR_ARG(hook), STR_ARG(message), at);
}

/// Its first line says what is wrong; `afloat env` shows the rest.
static void on_env_failed(struct view *v, const struct json *ev)
{
    struct str rest = text_of(ev, "error"), line = str_cut(&rest, '\n');
    view_settle(v);
    out_note(v->out, "no new environment for commands: " STR_FMT, STR_ARG(line));
}

static const struct {
    const char *type;
    void (*show)(struct view *v, const struct json *ev);
} shown[] = {
    {"turn.started", on_started},
    {"message.delta", on_delta},
    {"message.completed", on_message},
    {"message.aborted", on_aborted},
    {"tool.called", on_call},
    {"tool.completed", on_result},
    {"turn.completed", on_completed},
    {"turn.failed", on_failed},
    {"turn.interrupted", on_interrupted},
    {"plugin.error", on_plugin_error},
    {"env.failed", on_env_failed},
};

// ---- public --------------------------------------------------------------------------------

void view_init(struct view *v, enum view_mode mode, struct out *out)
{
    *v = (struct view){.mode = mode, .out = out};
    live_init(&v->live, out);
    buf_init(&v->said, SIZE_MAX);
    buf_init(&v->final, SIZE_MAX);
    buf_init(&v->fault, SIZE_MAX);
}

void view_fini(struct view *v)
{
    live_fini(&v->live);
    buf_fini(&v->said);
    buf_fini(&v->final);
    buf_fini(&v->fault);
}

bool view_event(struct view *v, struct str type, const struct json *ev, struct str data)
{
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

void view_settle(struct view *v)
{
    if (v->mode == VIEW_LIVE) {
        clear_hint(v);
        live_end(&v->live);
        if (v->said.n != 0) {
            buf_clear(&v->final);
            buf_adds(&v->final, buf_str(&v->said));
            buf_clear(&v->said);
        }
    }
}

void view_text(struct out *o, struct str text)
{
    out_add(o, text);
    out_add(o, str_ends(text, "\n") ? STR("") : STR("\n"));
}
