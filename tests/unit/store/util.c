#include "unit/store/util.h"

#include <dirent.h>
#include <errno.h>
#include <stdarg.h>
#include <sys/stat.h>

#include "base/json.h"
#include "base/path.h"

static void note(struct box *b, int status, const struct err *e)
{
    CHECK((status < 0) == (e != NULL));
    b->answered = true;
    b->status = status;
    if (e != NULL) {
        CHECK_INT(e->code, status);
        CHECK(e->msg[0] != '\0');
        b->err = *e;
    }
}

static void on_notice(void *arg, const struct store_notice *n)
{
    struct box *b = arg;
    b->notices[n->kind]++;
    b->last_notice = *n;
}

void box_done(void *arg, int status, const struct err *e)
{
    note(arg, status, e);
}

void box_appended(void *arg, int status, const struct store_appended *a, const struct err *e)
{
    struct box *b = arg;
    b->appended = *a;
    note(b, status, e);
}

void box_paged(void *arg, int status, const struct store_page *p, const struct err *e)
{
    struct box *b = arg;
    buf_clear(&b->text);
    buf_adds(&b->text, p->lines);
    b->n = p->n;
    b->next = p->next;
    note(b, status, e);
}

void box_got(void *arg, int status, struct str json, const struct err *e)
{
    struct box *b = arg;
    buf_clear(&b->text);
    buf_adds(&b->text, json);
    note(b, status, e);
}

static void on_rows(void *arg, int status, const struct store_rows *r, const struct err *e)
{
    struct box *b = arg;
    buf_clear(&b->text);
    for (size_t i = 0; i < r->n; i++) {
        const struct store_row *row = &r->rows[i];
        buf_addf(&b->text, STR_FMT " " STR_FMT " " STR_FMT " %llu\n", STR_ARG(row->id),
                 STR_ARG(row->state), STR_ARG(row->title), (unsigned long long)row->last_seq);
        if (row->damage.n != 0) {
            snprintf(b->damage, sizeof b->damage, STR_FMT, STR_ARG(row->damage));
        }
    }
    b->n = r->n;
    snprintf(b->cursor, sizeof b->cursor, STR_FMT, STR_ARG(r->next));
    note(b, status, e);
}

int box_wait(struct box *b)
{
    while (!b->answered) {
        CHECK(loop_run_once(&b->loop, true) || b->answered);
    }
    b->answered = false;
    return b->status;
}

int box_try_open(struct box *b, const char *home)
{
    memset(b, 0, sizeof *b);
    buf_init(&b->text, 64 << 20);
    snprintf(b->home, sizeof b->home, "%s", home != NULL ? home : test_dir());
    CHECK_INT(loop_init(&b->loop, NULL, NULL), 0);
    struct store_opts o = {.home = b->home, .notice = on_notice};
    CHECK_INT(store_open(&b->store, &b->loop, &o, box_done, b, NULL), 0);
    return box_wait(b);
}

void box_open(struct box *b, const char *home)
{
    int rc = box_try_open(b, home);
    if (rc < 0) {
        test_fail(__FILE__, __LINE__, "store does not open: %s", b->err.msg);
    }
}

int box_close(struct box *b)
{
    struct err e = {0};
    store_close(b->store, box_done, b);
    int status = box_wait(b);
    while (loop_run(&b->loop)) {
    }
    if (loop_close(&b->loop, &e) < 0) {
        test_fail(__FILE__, __LINE__, "%s", e.msg);
    }
    buf_fini(&b->text);
    return status;
}

int box_begin(struct box *b, const char *id, const char *meta)
{
    char dir[200];
    snprintf(dir, sizeof dir, "sessions/%s", id);
    store_session_new(b->store, str_of(id), str_of(dir), str_of(meta), box_done, b);
    return box_wait(b);
}

int box_meta(struct box *b, const char *id, const char *meta)
{
    store_session_meta(b->store, str_of(id), str_of(meta), box_done, b);
    return box_wait(b);
}

