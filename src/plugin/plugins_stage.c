// Loading what was decided, as one stage of the engine.
//
//     want ──> options checked ──> unit, its static parts ──> runner->load ──> put
//                                                            └ failed: noted; what serves goes on,
//                                                              after a restart the last good one
//
// A version belongs to its unit from the moment it is staged: thrown away or drained, the engine's
// release frees it. What a stage decides is true at commit; a dry run forgets it.

#include <assert.h>

#include "base/path.h"
#include "plugin/plugins_int.h"

// ---- a version ----------------------------------------------------------------------------------

void loaded__free(struct loaded *v)
{
    if (v->run != NULL) {
        v->run->runner->free(v->run);
    }
    content_unref(v->content);
    plugin_inputs_fini(&v->inputs);
    arena_fini(&v->arena);
    free(v);
}

struct plug_origin plug__origin(const struct plug *p)
{
    const struct hold *held = past__hold(p->owner, p->unit);
    if (held == NULL || held->out) {
        return p->at;
    }
    const struct past_unit *of = &held->of;
    return (struct plug_origin){.name = of->name,
                                .path = of->path,
                                .layer = of->layer,
                                .source = of->source,
                                .project = of->project,
                                .options = of->options,
                                .prefer = of->prefer};
}

bool plug__is_dead(const struct plug *p)
{
    const struct plugin_version *run = p->serving != NULL ? p->serving->run : NULL;
    return run != NULL && run->runner->dead != NULL && run->runner->dead(run);
}

// ---- parts that need no code --------------------------------------------------------------------

static void add_item(struct gen_unit *u, enum gen_kind kind, struct str name, struct buf *about)
{
    struct err e = {0};
    struct gen_item_spec spec = {.kind = kind, .name = name, .about = buf_str(about)};
    if (gen_unit_add(u, &spec, NULL, &e) < 0) {
        gen_unit_note(u, &(struct gen_diag){.code = DIAG_LOAD_FAILED, .message = e.msg});
    }
    buf_fini(about);
}

/// {"path", ...}: a file of the plugin that others read.
static void begin_about(struct buf *b, struct jw *w, const char *path)
{
    buf_init(b, SIZE_MAX);
    jw_init(w, b);
    jw_obj(w);
    jw_kstrz(w, "path", path);
}

static void add_prompt(struct loaded *v)
{
    const struct plugin_shape *s = &v->content->shape;
    const struct tree_file *f =
        s->prompt != NULL ? tree_find(&v->content->tree, str_of(s->prompt)) : NULL;
    if (f != NULL) {
        struct buf b;
        struct jw w;
        begin_about(&b, &w, f->path);
        jw_kstrz(&w, "id", v->code.name);
        jw_kint(&w, "priority", 0);
        jw_kstr(&w, "text", f->bytes);
        jw_end_obj(&w);
        add_item(v->unit, GEN_PROMPT, str_of(v->code.name), &b);
    }
}

/// `skills/x.md` is the skill x, `skills/x/SKILL.md` too; other files belong to their skill.
static bool skill_name(struct str rest, struct str *name)
{
    ptrdiff_t slash = str_index(rest, '/');
    if (slash < 0 && str_ends(rest, ".md")) {
        *name = (struct str){rest.p, rest.n - 3};
        return name->n != 0;
    }
    *name = (struct str){rest.p, slash > 0 ? (size_t)slash : 0};
    return slash > 0 && str_eqz(str_from(rest, (size_t)slash + 1), "SKILL.md");
}

static void add_skills(struct loaded *v)
{
    const char *dir = v->content->shape.skills;
    vec_foreach (f, &v->content->tree.files) {
        const char *rest = dir != NULL ? path_below(dir, f->path) : NULL;
        struct str name;
        if (rest != NULL && skill_name(str_of(rest), &name)) {
            struct buf b;
            struct jw w;
            begin_about(&b, &w, f->path);
            jw_end_obj(&w);
            add_item(v->unit, GEN_SKILL, name, &b);
        }
    }
}

