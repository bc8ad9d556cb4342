// One session, whole: out of files or PostgreSQL, into the other, and compared event by event.
//
// It appears at once: in files by one rename, in PostgreSQL by one commit. Its events keep their numbers and times. Ids
// of the stream are given out anew; they belong to the store that gave them.

#include <fcntl.h>
#include <unistd.h>

#include "base/path.h"
#include "pg/pg.h"
#include "store/doc.h"
#include "store/index.h"
#include "store/journal.h"
#include "store/move_int.h"
#include "store/walk.h"

enum { PAGE = 1000, PAGE_BYTES = 4 << 20 };

void move__record_init(struct move_record *r)
{
    struct buf *const all[] = {&r->id, &r->dir, &r->meta, &r->lines};
    for (size_t i = 0; i < ARRAY_LEN(all); i++) {
        buf_init(all[i], SIZE_MAX);
    }
    r->n = 0;
}

void move__record_fini(struct move_record *r)
{
    buf_fini(&r->id);
    buf_fini(&r->dir);
    buf_fini(&r->meta);
    buf_fini(&r->lines);
}

/// An event's line in its parts. `fields` is everything after its type.
struct parts {
    uint64_t seq;
    int64_t ts;
    struct str type, fields;
};

/// Lines that we wrote; false for any other.
static bool split(struct str line, struct parts *out)
{
    struct journal_line l = {.text = line};
    char why[JOURNAL_WHY];
    struct str rest = line, part[10];
    for (size_t i = 0; i < ARRAY_LEN(part); i++) {
        part[i] = str_cut(&rest, '"');
    }
    if (!journal_line_read(&l, why) || !str_eqz(part[1], "seq") || !str_eqz(part[3], "ts") ||
        !str_eqz(part[7], "type") || rest.n == 0) {
        return false;
    }
    struct str fields = {rest.p, rest.n - 1}; // without the brace at the end
    *out = (struct parts){.seq = l.seq,
                          .ts = l.ts,
                          .type = part[9],
                          .fields = fields.n != 0 ? str_from(fields, 1) : fields};
    return true;
}

// ---- files ------------------------------------------------------------------------------------

static int read_journal(struct move_record *r, const char *path, struct err *e)
{
    struct journal *j;
    size_t n = 1;
    int rc = journal_open(&j, path, JOURNAL_START, NULL, e);
    while (rc == 0 && n != 0) {
        rc = journal_read(j, r->n, PAGE, PAGE_BYTES, &r->lines, &n, e);
        r->n += rc == 0 ? n : 0;
    }
    journal_close(j);
    return rc;
}

/// ERR_NOT_FOUND when nothing is there.
static int read_files(struct move_record *r, const char *home, struct str dir, struct err *e)
{
    char *meta = xasprintf("%s/" STR_FMT "/metadata.json", home, STR_ARG(dir));
    char *events = xasprintf("%s/" STR_FMT "/events.jsonl", home, STR_ARG(dir));
    bool has_events = access(events, F_OK) == 0;
    int rc = doc_load(meta, &r->meta, e);
    if (rc == 0 && r->meta.n == 0) {
        rc = has_events
                 ? err_set(e, ERR_CORRUPT, "'%s' is missing; 'afloat fsck --repair' makes it again",
                           meta)
                 : err_set(e, ERR_NOT_FOUND, "there is no session in '" STR_FMT "'", STR_ARG(dir));
    }
    buf_cut(&r->meta, str_trim(buf_str(&r->meta)).n);
    if (rc == 0 && has_events) {
        rc = read_journal(r, events, e);
    }
    free(meta);
    free(events);
    return rc;
}

static int encode_all(const struct move_record *r, struct buf *out, struct err *e)
{
    struct str lines = buf_str(&r->lines);
    int rc = 0;
    while (lines.n != 0 && rc == 0) {
        struct parts p;
        if (split(str_cut(&lines, '\n'), &p)) {
            struct store_event ev = {.type = p.type, .fields = p.fields};
            rc = journal_encode(out, p.seq, p.ts, &ev, e);
        } else {
            rc = err_set(e, ERR_CORRUPT, "an event of session '%s' cannot be read", buf_z(&r->id));
        }
    }
    return rc;
}

static int write_whole(const char *path, struct str bytes, struct err *e)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    bool ok = fd >= 0 && path_write_fd(fd, bytes) == 0 && fsync(fd) == 0;
    int rc = ok ? 0 : err_sys(e, "cannot write '%s'", path);
    if (fd >= 0) {
        close(fd);
    }
    return rc;
}

