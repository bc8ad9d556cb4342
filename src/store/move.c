// Moving a store.
//
//     files ──┐                                    ┌──> files
//             ├──> record: one session, whole ──> ─┤       then read back and compared,
//     PostgreSQL ─┘   (in a file between the two)  └──> PostgreSQL     event by event
//
// A session is the unit: in files it appears by one rename, in PostgreSQL by one commit. Its events keep their
// numbers and times. Ids of the stream are given out anew; they belong to the store that gave them. Documents (feature
// choices, memory and skills of bots) follow, each compared too.

#include "store/move.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <glob.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/json.h"
#include "base/path.h"
#include "base/time.h"
#include "pg/pg.h"
#include "store/doc.h"
#include "store/index.h"
#include "store/journal.h"
#include "store/walk.h"

enum { PAGE = 1000, PAGE_BYTES = 4 << 20 };

/// A session, whole.
struct record {
    struct buf id, dir, meta;
    struct buf lines; // its events, as readers see them, each with its newline
    size_t n;
};

static void record_init(struct record *r)
{
    struct buf *const all[] = {&r->id, &r->dir, &r->meta, &r->lines};
    for (size_t i = 0; i < ARRAY_LEN(all); i++) {
        buf_init(all[i], SIZE_MAX);
    }
    r->n = 0;
}

static void record_fini(struct record *r)
{
    buf_fini(&r->id);
    buf_fini(&r->dir);
    buf_fini(&r->meta);
    buf_fini(&r->lines);
}

/// An event's line in its parts. `fields` is all behind its type.
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

static int read_journal(struct record *r, const char *path, struct err *e)
{
    struct journal *j;
    size_t n = 1;
    int rc = journal_open(&j, path, JOURNAL_START, NULL, e);
    while (rc == 0 && n != 0) {
        rc = journal_read(j, r->n, PAGE, PAGE_BYTES, &r->lines, &n, e);
        r->n += rc == 0 ? n : 0;
    }
    if (rc == 0) {
        journal_close(j);
    }
    return rc;
}

/// ERR_NOT_FOUND when nothing is there.
static int read_files(struct record *r, const char *home, struct str dir, struct err *e)
{
    char *meta = xasprintf("%s/" STR_FMT "/metadata.json", home, STR_ARG(dir));
    char *events = xasprintf("%s/" STR_FMT "/events.jsonl", home, STR_ARG(dir));
    int rc = doc_load(meta, &r->meta, e);
    if (rc == 0 && r->meta.n == 0) {
        rc = err_set(e, ERR_NOT_FOUND, "there is no session in '" STR_FMT "'", STR_ARG(dir));
    }
    buf_cut(&r->meta, str_trim(buf_str(&r->meta)).n);
    if (rc == 0 && access(events, F_OK) == 0) {
        rc = read_journal(r, events, e);
    }
    free(meta);
    free(events);
    return rc;
}

static int encode_all(const struct record *r, struct buf *out, struct err *e)
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
    bool ok = fd >= 0;
    while (ok && bytes.n != 0) {
        ssize_t n = write(fd, bytes.p, bytes.n);
        ok = n > 0;
        bytes = ok ? str_from(bytes, (size_t)n) : bytes;
    }
    ok = ok && fsync(fd) == 0;
    int rc = ok ? 0 : err_sys(e, "cannot write '%s'", path);
    if (fd >= 0) {
        close(fd);
    }
    return rc;
}

static int write_files(const struct record *r, const char *home, struct err *e)
{
    struct buf journal;
    char *temp = path_join(home, "state/import");
    char *meta = path_join(temp, "metadata.json"), *events = path_join(temp, "events.jsonl");
    char *final = path_join(home, buf_z(&r->dir));
    char *parent = str_dup(path_dir(str_of(final)));
    buf_init(&journal, SIZE_MAX);
    if (access(temp, F_OK) == 0) { // of an import that was cut short
        (void)!walk_remove(temp, NULL);
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

static int read_pg_events(struct record *r, struct pg_link *l, struct err *e)
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
            char ts[TIME_TEXT];
            struct str type = pg_get(res, i, 2), fields = pg_get(res, i, 3);
            buf_addf(&r->lines, "{\"seq\":%lld,\"ts\":\"%s\",\"type\":\"" STR_FMT "\"%s",
                     (long long)pg_get_int(res, i, 0), time_format(pg_get_int(res, i, 1), ts),
                     STR_ARG(type), fields.n != 0 ? "," : "");
            buf_adds(&r->lines, fields);
            buf_addz(&r->lines, "}\n");
        }
        r->n += got;
        if (rc == 0) {
            pg_result_free(res);
        }
    }
    return rc;
}