/// The web or the terminal side, with the hash of all that a page or a terminal could be given.
static void add_output(struct loaded *v, const char *side, const char *path, const char *hash)
{
    char *name = xasprintf("%s/%s", v->plug->unit, side);
    struct buf b;
    struct jw w;
    begin_about(&b, &w, path);
    jw_kstrz(&w, "hash", hash);
    jw_end_obj(&w);
    add_item(v->unit, GEN_OUTPUT, str_of(name), &b);
    free(name);
}

static void add_ui(struct loaded *v, const char *path)
{
    struct sha256 sum;
    uint8_t hash[SHA256_SIZE];
    char hex[SHA256_HEX];
    sha256_init(&sum);
    vec_foreach (f, &v->content->tree.files) {
        if (path_below(path, f->path) != NULL) {
            sha256_add(&sum, f->path, strlen(f->path) + 1);
            sha256_add(&sum, f->bytes.p, f->bytes.n);
        }
    }
    sha256_final(&sum, hash);
    add_output(v, "ui", path, sha256_hex(hash, hex));
}

/// Why its web side was not compiled, with the path made whole; a copy.
static struct gen_diag front_fault(const struct loaded *v)
{
    struct gen_diag d = v->content->front_fault;
    char *path = path_join(v->code.path, d.path);
    d.path = path;
    d = gen_diag_copy(&d);
    free(path);
    return d;
}

// ---- loading ------------------------------------------------------------------------------------

static int run_server(struct loaded *v, struct gen_stage *s, struct gen_diag *fault)
{
    enum plugin_lang lang = v->content->shape.lang;
    const struct plugin_runner *r = v->plug->owner->opts.runners[lang];
    if (v->content->shape.server == NULL) {
        return 0;
    }
    // a process that serves may have died after this run was decided
    if (r == NULL || (r->start != NULL && v->run == NULL)) {
        char *no_host = xasprintf("no host for %s", plugin_lang_name(lang));
        *fault = gen_diag_copy(&(struct gen_diag){
            .code = r == NULL ? DIAG_LOAD_FAILED : DIAG_HOST_CRASHED,
            .path = v->code.path,
            .message = r == NULL ? no_host : "its host has not been started yet"});
        free(no_host);
        return r == NULL ? ERR_UNSUPPORTED : ERR_CONFLICT;
    }
    return r->load(r->arg, &v->code, v->unit, gen_stage_request(s)->dry_run, &v->run, fault);
}

static struct gen_unit *begin_unit(struct loaded *v, struct gen_stage *s,
                                   const struct plug_origin *o)
{
    const struct plugin_runner *r = v->plug->owner->opts.runners[v->content->shape.lang];
    assert(v->unit == NULL);
    vec(struct str) prefer = {0};
    json_foreach_item (it, o->prefer) {
        vec_push(&prefer, json_str(it, ""));
    }
    struct gen_unit_spec spec = {
        .name = v->plug->unit,
        .path = o->path,
        .layer = o->layer,
        .host = r != NULL ? r->host : plugin_lang_name(v->content->shape.lang),
        .origin = v->content->shape.origin,
        .hash = v->content->tree.hash,
        .order = v->plug->order,
        .prefer = prefer.p,
        .n_prefer = prefer.n,
        .data = v,
    };
    struct gen_unit *u = gen_stage_unit(s, &spec);
    vec_fini(&prefer);
    return u;
}

/// What loaded all the same, and is probably not meant.
static void add_warnings(const struct loaded *v)
{
    const struct plugin_shape *s = &v->content->shape;
    for (size_t i = 0; i < s->n_warnings; i++) {
        gen_unit_note(v->unit, &(struct gen_diag){.code = DIAG_MANIFEST_UNKNOWN,
                                                  .path = s->warnings[i].path,
                                                  .line = s->warnings[i].line,
                                                  .message = s->warnings[i].message});
    }
    if (v->content->front_missing && compile__entry(v->content) == NULL) {
        struct gen_diag d = front_fault(v);
        gen_unit_note(v->unit, &d);
        gen_diag_fini(&d);
    }
    const struct json *said = v->run != NULL ? json_get(v->run->metadata, "name") : NULL;
    struct str name = json_str(said, v->code.name);
    if (!str_eqz(name, v->code.name)) {
        char *message = xasprintf("its code says the name '" STR_FMT "'; '%s' counts, the name of "
                                  "its manifest or file",
                                  (int)MIN(name.n, PLUGIN_NAME_MAX), name.p, v->code.name);
        gen_unit_note(v->unit, &(struct gen_diag){.code = DIAG_NAME_MISMATCH,
                                                  .path = v->code.path,
                                                  .message = message,
                                                  .hint = "make both the same"});
        free(message);
    }
}

