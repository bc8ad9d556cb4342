#include "unit/bind/plug.h"

#include <uv.h>

struct plug {
    struct plugin_code code;
    struct plugin_shape shape;
    struct tree tree;
    struct plugin_version *version;
    bool dry_run, gone;
};

static struct {
    struct gen_source *source;
    const char *project, *permissions;
    struct plug *next; // to be staged
    struct plug *put;  // staged, to be kept
    unsigned reports;
    struct gen_diag diag;
    char text[16384];
} plugs;

int plug_status;
struct hook_ctx *plug_ctx;
struct hook_run plug_run;

// ---- the source -----------------------------------------------------------------------------

static void plug_free(struct plug *p)
{
    free((void *)(uintptr_t)p->code.unit);
    tree_fini(&p->tree);
    free(p);
}

static void prepare(void *arg, struct gen_source *src, const struct gen_request *req)
{
    (void)arg;
    (void)req;
    gen_prepared(src, plugs.next != NULL);
}

static void stage(void *arg, struct gen_stage *s)
{
    (void)arg;
    struct plug *p = plugs.next;
    struct gen_diag fault = {0};
    plugs.next = NULL;
    if (p == NULL) {
        return;
    }
    if (p->gone) {
        gen_stage_remove(s, p->code.unit, GEN_REMOVE);
        plug_free(p);
        return;
    }
    const struct plugin_runner *r = bind_runner(rig.bind);
    struct gen_unit_spec spec = {.name = p->code.unit, .path = p->code.path, .data = p};
    struct gen_unit *u = gen_stage_unit(s, &spec);
    if (r->load(r->arg, &p->code, u, p->dry_run, &p->version, &fault) < 0) {
        gen_stage_refuse(s, p->code.unit, GEN_FAILED, &fault);
        gen_diag_fini(&fault);
    } else if (gen_stage_put(s, u)) {
        plugs.put = p;
    }
}

static void commit(void *arg)
{
    (void)arg;
    if (plugs.put != NULL) {
        plugs.put->version->runner->keep(plugs.put->version);
    }
    plugs.put = NULL;
}

static void give_up(void *arg)
{
    (void)arg;
    plugs.put = NULL;
}

static void leave(void *arg, struct gen_unit *u, enum gen_reason why, struct gen_life_call *call)
{
    (void)arg;
    struct plug *p = u->data;
    p->version->runner->leave(p->version, why, call);
}

static void enter(void *arg, struct gen_unit *u, enum gen_reason why, struct gen_life_call *call)
{
    (void)arg;
    struct plug *p = u->data;
    p->version->runner->enter(p->version, why, call);
}

static void release(void *arg, struct gen_unit *u)
{
    (void)arg;
    struct plug *p = u->data;
    if (p->version != NULL) {
        p->version->runner->free(p->version);
    }
    plug_free(p);
}

static const struct gen_source_ops source_ops = {
    .name = "plugins",
    .prepare = prepare,
    .stage = stage,
    .commit = commit,
    .abort = give_up,
    .leave = leave,
    .enter = enter,
    .release = release,
};

static void on_report(const struct gen_report *r, void *arg)
{
    (void)arg;
    plugs.reports++;
    gen_diag_fini(&plugs.diag);
    plugs.diag = (struct gen_diag){0};
    if (r != NULL && r->n_diags != 0) {
        plugs.diag = gen_diag_copy(&r->diags[0]);
    }
}

static void request(struct plug *p)
{
    unsigned before = plugs.reports;
    struct gen_request req = {.trigger = "test", .wait_all = true, .dry_run = p->dry_run};
    plugs.next = p;
    gen_request(rig.engine, &req, on_report, NULL);
    while (plugs.reports == before) {
        loop_run_once(&l, true);
    }
}

// ---- plugins --------------------------------------------------------------------------------

static int by_path(const void *a, const void *b)
{
    return strcmp(((const struct tree_file *)a)->path, ((const struct tree_file *)b)->path);
}

