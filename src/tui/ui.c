// One build of the interface: a Lua state of its own, with what the files returned.
//
//     ui/init.lua ──> the frame: bindings, actions, events, components; each file adds to it
//     then each file in order ──> its value is added
//     then one drawing, as a proof ──> only now it takes the place of the build before
//
// A new build is a new state, so nothing of the old one can stack or leak. What survives is data: `_tui_state` and
// `afloat.g` are copied. Old actions that wait for the hub run to their end in the old state.
//
// Lua code runs under limits here as everywhere (lua/entry.h): a layout that does not end is stopped and named.

#include <assert.h>

#include "base/path.h"
#include "lua/args.h"
#include "lua/entry.h"
#include "lua/value.h"
#include "tui/tui_int.h"

enum { RENDER_MS = 100, ACTION_MS = 200, MEMORY = 32 << 20 };

const char *const ui_kind_names[UI__KINDS] = {"layout", "keybindings", "actions", "events"};

struct ui {
    struct tui *t;
    struct vm *vm;
    struct vm_owner *own;
    vm_ref frame; // what ui/init.lua returned
    vm_ref state; // _tui_state
    vm_ref kept;  // afloat.g
    struct {
        vm_ref ref;
        unsigned version;
    } docs[DOC__COUNT]; // what the hub said, as Lua values
    vec(struct job *) jobs;
    bool retired;
};

/// An action that runs; it may wait for the hub.
struct job {
    struct entry en; // first
    struct ui *ui;
};

struct tui *ui__tui(lua_State *L)
{
    return ((struct ui *)vm_arg(vm_of(L)))->t;
}

// ---- faults --------------------------------------------------------------------------------

// A path as the user knows it: below the home.
static const char *shorten(const struct ui *ui, const char *path)
{
    const char *below = path_below(ui->t->o->home->dir, path);
    return below != NULL ? below : path;
}

static void tell(struct ui_fault *f, const struct ui *ui, const char *path, int line,
                 const char *message)
{
    struct buf text = {.max = SIZE_MAX};
    snprintf(f->path, sizeof f->path, "%s", path != NULL ? path : "");
    buf_addz(&text, shorten(ui, f->path));
    if (line > 0) {
        buf_addf(&text, ":%d", line);
    }
    buf_addf(&text, "%s%s", text.n != 0 ? ": " : "", message);
    memcpy(f->text, buf_z(&text), MIN(text.n + 1, sizeof f->text));
    f->text[sizeof f->text - 1] = '\0';
    buf_fini(&text);
}

static void tell_fault(struct ui_fault *f, const struct ui *ui, const struct fault *fault,
                       const char *path)
{
    bool shipped = fault->path != NULL && strcmp(fault->path, "ui/init.lua") == 0;
    tell(f, ui, fault->path != NULL && !shipped ? fault->path : path, shipped ? 0 : fault->line,
         fault->message);
    f->slow = fault->code == FAULT_HOOK_TIMEOUT || fault->code == FAULT_LOAD_TIMEOUT ||
              fault->code == FAULT_MEMORY_LIMIT;
}

// ---- the state that code gets ----------------------------------------------------------------

static void set_doc(struct ui *ui, lua_State *L, enum doc_id id, const char *name)
{
    const struct doc *d = &ui->t->model.docs[id];
    if (ui->docs[id].ref == 0 || ui->docs[id].version != d->version) {
        refs_drop(ui->vm, ui->docs[id].ref);
        if (d->v != NULL) {
            value_push(L, d->v);
        } else if (id == DOC_SESSION || id == DOC_REPORT) {
            lua_pushnil(L);
        } else {
            lua_newtable(L);
        }
        ui->docs[id].ref = refs_take(L, ui->own);
        ui->docs[id].version = d->version;
    }
    refs_push(L, ui->docs[id].ref);
    value_set(L, name);
}

static void set_session(struct ui *ui, lua_State *L)
{
    const struct json *row = ui->t->model.docs[DOC_SESSION].v;
    struct str state = json_get_text(row, "state");
    value_set_bool(L, "busy", str_eqz(state, "running") || str_eqz(state, "waiting"));
    value_push(L, json_get(row, "pending"));
    value_set(L, "pending");
}

static void set_note(struct tui *t, lua_State *L)
{
    if (t->note[0] != '\0') {
        lua_newtable(L);
        value_set_str(L, "text", t->note);
        value_set_str(L, "style", t->note_style);
        value_set(L, "note");
    }
}

