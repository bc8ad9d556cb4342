// What a session does, as a person sees it.
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

#include "view/view.h"

#include <assert.h>

#include "base/path.h"
#include "base/time.h"
#include "base/visible.h"
#include "pty/tty.h"
#include "term/diff.h"
#include "term/text.h"
#include "view/brief.h"

enum { CARD_LINES = 4, DIFF_LINES = 24, OPEN_LINES = 200, LINE_MAX_COLS = 120, NAMES_SHOWN = 4 };
enum { THOUGHT_ROWS = 3, PROGRESS_ROWS = 5, PROGRESS_MAX = 16 << 10 };

// ---- small texts ---------------------------------------------------------------------------

static size_t cols_of(const struct view *v)
{
    size_t wide = v->cols != 0 ? v->cols : tty_size(STDOUT_FILENO).ws_col;
    return v->mode == VIEW_LIVE ? MAX(wide, 20) : LINE_MAX_COLS;
}

static size_t room_of(const struct view *v)
{
    return MIN(cols_of(v), LINE_MAX_COLS) - 4;
}

// `text` on one line, in at most `cols` columns. Returns how many it takes.
static size_t print_some(struct view *v, enum out_tint tint, struct str text, size_t cols)
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

// One line of `text`, cut where the window ends.
static void print_cut(struct view *v, enum out_tint tint, struct str text, size_t used)
{
    print_some(v, tint, text, room_of(v) + 1 - MIN(used, room_of(v) / 2));
    out_add(v->out, STR("\n"));
}

// Without blank lines around it; the blanks that the first line begins with stay, columns are made of them.
static struct str without_blank_lines(struct str text)
{
    struct str inner = str_trim(text);
    const char *begin = inner.p;
    while (inner.n != 0 && begin > text.p && begin[-1] != '\n') {
        begin--;
    }
    return inner.n != 0 ? (struct str){begin, (size_t)(inner.p - begin) + inner.n} : STR_NULL;
}

// The length of a sequence at the start of `text` that only sets colours; 0: there is none.
static size_t color_length(struct str text)
{
    size_t n = 2;
    while (n < text.n && ((text.p[n] >= '0' && text.p[n] <= '9') || text.p[n] == ';')) {
        n++;
    }
    return str_starts(text, "\x1b[") && n < text.n && text.p[n] == 'm' ? n + 1 : 0;
}

// A line that a program printed, as it would look: tabs as blanks, without colours, and of a line that draws itself
// again and again, a progress bar, the last state. Whatever else a terminal would obey is shown, see visible_add().
static void add_printed(struct buf *out, struct str line)
{
    size_t from = out->n;
    while (line.n != 0 && (line.p[line.n - 1] == '\r' || line.p[line.n - 1] == ' ')) {
        line.n--;
    }
    const char *back = line.n != 0 ? memrchr(line.p, '\r', line.n) : NULL;
    line = back != NULL ? str_from(line, (size_t)(back - line.p) + 1) : line;
    while (line.n != 0) {
        size_t n = 0, skip = color_length(line);
        while (skip == 0 && n < line.n && line.p[n] != '\t' && (n == 0 || line.p[n] != '\x1b')) {
            n++;
        }
        visible_add(out, (struct str){line.p, n}, false);
        line = str_from(line, n + skip);
        if (str_starts(line, "\t")) {
            size_t at = text_width(str_from(buf_str(out), from));
            buf_addf(out, "%*s", (int)(8 - at % 8), "");
            line = str_from(line, 1);
        }
    }
}

// What a call is about, in one line: its command, question or prompt, the file or plugin if its text would not fit in
// a line, the one text it was given, nothing of a list of steps, which is its output, else all of its input.
static void write_input(struct buf *out, struct str tool, const struct json *input)
{
    static const char *const telling[] = {"cmd", "prompt", "question"};
    const struct json_member *only = json_members(input);
    bool writes = json_get(input, "content") != NULL || json_get(input, "new") != NULL;
    if (input == NULL || (input->type == JSON_OBJ && input->n == 0) || str_eqz(tool, "todo")) {
        return;
    }
    for (size_t i = 0; i < ARRAY_LEN(telling); i++) {
        if (json_get_text(input, telling[i]).n != 0) {
            buf_adds(out, json_get_text(input, telling[i]));
            return;
        }
    }
    if (only != NULL && input->n == 1 && only->value.type == JSON_STR) {
        buf_adds(out, only->value.s);
    } else if (writes && json_get(input, "path") != NULL) {
        buf_adds(out, json_get_text(input, "path"));
    } else if (writes && json_get(input, "name") != NULL) {
        buf_adds(out, json_get_text(input, "name"));
    } else {
        json_write(out, input, 0);
    }
}