static struct plug *plug_new(const char *name, const char *const *files, bool is_file)
{
    struct plug *p = xcalloc(1, sizeof *p);
    struct arena *a = &p->tree.arena;
    struct json *permissions = NULL;
    p->tree.is_file = is_file;
    for (size_t i = 0; files[i] != NULL; i += 2) {
        struct tree_file f = {.path = arena_strdup(a, str_of(files[i])),
                              .bytes = arena_str(a, str_of(files[i + 1]))};
        vec_push(&p->tree.files, f);
    }
    p->shape.server = p->tree.files.p[0].path;
    uint8_t hash[SHA256_SIZE];
    sha256_of(p->tree.files.p[0].bytes, hash);
    sha256_hex(hash, p->tree.hash);
    qsort(p->tree.files.p, p->tree.files.n, sizeof *p->tree.files.p, by_path);
    if (plugs.permissions != NULL) {
        CHECK_INT(json_parse(&permissions, a, str_of(plugs.permissions), NULL, NULL), 0);
    }
    p->shape.origin = is_file ? "file" : "directory";
    p->shape.lang = LANG_LUA;
    p->shape.permissions = permissions;
    p->code = (struct plugin_code){
        .unit = xstrdup(name),
        .path = arena_printf(a, is_file ? "/plugins/%s.lua" : "/plugins/%s", name),
        .tree = &p->tree,
        .shape = &p->shape,
        .project = plugs.project,
    };
    p->code.name = p->shape.name = p->code.unit;
    return p;
}

void plug_open(const char *const *flags)
{
    memset(&plugs, 0, sizeof plugs);
    plug_ctx = NULL;
    rig_open_with(flags, NULL);
    plugs.source = gen_source_add(rig.engine, &source_ops, NULL);
}

void plug_close(void)
{
    rig_close();
    gen_diag_fini(&plugs.diag);
}

void plug_set(const char *project, const char *permissions)
{
    plugs.project = project;
    plugs.permissions = permissions;
}

void plug_files(const char *name, const char *const *files)
{
    request(plug_new(name, files, false));
}

void plug_try(const char *name, const char *code, bool dry_run)
{
    struct plug *p = plug_new(name, (const char *[]){"x.lua", code, NULL}, true);
    p->dry_run = dry_run;
    request(p);
}

void plug_load(const char *name, const char *code)
{
    plug_try(name, code, false);
    if (gen_state_of(rig.engine, str_of(name)) != GEN_LOADED) {
        test_fail(__FILE__, __LINE__, "'%s' did not load: %s", name,
                  plugs.diag.message != NULL ? plugs.diag.message : "?");
    }
}

const struct gen_diag *plug_fault(const char *name, const char *code)
{
    plug_try(name, code, false);
    CHECK_INT(gen_state_of(rig.engine, str_of(name)), GEN_FAILED);
    return plug_diag(name);
}

const struct gen_diag *plug_diag(const char *name)
{
    const struct gen_diag *d = &plugs.diag;
    return d->message != NULL && d->plugin != NULL && strcmp(d->plugin, name) == 0 ? d : NULL;
}

void plug_remove(const char *name)
{
    struct plug *p = plug_new(name, (const char *[]){"x.lua", "", NULL}, true);
    p->gone = true;
    request(p);
}

struct gen_unit *plug_unit(const char *name)
{
    return gen_unit_find(gen_current(rig.engine), str_of(name));
}

const char *plug_items(const char *name)
{
    const struct gen_unit *u = plug_unit(name);
    size_t n = 0;
    CHECK(u != NULL);
    plugs.text[0] = '\0';
    for (size_t i = 0; i < gen_unit_count(u); i++) {
        const struct gen_item *it = gen_unit_at(u, i);
        const struct hook *h = gen_item_hook(it);
        n += (size_t)snprintf(plugs.text + n, sizeof plugs.text - n, "%s %s %s%d\n",
                              gen_kind_name(gen_item_kind(it)),
                              h != NULL ? h->point : gen_item_name(it), gen_item_about(it),
                              h != NULL ? h->terms.priority : 0);
        CHECK(n < sizeof plugs.text);
    }
    return plugs.text;
}

unsigned plug_said(const char *name, const char *text)
{
    struct buf out;
    struct jw w;
    unsigned n = 0;
    char *want = xasprintf("\"text\":\"%s\"", text);
    buf_init(&out, SIZE_MAX);
    jw_init(&w, &out);
    jw_arr(&w);
    bind_log_write(rig.bind, str_of(name), &w);
    jw_end_arr(&w);
    for (const char *p = buf_z(&out); (p = strstr(p, want)) != NULL; p++) {
        n++;
    }
    buf_fini(&out);
    free(want);
    return n;
}

// ---- calls ----------------------------------------------------------------------------------

static void keep(const struct json *v, const struct err *e)
{
    struct buf out;
    buf_init(&out, SIZE_MAX);
    if (e != NULL) {
        buf_addf(&out, "!%s", e->msg);
    } else {
        json_write(&out, v, 0);
    }
    snprintf(plugs.text, sizeof plugs.text, "%s", buf_z(&out));
    buf_fini(&out);
}

