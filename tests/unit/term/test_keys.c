#include "base/buf.h"
#include "term/keys.h"
#include "unit/test.h"

static struct key one(const char *bytes)
{
    struct keys k = {0};
    struct key key = {.code = KEY_OTHER}, more;
    struct str rest = str_of(bytes);
    CHECK(keys_next(&k, &rest, &key));
    CHECK_INT(rest.n, 0);
    CHECK(!keys_next(&k, &rest, &more));
    return key;
}

TEST(every_dialect_names_the_same_keys)
{
    static const struct {
        const char *bytes;
        enum key_code code;
        unsigned mods;
        uint32_t cp;
    } rows[] = {
        {"a", KEY_CHAR, 0, 'a'},
        {"\u6F22", KEY_CHAR, 0, 0x6F22},
        {"\x01", KEY_CHAR, KEY_CTRL, 'a'},
        {"\x1f", KEY_CHAR, KEY_CTRL, '_'},
        {"\033[97;5u", KEY_CHAR, KEY_CTRL, 'a'},
        {"\033[27;5;97~", KEY_CHAR, KEY_CTRL, 'a'},
        {"\033b", KEY_CHAR, KEY_ALT, 'b'},
        {"\033[98;3u", KEY_CHAR, KEY_ALT, 'b'},
        {"\r", KEY_ENTER, 0, 0},
        {"\n", KEY_ENTER, 0, 0},
        {"\033\r", KEY_ENTER, KEY_ALT, 0},
        {"\033[13;2u", KEY_ENTER, KEY_SHIFT, 0},
        {"\033[13;3u", KEY_ENTER, KEY_ALT, 0},
        {"\033[57414u", KEY_ENTER, 0, 0},
        {"\t", KEY_TAB, 0, 0},
        {"\033[Z", KEY_TAB, KEY_SHIFT, 0},
        {"\033[9;2u", KEY_TAB, KEY_SHIFT, 0},
        {"\x7f", KEY_BACKSPACE, 0, 0},
        {"\x08", KEY_BACKSPACE, 0, 0},
        {"\033\x7f", KEY_BACKSPACE, KEY_ALT, 0},
        {"\033[27u", KEY_ESC, 0, 0},
        {"\033[27;1:1u", KEY_ESC, 0, 0},
        {"\033[A", KEY_UP, 0, 0},
        {"\033OA", KEY_UP, 0, 0},
        {"\033[1;5C", KEY_RIGHT, KEY_CTRL, 0},
        {"\033[1;3D", KEY_LEFT, KEY_ALT, 0},
        {"\033[H", KEY_HOME, 0, 0},
        {"\033[1~", KEY_HOME, 0, 0},
        {"\033[8~", KEY_END, 0, 0},
        {"\033[3~", KEY_DELETE, 0, 0},
        {"\033[3;5~", KEY_DELETE, KEY_CTRL, 0},
        {"\033[5~", KEY_PAGE_UP, 0, 0},
        {"\033[I", KEY_FOCUS_IN, 0, 0},
        {"\033[O", KEY_FOCUS_OUT, 0, 0},
        {"\033OP", KEY_FUNCTION, 0, 1},
        {"\033[1;5Q", KEY_FUNCTION, KEY_CTRL, 2},
        {"\033[15~", KEY_FUNCTION, 0, 5},
        {"\033[[A", KEY_FUNCTION, 0, 1}, // the Linux console
        {"\033[[E", KEY_FUNCTION, 0, 5},
        {"\033[24;2~", KEY_FUNCTION, KEY_SHIFT, 12},
        {"\033[<0;0;1M", KEY_OTHER, 0, 0}, // columns begin with 1
        {"\033[?1;2c", KEY_OTHER, 0, 0},
        {"\xc2\x9b", KEY_OTHER, 0, 0x9b},
        {"\033[57358u", KEY_OTHER, 0, 57358}, // caps lock
        {"\033[55296u", KEY_OTHER, 0, 55296}, // no character at all
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct key k = one(rows[i].bytes);
        CHECK_INT(k.code, rows[i].code);
        CHECK_INT(k.mods, rows[i].mods);
        CHECK_INT(k.cp, rows[i].cp);
    }
}

