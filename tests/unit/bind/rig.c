#include "unit/bind/rig.h"

#include <fcntl.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <unistd.h>

#include <lauxlib.h>

#include "base/path.h"
#include "loop/proc.h"
#include "lua/fault.h"
#include "unit/bind/bind_programs.h" // made by meson: where the launcher lies

struct rig rig;
const struct json *(*rig_choice)(void *arg, struct str key);

// ---- units: a source whose code comes from the test -----------------------------------------

struct wish {
    char *name, *code; // no code: it goes
};

static struct gen_source *source;
static struct wish wishes[8];
static size_t n_wishes;

static void prepare(void *arg, struct gen_source *src, const struct gen_request *req)
{
    (void)arg;
    (void)req;
    gen_prepared(src, n_wishes != 0);
}

static void refuse(struct gen_stage *s, const char *name, const struct fault *f)
{
    struct gen_diag d = {.code = DIAG_LOAD_FAILED, .line = f->line, .message = f->message};
    gen_stage_refuse(s, name, GEN_FAILED, &d);
}

static void stage_one(struct gen_stage *s, const struct wish *w)
{
    if (w->code == NULL) {
        gen_stage_remove(s, w->name, GEN_REMOVE);
        return;
    }
    struct gen_unit_spec spec = {.name = w->name, .path = "/unit.lua"};
    struct gen_unit *u = gen_stage_unit(s, &spec);
    struct vm *vm = strncmp(w->name, "other", 5) == 0 ? rig.other : rig.vm;
    struct bind_owner *o = bind_owner_open(rig.bind, vm, u);
    u->data = o;
    struct entry en = {.kind = ENTRY_LOAD, .owner = o->owner};
    entry_begin(&en, vm);
    bool loaded = entry_push_chunk(&en, str_of(w->code), "@/unit.lua") == 0 &&
                  entry_run(&en, 0) == ENTRY_DONE;
    if (loaded) {
        CHECK(gen_stage_put(s, u));
    } else {
        refuse(s, w->name, en.fault);
    }
    entry_end(&en);
}

static void stage(void *arg, struct gen_stage *s)
{
    (void)arg;
    for (size_t i = 0; i < n_wishes; i++) {
        stage_one(s, &wishes[i]);
        free(wishes[i].name);
        free(wishes[i].code);
    }
    n_wishes = 0;
}

static void leave(void *arg, struct gen_unit *u, enum gen_reason why, struct gen_life_call *call)
{
    (void)arg;
    bind_owner_tell(u->data, BIND_SHUTDOWN, why, NULL, true, call);
}

static void enter(void *arg, struct gen_unit *u, enum gen_reason why, struct gen_life_call *call)
{
    (void)arg;
    bind_owner_tell(u->data, BIND_START, why, NULL, true, call);
}

static void release(void *arg, struct gen_unit *u)
{
    (void)arg;
    bind_owner_close(u->data);
}

static const struct gen_source_ops source_ops = {
    .name = "test",
    .prepare = prepare,
    .stage = stage,
    .leave = leave,
    .enter = enter,
    .release = release,
};

static void on_report(const struct gen_report *r, void *arg)
{
    (void)arg;
    rig.runs++;
    rig.message[0] = '\0';
    for (size_t i = 0; r != NULL && i < r->n_diags; i++) {
        if (r->diags[i].code == DIAG_LOAD_FAILED) {
            snprintf(rig.message, sizeof rig.message, "%s", r->diags[i].message);
        }
    }
}

static void request(const char *name, const char *code)
{
    CHECK(n_wishes < ARRAY_LEN(wishes));
    wishes[n_wishes++] = (struct wish){xstrdup(name), code != NULL ? xstrdup(code) : NULL};
    gen_request(rig.engine, &(struct gen_request){.trigger = "test", .wait_all = true}, on_report,
                NULL);
}

static void request_and_wait(const char *name, const char *code)
{
    unsigned before = rig.runs;
    request(name, code);
    while (rig.runs == before) {
        loop_run_once(&l, true);
    }
}