static void push_state(struct ui *ui, lua_State *L)
{
    static const char *const names[] = {"sessions", "waiting", "plugins", "runs",    "ptys",
                                        "commands", "session", "report",  "messages"};
    static_assert(ARRAY_LEN(names) == DOC__COUNT, "each document has a name");
    struct tui *t = ui->t;
    lua_newtable(L);
    for (size_t i = 0; i < DOC__COUNT; i++) {
        set_doc(ui, L, (enum doc_id)i, names[i]);
    }
    set_session(ui, L);
    set_note(t, L);
    value_set_int(L, "generation", t->model.generation);
    value_set_str(L, "project", t->o->project);
    if (getenv("HOME") != NULL) {
        value_set_str(L, "user_home", getenv("HOME"));
    }
    value_set_str(L, "version", t->o->version);
    value_set_str(L, "shell", getenv("SHELL") != NULL ? getenv("SHELL") : "/bin/sh");
    value_set_bool(L, "lost", t->model.lost);
    value_set_bool(L, "loaded", t->model.docs[DOC_SESSIONS].v != NULL);
    if (t->model.env[0] != '\0') {
        value_set_str(L, "env", t->model.env);
    }
    if (t->error[0] != '\0') {
        value_set_str(L, "error", t->error);
    }
    lua_newtable(L);
    value_set_int(L, "rows", t->screen.next.rows);
    value_set_int(L, "cols", t->screen.next.cols);
    value_set(L, "size");
    refs_push(L, ui->state);
    value_set(L, "tui");
}

// ---- calls ---------------------------------------------------------------------------------

// Begin an entry with a function of the frame on its stack.
static lua_State *begin(struct ui *ui, struct entry *en, const char *function)
{
    lua_State *L = entry_begin(en, ui->vm);
    refs_push_field(L, ui->frame, function);
    return L;
}

static void job_end(struct job *j, enum entry_status status)
{
    struct ui *ui = j->ui;
    struct tui *t = ui->t;
    if (status == ENTRY_FAILED && !ui->retired) {
        struct ui_fault f = {0};
        tell_fault(&f, ui, j->en.fault, NULL);
        app__note(t, str_of(f.text), "bad");
    }
    entry_end(&j->en);
    vec_drop(&ui->jobs, j);
    free(j);
    app__changed(t, true);
}

static void free_retired(void *arg)
{
    struct ui *ui = arg;
    for (size_t i = 0; i < ui->t->old.n; i++) {
        if (ui->t->old.p[i] == ui) {
            vec_remove(&ui->t->old, i);
            ui__free(ui);
            return;
        }
    }
}

static void on_job(struct entry *en, enum entry_status status)
{
    struct job *j = (struct job *)en;
    struct ui *ui = j->ui;
    job_end(j, status);
    if (ui->retired && ui->jobs.n == 0) {
        loop_defer(&ui->t->loop, free_retired, ui); // its code has just run
    }
}

static struct job *job_new(struct ui *ui)
{
    struct job *j = xcalloc(1, sizeof *j);
    j->ui = ui;
    j->en.budget_ms = ACTION_MS;
    j->en.owner = ui->own;
    j->en.done = on_job;
    vec_push(&ui->jobs, j);
    return j;
}

// Run what begin() put on the stack, with the `n` arguments above it.
static void job_run(struct job *j, int n)
{
    enum entry_status status = entry_run(&j->en, n);
    if (status != ENTRY_WAITING) {
        on_job(&j->en, status);
    }
}

void ui__act(struct ui *ui, struct str action, const struct json *arg)
{
    struct job *j = job_new(ui);
    lua_State *L = begin(ui, &j->en, "run");
    push_state(ui, L);
    lua_pushlstring(L, action.p != NULL ? action.p : "", action.n);
    value_push(L, arg);
    job_run(j, 3);
}

// Has the interface a handler for events of this type?
static bool listens(struct ui *ui, struct str type)
{
    lua_State *L = vm_main(ui->vm);
    refs_push(L, ui->frame);
    lua_pushstring(L, "events");
    lua_rawget(L, -2);
    lua_pushlstring(L, type.p, type.n);
    lua_rawget(L, -2);
    lua_pushstring(L, "*");
    lua_rawget(L, -3);
    bool any = !lua_isnil(L, -1) || !lua_isnil(L, -2);
    lua_pop(L, 4);
    return any;
}

