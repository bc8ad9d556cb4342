#include "unit/bind/lab.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <lauxlib.h>

#include "base/path.h"
#include "loop/proc.h"

struct lab lab;

// ---- what Lua says ----------------------------------------------------------------------------

static int l_say(lua_State *L)
{
    for (int i = 1; i <= lua_gettop(L); i++) {
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

// ---- files ------------------------------------------------------------------------------------

static char *path_of(const char *file)
{
    bool dev = strncmp(file, "dev/", 4) == 0;
    char *path = xasprintf("%s/%s/%s", test_dir(), dev ? "dev" : "home/lua", dev ? file + 4 : file);
    char *dir = str_dup(path_dir(str_of(path)));
    CHECK_INT(path_mkdirs(dir, 0755, NULL), 0);
    free(dir);
    return path;
}

void lab_save(const char *file, const char *text)
{
    char *path = path_of(file);
    CHECK_INT(path_write_atomic(path, str_of(text), 0644, NULL), 0);
    free(path);
}

void lab_write_over(const char *file, const char *text)
{
    char *path = path_of(file);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    CHECK(fd >= 0);
    CHECK_INT(write(fd, text, strlen(text)), (long long)strlen(text));
    close(fd);
    free(path);
}

void lab_remove(const char *file)
{
    char *path = path_of(file);
    CHECK_INT(unlink(path), 0);
    free(path);
}

// ---- life -------------------------------------------------------------------------------------

static void on_report(const struct gen_report *r, void *arg)
{
    lab.report = r;
    *(bool *)arg = true;
}

const struct gen_report *lab_ask(const struct gen_request *req)
{
    bool answered = false;
    gen_request(rig.engine, req, on_report, &answered);
    while (!answered) {
        loop_run_once(&l, true);
    }
    return lab.report;
}

const struct gen_report *lab_reload(void)
{
    return lab_ask(&(struct gen_request){.trigger = "test", .wait_all = true});
}

const struct gen_report *lab_change(const char *file, const char *text)
{
    lab_save(file, text);
    return lab_reload();
}

static void open_lab(const char *const *files, bool builtin, const char *const *flags)
{
    rig_open_with(flags, NULL);
    lab = (struct lab){0};
    for (; files != NULL && files[0] != NULL; files += 2) {
        lab_save(files[0], files[1]);
    }
    char *user = path_join(rig.home.dir, "lua");
    lab.modules = modules_open(rig.bind, user, builtin ? NULL : rig_path("dev"));
    vm_add_lib(lab.modules->space->vm, "say", say_open);
    free(user);
    lab_reload();
}

void lab_open(const char *const *files)
{
    lab_open_with(NULL, files);
}

void lab_open_with(const char *const *flags, const char *const *files)
{
    lab_save("dev/hub/init.lua", "return {'hub.*', 'lib.*', 'user.init'}");
    open_lab(files, false, flags);
}

void lab_open_builtin(const char *const *files)
{
    open_lab(files, true, NULL);
}

static void on_closed(void *arg)
{
    *(bool *)arg = true;
}

static void on_store(void *arg, int status, const struct err *e)
{
    (void)e;
    CHECK_INT(status, 0);
    *(bool *)arg = true;
}

static void wait_for(const bool *flag)
{
    while (!*flag) {
        loop_run_once(&l, true);
    }
}

void lab_close(void)
{
    bool closed = false, stored = false;
    modules_stop(lab.modules);
    bind_stop(rig.bind);
    gen_close(rig.engine, on_closed, &closed);
    wait_for(&closed);
    modules_close(lab.modules);
    vm_close(rig.vm);
    vm_close(rig.other);
    bind_close(rig.bind);
    trust_close(rig.trust);
    watcher_close(rig.watcher);
    event_close(rig.events);
    store_close(rig.store, on_store, &stored);
    wait_for(&stored);
    web_end();
    proc_teardown();
    config_free(rig.config);
    home_fini(&rig.home);
    buf_fini(&rig.said);
    buf_fini(&rig.stream);
}

// ---- what is there ----------------------------------------------------------------------------

const char *lab_eval(const char *code)
{
    static char out[512];
    struct entry en = {0};
    lua_State *L = entry_begin(&en, lab.modules->space->vm);
    bool ran = entry_push_chunk(&en, str_of(code), "@eval") == 0 && entry_run(&en, 0) == ENTRY_DONE;
    if (!ran) {
        snprintf(out, sizeof out, "error: %s", en.fault->message);
    } else if (en.n_results == 0 || lua_isnil(L, 1)) {
        snprintf(out, sizeof out, "nil");
    } else if (lua_isboolean(L, 1)) {
        snprintf(out, sizeof out, "%s", lua_toboolean(L, 1) ? "true" : "false");
    } else {
        const char *text = lua_tostring(L, 1);
        snprintf(out, sizeof out, "%s", text != NULL ? text : luaL_typename(L, 1));
    }
    entry_end(&en);
    return out;
}

const struct gen_diag *lab_diag(const char *unit)
{
    for (size_t i = 0; i < lab.report->n_diags; i++) {
        if (strcmp(lab.report->diags[i].plugin, unit) == 0) {
            return &lab.report->diags[i];
        }
    }
    return NULL;
}

enum gen_state lab_state(const char *unit)
{
    for (size_t i = 0; i < lab.report->n_rows; i++) {
        if (strcmp(lab.report->rows[i].name, unit) == 0) {
            return lab.report->rows[i].state;
        }
    }
    return GEN_KEPT;
}

bool lab_needs(const char *unit, enum gen_need kind)
{
    for (size_t i = 0; i < lab.report->n_needs; i++) {
        const struct gen_report_need *n = &lab.report->needs[i];
        if (strcmp(n->plugin, unit) == 0 && n->kind == kind) {
            return true;
        }
    }
    return false;
}

size_t lab_items(void)
{
    const struct gen *g = gen_current(rig.engine);
    size_t n = 0;
    for (size_t i = 0; i < gen_count(g); i++) {
        n += gen_unit_count(gen_at(g, i));
    }
    return n;
}

uint64_t lab_revision(const char *unit)
{
    const struct gen_unit *u = gen_unit_find(gen_current(rig.engine), str_of(unit));
    return u != NULL ? u->revision : 0;
}

void lab_wait_revision(const char *unit, uint64_t revision)
{
    while (lab_revision(unit) < revision) {
        loop_run_once(&l, true);
    }
    while (gen_is_running(rig.engine)) {
        loop_run_once(&l, true);
    }
}
