// Log lines of Lua code go to the hub's log and to a ring of their unit, which `GET /plugin/{name}/logs` shows. Rings are
// kept by the unit's name, so that the lines before a reload are not lost.

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
    size_t bytes; // of all lines: see line_bytes()
};

/// What a line counts for; an empty one is not free.
static size_t line_bytes(const struct line *l)
{
    return l->n + sizeof *l;
}

void bind__log(void *bind, const struct vm_owner *owner, enum log_level level, struct str text)
{
    struct bind *b = bind;
    struct str unit = str_of(owner != NULL ? vm_owner_name(owner) : "lua");
    text.n = utf8_cut(text.p, text.n, TEXT_MAX);
    bind_log_add(b, unit, level, text);
    log_write(level, LOG_HUB, "unit=%s text=%s", LOGQ(unit).z, LOGQ(text).z);
}

static void ring_free(struct bind__ring *r)
{
    vec_foreach (l, &r->lines) {
        free(l->text);
    }
    vec_fini(&r->lines);
    free(r);
}

void bind__logs_close(struct bind *b)
{
    map_fini_each(&b->logs, ring_free);
}

void bind_log_add(struct bind *b, struct str unit, enum log_level level, struct str text)
{
    struct bind__ring *r = map_get(&b->logs, unit);
    struct buf shown = {.max = SIZE_MAX};
    if (r == NULL) {
        r = xcalloc(1, sizeof *r);
        map_set(&b->logs, unit, r);
    }
    text.n = utf8_cut(text.p, text.n, TEXT_MAX);
    log_redact_lines(&shown, text);
    struct line l = {.ts = loop_wall(b->o.hub->loop), .level = level};
    l.text = buf_take(&shown, &l.n);
    vec_push(&r->lines, l);
    r->bytes += line_bytes(&l);
    while (r->bytes > RING_BYTES && r->lines.n > 1) {
        assert(r->bytes >= line_bytes(&r->lines.p[0]));
        r->bytes -= line_bytes(&r->lines.p[0]);
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