static int write_files(const struct move_record *r, const char *home, struct err *e)
{
    struct buf journal = {.max = SIZE_MAX};
    char *temp = path_join(home, "state/import");
    char *meta = path_join(temp, "metadata.json"), *events = path_join(temp, "events.jsonl");
    char *final = path_join(home, buf_z(&r->dir));
    char *parent = str_dup(path_dir(str_of(final)));
    if (access(temp, F_OK) == 0) { // of an import that was cut short
        (void)!path_remove_tree(temp, NULL);
    }
    int rc = path_mkdirs(temp, 0700, e);
    rc = rc == 0 ? path_mkdirs(parent, 0700, e) : rc;
    rc = rc == 0 ? doc_save(meta, buf_str(&r->meta), e) : rc;
    rc = rc == 0 ? encode_all(r, &journal, e) : rc;
    rc = rc == 0 ? write_whole(events, buf_str(&journal), e) : rc;
    if (rc == 0 && rename(temp, final) != 0) {
        rc = err_sys(e, "cannot make '%s'", final);
    }
    rc = rc == 0 ? walk_sync_dir(parent, e) : rc;
    char *const paths[] = {temp, meta, events, final, parent};
    for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
        free(paths[i]);
    }
    buf_fini(&journal);
    return rc;
}

// ---- PostgreSQL -------------------------------------------------------------------------------

static int read_pg_events(struct move_record *r, struct pg_link *l, struct err *e)
{
    size_t got = 1;
    int rc = 0;
    while (rc == 0 && got != 0) {
        struct pg_number n[2];
        struct pg_result *res;
        const struct pg_param params[] = {pg_text(buf_str(&r->id)), pg_int(&n[0], (int64_t)r->n),
                                          pg_int(&n[1], PAGE)};
        rc =
            pg_link_run(l,
                        "SELECT seq, ts, type, fields FROM afloat.events WHERE owner = current_user"
                        " AND session = $1 AND seq > $2 ORDER BY seq LIMIT $3",
                        params, 3, &res, e);
        got = rc == 0 ? pg_rows(res) : 0;
        for (size_t i = 0; i < got; i++) {
            struct store_event ev = {.type = pg_get(res, i, 2), .fields = pg_get(res, i, 3)};
            journal_line_make(&r->lines, (uint64_t)pg_get_int(res, i, 0), pg_get_int(res, i, 1),
                              &ev);
        }
        r->n += got;
        if (rc == 0) {
            pg_result_free(res);
        }
    }
    return rc;
}

/// ERR_NOT_FOUND when nothing is there.
static int read_pg(struct move_record *r, struct pg_link *l, struct str id, struct err *e)
{
    struct pg_result *res;
    const struct pg_param param = pg_text(id);
    int rc = pg_link_run(
        l, "SELECT id, dir, meta FROM afloat.sessions WHERE owner = current_user AND id = $1",
        &param, 1, &res, e);
    if (rc < 0) {
        return rc;
    }
    if (pg_rows(res) == 0) {
        pg_result_free(res);
        return err_set(e, ERR_NOT_FOUND, "there is no session '" STR_FMT "'", STR_ARG(id));
    }
    buf_adds(&r->id, pg_get(res, 0, 0));
    buf_adds(&r->dir, pg_get(res, 0, 1));
    buf_adds(&r->meta, pg_get(res, 0, 2));
    pg_result_free(res);
    return read_pg_events(r, l, e);
}

static const char insert_events[] =
    "WITH taken AS (SELECT afloat.stream_take(cardinality($3::text[])) AS before)"
    " INSERT INTO afloat.events (id, session, seq, ts, type, fields, hub, token)"
    " SELECT before + i, $1, $2::bigint + i, at::bigint, t, f, 'import', 0 FROM taken,"
    " unnest($3::text[], $4::text[], $5::text[]) WITH ORDINALITY AS x(at, t, f, i)";

/// The next PAGE events out of `*lines`; `*done` counts them.
static int write_pg_page(struct pg_link *l, const struct move_record *r, struct str *lines,
                         size_t *done, struct err *e)
{
    struct buf list[3];
    struct pg_number n;
    size_t count = MIN(r->n - *done, (size_t)PAGE);
    int rc = 0;
    for (size_t i = 0; i < ARRAY_LEN(list); i++) {
        buf_init(&list[i], SIZE_MAX);
        pg_array_begin(&list[i], count);
    }
    for (size_t i = 0; i < count && rc == 0; i++) {
        struct parts p;
        char ts[24];
        if (!split(str_cut(lines, '\n'), &p) || p.seq != *done + i + 1) {
            rc = err_set(e, ERR_CORRUPT, "event %zu of session '%s' cannot be read", *done + i + 1,
                         buf_z(&r->id));
            break;
        }
        snprintf(ts, sizeof ts, "%lld", (long long)p.ts);
        pg_array_add(&list[0], str_of(ts));
        pg_array_add(&list[1], p.type);
        pg_array_add(&list[2], p.fields);
    }
    const struct pg_param params[] = {pg_text(buf_str(&r->id)), pg_int(&n, (int64_t)*done),
                                      pg_array(&list[0]), pg_array(&list[1]), pg_array(&list[2])};
    rc = rc == 0 ? pg_link_run(l, insert_events, params, 5, NULL, e) : rc;
    *done += count;
    for (size_t i = 0; i < ARRAY_LEN(list); i++) {
        buf_fini(&list[i]);
    }
    return rc;
}