struct loaded *loaded__new(struct plug *p, struct content *c, struct gen_diag *fault)
{
    struct plug_origin o = plug__origin(p);
    struct loaded *v = xcalloc(1, sizeof *v);
    struct arena *a = &v->arena;
    struct gen_diag wrong = {0};
    const char *called = p->entry != NULL ? p->entry->place->called : NULL;
    v->plug = p;
    v->mark = p->mark;
    v->content = content_ref(c);
    v->code = (struct plugin_code){
        .unit = arena_strdup(a, str_of(p->unit)),
        .name = arena_strdup(a, str_of(called != NULL ? called : c->shape.name)),
        .path = arena_strdup(a, str_of(o.path)),
        .tree = &c->tree,
        .shape = &c->shape,
        .project = o.project != NULL ? arena_strdup(a, str_of(o.project)) : NULL,
        .inputs = &v->inputs,
    };
    if (manifest_options(&c->shape, json_clone(a, o.options), a, &v->code.options, &wrong) < 0) {
        wrong.path = o.said_path != NULL ? o.said_path : o.path;
        wrong.line = o.said_line;
        *fault = gen_diag_copy(&wrong);
        loaded__free(v);
        return NULL;
    }
    return v;
}

/// Load `c` as a staging unit; NULL and `fault` (a copy) when it failed, and then nothing of it stays.
static struct loaded *load(struct plug *p, struct content *c, struct gen_stage *s,
                           struct gen_diag *fault)
{
    struct plug_origin o = plug__origin(p);
    struct loaded *v = trials__take(p, c);
    v = v != NULL ? v : loaded__new(p, c, fault);
    if (v == NULL) {
        return NULL;
    }
    v->unit = begin_unit(v, s, &o); // the version goes with it, unless it is put
    if (c->front_fault.message != NULL && !c->front_missing) {
        *fault = front_fault(v);
        return NULL;
    }
    add_prompt(v);
    add_skills(v);
    if (c->shape.front != NULL) {
        add_output(v, "front", c->shape.front, c->front_hash);
    }
    if (c->shape.ui != NULL) {
        add_ui(v, c->shape.ui);
    }
    int rc = run_server(v, s, fault);
    // it was tried, whether or not it loads: it is tried again when something that it read is another
    if (c == p->want && !gen_stage_request(s)->dry_run) {
        p->owner->rewatch |= p->inputs.list.n + v->inputs.list.n != 0;
        plugin_inputs_fini(&p->inputs);
        p->inputs = v->inputs;
        v->inputs = (struct plugin_inputs){0};
        p->stale = false;
    }
    if (rc == 0) {
        add_warnings(v);
    }
    return rc == 0 ? v : NULL;
}

static void put(struct plug *p, struct loaded *v, struct gen_stage *s)
{
    assert(v->unit != NULL && p->staged == NULL);
    if (!gen_stage_put(s, v->unit)) {
        return;
    }
    p->staged = v;
    if (p->state != GEN_LOADED) {
        gen_stage_stand(s, p->unit, p->state, p->verdict.message != NULL ? &p->verdict : NULL);
    }
}

struct content *plug__back(const struct plug *p)
{
    assert(p->want != NULL);
    struct content *back = plug__is_dead(p) ? p->serving->content : p->back;
    bool other = back != NULL && strcmp(back->tree.hash, p->want->tree.hash) != 0;
    return other ? back : NULL;
}

/// It failed: remember it, so that it is tried again only when something changed. Where nothing serves, or what
/// serves is dead, load what is good in its place.
static void fail(struct plug *p, struct gen_stage *s, struct gen_diag *fault)
{
    struct content *back = plug__back(p);
    struct gen_diag unsaid = {0};
    gen_diag_fini(&p->verdict);
    p->state = GEN_FAILED;
    p->verdict = *fault;
    if (!gen_stage_request(s)->dry_run) {
        memcpy(p->failed, p->want->tree.hash, sizeof p->failed);
        p->failed_mark = p->mark;
        gen_diag_fini(&p->failure);
        p->failure = gen_diag_copy(&p->verdict);
    }
    struct loaded *v = back != NULL ? load(p, back, s, &unsaid) : NULL;
    gen_diag_fini(&unsaid);
    if (v != NULL) {
        put(p, v, s);
        return;
    }
    if (plug__is_dead(p)) {
        gen_stage_remove(s, p->unit, GEN_REMOVE);
        p->act = ACT_REMOVE;
    }
    gen_stage_refuse(s, p->unit, GEN_FAILED, &p->verdict);
}

