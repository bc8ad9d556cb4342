// The screen and its filter: whatever the split, the same clean bytes come out; they draw the same screen;
// and they hold no question and no string but titles and links.

#include <assert.h>

#include "vt/scan.h"
#include "vt/vt.h"

static void check_allowed(struct str bytes)
{
    struct scan s;
    struct scan_token t;
    scan_init(&s);
    while (scan_next(&s, &bytes, &t)) {
        assert(t.kind != SCAN_STRING || str_starts(t.bytes, "\033]2;") ||
               str_starts(t.bytes, "\033]8;"));
        assert(t.kind != SCAN_CONTROL || strchr("cnqtxu", t.final) == NULL || t.inter == ' ');
        assert(t.kind != SCAN_ESCAPE || strchr("78=>DEM", t.final) != NULL);
    }
    assert(s.held.n == 0 || s.state == 0); // nothing is left open
    scan_fini(&s);
}

static void check_same(struct vt *a, struct vt *b)
{
    char x[VT_TEXT_MAX], y[VT_TEXT_MAX];
    assert(vt_get_cursor(a).row == vt_get_cursor(b).row);
    for (int row = 0; row < vt_rows(a); row++) {
        const struct vt_cell *p = vt_row(a, row), *q = vt_row(b, row);
        for (int col = 0; col < vt_cols(a); col++) {
            vt_cell_text(a, &p[col], x);
            vt_cell_text(b, &q[col], y);
            assert(strcmp(x, y) == 0 && p[col].bg == q[col].bg && p[col].width == q[col].width);
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct str bytes = {(const char *)data, n};
    struct buf clean = {.max = SIZE_MAX}, split = {.max = SIZE_MAX}, again = {.max = SIZE_MAX};
    struct vt *a = vt_new(6, 20, 30, NULL, NULL), *b = vt_new(6, 20, 30, NULL, NULL);
    struct vt *c = vt_new(6, 20, 30, NULL, NULL);
    vt_feed(a, bytes, &clean);
    for (size_t i = 0; i < n; i++) {
        vt_feed(b, (struct str){bytes.p + i, 1}, &split);
    }
    assert(str_eq(buf_str(&clean), buf_str(&split)));
    check_allowed(buf_str(&clean));
    vt_feed(c, buf_str(&clean), NULL);
    check_same(a, c);
    if (n != 0) { // another size: nothing is read or written outside
        vt_resize(a, data[0] % 40, data[n - 1] % 90);
        vt_snapshot(a, 100, &again);
        for (int row = -vt_history(a); row < vt_rows(a); row++) {
            vt_row(a, row);
        }
    }
    vt_free(a);
    vt_free(b);
    vt_free(c);
    buf_fini(&clean);
    buf_fini(&split);
    buf_fini(&again);
    return 0;
}
