// What a plugin's code would register, found out in a process that is locked in.
//
//     (read the tree, on a thread; compile its web side) ── spawn `afloat host LANG --validate` ── request on its stdin
//         ── its answer, or its end, or the deadline ── done
//
// The process has no network and little time and memory, and can change nothing; its answer is checked like
// any other from outside. Lua locks itself in and reaches no file at all. An interpreter that we did not write has to read its
// library, so it runs in a read-only box (sandbox/box.h). The process is ours to end: a plugin that hangs costs
// one process for a few seconds.

#include <signal.h>
#include <unistd.h>

#include "api/handlers.h"
#include "api/plugin_int.h"
#include "base/path.h"
#include "front/front.h"
#include "loop/proc.h"
#include "loop/timer.h"
#include "loop/work.h"
#include "sandbox/box.h"

enum {
    AT_ONCE = 8,         // validations under way
    DEADLINE_MS = 15000, // start of the process to its end
    CPU_S = 10,
    FILES = 32,
    ANSWER_BYTES = 8 << 20,
};

struct validation {
    struct api *api;
    struct proc *proc;
    enum plugin_lang lang;
    struct box *box; // of all but Lua
    char *hide;      // paths that the box hides, each with its NUL; an empty one ends them
    struct err e;
    struct timer deadline;
    struct buf request, answer;
    api_validated *done;
    void *arg;
    bool late;
};

static void finish(struct validation *v, const struct json *value, const struct api_invalid *no)
{
    timer_stop(&v->deadline);
    vec_drop(&v->api->validations, v);
    v->done(v->arg, value, no);
    box_free(v->box);
    free(v->hide);
    buf_fini(&v->request);
    buf_fini(&v->answer);
    free(v);
}

static void fail(struct validation *v, enum problem p, const char *text)
{
    struct api_invalid no = {.problem = p};
    snprintf(no.detail, sizeof no.detail, "Invalid plugin code: %s", text);
    finish(v, NULL, &no);
}

// ---- the answer ------------------------------------------------------------------------------

static void on_output(struct proc *p, int which, struct str bytes, void *arg)
{
    struct validation *v = arg;
    (void)p;
    if (which == STDOUT_FILENO) {
        buf_adds(&v->answer, bytes);
    }
}

static void on_exit_cb(struct proc *p, const struct proc_exit *x, void *arg)
{
    struct validation *v = arg;
    struct arena a = {0};
    struct json *answer = NULL;
    char text[480];
    (void)p;
    if (!x->launched && x->no_box != 0) {
        box_explain(x->no_box, -x->code, BOX_INSTEAD, &v->e);
        fail(v, PROBLEM_INTERNAL, v->e.msg);
    } else if (!x->launched) {
        fail(v, PROBLEM_INTERNAL, x->why);
    } else if (v->late) {
        fail(v, PROBLEM_INVALID_BODY, "it took too long to load");
    } else if (x->signal != 0) {
        snprintf(text, sizeof text, "it ended its process by signal %d", x->signal);
        fail(v, PROBLEM_INVALID_BODY, text);
    } else if (json_parse(&answer, &a, buf_str(&v->answer), NULL, NULL) < 0) {
        fail(v, PROBLEM_INVALID_BODY, "it gave no readable account of itself");
    } else if (json_bool(json_get(answer, "ok"), false)) {
        finish(v, json_get(answer, "value"), NULL);
    } else {
        struct str message = json_str(json_get(answer, "message"), "it failed");
        struct str file = path_base(json_str(json_get(answer, "path"), "?"));
        int64_t line = json_int(json_get(answer, "line"), 0);
        if (line > 0) {
            snprintf(text, sizeof text, "%.*s:%lld: %.*s", (int)MIN(file.n, 80), file.p,
                     (long long)line, (int)MIN(message.n, 380), message.p);
        } else {
            snprintf(text, sizeof text, "%.*s", (int)MIN(message.n, 460), message.p);
        }
        fail(v, PROBLEM_INVALID_BODY, text);
    }
    arena_fini(&a);
}

static void on_deadline(void *arg)
{
    struct validation *v = arg;
    v->late = true;
    proc_kill(v->proc, SIGKILL);
}

// ---- the request -----------------------------------------------------------------------------