// ---- messages ------------------------------------------------------------------------------

static struct markdown_look look_of(const struct view *v)
{
    return (struct markdown_look){.cols = cols_of(v), .color = v->out->color};
}

typedef void md_print(struct mdstream *md, const struct markdown_look *look, struct buf *out);

// Print what nothing can change any more (mdstream_settle), or, where the text is complete or something else comes,
// all of it (mdstream_end).
static void print_text(struct view *v, md_print *print)
{
    struct markdown_look look = look_of(v);
    struct buf lines = {.max = SIZE_MAX};
    print(&v->md, &look, &lines);
    out_control(v->out, buf_str(&lines));
    buf_fini(&lines);
}

// The model says or does something: what it thought before is folded into a line.
static void end_thought(struct view *v)
{
    if (v->thought.n == 0 || v->mode != VIEW_LIVE) {
        return;
    }
    char line[64];
    unsigned long long ms = (time_mono_ns() - v->thinks_at) / 1000000;
    snprintf(line, sizeof line, "∴ thought for %llu.%llu s", ms / 1000, ms % 1000 / 100);
    out_tinted(v->out, OUT_DIM, str_of(line));
    out_add(v->out, STR("\n"));
    for (struct str rest = str_trim(buf_str(&v->thought)); v->open && rest.n != 0;) {
        out_add(v->out, STR("  "));
        out_tinted(v->out, OUT_DIM, str_cut(&rest, '\n'));
        out_add(v->out, STR("\n"));
    }
    buf_clear(&v->thought);
}

static void on_delta(struct view *v, const struct json *ev)
{
    struct str text = json_get_text(ev, "text"), reasoning = json_get_text(ev, "reasoning");
    if (v->mode != VIEW_LIVE) {
        return;
    }
    if (text.n != 0) {
        end_thought(v);
        buf_adds(&v->said, text);
        mdstream_add(&v->md, text);
    } else if (reasoning.n != 0) {
        v->thinks_at = v->thought.n == 0 ? time_mono_ns() : v->thinks_at;
        buf_adds(&v->thought, reasoning);
    }
}

// The message as it is in the end. What is on the screen already is kept where it is the same.
static void finish_live(struct view *v, struct str text, bool cut)
{
    struct str said = buf_str(&v->said);
    size_t both = MIN(said.n, text.n);
    bool same = both == 0 || memcmp(said.p, text.p, both) == 0;
    bool longer = said.n <= text.n && same;
    end_thought(v);
    print_text(v, mdstream_settle);
    if (cut && same && !longer) {
        // more of it is on the screen than was kept
    } else if (longer) {
        mdstream_add(&v->md, str_from(text, said.n));
    } else if (!v->md.begun) {
        mdstream_drop(&v->md);
        mdstream_add(&v->md, text);
    } else {
        print_text(v, mdstream_end);
        out_tinted(v->out, OUT_DIM, STR("(a plugin changed the answer; it reads:)"));
        out_add(v->out, STR("\n"));
        mdstream_add(&v->md, text);
    }
    print_text(v, mdstream_end);
}