void ui__event(struct ui *ui, struct str type, const struct json *event)
{
    if (!listens(ui, type)) {
        return;
    }
    struct job *j = job_new(ui);
    lua_State *L = begin(ui, &j->en, "event");
    push_state(ui, L);
    lua_pushlstring(L, type.p, type.n);
    value_push(L, event);
    job_run(j, 3);
}

bool ui__mouse(struct ui *ui, const struct json *event)
{
    struct entry en = {.budget_ms = RENDER_MS, .owner = ui->own};
    lua_State *L = begin(ui, &en, "on_mouse");
    push_state(ui, L);
    value_push(L, event);
    bool used = entry_run(&en, 2) == ENTRY_DONE && en.n_results > 0 && lua_toboolean(en.L, 1);
    entry_end(&en);
    return used;
}

// Push the action of a key. False, with something else pushed: the key has none.
static bool push_action(struct ui *ui, lua_State *L, const char *key)
{
    refs_push(L, ui->frame);
    for (int i = 0; i < 3 && lua_istable(L, -1); i++) {
        const char *const path[] = {"keys", key, "action"};
        lua_pushstring(L, path[i]);
        lua_rawget(L, -2);
        lua_remove(L, -2);
    }
    return lua_isstring(L, -1) || lua_isfunction(L, -1);
}

// Keys that work also where one types. What can be typed itself is never one of them.
static bool is_reserved(lua_State *L, const char *key)
{
    static const char *const actions[] = {"palette.open", "quit", "focus.next", "focus.prev"};
    struct str name = str_of(lua_isstring(L, -1) ? lua_tostring(L, -1) : "");
    return strlen(key) > 1 && str_lookup(name, actions, ARRAY_LEN(actions)) >= 0;
}

bool ui__press(struct ui *ui, const char *key, bool only_reserved)
{
    lua_State *main = vm_main(ui->vm);
    bool has = push_action(ui, main, key) && (!only_reserved || is_reserved(main, key));
    lua_pop(main, 1);
    if (!has) {
        return false;
    }
    struct job *j = job_new(ui);
    lua_State *L = begin(ui, &j->en, "run");
    push_state(ui, L);
    push_action(ui, L, key);
    job_run(j, 2);
    return true;
}

int ui__render(struct ui *ui, struct arena *a, struct node **tree, struct ui_fault *f)
{
    struct entry en = {.budget_ms = RENDER_MS, .owner = ui->own};
    struct json *v = NULL;
    struct err e = {0};
    lua_State *L = begin(ui, &en, "render");
    push_state(ui, L);
    enum entry_status status = entry_run(&en, 1);
    int rc = -1;
    *f = (struct ui_fault){0};
    if (status != ENTRY_DONE) {
        tell_fault(f, ui, en.fault, NULL);
    } else if (en.n_results < 1 || value_read(&v, a, en.L, 1, &e) < 0 ||
               node__parse(tree, a, v, &e) < 0) {
        tell(f, ui, NULL, 0, e.msg[0] != '\0' ? e.msg : "the layout returned nothing");
    } else {
        rc = 0;
    }
    entry_end(&en);
    return rc;
}

// ---- _tui_state ----------------------------------------------------------------------------

// Push `_tui_state`, or a table in it. False, with something else pushed: it is no table.
static bool push_table(struct ui *ui, lua_State *L, const char *table)
{
    if (table != NULL) {
        refs_push_field(L, ui->state, table);
    } else {
        refs_push(L, ui->state);
    }
    return lua_istable(L, -1);
}

static void push_key(lua_State *L, struct str id)
{
    lua_pushlstring(L, id.p != NULL ? id.p : "", id.n);
}

struct str ui__get_str(struct ui *ui, const char *table, struct str id)
{
    lua_State *L = vm_main(ui->vm);
    struct str out = STR_NULL;
    if (push_table(ui, L, table)) {
        push_key(L, id);
        lua_rawget(L, -2);
        if (lua_type(L, -1) == LUA_TSTRING) {
            out.p = lua_tolstring(L, -1, &out.n); // the table holds it
        }
        lua_pop(L, 1);
    }
    lua_pop(L, 1);
    return out;
}

int ui__get_int(struct ui *ui, const char *table, struct str id, int otherwise)
{
    lua_State *L = vm_main(ui->vm);
    int out = otherwise;
    if (push_table(ui, L, table)) {
        push_key(L, id);
        lua_rawget(L, -2);
        lua_Integer v = lua_isinteger(L, -1) ? lua_tointeger(L, -1) : otherwise;
        out = v < -1000000 || v > 1000000 ? otherwise : (int)v;
        lua_pop(L, 1);
    }
    lua_pop(L, 1);
    return out;
}

