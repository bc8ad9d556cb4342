#include "unit/env/rig.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include "env/spec.h"
#include "env_programs.h"

struct rig rig;

static int check(struct env_spec *s, void *arg, struct err *e)
{
    (void)s;
    return *(bool *)arg ? 0 : err_set(e, ERR_DENIED, "not trusted: type 'afloat env allow'");
}

static const struct env_gate gate = {.check = check, .arg = &rig.trusted};

static void hear(const char *what, const char *const *changed, size_t n)
{
    buf_addz(&rig.heard, what);
    for (size_t i = 0; i < n; i++) {
        buf_addf(&rig.heard, "%c%s", i == 0 ? ' ' : ',', changed[i]);
    }
    buf_addc(&rig.heard, '\n');
}

static void on_building(const struct env_building *m, void *arg)
{
    (void)arg;
    rig.building++;
    hear("building", m->changed, m->n_changed);
}

static void on_ready(const struct env_ready *m, void *arg)
{
    (void)arg;
    rig.ready++;
    hear("ready", m->changed, m->n_changed);
    env_result_unref(rig.result);
    rig.result = env_result_ref(m->result);
}

static void on_failed(const struct env_failed *m, void *arg)
{
    (void)arg;
    rig.failed++;
    hear("failed", m->changed, m->n_changed);
    free(rig.error);
    rig.error = xstrdup(m->text);
    rig.code = m->code;
}

static void on_unchanged(void *arg)
{
    (void)arg;
    rig.unchanged++;
}

static void on_log(struct str line, void *arg)
{
    (void)arg;
    buf_adds(&rig.log, line);
    buf_addc(&rig.log, '\n');
}

// ---- the real builder, with its inputs written down ---------------------------------------------

static struct env_build_opts real;

static void forget_inputs(void)
{
    vec_foreach (in, &rig.inputs) {
        free((char *)(uintptr_t)in->path);
    }
    vec_fini(&rig.inputs);
}

static void note_input(const struct env_input *in, void *arg)
{
    struct env_input copy = *in;
    vec_foreach (old, &rig.inputs) {
        if (strcmp(old->path, in->path) == 0) {
            copy.path = old->path;
            *old = in->hashed ? copy : *old;
            real.on_input(in, arg);
            return;
        }
    }
    copy.path = xstrdup(in->path);
    vec_push(&rig.inputs, copy);
    real.on_input(in, arg);
}

static struct env_build *build(const struct env_build_opts *o)
{
    struct env_build_opts noted = *o;
    real = *o;
    noted.on_input = note_input;
    forget_inputs();
    return env_builder.build(&noted);
}

static void cancel(struct env_build *b)
{
    env_builder.cancel(b);
}

static bool runs_programs(const struct env_build *b)
{
    return env_builder.runs_programs(b);
}

static const struct env_builder noting_builder = {build, cancel, runs_programs};

void rig_open(void)
{
    static const char *base[5];
    struct err e = {0};
    rig = (struct rig){.trusted = true};
    buf_init(&rig.heard, SIZE_MAX);
    buf_init(&rig.log, SIZE_MAX);
    if (proc_setup_at(ENV_LAUNCHER, &e) != 0) {
        test_fail(__FILE__, __LINE__, "%s", e.msg);
    }
    CHECK_INT(loop_init(&rig.loop, NULL, &e), 0);
    rig.watcher = watcher_open(&rig.loop, NULL, NULL);
    rig.root = path_join(test_dir(), "project");
    CHECK_INT(path_mkdirs(rig.root, 0700, &e), 0);
    base[0] = xasprintf("PATH=/usr/bin:/bin");
    base[1] = xasprintf("HOME=%s", test_dir());
    base[2] = xasprintf("OUTER=outside");
    base[3] = xasprintf("XDG_DATA_HOME=%s/data", test_dir());
    rig.base = base;
}

void rig_close(void)
{
    env_coord_close(rig.coord);
    watcher_close(rig.watcher);
    TEST_LOOP_END(&rig.loop);
    proc_teardown();
    for (const char **it = rig.base; *it != NULL; it++) {
        free((void *)(uintptr_t)*it);
    }
    env_result_unref(rig.result);
    forget_inputs();
    buf_fini(&rig.heard);
    buf_fini(&rig.log);
    free(rig.error);
    free(rig.root);
}

char *rig_path(const char *rel)
{
    return path_join(rig.root, rel);
}

void rig_write_bytes(const char *rel, struct str bytes)
{
    struct err e = {0};
    char *path = rig_path(rel), *dir = str_dup(path_dir(str_of(path)));
    if (path_mkdirs(dir, 0700, &e) != 0 || path_write_atomic(path, bytes, 0600, &e) != 0) {
        test_fail(__FILE__, __LINE__, "%s", e.msg);
    }
    free(dir);
    free(path);
}

void rig_write(const char *rel, const char *text)
{
    rig_write_bytes(rel, str_of(text));
}

void rig_remove(const char *rel)
{
    char *path = rig_path(rel);
    CHECK_INT(unlink(path), 0);
    free(path);
}

void rig_start(const struct env_builder *builder)
{
    struct env_coord_opts o = {.loop = &rig.loop,
                               .watcher = rig.watcher,
                               .root = rig.root,
                               .base = rig.base,
                               .gate = rig.gate != NULL ? rig.gate : &gate,
                               .builder = builder != NULL ? builder : &noting_builder,
                               .timeout_ms = rig.timeout_ms,
                               .cb = {on_building, on_ready, on_failed, on_log, on_unchanged}};
    rig.coord = env_coord_open(&o);
}

void rig_wait(const unsigned *counter, unsigned n)
{
    while (*counter < n) {
        loop_run_once(&rig.loop, true);
    }
}

static void on_time(void *arg)
{
    *(bool *)arg = true;
}

void rig_idle(uint64_t ms)
{
    struct timer t;
    bool over = false;
    timer_init(&t, &rig.loop, on_time, &over);
    timer_start(&t, ms);
    while (!over) {
        loop_run_once(&rig.loop, true);
    }
}

struct env_result *rig_build(void)
{
    unsigned before = rig.ready + rig.failed;
    if (rig.coord == NULL) {
        rig_start(NULL);
    }
    env_coord_reload(rig.coord, true);
    while (rig.ready + rig.failed == before) {
        loop_run_once(&rig.loop, true);
    }
    return env_coord_get_state(rig.coord) == ENV_READY ? rig.result : NULL;
}

const char *rig_get(const struct env_result *r, const char *name)
{
    vec_foreach (v, &r->set) {
        if (strcmp(v->name, name) == 0) {
            return v->value;
        }
    }
    return NULL;
}

bool rig_unset(const struct env_result *r, const char *name)
{
    vec_foreach (it, &r->unset) {
        if (strcmp(*it, name) == 0) {
            return true;
        }
    }
    return false;
}

bool rig_input(const char *rel, enum env_kind kind)
{
    char *path = rig_path(rel);
    bool found = false;
    vec_foreach (in, &rig.inputs) {
        found = found || (strcmp(in->path, path) == 0 && in->kind == kind);
    }
    free(path);
    return found;
}

const char *rig_front(const struct env_result *r, const char *name)
{
    static char text[1024];
    size_t n = strlen(rig.root);
    text[0] = '\0';
    vec_foreach (l, &r->prepend) {
        for (size_t i = 0; strcmp(l->name, name) == 0 && i < l->n; i++) {
            bool ours = strncmp(l->items[i], rig.root, n) == 0;
            snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s%s", i == 0 ? "" : " ",
                     ours ? "$" : "", l->items[i] + (ours ? n : 0));
        }
    }
    return text;
}