static void stage_load(struct plug *p, struct gen_stage *s)
{
    struct gen_diag fault = {0};
    assert(p->want != NULL);
    struct loaded *v = load(p, p->want, s, &fault);
    if (v != NULL) {
        put(p, v, s);
    } else {
        fail(p, s, &fault);
    }
}

static void stage_say(struct plug *p, struct gen_stage *s)
{
    if (p->state == GEN_LOADED) {
        gen_stage_clear(s, p->unit);
    } else {
        gen_stage_refuse(s, p->unit, p->state, p->verdict.message != NULL ? &p->verdict : NULL);
    }
    if (p->needs_restart) {
        gen_stage_need(s, p->unit, GEN_HUB_RESTART, "it changed, and its entry says hot = false");
    }
}

static void stage_remove(struct plug *p, struct gen_stage *s)
{
    gen_stage_remove(s, p->unit, p->why);
    if (p->state != GEN_LOADED) {
        stage_say(p, s);
    }
}

void stage__plugins(void *plugins, struct gen_stage *s)
{
    struct plugins *ps = plugins;
    static void (*const how[])(struct plug *, struct gen_stage *) = {
        [ACT_LOAD] = stage_load, [ACT_REMOVE] = stage_remove, [ACT_SAY] = stage_say};
    for (size_t i = 0; i < ps->plugs.n && ps->reordered; i++) {
        const struct plug *p = ps->plugs.p[i];
        if (p->serving != NULL) {
            gen_stage_reorder(p->serving->unit, p->order);
        }
    }
    ps->reordered = false;
    vec_foreach (p, &ps->run) {
        assert((*p)->staged == NULL);
        if (how[(*p)->act] != NULL) {
            how[(*p)->act](*p, s);
        }
    }
}

// ---- the end of a run ---------------------------------------------------------------------------

static void commit(struct plug *p)
{
    if (p->staged != NULL) {
        assert(p->act == ACT_LOAD);
        p->serving = p->staged;
        p->staged = NULL;
        if (p->serving->run != NULL) {
            p->serving->run->runner->keep(p->serving->run);
        }
        past__keep(p->owner, p->serving);
        brake__committed(p);
    } else if (p->act == ACT_REMOVE) {
        p->serving = NULL;
    }
    p->owed = false;
    gen_diag_fini(&p->said);
    p->said_state = p->state;
    p->said = gen_diag_copy(&p->verdict);
    p->act = ACT_NOTHING;
}

void stage__plugins_commit(void *plugins)
{
    struct plugins *ps = plugins;
    for (size_t i = ps->run.n; i-- > 0;) {
        struct plug *p = ps->run.p[i];
        if (p->act != ACT_NOTHING) {
            commit(p);
        }
        // nothing of it is on disk, serves or is held any more
        if (p->entry == NULL && p->serving == NULL && past__hold(ps, p->unit) == NULL) {
            size_t at = 0;
            while (ps->plugs.p[at] != p) {
                at++;
            }
            vec_remove(&ps->plugs, at);
            vec_remove(&ps->run, i);
            map_remove(&ps->units, str_of(p->unit));
            plug__free(p);
        }
    }
    plugins__end_run(ps);
}

void stage__plugins_abort(void *plugins)
{
    struct plugins *ps = plugins;
    bool owed = false;
    vec_foreach (p, &ps->run) {
        (*p)->staged = NULL;
        (*p)->looked = (*p)->act != ACT_NOTHING; // a run that commits has to decide it again
        owed = owed || (*p)->owed;
        (*p)->act = ACT_NOTHING;
    }
    plugins__end_run(ps);
    if (owed) {
        plugins__ask(ps, "watch");
    }
}
