// The end of the screen: what is not printed for good yet, which is the block of the message in hand, the end of what
// the model thinks, or of what the tool in hand prints.

#include <assert.h>

#include "term/text.h"
#include "view/view_int.h"

enum { THOUGHT_ROWS = 3, PROGRESS_ROWS = 5, TEXT_MAX = 4 << 10 };

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
    if (text.n > TEXT_MAX) {
        text = str_from(text, text.n - TEXT_MAX);
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
    assert(view__cols(v) > 2);
    struct buf lines = {.max = SIZE_MAX};
    while (text.n != 0) {
        buf_addf(&lines, "%s  ", color_on(v->out->color, COLOR_DIM));
        text_add_cut(&lines, str_cut(&text, '\n'), view__cols(v) - 2);
        buf_addf(&lines, "%s\n", color_off(v->out->color));
    }
    add_last(out, buf_str(&lines), rows);
    buf_fini(&lines);
}

static void add_thought(struct view *v, struct buf *out, size_t rows)
{
    struct markdown_look look = {.cols = view__cols(v) - 2};
    struct buf lines = {.max = SIZE_MAX};
    markdown_render(&lines, end_of(buf_str(&v->thought)), &look);
    add_dim(v, out, buf_str(&lines), rows);
    buf_fini(&lines);
}

static void add_progress(struct view *v, struct buf *out, size_t rows)
{
    struct buf lines = {.max = SIZE_MAX};
    for (struct str rest = view__inner_lines(end_of(buf_str(&v->progress))); rest.n != 0;) {
        view__add_printed(&lines, str_cut(&rest, '\n'));
        buf_addc(&lines, '\n');
    }
    add_dim(v, out, buf_str(&lines), rows);
    buf_fini(&lines);
}

void view_tail(struct view *v, struct buf *out, size_t rows)
{
    struct markdown_look look = view__look(v);
    struct buf lines = {.max = SIZE_MAX};
    view__print_text(v, mdstream_settle);
    mdstream_tail(&v->md, &look, &lines);
    add_last(out, buf_str(&lines), rows);
    buf_fini(&lines);
    if (v->thought.n != 0) {
        add_thought(v, out, v->open ? rows : MIN(rows, THOUGHT_ROWS));
    } else if (v->progress.n != 0) {
        add_progress(v, out, v->open ? rows : MIN(rows, PROGRESS_ROWS));
    }
}
