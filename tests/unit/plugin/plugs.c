#include "unit/plugin/plugs.h"

#include <sys/stat.h>
#include <unistd.h>

#include "base/path.h"
#include "watch/watch.h"

// ---- the runner -----------------------------------------------------------------------------------

struct program {
    struct plugin_version head;
    struct plugs *owner;
};

static int run_load(void *arg, const struct plugin_code *code, struct gen_unit *u, bool dry_run,
                    struct plugin_version **out, struct gen_diag *fault)
{
    struct plugs *h = arg;
    const struct tree_file *f = tree_find(code->tree, str_of(code->shape->server));
    struct str rest = f->bytes;
    struct plugin_row row;
    (void)dry_run;
    h->tries++;
    if (h->plugins != NULL && plugins_find(h->plugins, str_of(u->name), &row)) {
        CHECK(row.state != GEN_LOADED || row.unit != NULL); // it is only about to be
    }
    while (rest.n != 0) {
        struct str line = str_trim(str_cut(&rest, '\n'));
        if (str_eqz(line, "once") && h->tries > 1) {
            line = STR("throw");
        }
        if (str_eqz(line, "throw")) {
            *fault = gen_diag_copy(&(struct gen_diag){
                .code = DIAG_LOAD_FAILED, .path = code->path, .line = 1, .message = "it threw"});
            return ERR_INVALID;
        }
        if (str_starts(line, "tool ")) {
            struct gen_item_spec spec = {.kind = GEN_TOOL, .name = str_from(line, 5)};
            CHECK_INT(gen_unit_add(u, &spec, NULL, NULL), 0);
        }
    }
    struct program *p = xcalloc(1, sizeof *p);
    p->head = (struct plugin_version){.runner = &h->runner, .code = code};
    p->owner = h;
    h->loads++;
    *out = &p->head;
    return 0;
}

static void run_keep(struct plugin_version *v)
{
    (void)v;
}

static void run_enter(struct plugin_version *v, enum gen_reason why, struct gen_life_call *call)
{
    (void)why;
    ((struct program *)v)->owner->enters++;
    gen_life_done(call, NULL);
}

static void run_leave(struct plugin_version *v, enum gen_reason why, struct gen_life_call *call)
{
    (void)why;
    ((struct program *)v)->owner->leaves++;
    gen_life_done(call, NULL);
}

static void run_free(struct plugin_version *v)
{
    struct plugs *h = ((struct program *)v)->owner;
    h->frees++;
    h->dead = h->dead == v ? NULL : h->dead;
    free(v);
}

static bool run_dead(const struct plugin_version *v)
{
    const struct program *p = (const struct program *)v;
    return p->owner->dead == v;
}

static size_t run_memory(const struct plugin_version *v)
{
    (void)v;
    return 1000;
}

// ---- life -----------------------------------------------------------------------------------------

static void on_event(void *arg, const char *type, struct str fields)
{
    struct plugs *h = arg;
    (void)fields;
    buf_addf(&h->events, "%s\n", type);
}

void plugs_home(struct plugs *h)
{
    *h = (struct plugs){0};
    char *dir = xasprintf("%s/home", test_dir());
    CHECK_INT(home_resolve(&h->home, dir, NULL), 0);
    CHECK_INT(home_prepare(&h->home, NULL), 0);
    buf_init(&h->events, SIZE_MAX);
    free(dir);
}

static void on_flag(void *arg, int status, const struct err *e)
{
    (void)e;
    CHECK_INT(status, 0);
    *(bool *)arg = true;
}

static void on_loaded(const struct gen_report *r, void *arg)
{
    (void)r;
    ((struct plugs *)arg)->loaded = true;
}

static void open_parts(struct plugs *h)
{
    struct config_diags d;
    struct config_sources src = {.home = &h->home, .system_path = "/nonexistent"};
    struct store_opts store = {.home = h->home.dir};
    bool ready = false, chosen = false;
    config_diags_init(&d);
    CHECK_INT(config_load(&h->config, &src, &d, NULL), 0);
    config_diags_fini(&d);
    CHECK_INT(store_open(&h->store, &h->loop, &store, on_flag, &ready, NULL), 0);
    PLUGS_WAIT(h, ready);
    h->choices = choices_new(h->store);
    choices_load(h->choices, on_flag, &chosen);
    PLUGS_WAIT(h, chosen);
    CHECK_INT(trust_open(&h->trust, h->home.dir, NULL), 0);
}