// ---- what Lua says --------------------------------------------------------------------------

static int l_say(lua_State *L)
{
    int n = lua_gettop(L);
    for (int i = 1; i <= n; i++) {
        buf_addz(&rig.said, i > 1 ? " " : "");
        buf_addz(&rig.said, luaL_tolstring(L, i, NULL));
        lua_pop(L, 1);
    }
    buf_addc(&rig.said, '\n');
    return 0;
}

static int say_open(lua_State *L)
{
    lua_pushcfunction(L, l_say);
    return 1;
}

bool rig_said(const char *text)
{
    struct str all = buf_str(&rig.said);
    while (all.n != 0) {
        if (str_eqz(str_cut(&all, '\n'), text)) {
            return true;
        }
    }
    return false;
}

void rig_wait(const char *text)
{
    while (!rig_said(text)) {
        if (!loop_run_once(&l, true) && !rig_said(text)) {
            test_fail(__FILE__, __LINE__, "nobody said \"%s\"; said: %s", text, buf_z(&rig.said));
        }
    }
}

void rig_hush(void)
{
    buf_clear(&rig.said);
}

void rig_settle(void)
{
    test_loop_settle(&l);
}

// ---- life -----------------------------------------------------------------------------------

static void note(void *arg, int status, const struct err *e)
{
    (void)arg;
    (void)e;
    CHECK_INT(status, 0);
    rig.answered = true;
}

static void wait_answer(void)
{
    while (!rig.answered) {
        loop_run_once(&l, true);
    }
    rig.answered = false;
}

static void on_event(void *arg, const char *type, struct str fields)
{
    (void)arg;
    (void)fields;
    buf_addf(&rig.stream, "%s ", type);
}

struct config *rig_config(const char *const *flags)
{
    struct config *c;
    struct err e = {0};
    struct config_diags d;
    // Lua's limits are times of the clock on the wall: code that is not about them must not meet them on a busy machine
    const char *all[8] = {"limits.lua_ms=20000", "limits.load_ms=20000"};
    for (size_t i = 2; flags != NULL && *flags != NULL; i++) {
        CHECK(i + 1 < ARRAY_LEN(all));
        all[i] = *flags++;
    }
    struct config_sources src = {.home = &rig.home, .system_path = "/nowhere", .flags = all};
    config_diags_init(&d);
    if (config_load(&c, &src, &d, &e) < 0) {
        test_fail(__FILE__, __LINE__, "%s", e.msg);
    }
    config_diags_fini(&d);
    return c;
}

static void open_store(void)
{
    struct store_opts opts = {.home = rig.home.dir};
    CHECK_INT(store_open(&rig.store, &l, &opts, note, NULL, NULL), 0);
    wait_answer();
    CHECK_INT(event_open(&rig.events, &l, rig.store, 0, note, NULL, NULL), 0);
    wait_answer();
}

void rig_open_with(const char *const *flags, const struct loop_clock *clock)
{
    struct err e = {0};
    memset(&rig, 0, sizeof rig);
    if (proc_setup_at(BIND_LAUNCHER, &e) != 0) {
        test_fail(__FILE__, __LINE__, "%s", e.msg);
    }
    log_open(LOG_ERROR, NULL, NULL);
    web_begin(clock);
    CHECK_INT(home_resolve(&rig.home, rig_path("home"), NULL), 0);
    CHECK_INT(path_mkdirs(rig.home.dir, 0700, NULL), 0);
    buf_init(&rig.said, SIZE_MAX);
    buf_init(&rig.stream, SIZE_MAX);
    rig.config = rig_config(flags);
    config_put(&rig.settings, rig.config, NULL);
    open_store();
    rig.watcher = watcher_open(&l, NULL, NULL);
    rig.engine = gen_open(&l, on_event, NULL);
    source = gen_source_add(rig.engine, &source_ops, NULL);
    CHECK_INT(trust_open(&rig.trust, rig.home.dir, NULL), 0);
    rig.hub = (struct hub_parts){.loop = &l,
                                 .home = &rig.home,
                                 .config = &rig.settings,
                                 .store = rig.store,
                                 .events = rig.events,
                                 .trust = rig.trust};
    struct bind_opts opts = {
        .hub = &rig.hub,
        .watcher = rig.watcher,
        .http = client,
        .engine = rig.engine,
        .choice = rig_choice,
    };
    rig.bind = bind_open(&opts);
    rig.vm = bind_vm_open(rig.bind);
    rig.other = bind_vm_open(rig.bind);
    vm_add_lib(rig.vm, "say", say_open);
    vm_add_lib(rig.other, "say", say_open);
}