static void on_call(struct gen_call *c, int status, const struct json *v, const struct err *e)
{
    CHECK((status < 0) == (e != NULL));
    plug_status = status;
    keep(v, e);
    *(bool *)c->arg = true;
}

const char *plug_call(enum gen_kind kind, const char *name, const char *input)
{
    bool done = false;
    struct arena a = {0};
    struct json *v;
    struct gen *g = gen_pin(gen_current(rig.engine));
    struct gen_item *it = gen_item_find(g, kind, str_of(name));
    CHECK(it != NULL);
    CHECK_INT(json_parse(&v, &a, str_of(input), NULL, NULL), 0);
    struct gen_call c = {.input = v, .ctx = plug_ctx, .done = on_call, .arg = &done};
    ((const struct gen_target *)gen_item_face(it))->call(gen_item_data(it), &c);
    while (!done) {
        loop_run_once(&l, true);
    }
    arena_fini(&a);
    gen_unpin(g);
    return plugs.text;
}

static void on_route(struct gen_route_call *c, int status, const struct gen_pair *headers, size_t n,
                     struct str body, const struct err *e)
{
    size_t at = (size_t)snprintf(plugs.text, sizeof plugs.text, "%d", status);
    plug_status = e != NULL ? e->code : 0;
    for (size_t i = 0; i < n; i++) {
        at += (size_t)snprintf(plugs.text + at, sizeof plugs.text - at, " " STR_FMT "=" STR_FMT,
                               STR_ARG(headers[i].name), STR_ARG(headers[i].value));
    }
    snprintf(plugs.text + at, sizeof plugs.text - at, " " STR_FMT, STR_ARG(body));
    if (e != NULL) {
        CHECK_INT(status, 0);
        keep(NULL, e);
    }
    *(bool *)c->arg = true;
}

const char *plug_route(const char *name, const char *method, const char *path, const char *query,
                       const char *body)
{
    bool done = false, other;
    struct buf allow;
    struct gen *g = gen_pin(gen_current(rig.engine));
    const struct gen_pair headers[] = {{STR("x-a"), STR("1")}, {STR("x-a"), STR("2")}};
    struct gen_route_call c = {.method = str_of(method),
                               .path = str_of(path),
                               .query = str_of(query),
                               .body = str_of(body),
                               .headers = headers,
                               .n_headers = ARRAY_LEN(headers),
                               .done = on_route,
                               .arg = &done};
    buf_init(&allow, SIZE_MAX);
    struct gen_item *it = gen_route_find(gen_unit_find(g, str_of(name)), &c, &other, &allow);
    buf_fini(&allow);
    CHECK(it != NULL);
    ((const struct gen_route *)gen_item_face(it))->call(gen_item_data(it), &c);
    while (!done) {
        loop_run_once(&l, true);
    }
    gen_unpin(g);
    return plugs.text;
}

// ---- points ---------------------------------------------------------------------------------

static void on_run_done(struct hook_run *run, void *arg)
{
    (void)run;
    *(bool *)arg = true;
}

const char *plug_raise(enum hook_point_id point, const char *first, const char *second)
{
    const char *texts[] = {first, second};
    const struct hook_point *p = &hook_points[point];
    const struct hook_list *list =
        hook_set_get(gen_hooks(gen_current(rig.engine)), str_of(p->name), p->kind);
    bool done = false;
    struct arena a = {0};
    struct hook_args args = {.point = point, .ctx = plug_ctx, .arena = &a};
    for (size_t i = 0; i < ARRAY_LEN(texts) && texts[i] != NULL; i++) {
        struct json *v;
        CHECK_INT(json_parse(&v, &a, str_of(texts[i]), NULL, NULL), 0);
        args.values[args.n++] = v;
    }
    CHECK(list != NULL);
    struct hook_run_opts opts = {.list = list,
                                 .loop = &l,
                                 .args = &args,
                                 .subject = json_str(json_get(args.values[0], "tool_name"), ""),
                                 .may_wait = p->may_wait,
                                 .done = p->may_wait ? on_run_done : NULL,
                                 .arg = &done};
    if (!hook_run_start(&plug_run, &opts)) {
        while (!done) {
            loop_run_once(&l, true);
        }
    }
    keep(args.n != 0 ? args.values[args.n - 1] : NULL, NULL);
    arena_fini(&a);
    return plugs.text;
}
