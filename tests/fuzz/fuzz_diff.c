// A diff from anywhere: rows fit the window, are no more than asked for, and hold no control character
// that is not ours.

#include <assert.h>

#include "base/utf8.h"
#include "term/diff.h"
#include "term/text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2 || size > 8192) {
        return 0;
    }
    struct diff_look look = {
        .cols = data[0] + 20u, .rows = data[0] % 50 + 1u, .color = (enum color_depth)(data[0] % 4)};
    struct buf out;
    size_t rows = 0;
    buf_init(&out, SIZE_MAX);
    diff_render(&out, (struct str){(const char *)data + 1, size - 1}, &look);
    for (struct str rest = buf_str(&out); rest.n != 0; rows++) {
        struct str line = str_cut(&rest, '\n');
        assert(text_width(line) <= look.cols && utf8_valid(line));
        while (line.n != 0) {
            size_t width, n = text_cluster(line, &width);
            uint32_t cp;
            utf8_decode(line, &cp);
            assert(cp >= 0x20 ? cp < 0x7F || cp >= 0xA0 : cp == 033 && n > 2);
            line = str_from(line, n);
        }
    }
    assert(rows <= look.rows + 1);
    buf_fini(&out);
    return 0;
}
