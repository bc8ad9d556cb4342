// An answer as it streams in.
//
//     text ──> | whole blocks           | final: printed once
//              | lines of an open fence |
//              |------------------------|
//              | the block in hand      | drawn again as it grows
//
// A block of code may be longer than everything else. Its whole lines are final as they come; the line
// that opened it is kept in front of the rest, so that the rest is still read as code. Any other block
// that reaches TEXT_MAX is given out as it is.

#include "term/mdstream.h"

#include <assert.h>

enum { TEXT_MAX = 64 << 10, CODE_MAX = 2 << 10 };

// The length of the line that opens a block of code at the start of `text`; 0 when none does.
static size_t opening_of(struct str text)
{
    ptrdiff_t end = str_index(text, '\n');
    bool fence = str_starts(text, "```") || str_starts(text, "~~~");
    return fence && end >= 0 ? (size_t)end + 1 : 0;
}

static size_t last_line_end(struct str text)
{
    const char *feed = text.n != 0 ? memrchr(text.p, '\n', text.n) : NULL;
    return feed != NULL ? (size_t)(feed - text.p) + 1 : 0;
}

// Blocks are a line apart; the parts of one block of code are not.
static void render(const struct mdstream *m, struct str text, const struct markdown_look *look,
                   struct buf *out)
{
    size_t before = out->n;
    if (m->begun && !m->inside && str_trim(text).n != 0) {
        buf_addc(out, '\n');
    }
    size_t apart = out->n;
    markdown_render(out, text, look);
    if (out->n == apart) { // nothing came of it
        buf_cut(out, before);
    }
}

// Print the first `n` bytes for good; of them the first `kept` stay.
static void give_out(struct mdstream *m, size_t n, size_t kept, const struct markdown_look *look,
                     struct buf *out)
{
    struct str part = {m->text.p, n};
    assert(kept <= n && n <= m->text.n);
    if (str_trim(part).n != 0) {
        render(m, part, look, out);
        m->begun = true;
    }
    m->inside = kept != 0;
    if (n != 0) {
        memmove(m->text.p + kept, m->text.p + n, m->text.n - n);
        buf_cut(&m->text, m->text.n - n + kept);
    }
}

void mdstream_init(struct mdstream *m)
{
    *m = (struct mdstream){0};
    buf_init(&m->text, SIZE_MAX);
}

void mdstream_fini(struct mdstream *m)
{
    buf_fini(&m->text);
}

void mdstream_add(struct mdstream *m, struct str text)
{
    buf_adds(&m->text, text);
}

void mdstream_settle(struct mdstream *m, const struct markdown_look *look, struct buf *out)
{
    size_t settled = markdown_settled(buf_str(&m->text));
    if (settled != 0) {
        give_out(m, settled, 0, look, out);
    }
    size_t opening = opening_of(buf_str(&m->text));
    if (opening != 0 && m->text.n > CODE_MAX && markdown_is_open(buf_str(&m->text))) {
        give_out(m, last_line_end(buf_str(&m->text)), opening, look, out);
    } else if (m->text.n >= TEXT_MAX) {
        give_out(m, m->text.n, 0, look, out);
    }
}

void mdstream_tail(const struct mdstream *m, const struct markdown_look *look, struct buf *out)
{
    render(m, buf_str(&m->text), look, out);
}

void mdstream_end(struct mdstream *m, const struct markdown_look *look, struct buf *out)
{
    give_out(m, m->text.n, 0, look, out);
    m->begun = false;
}

void mdstream_drop(struct mdstream *m)
{
    buf_clear(&m->text);
    m->begun = m->inside = false;
}
