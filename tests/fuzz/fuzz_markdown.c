// Markdown from a model, whole and in pieces: whatever comes in, what goes out holds no control character
// that is not ours, and pieces give the lines of the whole.

#include <assert.h>

#include "base/utf8.h"
#include "term/mdstream.h"

// Escape sequences of ours are ESC [ digits and semicolons m.
static void check_output(struct str out, bool color)
{
    while (out.n != 0) {
        uint32_t cp;
        size_t n = utf8_decode(out, &cp);
        assert(cp != 0xFFFD || n == 3);
        if (cp == 033) {
            assert(color && out.n > 2 && out.p[1] == '[');
            n = 2;
            while (n < out.n && strchr("0123456789;", out.p[n]) != NULL) {
                n++;
            }
            assert(n < out.n && out.p[n] == 'm');
            n++;
        } else {
            assert(cp == '\n' || (cp >= 0x20 && cp != 0x7F && (cp < 0x80 || cp >= 0xA0)));
        }
        out = str_from(out, n);
    }
}

static void stream(struct str text, size_t piece, const struct markdown_look *look, struct buf *out)
{
    struct mdstream m;
    mdstream_init(&m);
    while (text.n != 0) {
        struct str part = {text.p, MIN(piece, text.n)};
        mdstream_add(&m, part);
        mdstream_settle(&m, look, out);
        text = str_from(text, part.n);
    }
    size_t before = out->n;
    mdstream_tail(&m, look, out);
    struct str tail = str_from(buf_str(out), before);
    size_t shown = tail.n;
    buf_cut(out, before);
    mdstream_end(&m, look, out);
    assert(out->n - before == shown); // what was drawn last is what stays
    mdstream_fini(&m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2 || size > 8192) {
        return 0;
    }
    struct str text = {(const char *)data + 1, size - 1};
    bool color = data[0] % 2 != 0;
    struct markdown_look look = {.cols = data[0] / 4 + 1u,
                                 .color = color ? COLOR_TRUE : COLOR_NONE};
    struct buf out;
    buf_init(&out, SIZE_MAX);
    markdown_render(&out, text, &look);
    check_output(buf_str(&out), color);
    size_t settled = markdown_settled(text);
    assert(settled <= text.n && (settled == 0 || text.p[settled - 1] == '\n'));
    buf_clear(&out);
    stream(text, data[0] % 7 + 1u, &look, &out);
    check_output(buf_str(&out), color);
    buf_fini(&out);
    return 0;
}
