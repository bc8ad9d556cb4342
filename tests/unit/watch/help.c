#include "help.h"

#include <errno.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/path.h"
#include "watch/watch_int.h"

enum { PATIENCE_S = 100 };

static char *text_of(const struct watch_change *c)
{
    uint8_t hash[SHA256_SIZE];
    if (c->kind == WATCH_DELETED || c->bytes.p == NULL) {
        return NULL;
    }
    CHECK_INT(c->bytes.n, c->size);
    sha256_of(c->bytes, hash);
    CHECK(memcmp(hash, c->hash, sizeof hash) == 0); // what is acted on is what was hashed
    return str_dup(c->bytes);
}

static void on_batch(struct watch *w, const struct watch_batch *b, void *arg)
{
    struct rig *r = arg;
    (void)w;
    CHECK_INT(b->first, !r->ready);
    r->ready = true;
    r->batches += !b->first;
    r->changes += b->n;
    for (size_t i = 0; i < b->n; i++) {
        const struct watch_change *c = &b->changes[i];
        CHECK(str_starts(str_of(c->path), r->root));
        struct seen s = {xstrdup(c->path + strlen(r->root) + 1), c->kind, text_of(c)};
        vec_push(&r->seen, s);
    }
}

static void on_warning(const struct watch_warning *w, void *arg)
{
    struct rig *r = arg;
    CHECK_STR(w->code, "WATCH_DEGRADED");
    snprintf(r->warning, sizeof r->warning, "%s", w->message);
    snprintf(r->remedy, sizeof r->remedy, "%s", w->remedy);
    r->warnings++;
}

static void forget(struct rig *r, size_t i)
{
    free(r->seen.p[i].path);
    free(r->seen.p[i].text);
    vec_remove(&r->seen, i);
}

static struct rig *on_the_bench; // whose patience ends

/// What we waited for did not come: say what did.
static NORETURN void on_alarm(int signal)
{
    (void)signal;
    for (size_t i = 0; i < on_the_bench->seen.n; i++) {
        const struct seen *s = &on_the_bench->seen.p[i];
        fprintf(stderr, "  seen: '%s' kind %d \"%s\"\n", s->path, s->kind, s->text ? s->text : "");
    }
    test_fail(__FILE__, __LINE__, "waited %d s in vain", PATIENCE_S);
}

static bool is_ready(struct rig *r)
{
    return r->ready;
}

static void open_rig(struct rig *r, const struct watch_opts *o, bool by_hand)
{
    struct watch_opts all = {.recursive = true, .want_bytes = true, .bytes_max = 1 << 20};
    struct err e = {0};
    memset(r, 0, sizeof *r);
    on_the_bench = r;
    signal(SIGALRM, on_alarm);
    alarm(PATIENCE_S);
    snprintf(r->dir, sizeof r->dir, "%s", test_dir());
    all = o != NULL ? *o : all;
    snprintf(r->root, sizeof r->root, "%s%s%s", r->dir, all.path != NULL ? "/" : "",
             all.path != NULL ? all.path : "");
    all.path = r->root;
    test_clock_init(&r->clock);
    r->by_hand = by_hand;
    CHECK_INT(loop_init(&r->loop, by_hand ? &r->clock.clock : NULL, NULL), 0);
    r->watcher = watcher_open(&r->loop, on_warning, r);
    CHECK_INT(watch_open(&r->watch, r->watcher, &all, on_batch, r, &e), 0);
    rig_until(r, is_ready);
}

void rig_open(struct rig *r, const struct watch_opts *o)
{
    open_rig(r, o, false);
}

void rig_open_by_hand(struct rig *r, const struct watch_opts *o)
{
    open_rig(r, o, true);
}

static void finish_jobs(struct rig *r)
{
    do {
        loop_run_once(&r->loop, r->watcher->jobs != 0);
    } while (r->watcher->jobs != 0 || loop_has_tasks(&r->loop));
}

void rig_tick(struct rig *r, unsigned ms)
{
    finish_jobs(r);
    test_clock_advance(&r->clock, &r->loop, ms);
    finish_jobs(r);
}

void rig_close(struct rig *r)
{
    watcher_close(r->watcher);
    while (r->seen.n != 0) {
        forget(r, r->seen.n - 1);
    }
    vec_fini(&r->seen);
    TEST_LOOP_END(&r->loop);
}

char *rig_path(struct rig *r, const char *name)
{
    static char paths[4][800];
    static unsigned turn;
    char *p = paths[turn++ % 4];
    snprintf(p, sizeof paths[0], "%s/%s", r->dir, name);
    return p;
}

void rig_write(struct rig *r, const char *name, const char *text)
{
    FILE *f = fopen(rig_path(r, name), "w");
    CHECK(f != NULL);
    fputs(text, f);
    CHECK_INT(fclose(f), 0);
}