static void show_message(struct view *v, const struct json *ev)
{
    struct str text = json_get_text(ev, "text");
    int64_t left_out = json_int(json_get(ev, "left_out"), 0);
    if (v->mode == VIEW_LIVE) {
        finish_live(v, text, left_out != 0);
    } else if (text.n != 0 && !v->last_only) {
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
    v->cut = json_bool(json_get(ev, "cut"), false);
}

// The turn has ended: the last message is its answer.
static void print_last(struct view *v)
{
    if (v->mode == VIEW_PLAIN && v->last_only && v->final.n != 0) {
        view_text(v->out, buf_str(&v->final));
        buf_clear(&v->final);
    }
}

static void print_cut_off(struct view *v)
{
    out_tinted(v->out, OUT_DIM, STR("(cut off here)"));
    out_add(v->out, STR("\n"));
}

// What the user said, after its mark: lines break between words, where the window has a width.
static void print_said(struct view *v, struct str text)
{
    size_t used = 2;
    struct buf out = {.max = SIZE_MAX};
    while (v->mode == VIEW_LIVE && text.n != 0) {
        ptrdiff_t end = str_index(text, '\n');
        struct str line = {text.p, end >= 0 ? (size_t)end : text.n};
        size_t n = text_fit(line, cols_of(v) - used, NULL), word = n;
        while (n < line.n && word > 0 && line.p[word - 1] != ' ' && line.p[word] != ' ') {
            word--;
        }
        n = n < line.n && word > 0 ? word : n != 0 ? n : line.n;
        buf_add(&out, line.p, n);
        buf_addc(&out, '\n');
        n += n < line.n && line.p[n] == ' ';
        text = str_from(text, n + (n == line.n && end >= 0));
        used = 0;
    }
    view_text(v->out, v->mode == VIEW_LIVE ? buf_str(&out) : text);
    buf_fini(&out);
}

static void on_message(struct view *v, const struct json *ev)
{
    struct str text = json_get_text(ev, "text");
    bool seen = v->mode == VIEW_LIVE && v->said.n == 0 && str_eq(text, buf_str(&v->final));
    bool steers = v->mode == VIEW_LIVE && json_bool(json_get(ev, "steer"), false);
    if (str_eqz(json_get_text(ev, "role"), "assistant") && !seen) {
        show_message(v, ev);
    } else if (str_eqz(json_get_text(ev, "role"), "user") && (v->echo || steers)) {
        if (!steers) { // an engine may finish the message in hand all the same
            view_settle(v);
        } else if (v->cut) {
            print_cut_off(v);
        }
        v->cut = false;
        out_tinted(v->out, OUT_BOLD, STR("> "));
        print_said(v, text);
    }
}

// The stream of a message broke off: it comes again from its beginning.
static void on_aborted(struct view *v, const struct json *ev)
{
    (void)ev;
    buf_clear(&v->thought);
    if (v->mode == VIEW_LIVE && v->said.n != 0) {
        print_text(v, mdstream_settle);
        bool begun = v->md.begun;
        mdstream_drop(&v->md);
        buf_clear(&v->said);
        if (begun) {
            out_tinted(v->out, OUT_DIM, STR("(the answer broke off; once more:)"));
            out_add(v->out, STR("\n"));
        }
    }
}

// ---- tools ---------------------------------------------------------------------------------

static void begin_call(struct view *v, struct str id, struct str about)
{
    struct view_call c = {str_dup(id), str_dup(about)};
    v->overlap = v->calls.n != 0;
    vec_push(&v->calls, c);
}

static void forget_call(struct view *v, size_t i)
{
    free(v->calls.p[i].id);
    free(v->calls.p[i].about);
    vec_remove(&v->calls, i);
}

static void forget_calls(struct view *v)
{
    while (v->calls.n != 0) {
        forget_call(v, v->calls.n - 1);
    }
}

// Results of tools that run at once come in any order: say what this one is about. Returns how many columns it takes.
static size_t end_call(struct view *v, struct str id, size_t cols)
{
    size_t i = 0, used = 0;
    while (i < v->calls.n && !str_eqz(id, v->calls.p[i].id)) {
        i++;
    }
    if (i < v->calls.n) {
        out_add(v->out, v->overlap ? STR("  ") : STR(""));
        used = v->overlap ? 2 + print_some(v, OUT_DIM, str_of(v->calls.p[i].about), cols) : 0;
        forget_call(v, i);
    }
    return used;
}

static void on_call(struct view *v, const struct json *ev)
{
    struct str tool = json_get_text(ev, "tool"), by = json_get_text(ev, "changed_by");
    struct buf input = {.max = SIZE_MAX};
    write_input(&input, tool, json_get(ev, "input"));
    if (v->mode == VIEW_PLAIN) {
        struct buf shown = {.max = SIZE_MAX};
        text_add_cut(&shown, buf_str(&input), room_of(v) + 1);
        out_note(v->out, STR_FMT "%s" STR_FMT, STR_ARG(tool), shown.n != 0 ? ": " : "",
                 STR_ARG(buf_str(&shown)));
        buf_fini(&shown);
    } else {
        begin_call(v, json_get_text(ev, "call_id"), buf_str(&input));
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

/// Show a unified diff, at most `lines` of it.
static void show_diff(struct view *v, struct str diff, size_t lines)
{
    struct diff_look look = {.cols = cols_of(v), .rows = lines, .color = v->out->color};
    struct buf out = {.max = SIZE_MAX};
    diff_render(&out, str_trim(diff), &look);
    out_control(v->out, buf_str(&out));
    buf_fini(&out);
}

void view_asked_diff(struct view *v, struct str call_id, struct str diff, size_t lines)
{
    show_diff(v, diff, lines);
    if (diff.n != 0 && call_id.n != 0) {
        buf_addf(&v->diffs_shown, STR_FMT "\n", STR_ARG(call_id));
    }
}

static bool has_shown_diff(const struct view *v, struct str call_id)
{
    for (struct str rest = buf_str(&v->diffs_shown); rest.n != 0;) {
        if (str_eq(str_cut(&rest, '\n'), call_id)) {
            return true;
        }
    }
    return false;
}

static void on_progress(struct view *v, const struct json *ev)
{
    buf_adds(&v->progress, json_get_text(ev, "text"));
    if (v->progress.n > 2 * PROGRESS_MAX) {
        buf_drop(&v->progress, v->progress.n - PROGRESS_MAX);
    }
}

static void print_output(struct view *v, const struct json *output)
{
    struct buf text = {.max = SIZE_MAX};
    if (output != NULL && output->type == JSON_STR) {
        if (!brief_report(&text, output->s)) {
            buf_adds(&text, output->s);
        }
    } else if (output != NULL && output->type != JSON_NULL) {
        json_write(&text, output, 0);
    }
    struct str rest = without_blank_lines(buf_str(&text));
    for (int i = 0; i < (v->open ? OPEN_LINES : CARD_LINES) && rest.n != 0; i++) {
        struct buf line = {.max = SIZE_MAX};
        add_printed(&line, str_cut(&rest, '\n'));
        out_add(v->out, STR("  "));
        print_cut(v, OUT_DIM, buf_str(&line), 2);
        buf_fini(&line);
    }
    if (rest.n != 0) {
        print_more(v, rest);
    }
    buf_fini(&text);
}

static void print_duration(struct view *v, int64_t ms)
{
    if (ms < 1000) {
        out_addf(v->out, " %lld ms", (long long)ms);
    } else if (ms < 100000) {
        out_addf(v->out, " %.1f s", (double)ms / 1e3);
    } else {
        out_addf(v->out, " %lld min %lld s", (long long)(ms / 60000), (long long)(ms / 1000 % 60));
    }
}

static void on_result(struct view *v, const struct json *ev)
{
    bool ok = json_bool(json_get(ev, "success"), true);
    struct str tool = json_get_text(ev, "tool"), error = json_get_text(ev, "error");
    if (v->mode == VIEW_PLAIN) {
        if (!ok) {
            out_note(v->out, STR_FMT " failed: " STR_FMT, STR_ARG(tool), STR_ARG(error));
        }
        return;
    }
    struct str diff = json_get_text(ev, "diff");
    buf_clear(&v->progress);
    view_settle(v);
    if (diff.n == 0) {
        print_output(v, json_get(ev, "output"));
    } else if (!has_shown_diff(v, json_get_text(ev, "call_id"))) {
        show_diff(v, diff, DIFF_LINES);
    }
    out_add(v->out, STR("  "));
    out_tinted(v->out, ok ? OUT_GREEN : OUT_RED, ok ? STR("✓ ") : STR("✗ "));
    out_tinted(v->out, OUT_DIM, tool);
    print_duration(v, json_int(json_get(ev, "duration_ms"), 0));
    size_t room = room_of(v) - MIN(tool.n + 16, room_of(v) / 2);
    size_t used = end_call(v, json_get_text(ev, "call_id"), error.n != 0 ? room / 2 : room);
    out_add(v->out, error.n != 0 ? STR("  ") : STR(""));
    print_cut(v, OUT_RED, error, tool.n + 16 + used);
}

// ---- the ends of a turn, and what goes wrong -------------------------------------------------

static void on_started(struct view *v, const struct json *ev)
{
    v->compacts = json_bool(json_get(ev, "compact"), false);
    buf_clear(&v->final);
    buf_clear(&v->progress);
    buf_clear(&v->diffs_shown);
    forget_calls(v);
}

/// The text of a turn that compacts is the summary: it is for the model.
static void on_completed(struct view *v, const struct json *ev)
{
    struct str text = json_get_text(ev, "text");
    if (text.n != 0 && !v->compacts && !str_eq(text, buf_str(&v->final))) {
        show_message(v, ev);
    }
    print_last(v);
    view_settle(v);
}

static void on_failed(struct view *v, const struct json *ev)
{
    const struct json *error = json_get(ev, "error");
    struct str code = json_get_text(error, "code"), message = json_get_text(error, "message");
    print_last(v);
    view_settle(v);
    buf_clear(&v->fault);
    buf_adds(&v->fault, message);
    out_error(v->out, "the turn failed: " STR_FMT "%s" STR_FMT "%s", STR_ARG(message),
              code.n != 0 ? " (" : "", STR_ARG(code), code.n != 0 ? ")" : "");
}

static void on_interrupted(struct view *v, const struct json *ev)
{
    (void)ev;
    print_last(v);
    view_settle(v);
    out_note(v->out, "interrupted");
}

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

/// Who asked for it has been told.
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

/// Who follows a session sees what was taken back; who took it back has been told.
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
            print_cut(v, marks[i].tint, json_get_text(it, "text"), strlen(marks[i].mark));
        }
    }
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
    {"tool.progress", on_progress},
    {"tool.completed", on_result},
    {"turn.completed", on_completed},
    {"turn.failed", on_failed},
    {"turn.interrupted", on_interrupted},
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

// ---- public --------------------------------------------------------------------------------

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
    forget_calls(v);
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

void view_settle(struct view *v)
{
    if (v->mode == VIEW_LIVE) {
        end_thought(v);
        print_text(v, mdstream_end);
        if (v->said.n != 0) {
            buf_clear(&v->final);
            buf_adds(&v->final, buf_str(&v->said));
            buf_clear(&v->said);
        }
    }
}

void view_markdown(struct view *v, struct str text, bool cut)
{
    view_settle(v);
    mdstream_add(&v->md, text);
    print_text(v, mdstream_end);
    if (cut) {
        print_cut_off(v);
    }
}

// The last `rows` of `lines`, each with a line feed.
static void add_last(struct buf *out, struct str lines, size_t rows)
{
    size_t from = lines.n;
    while (from > 0 && rows > 0) {
        const char *feed = from > 1 ? memrchr(lines.p, '\n', from - 1) : NULL;
        from = feed != NULL ? (size_t)(feed - lines.p) + 1 : 0;
        rows--;
    }
    buf_adds(out, str_from(lines, from));
}

// The end of a long text, from the start of a word on.
static struct str end_of(struct str text)
{
    if (text.n > PROGRESS_MAX / 4) {
        text = str_from(text, text.n - PROGRESS_MAX / 4);
        size_t n = 0;
        while (n < text.n && text.p[n] != ' ' && text.p[n] != '\n') {
            n++;
        }
        text = str_from(text, n);
    }
    return text;
}

// Print lines dimmed, the last `rows` of them.
static void add_dim(const struct view *v, struct buf *out, struct str text, size_t rows)
{
    assert(cols_of(v) > 2);
    struct buf lines = {.max = SIZE_MAX};
    while (text.n != 0) {
        buf_addf(&lines, "%s  ", color_on(v->out->color, COLOR_DIM));
        text_add_cut(&lines, str_cut(&text, '\n'), cols_of(v) - 2);
        buf_addf(&lines, "%s\n", color_off(v->out->color));
    }
    add_last(out, buf_str(&lines), rows);
    buf_fini(&lines);
}

static void add_thought(struct view *v, struct buf *out, size_t rows)
{
    struct markdown_look look = {.cols = cols_of(v) - 2};
    struct buf lines = {.max = SIZE_MAX};
    markdown_render(&lines, end_of(buf_str(&v->thought)), &look);
    add_dim(v, out, buf_str(&lines), rows);
    buf_fini(&lines);
}

static void add_progress(struct view *v, struct buf *out, size_t rows)
{
    struct buf lines = {.max = SIZE_MAX};
    for (struct str rest = without_blank_lines(end_of(buf_str(&v->progress))); rest.n != 0;) {
        add_printed(&lines, str_cut(&rest, '\n'));
        buf_addc(&lines, '\n');
    }
    add_dim(v, out, buf_str(&lines), rows);
    buf_fini(&lines);
}

void view_tail(struct view *v, struct buf *out, size_t rows)
{
    struct markdown_look look = look_of(v);
    struct buf lines = {.max = SIZE_MAX};
    print_text(v, mdstream_settle);
    mdstream_tail(&v->md, &look, &lines);
    add_last(out, buf_str(&lines), rows);
    buf_fini(&lines);
    if (v->thought.n != 0) {
        add_thought(v, out, v->open ? rows : MIN(rows, THOUGHT_ROWS));
    } else if (v->progress.n != 0) {
        add_progress(v, out, v->open ? rows : MIN(rows, PROGRESS_ROWS));
    }
}

void view_text(struct out *o, struct str text)
{
    out_add(o, text);
    out_add(o, str_ends(text, "\n") ? STR("") : STR("\n"));
}