static void write_request(const struct api *api, const struct api_validation *v, struct buf *out)
{
    struct jw w = {.out = out};
    jw_obj(&w);
    jw_kstrz(&w, "name", v->name);
    jw_kstrz(&w, "path", v->path);
    jw_kstrz(&w, "data_dir", api->o.hub->home->dir);
    jw_kbool(&w, "single", v->tree == NULL || v->tree->is_file);
    jw_kstrz(&w, "server", v->server);
    jw_kobj(&w, "files");
    for (size_t i = 0; v->tree != NULL && i < v->tree->files.n; i++) {
        const struct tree_file *f = &v->tree->files.p[i];
        bool replaced = v->content.p != NULL && strcmp(f->path, v->server) == 0;
        if (plugin_lang_reads(v->lang, str_of(f->path)) && !replaced) {
            jw_kstr(&w, f->path, f->bytes);
        }
    }
    if (v->content.p != NULL) {
        jw_kstr(&w, v->server, v->content);
    }
    jw_end_obj(&w);
    if (v->options != NULL) {
        jw_kvalue(&w, "options", v->options);
    }
    jw_kbool(&w, "test", v->test);
    jw_kint(&w, "load_ms", config_int(api->o.hub->config->now, "limits.load_ms"));
    jw_end_obj(&w);
}

static int spawn(struct validation *v, struct err *e)
{
    static const struct proc_cb cb = {.on_output = on_output, .on_exit = on_exit_cb};
    static const char *const env[] = {"LC_ALL=C.UTF-8", "PATH=/usr/local/bin:/usr/bin:/bin",
                                      "AFLOAT_HOST_MEMORY_MB=512", "HOME=/tmp", NULL};
    char *program = path_own_program(e);
    if (program == NULL) {
        return e->code;
    }
    const char *const argv[] = {program, "host", plugin_lang_name(v->lang), "--validate", NULL};
    const struct proc_opts opts = {.argv = argv,
                                   .env = env,
                                   .in = PROC_PIPE,
                                   .out = PROC_PIPE,
                                   .supervise = true,
                                   .box = v->box != NULL ? box_rules(v->box) : NULL,
                                   .file_limit = FILES,
                                   .cpu_limit_s = CPU_S};
    int rc = proc_spawn(&v->proc, v->api->o.hub->loop, &opts, &cb, v, e);
    free(program);
    if (rc == 0) {
        rc = proc_write(v->proc, buf_str(&v->request));
        proc_close_stdin(v->proc);
        timer_start(&v->deadline, rc == 0 ? DEADLINE_MS : 0); // too large to be sent: the end
    }
    return rc < 0 && v->proc == NULL ? rc : 0;
}

static void start(struct validation *v)
{
    struct err e = {0};
    if (v->api->files == NULL) {
        fail(v, PROBLEM_STOPPING, "the hub is stopping");
    } else if (spawn(v, &e) < 0) {
        fail(v, PROBLEM_INTERNAL, e.msg);
    }
}

static void make_box(void *arg)
{
    struct validation *v = arg;
    vec(const char *) hide = {0};
    for (const char *p = v->hide; *p != '\0'; p += strlen(p) + 1) {
        vec_push(&hide, p);
    }
    vec_push(&hide, NULL);
    const struct box_policy policy = {.mode = BOX_READ_ONLY,
                                      .working_dir = "/",
                                      .hide = hide.p,
                                      .home = v->api->o.hub->home->dir,
                                      .runtime = v->api->o.hub->home->runtime};
    v->e.code = box_new(&v->box, &policy, &v->e);
    vec_fini(&hide);
}

static void on_box(void *arg)
{
    struct validation *v = arg;
    if (v->box == NULL) {
        fail(v, PROBLEM_INTERNAL, v->e.msg);
    } else {
        start(v);
    }
}

static void begin(void *arg)
{
    struct validation *v = arg;
    if (v->api->files == NULL) {
        fail(v, PROBLEM_STOPPING, "the hub is stopping");
    } else if (v->api->validations.n > AT_ONCE) {
        fail(v, PROBLEM_TOO_BUSY, "too many are being looked at, try again");
    } else if (v->lang != LANG_LUA) {
        struct buf b = {.max = SIZE_MAX};
        const char *const *hide = config_strings(v->api->o.hub->config->now, "sandbox.hide");
        for (; *hide != NULL; hide++) {
            buf_add(&b, *hide, strlen(*hide) + 1);
        }
        buf_addc(&b, '\0');
        v->hide = buf_take(&b, NULL);
        work_submit(v->api->files, 0, make_box, on_box, v);
    } else {
        start(v);
    }
}

void api__validate(struct api *api, const struct api_validation *what, api_validated *done,
                   void *arg)
{
    struct validation *v = xcalloc(1, sizeof *v);
    *v = (struct validation){.api = api, .lang = what->lang, .done = done, .arg = arg};
    buf_init(&v->request, SIZE_MAX);
    buf_init(&v->answer, ANSWER_BYTES);
    timer_init(&v->deadline, api->o.hub->loop, on_deadline, v);
    write_request(api, what, &v->request);
    vec_push(&api->validations, v);
    loop_defer(api->o.hub->loop, begin, v);
}

