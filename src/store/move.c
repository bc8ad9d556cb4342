// Moving a store.
//
//     files ──┐                                    ┌──> files
//             ├──> record: one session, whole ──> ─┤       then read back and compared,
//     PostgreSQL ─┘   (in a file between the two)  └──> PostgreSQL     event by event
//
// The file has a line for the format, then each session as a line about it and one for each event, then the documents,
// and a last line with the counts: a file without it is not whole.

#include "store/move.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/json.h"
#include "pg/pg.h"
#include "store/move_int.h"
#include "store/store.h"
#include "store/walk.h"

// ---- export -----------------------------------------------------------------------------------

struct exporting {
    const struct move_side *from;
    FILE *to;
    struct move_counts *n;
    move_told *told;
    void *arg;
    struct err *e;
};

static void tell(move_told *told, void *arg, const struct move_counts *n)
{
    if (told != NULL) {
        told(arg, n);
    }
}

static int write_bytes(struct exporting *x, const struct buf *b)
{
    return fwrite(buf_z(b), 1, b->n, x->to) == b->n ? 0 : err_sys(x->e, "cannot write the file");
}

static int export_one(struct exporting *x, struct str id, struct str dir)
{
    struct move_record r;
    struct buf head = {.max = SIZE_MAX};
    move__record_init(&r);
    int rc = move__read(&r, x->from, id, dir, x->e);
    if (rc == ERR_NOT_FOUND) { // an empty directory, or removed meanwhile
        move__record_fini(&r);
        return 0;
    }
    struct jw w = {.out = &head};
    jw_obj(&w);
    jw_kstr(&w, "session", buf_str(&r.id));
    jw_kstr(&w, "dir", buf_str(&r.dir));
    jw_kint(&w, "events", (int64_t)r.n);
    jw_kstr(&w, "meta", buf_str(&r.meta));
    jw_end_obj(&w);
    buf_addc(&head, '\n');
    rc = rc == 0 ? write_bytes(x, &head) : rc;
    rc = rc == 0 ? write_bytes(x, &r.lines) : rc;
    if (rc == 0) {
        x->n->sessions++;
        x->n->events += r.n;
        tell(x->told, x->arg, x->n);
    }
    buf_fini(&head);
    move__record_fini(&r);
    return rc;
}

static int on_walk(void *arg, const char *dir, struct str id)
{
    struct exporting *x = arg;
    return move__is_meant(x->from, str_of(dir)) ? export_one(x, id, str_of(dir)) : 0;
}

static int export_pg(struct exporting *x)
{
    struct buf last = {.max = SIZE_MAX};
    size_t got = 1;
    int rc = 0;
    while (rc == 0 && got != 0) {
        struct pg_result *r = NULL;
        const struct pg_param params[] = {pg_text(buf_str(&last)), pg_text(str_of(x->from->below))};
        rc = pg_link_run(x->from->pg,
                         "SELECT id FROM afloat.sessions WHERE owner = current_user AND id > $1"
                         " AND starts_with(dir, $2) ORDER BY id LIMIT 1000",
                         params, 2, &r, x->e);
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

static int export_document(void *arg, const char *name)
{
    struct exporting *x = arg;
    struct buf body = {.max = SIZE_MAX}, line = {.max = SIZE_MAX};
    struct jw w;
    int rc = move__doc_get(x->from, name, &body, x->e);
    if (rc == 0 && body.n != 0) {
        jw_init(&w, &line);
        jw_obj(&w);
        jw_kstrz(&w, "document", name);
        jw_kstr(&w, "body", buf_str(&body));
        jw_end_obj(&w);
        buf_addc(&line, '\n');
        rc = write_bytes(x, &line);
        x->n->documents++;
    }
    buf_fini(&line);
    buf_fini(&body);
    return rc;
}

static int export_rest(struct exporting *x)
{
    struct buf line = {.max = SIZE_MAX};
    int rc = move__doc_each(x->from, export_document, x, x->e);
    buf_addf(&line, "{\"end\":true,\"sessions\":%zu,\"events\":%zu,\"documents\":%zu}\n",
             x->n->sessions, x->n->events, x->n->documents);
    rc = rc == 0 ? write_bytes(x, &line) : rc;
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
        return errno == EEXIST ? err_set(e, ERR_CONFLICT, "'%s' exists already", to)
                               : err_sys(e, "cannot make '%s'", to);
    }
    struct exporting x = {.from = from, .to = f, .n = n, .told = told, .arg = arg, .e = e};
    fputs("{\"afloat\":\"store\",\"format\":1}\n", f);
    int rc = from->pg != NULL ? export_pg(&x) : walk_sessions(from->home, on_walk, &x, e);
    rc = rc == 0 ? export_rest(&x) : rc;
    fclose(f);
    if (rc < 0) {
        unlink(to);
    }
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
    struct move_record r;
    struct str line;
    int64_t want = json_int(json_get(head, "events"), -1);
    move__record_init(&r);
    buf_adds(&r.id, json_str(json_get(head, "session"), ""));
    buf_adds(&r.dir, json_str(json_get(head, "dir"), ""));
    buf_adds(&r.meta, json_str(json_get(head, "meta"), ""));
    int rc = want < 0 || !store_id_valid(buf_str(&r.id)) ||
                     !walk_dir_valid(buf_str(&r.dir), buf_str(&r.id))
                 ? err_set(e, ERR_CORRUPT, "the file has an invalid session: '%s'", buf_z(&r.id))
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
    bool was_there = false;
    rc = rc == 0 ? move__put(x->to, &r, &was_there, e) : rc;
    if (rc == 0) {
        x->n->sessions++;
        x->n->events += r.n;
        x->n->skipped += was_there;
        tell(x->told, x->arg, x->n);
    }
    move__record_fini(&r);
    return rc;
}

static int import_line(struct importing *x, struct str line, struct err *e)
{
    struct arena a = {0};
    struct json *v;
    int rc = json_parse(&v, &a, line, NULL, e);
    if (rc < 0) {
        rc = err_prefix(e, "the file is damaged");
    } else if (json_get(v, "session") != NULL) {
        rc = import_session(x, json_clone(&a, v), e); // the line goes with the next one
    } else if (json_get(v, "document") != NULL) {
        char *name = str_dup(json_str(json_get(v, "document"), ""));
        rc = move__doc_take(x->to, name, json_str(json_get(v, "body"), "{}"), e);
        x->n->documents++;
        free(name);
    } else if (json_bool(json_get(v, "end"), false)) {
        x->ended = json_int(json_get(v, "sessions"), -1) == (int64_t)x->n->sessions &&
                   json_int(json_get(v, "events"), -1) == (int64_t)x->n->events &&
                   json_int(json_get(v, "documents"), -1) == (int64_t)x->n->documents;
    } else {
        rc =
            err_set(e, ERR_CORRUPT, "the file has a line that is neither a session nor a document");
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
