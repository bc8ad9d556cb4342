// The style that text is written in: CSI m, read and written.
//
// libvterm's own reading of it knows no dim text, so it is never told of styles: the pen is ours alone.

#include "vt/vt_int.h"

enum { PEN_PARAMS = 32 };

/// A number of CSI m with its subparameters.
struct param {
    unsigned value[6]; // value, then subparameters; 0 where none was given
    unsigned n;
};

static unsigned split_params(struct str s, struct param out[PEN_PARAMS])
{
    unsigned n = 1;
    out[0] = (struct param){.n = 1};
    for (size_t i = 0; i < s.n; i++) {
        struct param *p = &out[n - 1];
        if (s.p[i] == ';' && n == PEN_PARAMS) {
            break;
        }
        if (s.p[i] == ';') {
            out[n++] = (struct param){.n = 1};
        } else if (s.p[i] == ':') {
            p->n = MIN(p->n + 1, (unsigned)ARRAY_LEN(p->value));
        } else {
            unsigned *v = &p->value[p->n - 1];
            *v = MIN(*v * 10 + (unsigned)(s.p[i] - '0'), 65535u);
        }
    }
    return n;
}

static uint32_t rgb(unsigned r, unsigned g, unsigned b)
{
    return VT_RGB | (MIN(r, 255u) << 16) | (MIN(g, 255u) << 8) | MIN(b, 255u);
}

/// The colour after 38, 48 or 58: `38:2::r:g:b`, `38:5:n`, or the same with ';'. Returns how many parameters
/// follow that belong to it.
static unsigned read_color(const struct param *p, unsigned left, uint32_t *out)
{
    if (p->n > 1) { // with ':'
        unsigned first = p->n > 5 ? 3 : 2;
        *out = p->value[1] == 5   ? VT_INDEXED | MIN(p->value[2], 255u)
               : p->value[1] == 2 ? rgb(p->value[first], p->value[first + 1], p->value[first + 2])
                                  : *out;
        return 0;
    }
    if (left >= 2 && p[1].value[0] == 5) {
        *out = VT_INDEXED | MIN(p[2].value[0], 255u);
        return 2;
    }
    if (left >= 4 && p[1].value[0] == 2) {
        *out = rgb(p[2].value[0], p[3].value[0], p[4].value[0]);
        return 4;
    }
    return left; // not understood: what follows is not either
}

static void set_underline(struct vt_cell *pen, const struct param *p)
{
    unsigned kind = p->n > 1 ? p->value[1] : 1;
    pen->attrs &= (uint16_t) ~(VT_UNDERLINE | VT_DOUBLE | VT_CURLY);
    pen->attrs |= (uint16_t)(kind == 0   ? 0
                             : kind == 2 ? VT_UNDERLINE | VT_DOUBLE
                             : kind == 3 ? VT_UNDERLINE | VT_CURLY
                                         : VT_UNDERLINE);
}

// number, attributes that it switches on and off
static const struct {
    unsigned char number;
    uint16_t on, off;
} attrs[] = {
    {1, VT_BOLD, 0},           {2, VT_DIM, 0},      {3, VT_ITALIC, 0},
    {5, VT_BLINK, 0},          {6, VT_BLINK, 0},    {7, VT_REVERSE, 0},
    {8, VT_HIDDEN, 0},         {9, VT_STRIKE, 0},   {21, VT_UNDERLINE | VT_DOUBLE, VT_CURLY},
    {22, 0, VT_BOLD | VT_DIM}, {23, 0, VT_ITALIC},  {24, 0, VT_UNDERLINE | VT_DOUBLE | VT_CURLY},
    {25, 0, VT_BLINK},         {27, 0, VT_REVERSE}, {28, 0, VT_HIDDEN},
    {29, 0, VT_STRIKE},
};

static void set_attr(struct vt_cell *pen, unsigned number)
{
    for (size_t i = 0; i < ARRAY_LEN(attrs); i++) {
        if (attrs[i].number == number) {
            pen->attrs = (uint16_t)((pen->attrs & ~attrs[i].off) | attrs[i].on);
        }
    }
}

void vt__set_pen(struct vt_cell *pen, struct str params)
{
    struct param p[PEN_PARAMS];
    unsigned n = split_params(params, p);
    for (unsigned i = 0; i < n; i++) {
        unsigned v = p[i].value[0], left = n - i - 1;
        uint32_t underline = 0; // its colour is not kept
        if (v == 0) {
            *pen = (struct vt_cell){.width = 1};
        } else if (v == 4) {
            set_underline(pen, &p[i]);
        } else if ((v >= 30 && v <= 37) || (v >= 90 && v <= 97)) {
            pen->fg = VT_INDEXED | (v >= 90 ? v - 82 : v - 30);
        } else if ((v >= 40 && v <= 47) || (v >= 100 && v <= 107)) {
            pen->bg = VT_INDEXED | (v >= 100 ? v - 92 : v - 40);
        } else if (v == 38 || v == 48 || v == 58) {
            i += read_color(&p[i], left, v == 38 ? &pen->fg : v == 48 ? &pen->bg : &underline);
        } else if (v == 39) {
            pen->fg = 0;
        } else if (v == 49) {
            pen->bg = 0;
        } else {
            set_attr(pen, v);
        }
    }
}

static void add_color(struct buf *out, uint32_t color, unsigned base)
{
    unsigned i = color & 255;
    if ((color & VT_COLOR_KIND) == VT_RGB) {
        buf_addf(out, ";%u;2;%u;%u;%u", base + 8, color >> 16 & 255, color >> 8 & 255, i);
    } else if ((color & VT_COLOR_KIND) == VT_INDEXED && i < 8) {
        buf_addf(out, ";%u", base + i);
    } else if ((color & VT_COLOR_KIND) == VT_INDEXED && i < 16) {
        buf_addf(out, ";%u", base + 52 + i);
    } else if ((color & VT_COLOR_KIND) == VT_INDEXED) {
        buf_addf(out, ";%u;5;%u", base + 8, i);
    }
}

void vt__add_pen(struct buf *out, const struct vt_cell *pen)
{
    unsigned underline = pen->attrs & (VT_UNDERLINE | VT_DOUBLE | VT_CURLY);
    buf_addz(out, "\033[0");
    for (size_t i = 0; i < ARRAY_LEN(attrs); i++) {
        if (attrs[i].off == 0 && attrs[i].number != 6 && (pen->attrs & attrs[i].on) != 0) {
            buf_addf(out, ";%d", attrs[i].number);
        }
    }
    if (underline != 0) {
        buf_addz(out, underline & VT_CURLY ? ";4:3" : underline & VT_DOUBLE ? ";21" : ";4");
    }
    add_color(out, pen->fg, 30);
    add_color(out, pen->bg, 40);
    buf_addc(out, 'm');
}