/// ERR_NOT_FOUND when nothing is there.
static int read_pg(struct record *r, struct pg_link *l, struct str id, struct err *e)
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
static int write_pg_page(struct pg_link *l, const struct record *r, struct str *lines, size_t *done,
                         struct err *e)
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

static int write_pg(const struct record *r, struct pg_link *l, struct err *e)
{
    struct index_row x = {0};
    struct arena a;
    struct pg_number n[2];
    struct str lines = buf_str(&r->lines);
    size_t done = 0;
    arena_init(&a);
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

// ---- both -------------------------------------------------------------------------------------

static int read_side(struct record *r, const struct move_side *s, struct str id, struct str dir,
                     struct err *e)
{
    if (s->pg != NULL) {
        return read_pg(r, s->pg, id, e);
    }
    buf_adds(&r->id, id);
    buf_adds(&r->dir, dir);
    return read_files(r, s->home, dir, e);
}

/// Is it there, the same in every event? ERR_NOT_FOUND, ERR_CONFLICT.
static int compare(const struct move_side *s, const struct record *want, struct err *e)
{
    struct record has;
    struct parts a, b;
    record_init(&has);
    int rc = read_side(&has, s, buf_str(&want->id), buf_str(&want->dir), e);
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
    record_fini(&has);
    return rc;
}

// ---- documents ----------------------------------------------------------------------------------

/// What becomes of a document that is there already, and differs.
enum clash { CLASH_REFUSE, CLASH_REPLACE, CLASH_LARGER };

/// Documents that hubs have in common, and where a home has them.
static const struct {
    const char *form;
    enum clash clash;
} forms[] = {{"choices.json", CLASH_REPLACE},
             {"skills/*.md", CLASH_REFUSE},
             {"bots/*/skills/*.md", CLASH_REFUSE},
             {"bots/*/workspaces/*/memory.json", CLASH_REFUSE},
             {"bots/*/workspaces/*/session_number", CLASH_LARGER}};

/// Which form a name has; -1: none.
static int form_of(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(forms); i++) {
        if (fnmatch(forms[i].form, name, FNM_PATHNAME | FNM_PERIOD) == 0) {
            return (int)i;
        }
    }
    return -1;
}

/// Without the space around it; empty when there is none.
static int get_document(const struct move_side *s, const char *name, struct buf *out, struct err *e)
{
    int rc;
    if (s->pg == NULL) {
        char *path = path_join(s->home, name);
        rc = path_read(path, out, e);
        rc = rc == -ENOENT ? 0 : rc;
        free(path);
    } else {
        struct pg_result *r;
        const struct pg_param param = pg_text(str_of(name));
        rc = pg_link_run(
            s->pg, "SELECT body FROM afloat.documents WHERE owner = current_user AND name = $1",
            &param, 1, &r, e);
        if (rc == 0) {
            buf_adds(out, pg_rows(r) != 0 ? pg_get(r, 0, 0) : STR_NULL);
            pg_result_free(r);
        }
    }
    buf_cut(out, str_trim(buf_str(out)).n);
    return rc;
}

static int put_document(const struct move_side *s, const char *name, struct str body, struct err *e)
{
    if (s->pg != NULL) {
        const struct pg_param params[] = {pg_text(str_of(name)), pg_text(body)};
        return pg_link_run(s->pg, "SELECT afloat.document_put($1, $2)", params, 2, NULL, e);
    }
    char *path = path_join(s->home, name), *dir = str_dup(path_dir(str_of(path)));
    int rc = path_mkdirs(dir, 0700, e);
    rc = rc == 0 ? path_write_atomic(path, body, 0600, e) : rc;
    free(dir);
    free(path);
    return rc;
}

