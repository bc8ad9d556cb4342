// Loading what was decided, as one stage of the engine.
//
//     want ──> options checked ──> unit, its static parts ──> runner->load ──> put
//                                                            └ failed: noted; what serves continues,
//                                                              after a restart the last good one
//
// A version belongs to its unit from the moment it is staged: discarded or drained, the engine's
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

struct plugin_origin plugin__origin(const struct plugin *p)
{
    const struct hold *held = past__hold(p->owner, p->unit);
    if (held == NULL || held->out) {
        return p->at;
    }
    const struct past_unit *of = &held->of;
    return (struct plugin_origin){.name = of->name,
                                  .path = of->path,
                                  .layer = of->layer,
                                  .source = of->source,
                                  .project = of->project,
                                  .options = of->options,
                                  .prefer = of->prefer};
}

bool plugin__is_dead(const struct plugin *p)
{
    const struct plugin_version *run = p->serving != NULL ? p->serving->run : NULL;
    return run != NULL && run->runner->dead != NULL && run->runner->dead(run);
}

// ---- parts that need no code --------------------------------------------------------------------

/// Add a part that is files: {path, KEY: VALUE}, where KEY (NULL: none) is what others need to know of it.
static void add_file(struct gen_unit *u, enum gen_kind kind, struct str name, const char *path,
                     const char *key, struct str value)
{
    struct err e = {0};
    struct buf about = {.max = SIZE_MAX};
    struct jw w = {.out = &about};
    jw_obj(&w);
    jw_kstrz(&w, "path", path);
    if (kind == GEN_PROMPT) {
        jw_kstr(&w, "id", name);
        jw_kint(&w, "priority", 0);
    }
    if (key != NULL) {
        jw_kstr(&w, key, value);
    }
    jw_end_obj(&w);
    struct gen_item_spec spec = {.kind = kind, .name = name, .about = buf_str(&about)};
    if (gen_unit_add(u, &spec, NULL, &e) < 0) {
        gen_unit_note(u, &(struct gen_diag){.code = DIAG_LOAD_FAILED, .message = e.msg});
    }
    buf_fini(&about);
}

/// The web or the terminal side, with the hash of all that a page or a terminal could be given.
static void add_output(struct loaded *v, const char *side, const char *path, const char *hash)
{
    char *name = xasprintf("%s/%s", v->plugin->unit, side);
    add_file(v->unit, GEN_OUTPUT, str_of(name), path, "hash", str_of(hash));
    free(name);
}

static void add_parts(struct loaded *v)
{
    const struct plugin_shape *s = &v->content->shape;
    struct sha256 sum;
    uint8_t hash[SHA256_SIZE];
    char hex[SHA256_HEX];
    sha256_init(&sum);
    vec_foreach (f, &v->content->tree.files) {
        const char *skill = s->skills != NULL ? path_below(s->skills, f->path) : NULL;
        struct str rest = str_of(skill), name = str_cut(&rest, '/');
        if (s->prompt != NULL && strcmp(f->path, s->prompt) == 0) {
            add_file(v->unit, GEN_PROMPT, str_of(v->code.name), f->path, "text", f->bytes);
        }
        // `skills/x.md` is the skill x, `skills/x/SKILL.md` too; other files belong to their skill
        if (rest.p == NULL && str_ends(name, ".md")) {
            name.n -= strlen(".md");
        } else if (!str_eqz(rest, "SKILL.md")) {
            name.n = 0;
        }
        if (name.n != 0) {
            add_file(v->unit, GEN_SKILL, name, f->path, NULL, STR_NULL);
        }
        if (s->ui != NULL && path_below(s->ui, f->path) != NULL) {
            sha256_add(&sum, f->path, strlen(f->path) + 1);
            sha256_add(&sum, f->bytes.p, f->bytes.n);
        }
    }
    if (s->front != NULL) {
        add_output(v, "front", s->front, v->content->front_hash);
    }
    if (s->ui != NULL) {
        sha256_final(&sum, hash);
        add_output(v, "ui", s->ui, sha256_hex(hash, hex));
    }
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
        char *message = xasprintf("its code gives the name '" STR_FMT "', which is ignored; its "
                                  "manifest or file gives '%s'",
                                  (int)MIN(name.n, PLUGIN_NAME_MAX), name.p, v->code.name);
        gen_unit_note(v->unit, &(struct gen_diag){.code = DIAG_NAME_MISMATCH,
                                                  .path = v->code.path,
                                                  .message = message,
                                                  .hint = "make both the same"});
        free(message);
    }
}

