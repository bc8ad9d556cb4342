// rewind.jsonl: lines of four kinds.
//
//     {"turn", "at", "text"}                  the state from here on is "before this turn"
//     {"turn", "begin": N}                    a command is about to run
//     {"turn", "base", "changes": [...], "end"?: N, "not_kept"?: [...]}
//     {"turn", "dropped": true}               its changes were given up to make room
//
// Each is one write at the end of the file, so a kill can only cut the last line off. A change without
// `after` is written before a file tool runs, and again with it afterwards; a "begin" without its "end"
// is settled when the session is used next.

#include "rewind/record.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/path.h"
#include "base/utf8.h"
#include "rewind/snapshot.h"

enum { RECORD_MAX = 256 << 20 };

// ---- reading ------------------------------------------------------------------------------------

/// A path is bytes, JSON is not: one that is no UTF-8 stands as hex digits under `path_hex`.
static const char *read_path(struct arena *a, const struct json *v)
{
    struct str hex = json_get_text(v, "path_hex");
    char *out = arena_strdup(a, json_get_text(v, "path"));
    if (hex.n != 0) {
        out = arena_calloc(a, hex.n / 2 + 1, 1);
        for (size_t i = 0; i + 1 < hex.n; i += 2) {
            char digits[3] = {hex.p[i], hex.p[i + 1], '\0'};
            out[i / 2] = (char)strtol(digits, NULL, 16);
        }
    }
    return out;
}

/// Does it lead to something below its base?
static bool is_beneath(const char *path)
{
    struct str rest = str_of(path);
    bool ok = path[0] != '\0' && path[0] != '/';
    while (ok && rest.n != 0) {
        ok = !str_eqz(str_cut(&rest, '/'), "..");
    }
    return ok;
}

void rewind_read_changes(const struct json *line, struct arena *a, rewind_changes *out)
{
    const char *base = arena_strdup(a, json_get_text(line, "base"));
    json_foreach_item (c, json_get(line, "changes")) {
        struct rewind_change change = {.base = base,
                                       .path = read_path(a, c),
                                       .before = kept_read(json_get(c, "before")),
                                       .after = kept_read(json_get(c, "after")),
                                       .open = json_get(c, "after") == NULL};
        if (is_beneath(change.path)) { // else the line is damaged
            vec_push(out, change);
        }
    }
}

struct rewind_point *rewind_record_find(const struct rewind_record *r, const char *turn)
{
    for (size_t i = r->points.n; i-- > 0;) {
        if (strcmp(r->points.p[i].turn, turn) == 0) {
            return &r->points.p[i];
        }
    }
    return NULL;
}

static void take_line(struct rewind_record *r, const struct json *v)
{
    const char *turn = arena_strdup(&r->arena, json_get_text(v, "turn"));
    struct rewind_point *p = rewind_record_find(r, turn);
    int64_t begin = json_int(json_get(v, "begin"), 0), end = json_int(json_get(v, "end"), 0);
    if (p == NULL) {
        vec_push(&r->points, ((struct rewind_point){.turn = turn, .text = STR("")}));
        p = vec_last(&r->points);
    }
    if (json_get(v, "at") != NULL) {
        p->at = json_int(json_get(v, "at"), 0);
        p->text = json_get_text(v, "text");
    }
    p->dropped = p->dropped || json_bool(json_get(v, "dropped"), false);
    if (begin > 0) {
        r->next_call = (uint64_t)begin + 1;
        r->open_call = (uint64_t)begin;
        r->open_turn = turn;
    }
    if (end > 0 && r->open_call == (uint64_t)end) {
        r->open_call = 0;
    }
    rewind_read_changes(v, &r->arena, &p->changes);
    json_foreach_item (line, json_get(v, "not_kept")) {
        vec_push(&p->not_kept, arena_strdup(&r->arena, json_str(line, "")));
    }
}

int rewind_record_read(struct rewind_record *r, const char *path, struct err *e)
{
    struct buf text = {.max = RECORD_MAX};
    *r = (struct rewind_record){.next_call = 1};
    int rc = access(path, F_OK) == 0 ? path_read(path, &text, e) : 0;
    struct str rest = rc == 0 ? arena_str(&r->arena, buf_str(&text)) : STR_NULL;
    while (rest.n != 0) {
        struct json *v;
        struct str line = str_cut(&rest, '\n');
        if (line.n != 0 && json_parse(&v, &r->arena, line, NULL, NULL) == 0) {
            take_line(r, v);
        }
    }
    buf_fini(&text);
    return rc;
}