/// Both are numbers, and `has` is not the smaller one.
static bool is_past(struct str has, struct str body)
{
    uint64_t x, y;
    return str_to_u64(has, &x) && str_to_u64(body, &y) && x >= y;
}

/// Bring a document in, and read it back.
static int take_document(const struct move_side *s, const char *name, struct str body,
                         struct err *e)
{
    struct buf has;
    int form = form_of(name);
    if (form < 0) {
        return err_set(e, ERR_CORRUPT, "the file has a document that is none: '%s'", name);
    }
    body = str_trim(body);
    buf_init(&has, SIZE_MAX);
    int rc = get_document(s, name, &has, e);
    bool same = str_eq(buf_str(&has), body);
    if (rc == 0 && !same && has.n != 0 && forms[form].clash == CLASH_REFUSE) {
        rc = err_set(e, ERR_CONFLICT, "'%s' is there already, and differs", name);
    }
    if (rc == 0 && !same && !(forms[form].clash == CLASH_LARGER && is_past(buf_str(&has), body))) {
        rc = put_document(s, name, body, e);
        buf_clear(&has);
        rc = rc == 0 ? get_document(s, name, &has, e) : rc;
        if (rc == 0 && !str_eq(buf_str(&has), body)) {
            rc = err_set(e, ERR_CORRUPT, "'%s' was written, and reads differently", name);
        }
    }
    buf_fini(&has);
    return rc;
}

// ---- export -----------------------------------------------------------------------------------

struct exporting {
    const struct move_side *from;
    FILE *to;
    struct move_counts *n;
    move_told *told;
    void *arg;
    struct err *e;
};

static int export_one(struct exporting *x, struct str id, struct str dir)
{
    struct record r;
    struct buf head;
    struct jw w;
    record_init(&r);
    int rc = read_side(&r, x->from, id, dir, x->e);
    if (rc == ERR_NOT_FOUND) { // an empty directory, or removed meanwhile
        record_fini(&r);
        return 0;
    }
    buf_init(&head, SIZE_MAX);
    jw_init(&w, &head);
    jw_obj(&w);
    jw_kstr(&w, "session", buf_str(&r.id));
    jw_kstr(&w, "dir", buf_str(&r.dir));
    jw_kint(&w, "events", (int64_t)r.n);
    jw_kstr(&w, "meta", buf_str(&r.meta));
    jw_end_obj(&w);
    buf_addc(&head, '\n');
    if (rc == 0 && (fwrite(head.p, 1, head.n, x->to) != head.n ||
                    fwrite(buf_z(&r.lines), 1, r.lines.n, x->to) != r.lines.n)) {
        rc = err_sys(x->e, "cannot write the file");
    }
    if (rc == 0) {
        x->n->sessions++;
        x->n->events += r.n;
        x->told(x->arg, x->n);
    }
    buf_fini(&head);
    record_fini(&r);
    return rc;
}

static int on_walk(void *arg, const char *dir, struct str id)
{
    return export_one(arg, id, str_of(dir));
}

static int export_pg(struct exporting *x)
{
    struct buf last;
    size_t got = 1;
    int rc = 0;
    buf_init(&last, SIZE_MAX);
    while (rc == 0 && got != 0) {
        struct pg_result *r = NULL;
        const struct pg_param after = pg_text(buf_str(&last));
        rc = pg_link_run(x->from->pg,
                         "SELECT id FROM afloat.sessions WHERE owner = current_user AND id > $1"
                         " ORDER BY id LIMIT 1000",
                         &after, 1, &r, x->e);
        got = rc == 0 ? pg_rows(r) : 0;
        for (size_t i = 0; i < got && rc == 0; i++) {
            buf_clear(&last);
            buf_adds(&last, pg_get(r, i, 0));
            rc = export_one(x, buf_str(&last), STR_NULL);
        }
        pg_result_free(r);
    }
    buf_fini(&last);
    return rc;
}

static int export_line(struct exporting *x, const struct buf *line)
{
    return fwrite(line->p, 1, line->n, x->to) == line->n ? 0
                                                         : err_sys(x->e, "cannot write the file");
}

