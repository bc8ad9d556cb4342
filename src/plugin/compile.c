// The web sides of plugins: compiled before a run takes its turn, served from what runs.
//
//     decided ──> needs the compiler? ──> the same as what serves: shared
//                                    └─> front_build ┄┄> content->front, or content->front_fault ──> staged
//
// What the compiler makes belongs to the content that it was made of, so that it goes with it, and an undo or a last
// good version brings its own. A web side that does not compile fails the whole version: the old one continues, both
// sides of it. A missing compiler is not the plugin's fault: its server side serves, and so does a
// dist/front/index.js that the plugin brings.
//
// Only files of what serves are ever given to a page, looked up by name in the tree that was hashed and
// trusted: there is no path to escape from.

#include <assert.h>

#include "base/log.h"
#include "plugin/plugins_int.h"

struct compile {
    struct plugins *ps;
    struct content *content; // a reference
};

static void on_built(void *arg, struct front_output *out, const struct gen_diag *fault,
                     bool missing)
{
    struct compile *b = arg;
    struct plugins *ps = b->ps;
    struct content *c = b->content;
    assert(ps->compiling != 0 && c->compiling && c->front == NULL);
    c->compiling = false;
    gen_diag_fini(&c->front_fault);
    c->front = out;
    c->front_fault = fault != NULL ? gen_diag_copy(fault) : (struct gen_diag){0};
    c->front_missing = missing;
    if (missing && compile__entry(c) != NULL) {
        log_warn(LOG_HUB, "plugin=%s dist/front/index.js is served: there is no compiler",
                 c->shape.name);
    }
    content_unref(c);
    free(b);
    if (--ps->compiling == 0) {
        plugins__compiled(ps);
    }
}

/// Two plugins with the same files may share one content: it is compiled once.
static void compile(struct plugins *ps, const struct plugin *p, struct content *c)
{
    const struct content *now = p->serving != NULL ? p->serving->content : NULL;
    bool wanted = c != NULL && c->sound && c->shape.front != NULL && c->front == NULL &&
                  !c->compiling && front_needs_build(c->shape.front);
    bool failed = c != NULL && c->front_fault.message != NULL;
    assert(p->act == ACT_LOAD);
    if (!wanted || (failed && !ps->force && !c->front_missing)) {
        return;
    }
    if (now != NULL && now->front != NULL && strcmp(now->front_hash, c->front_hash) == 0) {
        c->front = front_output_ref(now->front);
        return;
    }
    struct compile *b = xmalloc(sizeof *b);
    *b = (struct compile){.ps = ps, .content = content_ref(c)};
    ps->compiling++;
    c->compiling = true;
    front_build(ps->front, &c->tree, c->shape.front, on_built, b);
}

bool compile__begin(struct plugins *ps)
{
    assert(ps->compiling == 0);
    vec_foreach (p, &ps->run) {
        if ((*p)->act == ACT_LOAD) {
            compile(ps, *p, (*p)->want);
            compile(ps, *p, (*p)->back);
        }
    }
    return ps->compiling != 0;
}

// ---- what a page gets ---------------------------------------------------------------------------

const char *compile__entry(const struct content *c)
{
    static const char dist[] = "dist/front/index.js";
    if (c->shape.front == NULL || !front_needs_build(c->shape.front)) {
        return c->shape.front;
    }
    if (c->front != NULL) {
        return "index.js";
    }
    return c->front_missing && tree_find(&c->tree, str_of(dist)) != NULL ? dist : NULL;
}

static const struct loaded *serving(const struct plugins *ps, struct str name)
{
    const struct plugin *p = map_get(&ps->units, name);
    return p != NULL ? p->serving : NULL;
}

bool plugins_front(const struct plugins *ps, struct str name, struct plugin_front *out)
{
    const struct loaded *v = serving(ps, name);
    const char *entry = v != NULL ? compile__entry(v->content) : NULL;
    if (entry == NULL) {
        return false;
    }
    *out = (struct plugin_front){
        .revision = v->unit->revision,
        .hash = v->content->front_hash,
        .entry = entry,
        .style = v->content->front != NULL && v->content->front->css != NULL ? "index.css" : NULL,
        .options = v->code.options,
    };
    return true;
}

struct front *plugins_compiler(const struct plugins *ps)
{
    return ps->front;
}

bool plugins_front_file(const struct plugins *ps, struct str name, struct str path,
                        struct str *bytes, const char **type)
{
    const struct loaded *v = serving(ps, name);
    const struct front_output *o = v != NULL ? v->content->front : NULL;
    const struct tree_file *f =
        v != NULL && compile__entry(v->content) != NULL ? tree_find(&v->content->tree, path) : NULL;
    *type = front_type(path);
    if (o != NULL && str_eqz(path, "index.js")) {
        *bytes = (struct str){o->js, o->n_js};
    } else if (o != NULL && o->map != NULL && str_eqz(path, "index.js.map")) {
        *bytes = (struct str){o->map, o->n_map};
    } else if (o != NULL && o->css != NULL && str_eqz(path, "index.css")) {
        *bytes = (struct str){o->css, o->n_css};
    } else if (f != NULL) {
        *bytes = f->bytes;
    } else {
        return false;
    }
    return *type != NULL;
}