int box_remove(struct box *b, const char *id)
{
    store_session_remove(b->store, str_of(id), box_done, b);
    return box_wait(b);
}

int box_append(struct box *b, const char *id, const char *type, const char *fields,
               enum store_durability d)
{
    struct store_event ev = {str_of(type), str_of(fields)};
    store_append(b->store, str_of(id), &ev, 1, d, box_appended, b);
    return box_wait(b);
}

int box_read(struct box *b, const char *id, uint64_t after, size_t limit)
{
    store_read(b->store, str_of(id), after, limit, box_paged, b);
    return box_wait(b);
}

int box_list(struct box *b, const struct store_filter *f, const char *cursor, size_t limit)
{
    store_list(b->store, f, str_of(cursor), limit, on_rows, b);
    return box_wait(b);
}

int box_doc_get(struct box *b, const char *name)
{
    store_doc_get(b->store, str_of(name), box_got, b);
    return box_wait(b);
}

int box_doc_put(struct box *b, const char *name, const char *json)
{
    store_doc_put(b->store, str_of(name), str_of(json), box_done, b);
    return box_wait(b);
}

int box_doc_set(struct box *b, const char *name, const char *key, const char *value)
{
    store_doc_set(b->store, str_of(name), str_of(key), str_of(value), box_done, b);
    return box_wait(b);
}

const char *box_path(const struct box *b, const char *fmt, ...)
{
    static char path[1024];
    va_list ap;
    int n = snprintf(path, sizeof path, "%s/", b->home[0] != '\0' ? b->home : test_dir());
    va_start(ap, fmt);
    vsnprintf(path + n, sizeof path - (size_t)n, fmt, ap);
    va_end(ap);
    return path;
}

char *file_text(const char *path, size_t *n)
{
    struct buf text;
    buf_init(&text, 256 << 20);
    int rc = path_read(path, &text, NULL);
    CHECK(rc == 0 || rc == -ENOENT);
    buf_add(&text, "", 0);
    return buf_take(&text, n);
}

void file_write(const char *path, const char *bytes, size_t n)
{
    FILE *f = fopen(path, "w");
    CHECK(f != NULL);
    CHECK(fwrite(bytes, 1, n, f) == n);
    CHECK_INT(fclose(f), 0);
}

void file_append(const char *path, const char *bytes)
{
    FILE *f = fopen(path, "a");
    CHECK(f != NULL);
    CHECK(fputs(bytes, f) >= 0);
    CHECK_INT(fclose(f), 0);
}

bool file_exists(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0;
}

size_t file_count(const char *path)
{
    char *dir = str_dup(path_dir(str_of(path)));
    char *name = str_dup(path_base(str_of(path)));
    DIR *d = opendir(dir);
    CHECK(d != NULL);
    size_t n = 0;
    for (struct dirent *de; (de = readdir(d)) != NULL;) {
        n += str_starts(str_of(de->d_name), name);
    }
    closedir(d);
    free(dir);
    free(name);
    return n;
}

uint64_t journal_text_check(const char *path)
{
    size_t n;
    char *text = file_text(path, &n);
    struct str rest = {text, n};
    int64_t seq = 0;
    while (rest.n != 0) {
        CHECK(memchr(rest.p, '\n', rest.n) != NULL);
        struct str line = str_cut(&rest, '\n');
        struct arena a = {0};
        struct json *v;
        struct err e;
        if (json_parse(&v, &a, line, NULL, &e) < 0) {
            test_fail(__FILE__, __LINE__, "line %lld: %s", (long long)seq + 1, e.msg);
        }
        CHECK_INT(json_int(json_get(v, "seq"), 0), ++seq);
        CHECK(json_str(json_get(v, "type"), "").n != 0);
        CHECK(str_trim(line).n == line.n);
        arena_fini(&a);
    }
    free(text);
    return (uint64_t)seq;
}