void rig_open(void)
{
    rig_open_with(NULL, NULL);
}

static void on_closed(void *arg)
{
    *(bool *)arg = true;
}

void rig_close(void)
{
    bool closed = false;
    bind_stop(rig.bind);
    gen_close(rig.engine, on_closed, &closed);
    while (!closed) {
        loop_run_once(&l, true);
    }
    vm_close(rig.vm);
    vm_close(rig.other);
    bind_close(rig.bind);
    trust_close(rig.trust);
    watcher_close(rig.watcher);
    event_close(rig.events);
    store_close(rig.store, note, NULL);
    wait_answer();
    web_end();
    proc_teardown();
    config_free(rig.config);
    home_fini(&rig.home);
    buf_fini(&rig.said);
    buf_fini(&rig.stream);
}

// ---- units ----------------------------------------------------------------------------------

void rig_ask(const char *name, const char *code)
{
    request(name, code);
}

void rig_load(const char *name, const char *code)
{
    request_and_wait(name, code);
    if (gen_state_of(rig.engine, str_of(name)) != GEN_LOADED) {
        test_fail(__FILE__, __LINE__, "'%s' did not load: %s", name, rig.message);
    }
}

const char *rig_fault(const char *name, const char *code)
{
    request_and_wait(name, code);
    CHECK_INT(gen_state_of(rig.engine, str_of(name)), GEN_FAILED);
    return rig.message;
}

bool rig_noted(const char *name, enum gen_code code, const char *text)
{
    const struct gen_unit *u = gen_unit_find(gen_current(rig.engine), str_of(name));
    for (size_t i = 0; u != NULL && i < u->diags.n; i++) {
        if (u->diags.p[i].code == code && strstr(u->diags.p[i].message, text) != NULL) {
            return true;
        }
    }
    return false;
}

void rig_remove(const char *name)
{
    request_and_wait(name, NULL);
}

int rig_children(void)
{
    char path[64];
    int n = 0, pid;
    snprintf(path, sizeof path, "/proc/self/task/%d/children", (int)getpid());
    FILE *f = fopen(path, "r");
    CHECK(f != NULL);
    while (fscanf(f, "%d", &pid) == 1) { // NOLINT(cert-err34-c): the kernel's own numbers
        n++;
    }
    fclose(f);
    return n;
}

void rig_run(const char *code)
{
    char *whole = xasprintf("timer.after(0, function() local ok, why = pcall(function() %s end) "
                            "if not ok then say('raised', why) end say('end') end)",
                            code);
    rig_hush();
    rig_load("run", whole);
    free(whole);
    rig_wait("end");
}

// ---- files ----------------------------------------------------------------------------------

const char *rig_path(const char *name)
{
    static char ring[8][512];
    static unsigned at;
    char *out = ring[at++ % ARRAY_LEN(ring)];
    snprintf(out, sizeof ring[0], "%s/%s", test_dir(), name);
    return out;
}

void rig_write(const char *name, const char *text)
{
    CHECK_INT(path_write_atomic(rig_path(name), str_of(text), 0644, NULL), 0);
}

const char *rig_code(const char *fmt, ...)
{
    static char out[8192];
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(out, sizeof out, fmt, ap);
    va_end(ap);
    CHECK(n >= 0 && (size_t)n < sizeof out);
    return out;
}