static void set_value(struct ui *ui, const char *table, struct str id)
{
    lua_State *L = vm_main(ui->vm); // the value is on top
    if (!push_table(ui, L, table) && table != NULL) {
        lua_pop(L, 1); // Lua code replaced it: make a new one
        refs_push(L, ui->state);
        lua_pushstring(L, table);
        lua_newtable(L);
        lua_pushvalue(L, -1);
        lua_insert(L, -4);
        lua_rawset(L, -3);
        lua_pop(L, 1);
    }
    push_key(L, id);
    lua_pushvalue(L, -3);
    lua_rawset(L, -3);
    lua_pop(L, 2);
}

void ui__set_str(struct ui *ui, const char *table, struct str id, struct str value)
{
    push_key(vm_main(ui->vm), value);
    set_value(ui, table, id);
}

void ui__set_int(struct ui *ui, const char *table, struct str id, int value)
{
    lua_pushinteger(vm_main(ui->vm), value);
    set_value(ui, table, id);
}

// Copy the data of a table of the build before into the one on top. Values that are not data are left out.
static void copy_table(struct ui *before, vm_ref from, lua_State *L)
{
    lua_State *B = vm_main(before->vm);
    struct arena a = {0};
    struct err e;
    refs_push(B, from);
    lua_pushnil(B);
    while (lua_next(B, -2) != 0) {
        struct json *v;
        int rc = lua_istable(B, -1) ? value_read_exact(&v, &a, B, -1, &e)
                                    : value_read(&v, &a, B, -1, &e);
        if (rc == 0 && lua_type(B, -2) == LUA_TSTRING) {
            lua_pushstring(L, lua_tostring(B, -2));
            value_push(L, v);
            lua_rawset(L, -3);
        }
        lua_pop(B, 1);
    }
    lua_pop(B, 1);
    arena_fini(&a);
}

// ---- building ------------------------------------------------------------------------------

static void on_log(void *arg, const struct vm_owner *owner, enum log_level level, struct str text)
{
    struct ui *ui = arg;
    (void)owner;
    app__note(ui->t, text, level == LOG_ERROR || level == LOG_WARN ? "warn" : "");
}

static void set_global(lua_State *L, const char *name)
{
    lua_rawgeti(L, LUA_REGISTRYINDEX, LUA_RIDX_GLOBALS);
    lua_insert(L, -2);
    lua_pushstring(L, name);
    lua_insert(L, -2);
    lua_rawset(L, -3);
    lua_pop(L, 1);
}

static void make_tables(struct ui *ui, struct ui *before)
{
    static const char *const parts[] = {"input", "selected", "scroll"};
    lua_State *L = vm_main(ui->vm);
    lua_newtable(L);
    for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
        lua_pushstring(L, parts[i]);
        lua_newtable(L);
        lua_rawset(L, -3);
    }
    if (before != NULL) {
        copy_table(before, before->state, L);
    }
    lua_pushvalue(L, -1);
    ui->state = refs_take(L, ui->own);
    set_global(L, "_tui_state");

    lua_rawgeti(L, LUA_REGISTRYINDEX, LUA_RIDX_GLOBALS);
    lua_pushstring(L, "afloat");
    lua_rawget(L, -2);
    lua_pushstring(L, "g");
    lua_newtable(L);
    if (before != NULL) {
        copy_table(before, before->kept, L);
    }
    lua_pushvalue(L, -1);
    ui->kept = refs_take(L, ui->own);
    lua_rawset(L, -3);
    lua_pop(L, 2);
}

// Run a file; its value is left on en->L at 1.
static int run_file(struct ui *ui, struct entry *en, const char *path, struct str text,
                    struct ui_fault *f)
{
    char *chunk = xasprintf("@%s", path);
    entry_begin(en, ui->vm);
    bool ok = entry_push_chunk(en, text, chunk) == 0 && entry_run(en, 0) == ENTRY_DONE;
    free(chunk);
    if (!ok) {
        tell_fault(f, ui, en->fault, path);
    } else if (en->n_results < 1) {
        tell(f, ui, path, 0, "the file returns nothing");
    }
    return ok && en->n_results > 0 ? 0 : -1;
}

