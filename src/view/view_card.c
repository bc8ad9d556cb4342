// A tool call as a card: the call in one line, its result in a few, with its diff or the beginning of its output.

#include "base/visible.h"
#include "term/diff.h"
#include "term/text.h"
#include "view/brief.h"
#include "view/view_int.h"

enum { CARD_LINES = 4, DIFF_LINES = 24, OPEN_LINES = 200 };

// ---- what a program printed -------------------------------------------------------------------

struct str view__inner_lines(struct str text)
{
    struct str inner = str_trim(text);
    const char *begin = inner.p;
    while (inner.n != 0 && begin > text.p && begin[-1] != '\n') {
        begin--;
    }
    return inner.n != 0 ? (struct str){begin, (size_t)(inner.p - begin) + inner.n} : STR_NULL;
}

void view__add_printed(struct buf *out, struct str line)
{
    size_t from = out->n;
    while (line.n != 0 && (line.p[line.n - 1] == '\r' || line.p[line.n - 1] == ' ')) {
        line.n--;
    }
    const char *back = line.n != 0 ? memrchr(line.p, '\r', line.n) : NULL;
    line = back != NULL ? str_from(line, (size_t)(back - line.p) + 1) : line;
    while (line.n != 0) {
        size_t n = 0, skip = text_color(line);
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

// ---- calls ------------------------------------------------------------------------------------

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

void view__forget_calls(struct view *v)
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
        used = v->overlap ? 2 + view__print(v, OUT_DIM, str_of(v->calls.p[i].about), cols) : 0;
        forget_call(v, i);
    }
    return used;
}

void view__on_call(struct view *v, const struct json *ev)
{
    struct str tool = json_get_text(ev, "tool"), by = json_get_text(ev, "changed_by");
    struct buf input = {.max = SIZE_MAX};
    write_input(&input, tool, json_get(ev, "input"));
    if (v->mode == VIEW_PLAIN) {
        struct buf shown = {.max = SIZE_MAX};
        text_add_cut(&shown, buf_str(&input), view__room(v) + 1);
        out_note(v->out, STR_FMT "%s" STR_FMT, STR_ARG(tool), shown.n != 0 ? ": " : "",
                 STR_ARG(buf_str(&shown)));
        buf_fini(&shown);
    } else {
        begin_call(v, json_get_text(ev, "call_id"), buf_str(&input));
        view_settle(v);
        out_add(v->out, STR("● "));
        out_tinted(v->out, OUT_BOLD, tool);
        out_add(v->out, STR("  "));
        view__print_line(v, OUT_PLAIN, buf_str(&input), tool.n + 4);
        if (by.n != 0) {
            out_add(v->out, STR("  "));
            out_tinted(v->out, OUT_YELLOW, STR("changed by "));
            view__print_line(v, OUT_YELLOW, by, 11);
        }
    }
    buf_fini(&input);
}

// ---- results ----------------------------------------------------------------------------------

static void print_more(struct view *v, struct str rest)
{
    size_t more = str_lines(rest);
    out_addf(v->out, "  … %zu more line%s\n", more, more == 1 ? "" : "s");
}

/// Show a unified diff, at most `lines` of it.
static void show_diff(struct view *v, struct str diff, size_t lines)
{
    struct diff_look look = {.cols = view__cols(v), .rows = lines, .color = v->out->color};
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

void view__on_progress(struct view *v, const struct json *ev)
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
    struct str rest = view__inner_lines(buf_str(&text));
    for (int i = 0; i < (v->open ? OPEN_LINES : CARD_LINES) && rest.n != 0; i++) {
        struct buf line = {.max = SIZE_MAX};
        view__add_printed(&line, str_cut(&rest, '\n'));
        out_add(v->out, STR("  "));
        view__print_line(v, OUT_DIM, buf_str(&line), 2);
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

void view__on_result(struct view *v, const struct json *ev)
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
    size_t room = view__room(v) - MIN(tool.n + 16, view__room(v) / 2);
    size_t used = end_call(v, json_get_text(ev, "call_id"), error.n != 0 ? room / 2 : room);
    out_add(v->out, error.n != 0 ? STR("  ") : STR(""));
    view__print_line(v, OUT_RED, error, tool.n + 16 + used);
}
