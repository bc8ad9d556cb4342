// The tokenizer of terminal output.
//
// Two ways through it give the same tokens: a fast one, for what is whole in the bytes at hand, and one
// byte at a time through `held`, for what was cut in two by a read.
//
//     GROUND ── ESC ──> ESCAPE ── '[' ──> CONTROL ── final ──> token
//        │                 ├─ "]PX^_" ──> STRING ── BEL, ST ──> token
//        │                 └─ other ────> token
//        └─ lead byte of UTF-8 ──> UTF8 ── last byte ──> token
//
// CAN and SUB give up a sequence, ESC begins another; other control characters inside a control sequence
// are obeyed at once, as terminals do.

#include "vt/scan.h"

#include <assert.h>

#include "base/utf8.h"

enum state { GROUND, UTF8, ESCAPE, CONTROL, STRING, STRING_ESC };

enum { BEL = 7, SO = 14, SI = 15, CAN = 24, SUB = 26, ESC = 27, DEL = 127 };

void scan_init(struct scan *s)
{
    s->state = GROUND;
    buf_init(&s->held, SIZE_MAX);
}

void scan_fini(struct scan *s)
{
    buf_fini(&s->held);
}

unsigned scan_numbers(struct str params, unsigned *out, unsigned max)
{
    unsigned n = 1;
    bool sub = false;
    assert(max != 0);
    out[0] = 0;
    for (size_t i = 0; i < params.n; i++) {
        char c = params.p[i];
        if (c == ';' && n == max) {
            break;
        }
        if (c == ';') {
            out[n++] = 0;
            sub = false;
        } else if (c == ':') {
            sub = true;
        } else if (!sub) {
            out[n - 1] = MIN(out[n - 1] * 10 + (unsigned)(c - '0'), 65535u);
        }
    }
    return n;
}

// ---- text ----------------------------------------------------------------------------------

/// Control characters that change the screen. What else is below space is dropped, ENQ above all: a
/// terminal would answer it.
static bool is_text_control(unsigned char c)
{
    return c >= 7 && c <= SI;
}

static bool is_plain(unsigned char c)
{
    return (c >= ' ' && c < DEL) || (c >= 7 && c <= 13);
}

/// Length of the character that begins with `c`; 0 when none does.
static size_t utf8_length(unsigned char c)
{
    return c >= 0xf5 ? 0 : c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : c >= 0xc2 ? 2 : 0;
}

static bool is_c1(struct str s)
{
    return s.n == 2 && (unsigned char)s.p[0] == 0xc2 && (unsigned char)s.p[1] < 0xa0;
}

/// A whole, good, printable character at the front of `in`: its length, else 0.
static size_t whole_char(struct str in)
{
    size_t n = utf8_length((unsigned char)in.p[0]);
    struct str c = {in.p, n};
    return n != 0 && n <= in.n && utf8_valid(c) && !is_c1(c) ? n : 0;
}

static bool take_text(struct str *in, struct scan_token *t)
{
    size_t n = 0, more;
    do {
        while (n < in->n && is_plain((unsigned char)in->p[n])) {
            n++;
        }
        more = n < in->n ? whole_char(str_from(*in, n)) : 0;
        n += more;
    } while (more != 0);
    *t = (struct scan_token){.kind = SCAN_TEXT, .bytes = {in->p, n}};
    *in = str_from(*in, n);
    return n != 0;
}

static bool give_char(struct scan_token *t, struct str bytes)
{
    *t = (struct scan_token){.kind = SCAN_TEXT, .bytes = bytes};
    return true;
}

/// The next byte of a character that was begun. A byte that cannot follow is looked at again.
static bool on_utf8(struct scan *s, struct str *in, struct scan_token *t)
{
    unsigned char c = (unsigned char)in->p[0];
    size_t need = utf8_length((unsigned char)s->held.p[0]);
    if ((c & 0xc0) != 0x80) {
        s->state = GROUND;
        return give_char(t, STR("\xef\xbf\xbd"));
    }
    buf_addc(&s->held, (char)c);
    *in = str_from(*in, 1);
    if (s->held.n < need) {
        return false;
    }
    s->state = GROUND;
    struct str whole = buf_str(&s->held);
    return is_c1(whole) ? false : give_char(t, utf8_valid(whole) ? whole : STR("\xef\xbf\xbd"));
}

// ---- sequences -----------------------------------------------------------------------------

/// Take a control sequence apart. False when its bytes are in no possible order.
static bool parse_control(struct str bytes, struct scan_token *t)
{
    size_t at = 2, end = bytes.n - 1;
    *t = (struct scan_token){.kind = SCAN_CONTROL, .bytes = bytes, .final = bytes.p[end]};
    if (at < end && bytes.p[at] >= '<' && bytes.p[at] <= '?') {
        t->prefix = bytes.p[at++];
    }
    t->params.p = bytes.p + at;
    while (at < end && bytes.p[at] >= '0' && bytes.p[at] <= ';') {
        at++;
    }
    t->params.n = (size_t)(bytes.p + at - t->params.p);
    if (at < end && bytes.p[at] >= ' ' && bytes.p[at] <= '/') {
        t->inter = bytes.p[at++];
    }
    return at == end;
}