void rig_mkdir(struct rig *r, const char *name)
{
    CHECK_INT(path_mkdirs(rig_path(r, name), 0755, NULL), 0);
}

struct child {
    uv_process_t process;
    int64_t status;
    bool ended;
};

static void on_exit_of(uv_process_t *p, int64_t status, int signal)
{
    struct child *c = container_of(p, struct child, process);
    c->status = signal != 0 ? -1 : status;
    uv_close((uv_handle_t *)p, NULL);
    c->ended = true;
}

void rig_sh(struct rig *r, const char *command)
{
    struct child c = {0};
    char *argv[] = {xstrdup("/bin/sh"), xstrdup("-ec"), xstrdup(command), NULL};
    uv_stdio_container_t io[] = {
        {.flags = UV_IGNORE}, {.flags = UV_IGNORE}, {.flags = UV_INHERIT_FD, .data.fd = 2}};
    uv_process_options_t o = {.file = argv[0], .args = argv, .cwd = r->dir, .exit_cb = on_exit_of};
    o.stdio = io;
    o.stdio_count = 3;
    CHECK_INT(uv_spawn(&r->loop.uv, &c.process, &o), 0);
    while (!c.ended || uv_is_active((uv_handle_t *)&c.process)) {
        loop_run_once(&r->loop, true);
    }
    loop_run_once(&r->loop, false); // the close callback: `c` is ours
    for (int i = 0; i < 3; i++) {
        free(argv[i]);
    }
    if (c.status != 0) {
        test_fail(__FILE__, __LINE__, "'%s' ended with %d", command, (int)c.status);
    }
}

/// Let whatever comes next come.
static void step(struct rig *r)
{
    if (r->by_hand) {
        rig_tick(r, 1);
    } else {
        loop_run_once(&r->loop, true);
    }
}

void rig_until(struct rig *r, bool (*done)(struct rig *r))
{
    while (!done(r)) {
        step(r);
    }
}

static ptrdiff_t find_seen(const struct rig *r, const char *name)
{
    for (size_t i = 0; i < r->seen.n; i++) {
        if (strcmp(r->seen.p[i].path, name) == 0) {
            return (ptrdiff_t)i;
        }
    }
    return -1;
}

static void expect_at(struct rig *r, const char *name, enum watch_kind kind, const char *text)
{
    ptrdiff_t i;
    while ((i = find_seen(r, name)) < 0) {
        step(r);
    }
    struct seen *s = &r->seen.p[i];
    if (s->kind != kind) {
        test_fail(__FILE__, __LINE__, "'%s' came as %d, not %d", name, s->kind, kind);
    }
    if (text != NULL) {
        CHECK_STR(s->text, text);
    }
    forget(r, (size_t)i);
}

void rig_expect(struct rig *r, const char *name, enum watch_kind kind, const char *text)
{
    expect_at(r, name, kind, text);
}

void rig_sentinel(struct rig *r)
{
    static unsigned n;
    char name[400], text[40];
    const char *at = r->root + strlen(r->dir);
    snprintf(name, sizeof name, "%s%ssentinel-%u.lua", at[0] == '/' ? at + 1 : "",
             at[0] == '/' ? "/" : "", n);
    snprintf(text, sizeof text, "return %u", n);
    rig_write(r, name, text);
    snprintf(name, sizeof name, "sentinel-%u.lua", n++);
    expect_at(r, name, WATCH_CREATED, NULL);
}

void rig_expect_nothing_else(struct rig *r)
{
    if (r->seen.n != 0) {
        const struct seen *s = &r->seen.p[0];
        test_fail(__FILE__, __LINE__, "%zu more changes, first '%s' kind %d \"%s\"", r->seen.n,
                  s->path, s->kind, s->text != NULL ? s->text : "");
    }
}

bool rig_has(struct rig *r, const char *name, const char *text)
{
    for (size_t i = r->seen.n; i-- > 0;) {
        const struct seen *s = &r->seen.p[i];
        if (strcmp(s->path, name) == 0) {
            return text == NULL ? s->text == NULL : s->text != NULL && strcmp(s->text, text) == 0;
        }
    }
    return false;
}

static bool is_settled(struct rig *r)
{
    for (const struct watch *w = r->watcher->watches; w != NULL; w = w->next) {
        if (w->job != NULL || w->pending.n != 0 || w->scans.n != 0 || w->task != NULL) {
            return false;
        }
    }
    return !loop_has_tasks(&r->loop) && r->watcher->jobs == 0;
}

void rig_settle(struct rig *r)
{
    loop_run_once(&r->loop, false); // events that are there
    rig_until(r, is_settled);
}

bool program_exists(const char *name)
{
    char path[200];
    snprintf(path, sizeof path, "/usr/bin/%s", name);
    return access(path, X_OK) == 0;
}
