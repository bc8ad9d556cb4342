// What goes to a terminal: Markdown from a model, and keys in the line editor. Whatever comes in, what
// goes out holds no control character that is not ours, and the editor's text is valid with its cursor
// between characters.

#include <assert.h>

#include "base/utf8.h"
#include "cli/edit.h"
#include "cli/markdown.h"

// Escape sequences of ours are ESC [ digits and semicolons, and a letter out of `finals`.
static void check_output(struct str out, const char *finals)
{
    while (out.n != 0) {
        uint32_t cp;
        size_t n = utf8_decode(out, &cp);
        assert(cp != 0xFFFD || n == 3);
        if (cp == 033) {
            assert(out.n > 2 && out.p[1] == '[');
            n = 2;
            while (n < out.n && strchr("0123456789;", out.p[n]) != NULL) {
                n++;
            }
            assert(n < out.n && strchr(finals, out.p[n]) != NULL);
            n++;
        } else {
            assert(cp == '\n' || cp == '\r' ||
                   (cp >= 0x20 && cp != 0x7F && (cp < 0x80 || cp >= 0xA0)));
        }
        out = str_from(out, n);
    }
}

static void try_markdown(struct str text, size_t cols, bool color)
{
    struct markdown_look look = {.cols = cols, .color = color};
    struct buf out;
    buf_init(&out, SIZE_MAX);
    markdown_render(&out, text, &look);
    check_output(buf_str(&out), color ? "m" : "");
    size_t settled = markdown_settled(text);
    assert(settled <= text.n && (settled == 0 || text.p[settled - 1] == '\n'));
    buf_fini(&out);
}

static void try_keys(struct str bytes, size_t cols)
{
    struct edit ed;
    struct buf out;
    edit_init(&ed, "> ");
    buf_init(&out, SIZE_MAX);
    edit_start(&ed);
    while (bytes.n != 0) {
        if (edit_feed(&ed, &bytes) == EDIT_DONE) {
            edit_remember(&ed, edit_text(&ed));
            edit_start(&ed);
        }
        struct str text = edit_text(&ed);
        assert(utf8_valid(text) && ed.at <= text.n);
        assert(ed.at == text.n || ((unsigned char)text.p[ed.at] & 0xC0) != 0x80);
        buf_clear(&out);
        edit_draw(&ed, &out, 5, cols);
        check_output(buf_str(&out), "ACJ");
        edit_resized(&ed, cols + 3);
        edit_draw(&ed, &out, 5, cols + 3);
        assert(ed.row < 5);
    }
    buf_fini(&out);
    edit_fini(&ed);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2 || size > 4096) {
        return 0;
    }
    struct str rest = {(const char *)data + 1, size - 1};
    size_t cols = data[0] / 4 + 1u;
    if (data[0] % 4 == 0) {
        try_keys(rest, cols + 3);
    } else {
        try_markdown(rest, cols, data[0] % 2 != 0);
    }
    return 0;
}