static int write_pg(const struct move_record *r, struct pg_link *l, struct err *e)
{
    struct index_row x = {0};
    struct arena a = {0};
    struct pg_number n[2];
    struct str lines = buf_str(&r->lines);
    size_t done = 0;
    index_row_from_meta(&x, buf_str(&r->id), buf_str(&r->dir), buf_str(&r->meta), &a);
    const struct pg_param row[] = {pg_text(x.row.id),
                                   pg_text(x.row.dir),
                                   pg_text(x.row.kind),
                                   pg_text(x.row.state),
                                   pg_text(x.row.title),
                                   pg_text(x.row.meta),
                                   pg_int(&n[0], x.row.started_at),
                                   pg_text(STR("import"))};
    const struct pg_param last[] = {pg_text(x.row.id), pg_int(&n[1], (int64_t)r->n)};
    int rc = pg_link_script(l, "BEGIN", e);
    rc = rc == 0 ? pg_link_run(l, "SELECT afloat.session_new($1, $2, $3, $4, $5, $6, $7, $8)", row,
                               8, NULL, e)
                 : rc;
    while (rc == 0 && done < r->n) {
        rc = write_pg_page(l, r, &lines, &done, e);
    }
    rc = rc == 0 ? pg_link_run(l,
                               "UPDATE afloat.sessions SET last_seq = $2, updated_at = greatest("
                               "started_at, (SELECT max(ts) FROM afloat.events WHERE"
                               " owner = current_user AND session = $1))"
                               " WHERE owner = current_user AND id = $1",
                               last, 2, NULL, e)
                 : rc;
    rc = rc == 0 ? pg_link_script(l, "COMMIT", e) : rc;
    if (rc < 0) {
        (void)!pg_link_script(l, "ROLLBACK", NULL);
    }
    arena_fini(&a);
    return rc;
}

// ---- either side --------------------------------------------------------------------------------

int move__read(struct move_record *r, const struct move_side *s, struct str id, struct str dir,
               struct err *e)
{
    if (s->pg != NULL) {
        return read_pg(r, s->pg, id, e);
    }
    buf_adds(&r->id, id);
    buf_adds(&r->dir, dir);
    return read_files(r, s->home, dir, e);
}

bool move__is_meant(const struct move_side *s, struct str path)
{
    return s->below == NULL || str_starts(path, s->below);
}

/// Is it there, the same in every event? ERR_NOT_FOUND, ERR_CONFLICT.
static int compare(const struct move_side *s, const struct move_record *want, struct err *e)
{
    struct move_record has;
    struct parts a, b;
    move__record_init(&has);
    int rc = move__read(&has, s, buf_str(&want->id), buf_str(&want->dir), e);
    struct str x = buf_str(&want->lines), y = buf_str(&has.lines);
    bool same = rc == 0 && has.n == want->n && str_eq(buf_str(&has.meta), buf_str(&want->meta)) &&
                str_eq(buf_str(&has.dir), buf_str(&want->dir));
    while (same && x.n != 0) {
        same = split(str_cut(&x, '\n'), &a) && split(str_cut(&y, '\n'), &b) && a.seq == b.seq &&
               a.ts == b.ts && str_eq(a.type, b.type) && str_eq(a.fields, b.fields);
    }
    if (rc == 0 && !same) {
        rc = err_set(e, ERR_CONFLICT, "session '%s' is there already, and differs",
                     buf_z(&want->id));
    }
    move__record_fini(&has);
    return rc;
}

int move__put(const struct move_side *to, const struct move_record *r, bool *was_there,
              struct err *e)
{
    int there = compare(to, r, e);
    *was_there = there == 0;
    if (there != ERR_NOT_FOUND) {
        return there;
    }
    int rc = to->pg != NULL ? write_pg(r, to->pg, e) : write_files(r, to->home, e);
    return rc == 0 ? compare(to, r, e) : rc;
}

int move_session(const struct move_side *to, const char *home, struct str dir, struct err *e)
{
    struct move_side from = {.home = home};
    struct move_record r;
    bool was_there;
    move__record_init(&r);
    int rc = move__read(&r, &from, path_base(dir), dir, e);
    rc = rc == 0 ? move__put(to, &r, &was_there, e) : rc;
    move__record_fini(&r);
    return rc;
}