void rewind_record_fini(struct rewind_record *r)
{
    vec_foreach (p, &r->points) {
        vec_fini(&p->changes);
        vec_fini(&p->not_kept);
    }
    vec_fini(&r->points);
    arena_fini(&r->arena);
}

// ---- writing ------------------------------------------------------------------------------------

int rewind_record_append(const char *path, struct str line, struct err *e)
{
    struct buf out = {.max = SIZE_MAX};
    char last = '\n';
    int fd = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
    off_t size = fd >= 0 ? lseek(fd, 0, SEEK_END) : -1;
    if (size > 0 && pread(fd, &last, 1, size - 1) != 1) {
        size = -1;
    }
    buf_addz(&out, last != '\n' ? "\n" : "");
    buf_adds(&out, line);
    buf_addc(&out, '\n');
    ssize_t n = size >= 0 ? write(fd, out.p, out.n) : -1;
    int rc = n == (ssize_t)out.n ? 0 : err_sys(e, "cannot write '%s'", path);
    if (fd >= 0) {
        close(fd);
    }
    buf_fini(&out);
    return rc;
}

void rewind_write_changes(struct jw *w, const char *base, const struct rewind_change *list,
                          size_t n)
{
    static const char digits[] = "0123456789abcdef";
    jw_kstrz(w, "base", base);
    jw_karr(w, "changes");
    for (size_t i = 0; i < n; i++) {
        const struct rewind_change *c = &list[i];
        jw_obj(w);
        if (utf8_valid(str_of(c->path))) {
            jw_kstrz(w, "path", c->path);
        } else {
            struct buf hex = {.max = SIZE_MAX};
            for (const unsigned char *p = (const unsigned char *)c->path; *p != '\0'; p++) {
                buf_addc(&hex, digits[*p >> 4]);
                buf_addc(&hex, digits[*p & 15]);
            }
            jw_kstr(w, "path_hex", buf_str(&hex));
            buf_fini(&hex);
        }
        kept_write(w, "before", &c->before);
        if (!c->open) {
            kept_write(w, "after", &c->after);
        }
        jw_end_obj(w);
    }
    jw_end_arr(w);
}

// ---- making room --------------------------------------------------------------------------------

struct needed {
    vec(const char *) hashes; // sorted
};

static int by_hash(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static bool is_needed(void *arg, const char *hash)
{
    const struct needed *n = arg;
    return n->hashes.n != 0 &&
           bsearch(&hash, n->hashes.p, n->hashes.n, sizeof *n->hashes.p, by_hash) != NULL;
}

/// Remove contents that neither `now` nor a point that still counts holds.
static void sweep(const struct kept_store *store, const struct rewind_record *r,
                  const struct snapshot *now)
{
    struct needed need = {0};
    vec_foreach (f, &now->files) {
        vec_push(&need.hashes, f->state.hash);
    }
    vec_foreach (p, &r->points) {
        for (size_t i = 0; !p->dropped && i < p->changes.n; i++) {
            vec_push(&need.hashes, p->changes.p[i].before.hash);
        }
    }
    str_sort(need.hashes.p, need.hashes.n);
    kept_sweep(store, is_needed, &need);
    vec_fini(&need.hashes);
}

int rewind_record_shrink(const char *path, const struct kept_store *store,
                         const struct snapshot *now, uint64_t max, struct err *e)
{
    struct rewind_record r;
    if (kept_bytes(store) <= max) {
        return 0;
    }
    int rc = rewind_record_read(&r, path, e);
    for (size_t at = 0; rc == 0 && at + 1 < r.points.n && kept_bytes(store) > max;) {
        size_t half = at + (r.points.n - at) / 2; // few sweeps, however many points
        for (; rc == 0 && at < half; at++) {
            struct rewind_point *p = &r.points.p[at];
            if (!p->dropped && p->changes.n != 0) {
                char *line = arena_printf(&r.arena, "{\"turn\":\"%s\",\"dropped\":true}", p->turn);
                rc = rewind_record_append(path, str_of(line), e);
                p->dropped = true;
            }
        }
        sweep(store, &r, now);
    }
    rewind_record_fini(&r);
    return rc;
}