// Call a function of the frame with the value of a file, or with its path.
static int add(struct ui *ui, const char *function, const struct ui_file *file, vm_ref value,
               struct ui_fault *f)
{
    struct entry en = {.kind = ENTRY_LOAD, .owner = ui->own};
    lua_State *L = begin(ui, &en, function);
    lua_pushstring(L, value != 0 ? ui_kind_names[file->kind] : file->path);
    bool ok;
    if (value != 0) {
        refs_push(L, value);
    }
    ok = entry_run(&en, value != 0 ? 2 : 1) == ENTRY_DONE;
    if (!ok) {
        tell_fault(f, ui, en.fault, file->path);
    }
    entry_end(&en);
    return ok ? 0 : -1;
}

static int load_file(struct ui *ui, const struct ui_file *file, struct ui_fault *f)
{
    struct entry en = {.kind = ENTRY_LOAD, .owner = ui->own};
    bool layout = file->kind == UI_LAYOUT;
    if (add(ui, "begin", file, 0, f) < 0) {
        return -1;
    }
    int rc = run_file(ui, &en, file->path, file->text, f);
    if (rc == 0 && lua_type(en.L, 1) != (layout ? LUA_TFUNCTION : LUA_TTABLE)) {
        tell(f, ui, file->path, 0,
             layout ? "the file must return a function of (state, next)"
                    : "the file must return a table");
        rc = -1;
    }
    vm_ref value = 0;
    if (rc == 0) {
        lua_pushvalue(en.L, 1);
        value = refs_take(en.L, ui->own);
    }
    entry_end(&en);
    rc = rc == 0 ? add(ui, "add", file, value, f) : rc;
    refs_drop(ui->vm, value);
    return rc;
}

static int load_frame(struct ui *ui, struct ui_fault *f)
{
    struct entry en = {.kind = ENTRY_LOAD, .owner = ui->own};
    const struct shipped *s = ui->t->o->shipped;
    while (s->rel != NULL && strcmp(s->rel, "ui/init.lua") != 0) {
        s++;
    }
    assert(s->rel != NULL);
    int rc = run_file(ui, &en, s->rel, (struct str){s->text, s->n}, f);
    if (rc == 0) {
        lua_pushvalue(en.L, 1);
        ui->frame = refs_take(en.L, ui->own);
    }
    entry_end(&en);
    return rc;
}

static int load_all(struct ui *ui, const ui_files *files, struct ui_fault *f)
{
    int rc = load_frame(ui, f);
    vec_foreach (file, files) {
        rc = rc == 0 && !file->bad ? load_file(ui, file, f) : rc;
    }
    if (rc == 0) {
        struct arena a = {0};
        struct node *tree;
        rc = ui__render(ui, &a, &tree, f);
        arena_fini(&a);
        for (size_t i = files->n; rc < 0 && f->path[0] == '\0' && i > 0; i--) {
            if (files->p[i - 1].kind == UI_LAYOUT && !files->p[i - 1].bad) {
                char text[sizeof f->text]; // the last layout gave what cannot be drawn
                snprintf(text, sizeof text, "%s", f->text);
                tell(f, ui, files->p[i - 1].path, 0, text);
            }
        }
    }
    return rc;
}

struct ui *ui__new(struct tui *t, const ui_files *files, struct ui *before, struct ui_fault *f)
{
    struct ui *ui = xcalloc(1, sizeof *ui);
    *f = (struct ui_fault){0};
    ui->t = t;
    ui->vm = vm_open(
        &(struct vm_opts){.trust = VM_SANDBOX, .memory_max = MEMORY, .log = on_log, .arg = ui});
    ui->own = vm_owner_open(ui->vm, "ui");
    vm_add_lib(ui->vm, "afloat", call__open_lib);
    make_tables(ui, before);
    if (load_all(ui, files, f) < 0) {
        ui__free(ui);
        return NULL;
    }
    return ui;
}

void ui__retire(struct ui *ui)
{
    if (ui != NULL && ui->jobs.n != 0) {
        ui->retired = true;
        vec_push(&ui->t->old, ui);
    } else {
        ui__free(ui);
    }
}

void ui__free(struct ui *ui)
{
    if (ui == NULL) {
        return;
    }
    while (ui->jobs.n != 0) {
        job_end(*vec_last(&ui->jobs), ENTRY_DONE);
    }
    vec_fini(&ui->jobs);
    vm_close(ui->vm);
    free(ui);
}