struct loaded *loaded__new(struct plugin *p, struct content *c, struct gen_diag *fault)
{
    struct plugin_origin o = plugin__origin(p);
    struct loaded *v = xcalloc(1, sizeof *v);
    struct arena *a = &v->arena;
    struct gen_diag wrong = {0};
    const char *called = p->entry != NULL ? p->entry->place->called : NULL;
    v->plugin = p;
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
static struct loaded *load(struct plugin *p, struct content *c, struct gen_stage *s,
                           struct gen_diag *fault)
{
    struct plugin_origin o = plugin__origin(p);
    const struct plugin_runner *r = p->owner->opts.runners[c->shape.lang];
    bool dry_run = gen_stage_request(s)->dry_run;
    struct loaded *v = trials__take(p, c);
    v = v != NULL ? v : loaded__new(p, c, fault);
    if (v == NULL) {
        return NULL;
    }
    vec(struct str) prefer = {0};
    json_foreach_item (it, o.prefer) {
        vec_push(&prefer, json_str(it, ""));
    }
    const struct gen_unit_spec spec = {
        .name = p->unit,
        .path = o.path,
        .layer = o.layer,
        .host = r != NULL ? r->host : plugin_lang_name(c->shape.lang),
        .origin = c->shape.origin,
        .hash = c->tree.hash,
        .order = p->order,
        .prefer = prefer.p,
        .n_prefer = prefer.n,
        .data = v,
    };
    v->unit = gen_stage_unit(s, &spec); // the version goes with it, unless it is put
    vec_fini(&prefer);
    if (c->front_fault.message != NULL && !c->front_missing) {
        *fault = front_fault(v);
        return NULL;
    }
    add_parts(v);
    int rc = 0;
    if (c->shape.server != NULL && (r == NULL || (r->start != NULL && v->run == NULL))) {
        char *no_host = xasprintf("no host for %s", plugin_lang_name(c->shape.lang));
        rc = r == NULL ? ERR_UNSUPPORTED
                       : ERR_CONFLICT; // it may have died after this run was decided
        *fault = gen_diag_copy(&(struct gen_diag){
            .code = r == NULL ? DIAG_LOAD_FAILED : DIAG_HOST_CRASHED,
            .path = v->code.path,
            .message = r == NULL ? no_host : "its host has not been started yet"});
        free(no_host);
    } else if (c->shape.server != NULL) {
        rc = r->load(r->arg, &v->code, v->unit, dry_run, &v->run, fault);
    }
    // it was tried, whether or not it loads: it is tried again when something that it read is another
    if (c == p->want && !dry_run) {
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

static void put(struct plugin *p, struct loaded *v, struct gen_stage *s)
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

struct content *plugin__back(const struct plugin *p)
{
    assert(p->want != NULL);
    struct content *back = plugin__is_dead(p) ? p->serving->content : p->back;
    bool other = back != NULL && strcmp(back->tree.hash, p->want->tree.hash) != 0;
    return other ? back : NULL;
}

/// It failed: remember it, so that it is tried again only when something changed. Where nothing serves, or what
/// serves is dead, load what is good in its place.
static void fail(struct plugin *p, struct gen_stage *s, struct gen_diag *fault)
{
    struct content *back = plugin__back(p);
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
    if (plugin__is_dead(p)) {
        gen_stage_remove(s, p->unit, GEN_REMOVE);
        p->act = ACT_REMOVE;
    }
    gen_stage_refuse(s, p->unit, GEN_FAILED, &p->verdict);
}

static void stage_say(struct plugin *p, struct gen_stage *s)
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

void stage__plugins(void *plugins, struct gen_stage *s)
{
    struct plugins *ps = plugins;
    for (size_t i = 0; i < ps->plugins.n && ps->reordered; i++) {
        const struct plugin *p = ps->plugins.p[i];
        if (p->serving != NULL) {
            gen_stage_reorder(p->serving->unit, p->order);
        }
    }
    ps->reordered = false;
    vec_foreach (it, &ps->run) {
        struct plugin *p = *it;
        assert(p->staged == NULL);
        if (p->act == ACT_LOAD) {
            struct gen_diag fault = {0};
            struct loaded *v = load(p, p->want, s, &fault);
            if (v != NULL) {
                put(p, v, s);
            } else {
                fail(p, s, &fault);
            }
            continue;
        }
        if (p->act == ACT_REMOVE) {
            gen_stage_remove(s, p->unit, p->why);
        }
        if (p->act == ACT_SAY || (p->act == ACT_REMOVE && p->state != GEN_LOADED)) {
            stage_say(p, s);
        }
    }
}

// ---- the end of a run ---------------------------------------------------------------------------

static void commit(struct plugin *p)
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
        struct plugin *p = ps->run.p[i];
        if (p->act != ACT_NOTHING) {
            commit(p);
        }
        // nothing of it is on disk, serves or is held any more
        if (p->entry == NULL && p->serving == NULL && past__hold(ps, p->unit) == NULL) {
            size_t at = 0;
            while (ps->plugins.p[at] != p) {
                at++;
            }
            vec_remove(&ps->plugins, at);
            vec_remove(&ps->run, i);
            map_remove(&ps->units, str_of(p->unit));
            plugin__free(p);
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