static int export_document(struct exporting *x, const char *name)
{
    struct buf body, line;
    struct jw w;
    buf_init(&body, SIZE_MAX);
    buf_init(&line, SIZE_MAX);
    int rc = get_document(x->from, name, &body, x->e);
    if (rc == 0 && body.n != 0) {
        jw_init(&w, &line);
        jw_obj(&w);
        jw_kstrz(&w, "document", name);
        jw_kstr(&w, "body", buf_str(&body));
        jw_end_obj(&w);
        buf_addc(&line, '\n');
        rc = export_line(x, &line);
        x->n->documents++;
    }
    buf_fini(&line);
    buf_fini(&body);
    return rc;
}

static int export_documents_pg(struct exporting *x)
{
    struct pg_result *r;
    int rc = pg_link_run(
        x->from->pg, "SELECT name FROM afloat.documents WHERE owner = current_user ORDER BY name",
        NULL, 0, &r, x->e);
    size_t n = rc == 0 ? pg_rows(r) : 0;
    for (size_t i = 0; i < n && rc == 0; i++) {
        char *name = str_dup(pg_get(r, i, 0));
        rc = form_of(name) >= 0 ? export_document(x, name) : 0;
        free(name);
    }
    if (n != 0 || rc == 0) {
        pg_result_free(r);
    }
    return rc;
}

/// A directory that is not there has no documents; one that cannot be listed may have some.
static int on_unlisted(const char *path, int error)
{
    (void)path;
    return error != ENOENT && error != ENOTDIR;
}

static int export_documents_files(struct exporting *x)
{
    struct buf home;
    int rc = 0;
    buf_init(&home, SIZE_MAX);
    for (const char *at = x->from->home; *at != '\0'; at++) { // it is no pattern
        buf_addz(&home, strchr("\\*?[", *at) != NULL ? "\\" : "");
        buf_addc(&home, *at);
    }
    for (size_t i = 0; i < ARRAY_LEN(forms) && rc == 0; i++) {
        glob_t found = {0};
        char *pattern = xasprintf("%s/%s", buf_z(&home), forms[i].form);
        int status = glob(pattern, 0, on_unlisted, &found);
        rc = status == 0 || status == GLOB_NOMATCH
                 ? 0
                 : err_set(x->e, -EIO, "cannot list '%s'", pattern);
        for (size_t k = 0; k < found.gl_pathc && rc == 0; k++) {
            rc = export_document(x, found.gl_pathv[k] + strlen(x->from->home) + 1);
        }
        globfree(&found);
        free(pattern);
    }
    buf_fini(&home);
    return rc;
}

static int export_rest(struct exporting *x)
{
    struct buf line;
    int rc = x->from->pg != NULL ? export_documents_pg(x) : export_documents_files(x);
    buf_init(&line, SIZE_MAX);
    buf_addf(&line, "{\"end\":true,\"sessions\":%zu,\"events\":%zu,\"documents\":%zu}\n",
             x->n->sessions, x->n->events, x->n->documents);
    rc = rc == 0 ? export_line(x, &line) : rc;
    if (rc == 0 && (fflush(x->to) != 0 || fsync(fileno(x->to)) != 0)) {
        rc = err_sys(x->e, "cannot write the file");
    }
    buf_fini(&line);
    return rc;
}

int move_export(const struct move_side *from, const char *to, struct move_counts *n,
                move_told *told, void *arg, struct err *e)
{
    struct err own;
    *n = (struct move_counts){0};
    e = e != NULL ? e : &own;
    int fd = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    FILE *f = fd >= 0 ? fdopen(fd, "w") : NULL;
    if (f == NULL) {
        return err_sys(e, "cannot make '%s'", to);
    }
    struct exporting x = {.from = from, .to = f, .n = n, .told = told, .arg = arg, .e = e};
    fputs("{\"afloat\":\"store\",\"format\":1}\n", f);
    int rc = from->pg != NULL ? export_pg(&x) : walk_sessions(from->home, on_walk, &x, e);
    rc = rc == 0 ? export_rest(&x) : rc;
    fclose(f);
    return rc;
}

// ---- import -----------------------------------------------------------------------------------

struct importing {
    const struct move_side *to;
    FILE *from;
    struct move_counts *n;
    move_told *told;
    void *arg;
    char *line; // the last one read
    size_t cap;
    bool ended;
};

