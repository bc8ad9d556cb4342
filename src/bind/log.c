// What Lua code logs: to the hub's log, and to a ring of its unit for people who look at that unit
// alone. Rings are kept by the unit's name, so that a reload does not lose what led to it.

#include "base/buf.h"
#include "base/time.h"
#include "base/utf8.h"
#include "bind/bind_int.h"

enum { RING_BYTES = 64 * 1024, TEXT_MAX = 2048 };

struct line {
    int64_t ts;
    enum log_level level;
    char *text;
    size_t n;
};

struct bind__ring {
    vec(struct line) lines;
    size_t bytes;
};

void bind__log(void *bind, const struct vm_owner *owner, enum log_level level, struct str text)
{
    struct bind *b = bind;
    struct str unit = str_of(owner != NULL ? vm_owner_name(owner) : "lua");
    text.n = utf8_cut(text.p, text.n, TEXT_MAX);
    bind_log_add(b, unit, level, text);
    log_write(level, LOG_HUB, "unit=%s text=%s", LOGQ(unit).z, LOGQ(text).z);
}

void bind__logs_close(struct bind *b)
{
    size_t at = 0;
    struct str name;
    void *value;
    while (map_next(&b->logs, &at, &name, &value)) {
        struct bind__ring *r = value;
        vec_foreach (l, &r->lines) {
            free(l->text);
        }
        vec_fini(&r->lines);
        free(r);
    }
}

void bind_log_add(struct bind *b, struct str unit, enum log_level level, struct str text)
{
    struct bind__ring *r = map_get(&b->logs, unit);
    struct buf shown;
    if (r == NULL) {
        r = xcalloc(1, sizeof *r);
        map_set(&b->logs, unit, r);
    }
    text.n = utf8_cut(text.p, text.n, TEXT_MAX);
    buf_init(&shown, SIZE_MAX);
    log_redact(&shown, text);
    struct line l = {.ts = loop_wall(b->loop), .level = level};
    l.text = buf_take(&shown, &l.n);
    vec_push(&r->lines, l);
    r->bytes += l.n;
    while (r->bytes > RING_BYTES && r->lines.n > 1) {
        assert(r->bytes >= r->lines.p[0].n);
        r->bytes -= r->lines.p[0].n;
        free(r->lines.p[0].text);
        vec_remove(&r->lines, 0);
    }
}

void bind_log_write(const struct bind *b, struct str unit, struct jw *w)
{
    const struct bind__ring *r = map_get(&b->logs, unit);
    char ts[TIME_TEXT];
    for (size_t i = 0; r != NULL && i < r->lines.n; i++) {
        const struct line *l = &r->lines.p[i];
        jw_obj(w);
        jw_kstrz(w, "ts", time_format(l->ts, ts));
        jw_kstrz(w, "level", log_level_name(l->level));
        jw_kstr(w, "text", (struct str){l->text, l->n});
        jw_end_obj(w);
    }
}