/// Length of the control sequence at the start of `in`; 0 if it is not whole.
static size_t whole_control(struct str in)
{
    if (in.n < 3 || in.p[1] != '[') {
        return 0;
    }
    for (size_t i = 2; i < MIN(in.n, SCAN_CONTROL_MAX - 1); i++) {
        if (in.p[i] >= '@' && in.p[i] < DEL) {
            return i + 1;
        }
        if (in.p[i] < ' ' || in.p[i] >= DEL) {
            return 0;
        }
    }
    return 0;
}

static bool on_escape(struct scan *s, char c, struct scan_token *t)
{
    buf_addc(&s->held, c);
    if (c >= ' ' && c <= '/') { // an intermediate byte
        if (s->held.n > 3) {
            s->state = GROUND;
        }
        return false;
    }
    if (s->held.n == 2 && c == '[') {
        s->state = CONTROL;
        return false;
    }
    if (s->held.n == 2 && strchr("]PX^_", c) != NULL) {
        s->state = STRING;
        return false;
    }
    s->state = GROUND;
    *t = (struct scan_token){.kind = SCAN_ESCAPE, .bytes = buf_str(&s->held), .final = c};
    t->inter = s->held.n == 3 ? s->held.p[1] : '\0';
    return s->held.n <= 3 && c >= '0' && c < DEL;
}

static bool on_control(struct scan *s, char c, struct scan_token *t)
{
    if (s->held.n < SCAN_CONTROL_MAX) {
        buf_addc(&s->held, c);
    }
    if (c < '@') {
        return false;
    }
    s->state = GROUND; // one that was too long does not end in its final byte
    return s->held.n < SCAN_CONTROL_MAX && parse_control(buf_str(&s->held), t);
}

static bool end_string(struct scan *s, struct scan_token *t)
{
    s->state = GROUND;
    if (s->held.n >= SCAN_STRING_MAX) {
        return false;
    }
    *t = (struct scan_token){.kind = SCAN_STRING, .bytes = buf_str(&s->held)};
    t->final = t->bytes.p[1];
    t->params = str_from(t->bytes, 2);
    return true;
}

static bool on_string(struct scan *s, char c, struct scan_token *t)
{
    if (c == BEL || s->state == STRING_ESC) { // on_sequence() saw that `c` ends it
        return end_string(s, t);
    }
    if (s->held.n < SCAN_STRING_MAX) {
        buf_addc(&s->held, c);
    }
    return false;
}

/// One byte inside a sequence.
static bool on_sequence(struct scan *s, struct str *in, struct scan_token *t)
{
    char c = in->p[0];
    if (s->state == STRING_ESC && c != '\\') { // the string was given up, a sequence began
        s->state = ESCAPE;
        buf_clear(&s->held);
        buf_addc(&s->held, ESC);
    }
    *in = str_from(*in, 1);
    if (c == ESC) {
        s->state = s->state == STRING ? STRING_ESC : ESCAPE;
        if (s->state == ESCAPE) {
            buf_clear(&s->held);
            buf_addc(&s->held, ESC);
        }
        return false;
    }
    if (c == CAN || c == SUB) {
        s->state = GROUND;
        return false;
    }
    if (s->state == STRING || s->state == STRING_ESC) {
        return on_string(s, c, t);
    }
    if ((unsigned char)c < ' ') {
        s->control = c;
        return is_text_control((unsigned char)c) && give_char(t, (struct str){&s->control, 1});
    }
    if ((unsigned char)c >= DEL) {
        return false;
    }
    return s->state == ESCAPE ? on_escape(s, c, t) : on_control(s, c, t);
}

/// What is neither text nor inside a sequence.
static bool on_ground(struct scan *s, struct str *in, struct scan_token *t)
{
    unsigned char c = (unsigned char)in->p[0];
    size_t n = c == ESC ? whole_control(*in) : 0;
    if (n != 0) {
        struct str bytes = {in->p, n};
        *in = str_from(*in, n);
        return parse_control(bytes, t);
    }
    *in = str_from(*in, 1);
    buf_clear(&s->held);
    if (c == ESC || utf8_length(c) != 0) {
        s->state = c == ESC ? ESCAPE : UTF8;
        buf_addc(&s->held, (char)c);
        return false;
    }
    if (c == SO || c == SI) {
        return give_char(t, c == SO ? STR("\016") : STR("\017"));
    }
    return c >= 0x80 && give_char(t, STR("\xef\xbf\xbd"));
}

bool scan_next(struct scan *s, struct str *in, struct scan_token *t)
{
    while (in->n != 0) {
        bool found = s->state == GROUND ? take_text(in, t) || (in->n != 0 && on_ground(s, in, t))
                     : s->state == UTF8 ? on_utf8(s, in, t)
                                        : on_sequence(s, in, t);
        if (found) {
            return true;
        }
    }
    return false;
}