/// The next line without its newline; false at the end.
static bool next_line(struct importing *x, struct str *out)
{
    ssize_t n = getline(&x->line, &x->cap, x->from);
    *out = (struct str){x->line, n > 0 ? (size_t)n - 1 : 0};
    return n > 0 && x->line[n - 1] == '\n';
}

static int import_session(struct importing *x, const struct json *head, struct err *e)
{
    struct record r;
    struct str line;
    int64_t want = json_int(json_get(head, "events"), -1);
    record_init(&r);
    buf_adds(&r.id, json_str(json_get(head, "session"), ""));
    buf_adds(&r.dir, json_str(json_get(head, "dir"), ""));
    buf_adds(&r.meta, json_str(json_get(head, "meta"), ""));
    int rc =
        want < 0 || !store_id_valid(buf_str(&r.id)) ||
                !walk_dir_valid(buf_str(&r.dir), buf_str(&r.id))
            ? err_set(e, ERR_CORRUPT, "the file has a session that is none: '%s'", buf_z(&r.id))
            : 0;
    for (; rc == 0 && r.n < (size_t)want; r.n++) {
        if (!next_line(x, &line)) {
            rc = err_set(e, ERR_CORRUPT, "the file ends in the middle of session '%s'",
                         buf_z(&r.id));
            break;
        }
        buf_adds(&r.lines, line);
        buf_addc(&r.lines, '\n');
    }
    int there = rc == 0 ? compare(x->to, &r, e) : rc;
    rc = there == ERR_NOT_FOUND ? 0 : there;
    if (there == ERR_NOT_FOUND) {
        rc = x->to->pg != NULL ? write_pg(&r, x->to->pg, e) : write_files(&r, x->to->home, e);
        rc = rc == 0 ? compare(x->to, &r, e) : rc;
    }
    if (rc == 0) {
        x->n->sessions++;
        x->n->events += r.n;
        x->n->skipped += there == 0;
        x->told(x->arg, x->n);
    }
    record_fini(&r);
    return rc;
}

static int import_line(struct importing *x, struct str line, struct err *e)
{
    struct arena a;
    struct json *v;
    arena_init(&a);
    int rc = json_parse(&v, &a, line, NULL, e);
    if (rc < 0) {
        rc = err_prefix(e, "the file is damaged");
    } else if (json_get(v, "session") != NULL) {
        rc = import_session(x, json_clone(&a, v), e); // the line goes with the next one
    } else if (json_get(v, "document") != NULL) {
        char *name = str_dup(json_str(json_get(v, "document"), ""));
        rc = take_document(x->to, name, json_str(json_get(v, "body"), "{}"), e);
        x->n->documents++;
        free(name);
    } else if (json_bool(json_get(v, "end"), false)) {
        x->ended = json_int(json_get(v, "sessions"), -1) == (int64_t)x->n->sessions &&
                   json_int(json_get(v, "events"), -1) == (int64_t)x->n->events &&
                   json_int(json_get(v, "documents"), -1) == (int64_t)x->n->documents;
    } else {
        rc = err_set(e, ERR_CORRUPT, "the file has a line that is no session and no document");
    }
    arena_fini(&a);
    return rc;
}

int move_import(const struct move_side *to, const char *from, struct move_counts *n,
                move_told *told, void *arg, struct err *e)
{
    struct err own;
    struct str line;
    *n = (struct move_counts){0};
    e = e != NULL ? e : &own;
    struct importing x = {.to = to, .from = fopen(from, "re"), .n = n, .told = told, .arg = arg};
    if (x.from == NULL) {
        return err_sys(e, "cannot read '%s'", from);
    }
    int rc = next_line(&x, &line) && str_eqz(line, "{\"afloat\":\"store\",\"format\":1}")
                 ? 0
                 : err_set(e, ERR_INVALID, "'%s' was not made by `afloat store export`", from);
    while (rc == 0 && !x.ended && next_line(&x, &line)) {
        rc = import_line(&x, line, e);
    }
    if (rc == 0 && !x.ended) {
        rc = err_set(e, ERR_CORRUPT, "'%s' is not whole: its end is missing", from);
    }
    free(x.line);
    fclose(x.from);
    return rc;
}
