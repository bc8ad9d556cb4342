// A reader of keys.
//
//     bytes ──> held until they are a whole character or sequence ──> key
//     in a paste: text ──> pieces of the paste, without copying; sequences in it are dropped
//
// Three dialects say the same: xterm's (ESC [ 1 ; 5 C, ESC [ 3 ~, ESC O A), modifyOtherKeys
// (ESC [ 27 ; 5 ; 99 ~) and kitty's (ESC [ 99 ; 5 u). All end in one struct key, so that nothing above
// knows which one a terminal speaks. Alt is ESC in front of a key.
//
// A lone ESC is a key or the start of one; only time tells, and the owner has the clock.

#include "term/keys.h"

#include <assert.h>

#include "base/utf8.h"

// ---- where a sequence ends -----------------------------------------------------------------

static size_t length_of(unsigned char lead)
{
    return lead < 0xC0 || lead >= 0xF8 ? 1 : lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
}

// True when the bytes in hand are a whole key or character.
static bool is_whole(const char *p, size_t n)
{
    if (p[0] != '\033') {
        return n == length_of((unsigned char)p[0]);
    }
    if (n == 1) {
        return false;
    }
    if (p[1] == '[') {
        size_t begin = n > 2 && p[2] == '[' ? 3 : 2; // ESC [ [ A: F1 of the Linux console
        return n > begin && p[n - 1] >= 0x40 && p[n - 1] <= 0x7E;
    }
    return p[1] == 'O' ? n == 3 : n == 1 + length_of((unsigned char)p[1]);
}

// A character that is not finished, and a byte that cannot be part of it.
static bool breaks_off(const struct keys *k, char next)
{
    unsigned char lead = (unsigned char)k->held[k->n > 1 && k->held[0] == '\033' ? 1 : 0];
    return k->n != 0 && lead >= 0xC0 && ((unsigned char)next & 0xC0) != 0x80;
}

// ---- what a sequence means -----------------------------------------------------------------

static const struct {
    char final;
    enum key_code code;
    unsigned mods;
} letters[] = {{'A', KEY_UP, 0},       {'B', KEY_DOWN, 0},      {'C', KEY_RIGHT, 0},
               {'D', KEY_LEFT, 0},     {'H', KEY_HOME, 0},      {'F', KEY_END, 0},
               {'I', KEY_FOCUS_IN, 0}, {'O', KEY_FOCUS_OUT, 0}, {'Z', KEY_TAB, KEY_SHIFT}};

static const struct {
    unsigned number;
    enum key_code code;
} numbers[] = {{1, KEY_HOME},   {7, KEY_HOME},   {4, KEY_END},     {8, KEY_END},
               {2, KEY_INSERT}, {3, KEY_DELETE}, {5, KEY_PAGE_UP}, {6, KEY_PAGE_DOWN}};

// The numbers of F1 to F12, which have gaps.
static const unsigned char functions[] = {11, 12, 13, 14, 15, 17, 18, 19, 20, 21, 23, 24};

// A character by its number, as a plain terminal sends it or as kitty names it.
static struct key of_codepoint(uint32_t cp, unsigned mods)
{
    static const struct {
        uint32_t cp;
        enum key_code code;
    } named[] = {{'\r', KEY_ENTER},     {'\n', KEY_ENTER}, {'\t', KEY_TAB},   {0x08, KEY_BACKSPACE},
                 {0x7F, KEY_BACKSPACE}, {0x1B, KEY_ESC},   {57414, KEY_ENTER}};
    for (size_t i = 0; i < ARRAY_LEN(named); i++) {
        if (cp == named[i].cp) {
            return (struct key){.code = named[i].code, .mods = mods};
        }
    }
    if (cp < 0x20) { // Ctrl with a letter, or with one of @ [ \ ] ^ _
        cp += cp >= 1 && cp <= 26 ? 0x60 : 0x40;
        mods |= KEY_CTRL;
    }
    bool shown = (cp >= 0x20 && cp < 0xD800) || (cp >= 0xF900 && cp <= 0x10FFFF);
    bool control = cp >= 0x80 && cp < 0xA0;
    return (struct key){.code = shown && !control ? KEY_CHAR : KEY_OTHER, .mods = mods, .cp = cp};
}