void plugs_open(struct plugs *h)
{
    CHECK_INT(loop_init(&h->loop, NULL, NULL), 0);
    open_parts(h);
    h->runner = (struct plugin_runner){.host = "hub",
                                       .load = run_load,
                                       .keep = run_keep,
                                       .enter = run_enter,
                                       .leave = run_leave,
                                       .free = run_free,
                                       .memory = run_memory,
                                       .dead = run_dead,
                                       .arg = h};
    config_put(&h->settings, h->config, NULL);
    h->watcher = watcher_open(&h->loop, NULL, NULL);
    h->engine = gen_open(&h->loop, on_event, h);
    h->hub = (struct hub_parts){.loop = &h->loop,
                                .home = &h->home,
                                .config = &h->settings,
                                .store = h->store,
                                .choices = h->choices,
                                .trust = h->trust};
    struct plugins_opts o = {.hub = &h->hub,
                             .engine = h->engine,
                             .watcher = h->watcher,
                             .runners = {[LANG_LUA] = &h->runner},
                             .repo = h->repo};
    h->plugins = plugins_open(&o);
    h->loaded = h->closed = false;
    gen_request(h->engine, &(struct gen_request){.trigger = "start", .wait_all = true}, on_loaded,
                h);
    PLUGS_WAIT(h, h->loaded);
}

static void on_closed(void *arg)
{
    ((struct plugs *)arg)->closed = true;
}

void plugs_close(struct plugs *h)
{
    bool stored = false;
    plugins_stop(h->plugins);
    gen_close(h->engine, on_closed, h);
    PLUGS_WAIT(h, h->closed);
    plugins_free(h->plugins);
    CHECK_INT(h->loads, h->frees);
    watcher_close(h->watcher);
    store_close(h->store, on_flag, &stored);
    PLUGS_WAIT(h, stored);
    choices_free(h->choices);
    trust_close(h->trust);
    config_free(h->config);
    loop_run(&h->loop);
    CHECK_INT(loop_close(&h->loop, NULL), 0);
}

void plugs_fini(struct plugs *h)
{
    home_fini(&h->home);
    buf_fini(&h->events);
}

// ---- files and runs -------------------------------------------------------------------------------

void plugs_write(struct plugs *h, const char *rel, const char *text)
{
    char *path = path_join(h->home.dir, rel), *dir = str_dup(path_dir(str_of(path)));
    CHECK_INT(path_mkdirs(dir, 0700, NULL), 0);
    CHECK_INT(path_write_atomic(path, str_of(text), 0600, NULL), 0);
    free(path);
    free(dir);
}

void plugs_remove(struct plugs *h, const char *rel)
{
    char *path = path_join(h->home.dir, rel);
    CHECK_INT(unlink(path), 0);
    free(path);
}

static void on_report(const struct gen_report *r, void *arg)
{
    *(const struct gen_report **)arg = r;
}

const struct gen_report *plugs_reload(struct plugs *h, bool force, bool dry_run)
{
    const struct gen_report *r = NULL;
    struct gen_request req = {
        .trigger = "api", .wait_all = true, .force = force, .dry_run = dry_run};
    gen_request(h->engine, &req, on_report, &r);
    PLUGS_WAIT(h, r != NULL);
    return r;
}

const struct gen_report *plugs_undo(struct plugs *h, uint64_t to)
{
    const struct gen_report *r = NULL;
    struct err e = {0};
    if (plugins_undo(h->plugins, to, on_report, &r, &e) < 0) {
        test_fail(__FILE__, __LINE__, "%s", e.msg);
    }
    PLUGS_WAIT(h, r != NULL);
    return r;
}

void plugs_wait_generation(struct plugs *h, uint64_t number)
{
    PLUGS_WAIT(h, plugs_number(h) >= number);
}

uint64_t plugs_number(struct plugs *h)
{
    return gen_number(gen_current(h->engine));
}

struct plugin_row plugs_row(struct plugs *h, const char *name)
{
    struct plugin_row r;
    if (!plugins_find(h->plugins, str_of(name), &r)) {
        test_fail(__FILE__, __LINE__, "there is no plugin '%s'", name);
    }
    return r;
}

bool plugs_has_tool(struct plugs *h, const char *name)
{
    return gen_item_find(gen_current(h->engine), GEN_TOOL, str_of(name)) != NULL;
}

const struct gen_diag *plugs_diag(struct plugs *h, enum gen_code code)
{
    const struct gen_report *r = gen_last_report(h->engine);
    for (size_t i = 0; i < r->n_diags; i++) {
        if (r->diags[i].code == code) {
            return &r->diags[i];
        }
    }
    return NULL;
}