void api__end_validations(struct api *api)
{
    vec_foreach (v, &api->validations) {
        if ((*v)->proc != NULL) {
            on_deadline(*v);
        }
    }
}

// ---- languages -------------------------------------------------------------------------------

/// What only code of one language has in it, most telling first.
static enum plugin_lang seen_lang(struct str content)
{
    static const struct {
        const char *text;
        enum plugin_lang lang;
    } signs[] = {{"#include", LANG_C},           {"export default", LANG_NODE},
                 {"from \"afloat\"", LANG_NODE}, {"from 'afloat'", LANG_NODE},
                 {"__plugin__", LANG_PYTHON},    {"@on_", LANG_PYTHON},
                 {"\ndef ", LANG_PYTHON},        {"\nimport ", LANG_PYTHON}};
    for (size_t i = 0; i < ARRAY_LEN(signs); i++) {
        if (memmem(content.p, content.n, signs[i].text, strlen(signs[i].text)) != NULL) {
            return signs[i].lang;
        }
    }
    return LANG_LUA;
}

bool api__find_lang(struct op_call *c, struct str said, const char *file, struct str content,
                    enum plugin_lang *out)
{
    enum plugin_lang of_file = file != NULL ? plugin_lang_of(str_of(file)) : LANG_NONE;
    *out = of_file != LANG_NONE ? of_file : seen_lang(content);
    if (said.n != 0 && !plugin_lang_parse(said, out)) {
        op_fail(c, PROBLEM_INVALID_BODY, "lua, python, node or c", "unknown language '%.*s'",
                (int)MIN(said.n, 32), said.p);
        return false;
    }
    if (of_file != LANG_NONE && *out != of_file) {
        op_fail(c, PROBLEM_INVALID_BODY, "remove it first, or choose another name",
                "Invalid plugin code: the plugin is written in %s, not %s",
                plugin_lang_name(of_file), plugin_lang_name(*out));
        return false;
    }
    return true;
}

// ---- the operation ---------------------------------------------------------------------------

static void on_validated(void *arg, const struct json *value, const struct api_invalid *no)
{
    struct op_call *c = arg;
    if (no != NULL) {
        op_fail(c, no->problem, NULL, "%s", no->detail);
    } else {
        jw_value(op_begin(c), value);
        op_end(c, 200);
    }
}

static void validate_content(struct api *api, struct op_call *c, struct str content)
{
    struct str name = api__name(c);
    enum plugin_lang lang;
    if (!plugin_name_valid(name)) {
        op_fail(c, PROBLEM_INVALID_NAME, "a-z first, then a-z, 0-9, '-' and '_'; 64 at most",
                "'%.*s' is no name for a plugin", (int)MIN(name.n, 100), name.p);
    } else if (api__find_lang(c, json_get_text(c->params, "lang"), NULL, content, &lang)) {
        const char *file =
            arena_printf(c->arena, STR_FMT "%s", STR_ARG(name), plugin_lang_ending(lang));
        struct api_validation v = {.name = arena_strdup(c->arena, name),
                                   .lang = lang,
                                   .path = file,
                                   .server = file,
                                   .content = content,
                                   .test = json_bool(json_get(c->params, "test"), false)};
        api__validate(api, &v, on_validated, c);
    }
}

/// A plugin on disk: read on a thread, its web side compiled, its server side run.
struct reading {
    struct api *api;
    struct op_call *call;
    char *path;
    bool built;
    struct tree tree;
    struct arena arena;
    struct plugin_shape shape;
    struct gen_diag fault;
    struct gen_diag no_compiler; // a copy; message NULL: the web side was compiled, or needs none
    struct err e;
    int rc;
};

static void free_reading(struct reading *r)
{
    gen_diag_fini(&r->no_compiler);
    tree_fini(&r->tree);
    arena_fini(&r->arena);
    free(r->path);
    free(r);
}

static void read_place(void *arg)
{
    struct reading *r = arg;
    r->rc = tree_read(&r->tree, r->path, &r->e);
    if (r->rc == 0) {
        r->rc = manifest_resolve(&r->shape, &r->arena, &r->tree, r->path, r->built, &r->fault);
        if (r->rc < 0) {
            err_set(&r->e, r->rc, "%s", r->fault.message);
        }
    }
}

