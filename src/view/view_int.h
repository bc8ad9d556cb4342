#pragma once

#include "view/view.h"

// A view between its parts: what is said (view_talk.c), the cards of tools (view_card.c), what is not printed for good
// yet (view_tail.c), and all that is a line (view.c).

enum { PROGRESS_MAX = 16 << 10 }; // how much of what a tool prints is kept while it runs

// ---- view.c ----------------------------------------------------------------------------------

/// How many columns there are.
size_t view__cols(const struct view *v);
/// How many of them a line of a card may take.
size_t view__room(const struct view *v);
/// Print `text` on one line, in at most `cols` columns. Returns how many it takes.
size_t view__print(struct view *v, enum out_tint tint, struct str text, size_t cols);
/// Print one line of `text` after `used` columns, cut where the window ends.
void view__print_line(struct view *v, enum out_tint tint, struct str text, size_t used);

// ---- view_talk.c -----------------------------------------------------------------------------

typedef void md_print(struct mdstream *md, const struct markdown_look *look, struct buf *out);

/// How Markdown looks here.
struct markdown_look view__look(const struct view *v);
/// Print what nothing can change any more (mdstream_settle), or, where the text is complete or something else comes,
/// all of it (mdstream_end).
void view__print_text(struct view *v, md_print *print);

void view__on_started(struct view *v, const struct json *ev);
void view__on_delta(struct view *v, const struct json *ev);
void view__on_message(struct view *v, const struct json *ev);
/// The stream of a message broke off: it comes again from its beginning.
void view__on_aborted(struct view *v, const struct json *ev);
/// The text of a turn that compacts is the summary: it is for the model.
void view__on_completed(struct view *v, const struct json *ev);
void view__on_failed(struct view *v, const struct json *ev);
void view__on_interrupted(struct view *v, const struct json *ev);

// ---- view_card.c -----------------------------------------------------------------------------

/// `text` without blank lines around it; the blanks that its first line begins with stay, columns are made of them.
struct str view__inner_lines(struct str text);
/// Append a line that a program printed, as it would look: tabs as blanks, without colours, and of a line that draws
/// itself again and again, a progress bar, the last state. Whatever else a terminal would obey is shown, see
/// visible_add().
void view__add_printed(struct buf *out, struct str line);
/// Forget all calls without a result.
void view__forget_calls(struct view *v);

void view__on_call(struct view *v, const struct json *ev);
void view__on_progress(struct view *v, const struct json *ev);
void view__on_result(struct view *v, const struct json *ev);