// The numbers of a sequence; a part after ':' says more than we ask for.
static size_t parse_numbers(struct str s, unsigned out[4])
{
    size_t n = 0;
    while (s.n != 0 && n < 4) {
        struct str part = str_cut(&s, ';');
        uint64_t value = 0;
        out[n++] =
            str_to_u64(str_cut(&part, ':'), &value) && value < 0x110000 ? (unsigned)value : 0;
    }
    return n;
}

// ESC [ < button ; column ; row, then M (pressed, moved) or m (released)
static struct key of_mouse(struct str s)
{
    unsigned v[4] = {0};
    size_t n = parse_numbers((struct str){s.p + 3, s.n - 4}, v);
    if (n != 3 || v[1] == 0 || v[2] == 0 || v[1] > INT16_MAX || v[2] > INT16_MAX) {
        return (struct key){.code = KEY_OTHER};
    }
    bool wheel = (v[0] & 64) != 0, moved = (v[0] & 32) != 0;
    int button = (v[0] & 3) == 3 || wheel ? 0 : (int)(v[0] & 3) + 1;
    enum mouse_kind kind = wheel                 ? ((v[0] & 1) != 0 ? MOUSE_DOWN : MOUSE_UP)
                           : moved               ? (button != 0 ? MOUSE_DRAG : MOUSE_MOVE)
                           : s.p[s.n - 1] == 'm' ? MOUSE_RELEASE
                                                 : MOUSE_PRESS;
    unsigned mods = ((v[0] & 4) != 0 ? KEY_SHIFT : 0u) | ((v[0] & 8) != 0 ? KEY_ALT : 0u) |
                    ((v[0] & 16) != 0 ? KEY_CTRL : 0u);
    return (struct key){
        .code = KEY_MOUSE, .mods = mods, .mouse = {kind, button, (int)v[2] - 1, (int)v[1] - 1}};
}

static struct key of_csi(struct str s)
{
    unsigned v[4] = {0};
    char final = s.p[s.n - 1];
    if (s.p[2] == '<') {
        return final == 'M' || final == 'm' ? of_mouse(s) : (struct key){.code = KEY_OTHER};
    }
    if (s.p[2] == '[' && final >= 'A' && final <= 'E') {
        return (struct key){.code = KEY_FUNCTION, .cp = (uint32_t)(final - 'A') + 1};
    }
    size_t n = parse_numbers((struct str){s.p + 2, s.n - 3}, v);
    unsigned mods = n > 1 && v[1] > 0 ? (v[1] - 1) & 7 : 0;
    if (final == 'u' && n > 0 && v[0] != 0) {
        return of_codepoint(v[0], mods);
    }
    if (final == '~' && v[0] == 27 && n == 3) {
        return of_codepoint(v[2], mods);
    }
    if (final >= 'P' && final <= 'S' && n != 1) {
        return (struct key){.code = KEY_FUNCTION, .mods = mods, .cp = (uint32_t)(final - 'P') + 1};
    }
    for (size_t i = 0; i < ARRAY_LEN(functions) && final == '~'; i++) {
        if (functions[i] == v[0]) {
            return (struct key){.code = KEY_FUNCTION, .mods = mods, .cp = (uint32_t)i + 1};
        }
    }
    for (size_t i = 0; i < ARRAY_LEN(letters) && n != 1; i++) {
        if (letters[i].final == final) {
            return (struct key){.code = letters[i].code, .mods = mods | letters[i].mods};
        }
    }
    for (size_t i = 0; i < ARRAY_LEN(numbers) && final == '~'; i++) {
        if (numbers[i].number == v[0]) {
            return (struct key){.code = numbers[i].code, .mods = mods};
        }
    }
    return (struct key){.code = KEY_OTHER};
}