TEST(a_mouse_says_what_it_did_on_which_cell)
{
    static const struct {
        const char *bytes;
        struct key_mouse mouse;
        unsigned mods;
    } rows[] = {
        {"\033[<0;1;1M", {MOUSE_PRESS, 1, 0, 0}, 0},
        {"\033[<0;80;24m", {MOUSE_RELEASE, 1, 23, 79}, 0},
        {"\033[<2;3;4M", {MOUSE_PRESS, 3, 3, 2}, 0},
        {"\033[<32;3;4M", {MOUSE_DRAG, 1, 3, 2}, 0},
        {"\033[<35;3;4M", {MOUSE_MOVE, 0, 3, 2}, 0},
        {"\033[<64;3;4M", {MOUSE_UP, 0, 3, 2}, 0},
        {"\033[<81;3;4M", {MOUSE_DOWN, 0, 3, 2}, KEY_CTRL},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct key k = one(rows[i].bytes);
        CHECK_INT(k.code, KEY_MOUSE);
        CHECK_INT(k.mods, rows[i].mods);
        CHECK_INT(k.mouse.kind, rows[i].mouse.kind);
        CHECK_INT(k.mouse.button, rows[i].mouse.button);
        CHECK_INT(k.mouse.row, rows[i].mouse.row);
        CHECK_INT(k.mouse.col, rows[i].mouse.col);
    }
}

TEST(a_lone_escape_is_a_key_when_nothing_follows)
{
    struct keys k = {0};
    struct key key;
    struct str rest = STR("\033");
    CHECK(!keys_next(&k, &rest, &key));
    CHECK(keys_waits(&k));
    keys_timeout(&k, &key);
    CHECK_INT(key.code, KEY_ESC);
    CHECK(!keys_waits(&k));
    rest = STR("\033[");
    CHECK(!keys_next(&k, &rest, &key) && !keys_waits(&k));
    rest = STR("A");
    CHECK(keys_next(&k, &rest, &key) && key.code == KEY_UP);
    rest = STR("\033\033[A"); // Esc, then an arrow
    CHECK(keys_next(&k, &rest, &key) && key.code == KEY_ESC);
    CHECK(keys_next(&k, &rest, &key) && key.code == KEY_UP);
}

// All that is pasted, however the bytes are split.
static void check_paste(struct str bytes, size_t piece, const char *expected)
{
    struct keys k = {0};
    struct buf text;
    buf_init(&text, 1 << 10);
    while (bytes.n != 0) {
        struct str part = {bytes.p, MIN(piece, bytes.n)};
        bytes = str_from(bytes, part.n);
        for (struct key key; keys_next(&k, &part, &key);) {
            CHECK(key.code == KEY_PASTE);
            buf_adds(&text, key.text);
        }
    }
    CHECK_STR(buf_z(&text), expected);
    CHECK(!k.pasting);
    buf_fini(&text);
}

TEST(a_paste_is_text_until_its_end)
{
    struct str bytes = STR("\033[200~one\rtwo \xc3\xa4\xe6\xbc\xa2\x03\033[31mred\033\033[201~");
    for (size_t piece = 1; piece < bytes.n; piece++) {
        check_paste(bytes, piece, "one\rtwo \xc3\xa4\xe6\xbc\xa2\x03red");
    }
}

TEST(a_large_paste_comes_in_few_pieces)
{
    struct keys k = {0};
    struct buf text;
    size_t pieces = 0, n = 0;
    buf_init(&text, 2 << 20);
    buf_addz(&text, "\033[200~");
    for (int i = 0; i < 1 << 16; i++) {
        buf_addz(&text, "a line of text.\n");
    }
    buf_addz(&text, "\033[201~");
    struct str rest = buf_str(&text);
    for (struct key key; keys_next(&k, &rest, &key); pieces++) {
        n += key.text.n;
    }
    CHECK_INT(n, 1 << 20);
    CHECK_INT(pieces, 1);
    buf_fini(&text);
}
