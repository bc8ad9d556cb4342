// What is said: the messages of a session as they come, and how a turn ends.
//
// Live, what nothing can change any more is printed for good at each settle; the message that is complete counts, and
// differs from what was streamed where a plugin's on_final changed it. In plain mode a message is printed once, whole.

#include "base/time.h"
#include "term/text.h"
#include "view/view_int.h"

// ---- what the model says ---------------------------------------------------------------------

struct markdown_look view__look(const struct view *v)
{
    return (struct markdown_look){.cols = view__cols(v), .color = v->out->color};
}

void view__print_text(struct view *v, md_print *print)
{
    struct markdown_look look = view__look(v);
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

void view__on_delta(struct view *v, const struct json *ev)
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
    view__print_text(v, mdstream_settle);
    if (cut && same && !longer) {
        // more of it is on the screen than was kept
    } else if (longer) {
        mdstream_add(&v->md, str_from(text, said.n));
    } else if (!v->md.begun) {
        mdstream_drop(&v->md);
        mdstream_add(&v->md, text);
    } else {
        view__print_text(v, mdstream_end);
        out_tinted(v->out, OUT_DIM, STR("(a plugin changed the answer; it reads:)"));
        out_add(v->out, STR("\n"));
        mdstream_add(&v->md, text);
    }
    view__print_text(v, mdstream_end);
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
        size_t n = text_fit(line, view__cols(v) - used, NULL), word = n;
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

void view__on_message(struct view *v, const struct json *ev)
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

void view__on_aborted(struct view *v, const struct json *ev)
{
    (void)ev;
    buf_clear(&v->thought);
    if (v->mode == VIEW_LIVE && v->said.n != 0) {
        view__print_text(v, mdstream_settle);
        bool begun = v->md.begun;
        mdstream_drop(&v->md);
        buf_clear(&v->said);
        if (begun) {
            out_tinted(v->out, OUT_DIM, STR("(the answer broke off; once more:)"));
            out_add(v->out, STR("\n"));
        }
    }
}

// ---- a turn begins and ends ------------------------------------------------------------------

void view__on_started(struct view *v, const struct json *ev)
{
    v->compacts = json_bool(json_get(ev, "compact"), false);
    buf_clear(&v->final);
    buf_clear(&v->progress);
    buf_clear(&v->diffs_shown);
    view__forget_calls(v);
}

void view__on_completed(struct view *v, const struct json *ev)
{
    struct str text = json_get_text(ev, "text");
    if (text.n != 0 && !v->compacts && !str_eq(text, buf_str(&v->final))) {
        show_message(v, ev);
    }
    print_last(v);
    view_settle(v);
}

void view__on_failed(struct view *v, const struct json *ev)
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

void view__on_interrupted(struct view *v, const struct json *ev)
{
    (void)ev;
    print_last(v);
    view_settle(v);
    out_note(v->out, "interrupted");
}

// ---- for others ------------------------------------------------------------------------------

void view_settle(struct view *v)
{
    if (v->mode == VIEW_LIVE) {
        end_thought(v);
        view__print_text(v, mdstream_end);
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
    view__print_text(v, mdstream_end);
    if (cut) {
        print_cut_off(v);
    }
}
