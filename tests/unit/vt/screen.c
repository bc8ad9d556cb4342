#include "unit/vt/screen.h"

#include "unit/test.h"

const char *screen_row(struct vt *v, int row)
{
    static char text[VT_COLS_MAX * VT_TEXT_MAX + 1];
    const struct vt_cell *cells = vt_row(v, row);
    size_t n = 0, end = 0;
    for (int i = 0; i < vt_cols(v); i++) {
        if (cells[i].width == 0) {
            continue;
        }
        size_t len = vt_cell_text(v, &cells[i], text + n);
        if (len == 0) {
            text[n++] = ' ';
        } else {
            n += len;
            end = n;
        }
    }
    text[end] = '\0';
    return text;
}

static void check_same_cell(struct vt *a, struct vt *b, int row, int col)
{
    struct vt_cell x = vt_row(a, row)[col], y = vt_row(b, row)[col];
    char s[VT_TEXT_MAX], t[VT_TEXT_MAX];
    vt_cell_text(a, &x, s);
    vt_cell_text(b, &y, t);
    if (strcmp(s, t) != 0 || x.fg != y.fg || x.bg != y.bg || x.attrs != y.attrs ||
        x.width != y.width) {
        test_fail(__FILE__, __LINE__,
                  "cell %d,%d: '%s' %x %x %x w%d, not '%s' %x %x %x w%d\n  %s\n", row, col, s, x.fg,
                  x.bg, x.attrs, x.width, t, y.fg, y.bg, y.attrs, y.width, screen_row(a, row));
    }
}

void screen_check_same(struct vt *a, struct vt *b)
{
    struct vt_cursor x = vt_get_cursor(a), y = vt_get_cursor(b);
    CHECK_INT(vt_rows(a), vt_rows(b));
    CHECK_INT(vt_cols(a), vt_cols(b));
    for (int row = 0; row < vt_rows(a); row++) {
        for (int col = 0; col < vt_cols(a); col++) {
            check_same_cell(a, b, row, col);
        }
    }
    CHECK_INT(x.row, y.row);
    CHECK_INT(x.col, y.col);
    CHECK_INT(x.visible, y.visible);
    CHECK_INT(x.shape, y.shape);
    CHECK_INT(vt_alternate(a), vt_alternate(b));
    CHECK_STR(vt_title(a), vt_title(b));
    CHECK_INT(vt_mode(a, 1), vt_mode(b, 1));
    CHECK_INT(vt_mode(a, 2004), vt_mode(b, 2004));
    CHECK_INT(vt_mode(a, 1006), vt_mode(b, 1006));
}

unsigned screen_random(unsigned *seed)
{
    *seed = *seed * 1103515245 + 12345;
    return *seed >> 16 & 0x7fff;
}

void screen_add_noise(struct buf *out, unsigned *seed)
{
    static const char *const pieces[] = {
        "hello ",
        "a rather long run of words that may be wrapped at the end of its row ",
        "\r\n",
        "\n",
        "\r",
        "\t",
        "\b",
        "\xe4\xb8\xad\xe6\x96\x87",
        "e\xcc\x81",
        "\xf0\x9f\x98\x80",
        "\xc2\x9b",
        "\xff",
        "\xe4\xb8",
        "\033[31m",
        "\033[1;4;38;5;200m",
        "\033[48;2;1;2;3m",
        "\033[m",
        "\033[7m",
        "\033[2m",
        "\033[22m",
        "\033[H",
        "\033[5;3H",
        "\033[99;99H",
        "\033[A",
        "\033[3B",
        "\033[K",
        "\033[1K",
        "\033[J",
        "\033[2J",
        "\033[3J",
        "\033[2L",
        "\033[M",
        "\033[3@",
        "\033[2P",
        "\033[4X",
        "\033[2;5r",
        "\033[r",
        "\033[?6h",
        "\033[?6l",
        "\033[?7l",
        "\033[?7h",
        "\033[?25l",
        "\033[?25h",
        "\033[?1049h",
        "\033[?1049l",
        "\033[?47h",
        "\033[?47l",
        "\033[?2004h",
        "\033[?1;1006h",
        "\0337",
        "\0338",
        "\033[s",
        "\033[u",
        "\033M",
        "\033D",
        "\033E",
        "\033c",
        "\033[!p",
        "\033(0",
        "\033(B",
        "\016",
        "\017",
        "\033[4h",
        "\033[4l",
        "\033[2S",
        "\033[T",
        "\033[5b",
        "\033]2;title\007",
        "\033]0;other\033\\",
        "\033]52;c;aGk=\007",
        "\033Pq\033\\",
        "\033[3 q",
        "\033[20h",
        "\033[20l",
        "\033[c",
        "\033[6n",
        "\033[\030",
        "\033]2;unfinished",
        "\033[12;",
        "\005",
        "\033[?69h",
        "\033='",
        "\033[2'}",
        "\033[2'~",
        "\033[5;5;5;5;5T",
        "\033[21t",
        "\033[3g",
        "\033H",
        "\033#8",
        "\033Z",
    };
    buf_addz(out, pieces[screen_random(seed) % ARRAY_LEN(pieces)]);
}
