// Keys in the editor: whatever is typed or pasted, its text is valid UTF-8 without controls, the cursor is
// between characters, the rows fit the window, and undo ends at the empty text.

#include <assert.h>

#include "base/utf8.h"
#include "term/edit.h"
#include "term/text.h"

static void check_text(const struct edit *ed)
{
    struct str text = edit_text(ed);
    assert(utf8_valid(text) && ed->at <= text.n);
    assert(ed->at == text.n || ((unsigned char)text.p[ed->at] & 0xC0) != 0x80);
    for (size_t i = 0; i < text.n; i++) {
        assert(text.p[i] == '\n' || text.p[i] == '\t' || (unsigned char)text.p[i] >= 0x20);
    }
}

static void check_rows(const struct edit *ed, size_t rows, size_t cols)
{
    struct buf out;
    size_t n = 0;
    buf_init(&out, SIZE_MAX);
    struct edit_place at = edit_lines(ed, &out, "> ", rows, cols);
    for (struct str rest = buf_str(&out); rest.n != 0; n++) {
        struct str line = str_cut(&rest, '\n');
        assert(text_width(line) <= MAX(cols, 4) || ed->searching);
        assert(memchr(line.p, '\033', line.n) == NULL);
    }
    assert(n >= 1 && n <= rows && at.row < n);
    buf_fini(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct edit ed;
    struct keys keys = {0};
    struct key key;
    if (size < 2 || size > 4096) {
        return 0;
    }
    edit_init(&ed);
    edit_start(&ed);
    for (struct str bytes = {(const char *)data + 1, size - 1}; keys_next(&keys, &bytes, &key);) {
        enum edit_result r = edit_key(&ed, &key);
        check_text(&ed);
        check_rows(&ed, data[0] % 5 + 1u, data[0] / 2 + 1u);
        if (r == EDIT_DONE) {
            edit_remember(&ed, edit_text(&ed));
            edit_start(&ed);
        } else if (r == EDIT_COMPLETE) {
            edit_replace(&ed, ed.at, STR("completed"));
        }
    }
    ed.searching = false;
    key = (struct key){.code = KEY_CHAR, .mods = KEY_CTRL, .cp = '_'};
    while (ed.past.n != 0) {
        edit_key(&ed, &key);
        check_text(&ed);
    }
    edit_fini(&ed);
    return 0;
}