static struct key of_ss3(char final)
{
    for (size_t i = 0; i < ARRAY_LEN(letters); i++) {
        if (letters[i].final == final && letters[i].code < KEY_FOCUS_IN &&
            letters[i].code != KEY_TAB) {
            return (struct key){.code = letters[i].code};
        }
    }
    if (final >= 'P' && final <= 'S') {
        return (struct key){.code = KEY_FUNCTION, .cp = (uint32_t)(final - 'P') + 1};
    }
    return final == 'M' ? (struct key){.code = KEY_ENTER} : (struct key){.code = KEY_OTHER};
}

static struct key of_bytes(struct str s)
{
    uint32_t cp;
    bool alt = s.n > 1 && s.p[0] == '\033';
    if (alt && s.p[1] == '[') {
        return of_csi(s);
    }
    if (alt && s.p[1] == 'O') {
        return of_ss3(s.p[2]);
    }
    s = str_from(s, alt);
    if (!utf8_valid(s)) {
        return (struct key){.code = KEY_OTHER};
    }
    utf8_decode(s, &cp);
    return of_codepoint(cp, alt ? KEY_ALT : 0);
}

// ---- pastes --------------------------------------------------------------------------------

// The text before the next sequence, or before a character whose end has not come.
static bool take_pasted(struct keys *k, struct str *bytes, struct key *out)
{
    const char *end = memchr(bytes->p, '\033', bytes->n);
    size_t n = end != NULL ? (size_t)(end - bytes->p) : utf8_cut(bytes->p, bytes->n, bytes->n);
    if (k->n != 0 || n == 0) {
        return false;
    }
    *out = (struct key){.code = KEY_PASTE, .text = {bytes->p, n}};
    *bytes = str_from(*bytes, n);
    return true;
}

// What is held is whole: a key, or a part of a paste. False when there is nothing to hand out.
static bool hand_out(struct keys *k, struct key *out)
{
    struct str s = {k->held, k->n};
    bool sequence = s.p[0] == '\033';
    k->taken = true;
    if (sequence && (str_eqz(s, "\033[200~") || str_eqz(s, "\033[201~"))) {
        k->pasting = s.p[4] == '0';
        return false;
    }
    *out = k->pasting ? (struct key){.code = KEY_PASTE, .text = s} : of_bytes(s);
    return !k->pasting || !sequence;
}

// ---- public --------------------------------------------------------------------------------

bool keys_next(struct keys *k, struct str *bytes, struct key *out)
{
    while (bytes->n != 0) {
        if (k->taken || breaks_off(k, bytes->p[0])) {
            k->n = 0;
            k->taken = false;
        }
        if (k->pasting && take_pasted(k, bytes, out)) {
            return true;
        }
        if (k->n == 1 && k->held[0] == '\033' && bytes->p[0] == '\033') {
            *bytes = str_from(*bytes, 1); // the first was the key; this one may begin a sequence
            *out = (struct key){.code = KEY_ESC};
            if (!k->pasting) {
                return true;
            }
            continue;
        }
        k->held[k->n++] = bytes->p[0];
        *bytes = str_from(*bytes, 1);
        if (is_whole(k->held, k->n)) {
            if (hand_out(k, out)) {
                return true;
            }
        } else if (k->n == KEYS_HELD) {
            k->n = 0; // no key is that long
        }
    }
    return false;
}

bool keys_waits(const struct keys *k)
{
    return !k->taken && k->n == 1 && k->held[0] == '\033' && !k->pasting;
}

void keys_timeout(struct keys *k, struct key *out)
{
    assert(keys_waits(k));
    k->n = 0;
    *out = (struct key){.code = KEY_ESC};
}