/// What the server side registers (NULL: there is none), with what is known of the web side.
static void answer_reading(struct reading *r, const struct json *value)
{
    static const char *const none[] = {"hooks", "tools", "routes", "commands"};
    struct jw *w = op_begin_obj(r->call);
    json_foreach_member (m, value) {
        jw_key_str(w, m->key);
        jw_value(w, &m->value);
    }
    if (value == NULL) {
        jw_kstrz(w, "name", r->shape.name);
        for (size_t i = 0; i < ARRAY_LEN(none); i++) {
            jw_karr(w, none[i]);
            jw_end_arr(w);
        }
        jw_kobj(w, "metadata");
        jw_kstrz(w, "api", "1.0");
        jw_kstrz(w, "name", r->shape.name);
        jw_end_obj(w);
    }
    if (r->shape.front != NULL) {
        jw_kstrz(w, "front", r->shape.front);
        jw_karr(w, "diagnostics");
        if (r->no_compiler.message != NULL) {
            gen_diag_write(&r->no_compiler, w);
        }
        jw_end_arr(w);
    }
    op_end_obj(r->call, 200);
    free_reading(r);
}

static void on_place_validated(void *arg, const struct json *value, const struct api_invalid *no)
{
    struct reading *r = arg;
    if (no != NULL) {
        op_fail(r->call, no->problem, NULL, "%s", no->detail);
        free_reading(r);
    } else {
        answer_reading(r, value);
    }
}

static void run_server(struct reading *r)
{
    if (r->shape.server == NULL) {
        answer_reading(r, NULL);
        return;
    }
    struct api_validation v = {.name = r->shape.name,
                               .lang = r->shape.lang,
                               .path = r->path,
                               .server = r->shape.server,
                               .tree = &r->tree,
                               .test = json_bool(json_get(r->call->params, "test"), false)};
    api__validate(r->api, &v, on_place_validated, r);
}

static void on_compiled(void *arg, struct front_output *out, const struct gen_diag *fault,
                        bool missing)
{
    struct reading *r = arg;
    front_output_unref(out);
    if (fault != NULL && !missing) {
        char line[16] = "";
        if (fault->line > 0) {
            snprintf(line, sizeof line, ":%d", fault->line);
        }
        op_fail(r->call, PROBLEM_INVALID_BODY, fault->hint,
                "Invalid plugin code: FRONT_BUILD_FAILED: %s%s: %s", fault->path, line,
                fault->message);
        free_reading(r);
        return;
    }
    if (fault != NULL) {
        r->no_compiler = gen_diag_copy(fault);
    }
    run_server(r);
}

static void on_read(void *arg)
{
    struct reading *r = arg;
    struct front *compiler = r->api->plugins != NULL ? plugins_compiler(r->api->plugins) : NULL;
    if (r->rc == ERR_NOT_FOUND && r->fault.message == NULL) {
        op_fail(r->call, PROBLEM_NOT_FOUND, NULL, "there is nothing at '%s'", r->path);
    } else if (r->rc < 0) {
        op_fail(r->call, PROBLEM_INVALID_BODY, r->fault.hint, "Invalid plugin code: %s", r->e.msg);
    } else if (r->shape.server == NULL && r->shape.front == NULL) {
        op_fail(r->call, PROBLEM_INVALID_BODY, NULL,
                "Invalid plugin code: it has neither a server file nor a web side");
    } else if (compiler != NULL && r->shape.front != NULL && front_needs_build(r->shape.front)) {
        front_build(compiler, &r->tree, r->shape.front, on_compiled, r);
        return;
    } else {
        run_server(r);
        return;
    }
    free_reading(r);
}

static void validate_path(struct api *api, struct op_call *c, struct str path)
{
    if (api->files == NULL) {
        op_fail(c, PROBLEM_STOPPING, NULL, "the hub is stopping");
        return;
    }
    if (path.n == 0 || path.p[0] != '/') {
        op_fail(c, PROBLEM_INVALID_BODY, NULL, "'path' must be absolute");
        return;
    }
    struct reading *r = xcalloc(1, sizeof *r);
    *r = (struct reading){.api = api,
                          .call = c,
                          .path = str_dup(path),
                          .built = json_bool(json_get(c->params, "built"), false)};
    work_submit(api->files, work_mount_key(r->path), read_place, on_read, r);
}

void op_PLUGIN_VALIDATE(struct api *api, struct op_call *c)
{
    const struct json *content = json_get(c->params, "content"),
                      *path = json_get(c->params, "path");
    if ((content == NULL) == (path == NULL)) {
        op_fail(c, PROBLEM_INVALID_BODY, NULL, "give either 'content' or 'path'");
    } else if (content != NULL) {
        validate_content(api, c, json_str(content, ""));
    } else {
        validate_path(api, c, json_str(path, ""));
    }
}
