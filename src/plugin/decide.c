// Decide for every unit which version should serve, from the files on disk and the choices of the user.
//
//     switched off ────────────────> nothing
//     held by an undo ─────────────> the held version, until its file changes or force
//     not trusted ─────────────────> the version trusted last, if there is one
//     cannot be read, is not sound ─> what serves; after a restart the version that was good last
//     sound ───────────────────────> it, unless just this failed before; when it fails, as above
//
// Deciding loads nothing. What it wants and has not in memory is fetched from the kept versions, and
// then everything is decided once more.
//
// Invariants:
//   - a plugin whose act is ACT_NOTHING is not mentioned to the engine.
//   - `want` and `back` are borrowed: from what was found on disk, from what serves, or from `fetched`, all of which
//     stay until the run has ended.

#include <assert.h>

#include "base/path.h"
#include "plugin/plugins_int.h"
#include "store/choices.h"

typedef vec(struct kept_want) want_list;

// ---- contents in memory -----------------------------------------------------------------------

static bool is_version(const struct content *c, const char *hash, bool built)
{
    return c != NULL && c->built == built && strcmp(c->tree.hash, hash) == 0;
}

/// The content of that hash, read as the entry of `p` wants it, or NULL and a note that it has to be fetched.
static struct content *get(const struct plugin *p, const char *hash, const char *path,
                           want_list *missing)
{
    const struct plugins *ps = p->owner;
    bool built = p->entry != NULL && p->entry->place->hot == HOT_NO;
    struct str key;
    void *value;
    vec_foreach (c, &ps->fetched) {
        if (is_version(*c, hash, built)) {
            return *c;
        }
    }
    for (size_t at = 0; map_next(&ps->found, &at, &key, &value);) {
        struct content *c = ((struct found *)value)->content;
        if (is_version(c, hash, built)) {
            return c;
        }
    }
    vec_foreach (it, &ps->plugins) {
        const struct loaded *v = (*it)->serving;
        if (v != NULL && is_version(v->content, hash, built)) {
            return v->content;
        }
    }
    vec_push(missing, ((struct kept_want){.hash = hash, .path = path, .built = built}));
    return NULL;
}

// ---- trust ------------------------------------------------------------------------------------

/// The path of a plugin relative to its project; NULL if a line of the settings leads out of `.afloat`: files outside
/// of that directory are not covered by trust, and a model can write them.
static const char *rel_of(const struct plugin_place *p)
{
    char *ours = path_join(p->project, ".afloat");
    bool inside = path_below(ours, p->path) != NULL;
    free(ours);
    return inside ? path_below(p->project, p->path) : NULL;
}

/// A version that was stored when it ran.
static bool is_trusted(const struct plugins *ps, const struct plugin_place *p, const char *hash)
{
    const char *rel = p->project != NULL ? rel_of(p) : NULL;
    if (rel == NULL) {
        return p->project == NULL ||
               (ps->opts.shipped_dir != NULL && look__is_beneath(p->path, ps->opts.shipped_dir));
    }
    const struct project *pr = plugins__project(ps, p->project);
    return pr != NULL &&
           trust_ask(ps->opts.hub->trust, &pr->place, TRUST_PLUGIN, rel, hash) != TRUST_NO;
}

/// What is there now.
static bool is_allowed(const struct plugins *ps, const struct plugin_place *p, const struct tree *t)
{
    const char *rel = p->project != NULL ? rel_of(p) : NULL;
    if (rel == NULL) {
        return t->foreign == NULL && is_trusted(ps, p, t->hash);
    }
    const struct project *pr = plugins__project(ps, p->project);
    return pr != NULL && trust_allows(ps->opts.hub->trust, &pr->place, TRUST_PLUGIN, rel, t);
}

static const char *last_trusted(const struct plugins *ps, const struct plugin_place *p)
{
    const struct project *pr = plugins__project(ps, p->project);
    const char *rel = rel_of(p);
    return pr != NULL && rel != NULL
               ? trust_last(ps->opts.hub->trust, &pr->place, TRUST_PLUGIN, rel)
               : NULL;
}

// ---- verdicts ---------------------------------------------------------------------------------

static void verdict(struct plugin *p, enum gen_state state, const struct gen_diag *d)
{
    gen_diag_fini(&p->verdict);
    p->state = state;
    p->verdict = d != NULL ? gen_diag_copy(d) : (struct gen_diag){0};
}

static bool was_asked(const struct plugins *ps, const char *unit)
{
    const char *const *names = (const char *const *)ps->names.p;
    return ps->names.n == 0 || str_lookup(str_of(unit), names, ps->names.n) >= 0;
}

uint64_t decide__mark(const struct plugin_place *p, const char *unit)
{
    static const uint64_t seed[2] = {3, 4};
    struct buf b = {.max = SIZE_MAX};
    json_write(&b, p->options, 0);
    json_write(&b, p->prefer, 0);
    buf_addf(&b, "%s %s %d", unit, plugin_layer_name(p->layer), p->hot == HOT_NO);
    uint64_t mark = map_hash_seeded(seed, buf_str(&b));
    buf_fini(&b);
    return mark;
}

// ---- one plugin ---------------------------------------------------------------------------------

/// The files on disk cannot be used: keep the version that serves, else take the last good one.
static void fall_back(struct plugins *ps, struct plugin *p, want_list *missing)
{
    const struct plugin_place *place = p->entry->place;
    const char *good = p->serving == NULL ? past__good(ps, place->path) : NULL;
    bool bad = good != NULL && strcmp(good, p->failed) == 0 && p->failed_mark == p->mark;
    if (p->serving != NULL) {
        p->want = p->serving->content;
        p->mark = p->serving->mark;
    } else if (good != NULL && !bad && is_trusted(ps, place, good)) {
        p->want = get(p, good, place->path, missing);
    }
}

static void decide_untrusted(struct plugins *ps, struct plugin *p, want_list *missing)
{
    const struct plugin_place *place = p->entry->place;
    const char *last = last_trusted(ps, place);
    char *hint = xasprintf("read it, then run `afloat trust %s`", place->project);
    verdict(p, GEN_UNTRUSTED,
            &(struct gen_diag){
                .code = DIAG_UNTRUSTED,
                .path = place->path,
                .message = last != NULL
                               ? "it changed since it was trusted; the trusted version continues"
                               : "it belongs to a project that is not trusted and does not run",
                .hint = hint});
    free(hint);
    if (last != NULL) {
        p->want = get(p, last, place->path, missing);
    }
}

static void decide_sound(struct plugins *ps, struct plugin *p, struct content *c,
                         want_list *missing)
{
    const struct plugin_place *place = p->entry->place;
    const char *good = past__good(ps, place->path);
    bool changed = p->serving != NULL && strcmp(c->tree.hash, p->serving->content->tree.hash) != 0;
    bool failed = strcmp(p->failed, c->tree.hash) == 0 && p->failed_mark == p->mark;
    assert(c->sound);
    p->needs_restart = changed && place->hot == HOT_NO;
    if (p->needs_restart || (changed && place->hot == HOT_MANUAL && ps->watch_run)) {
        if (p->needs_restart) { // else it waits for an explicit reload
            verdict(p, GEN_KEPT, NULL);
        }
        fall_back(ps, p, missing);
    } else if (failed && !p->stale && !ps->force) {
        verdict(p, GEN_FAILED, &p->failure);
        fall_back(ps, p, missing);
    } else {
        p->want = c;
        if (p->serving == NULL && good != NULL && strcmp(good, c->tree.hash) != 0 &&
            is_trusted(ps, place, good)) {
            p->back = get(p, good, place->path, missing);
        }
    }
}

static void decide_entry(struct plugins *ps, struct plugin *p, want_list *missing)
{
    const struct plugin_entry *e = p->entry;
    const struct found *s = p->found;
    struct content *c = s != NULL ? s->content : NULL;
    struct gen_diag fault = {.code = DIAG_ENTRY_MISSING,
                             .path = e->place->path,
                             .message = "there is no plugin here",
                             .hint = "mend the path, or take the entry out"};
    char *foreign = NULL;
    p->mark = decide__mark(e->place, p->unit);
    if (e->fault != NULL) {
        fault = *e->fault;
    } else if (c == NULL) {
        fault = s != NULL && s->fault.message != NULL ? s->fault : fault;
    } else if (e->place->project == NULL && c->tree.foreign != NULL) {
        foreign = xasprintf(
            "another user owns or may write '%s', and a plugin runs with your permissions",
            c->tree.foreign);
        fault = (struct gen_diag){.code = DIAG_UNTRUSTED,
                                  .path = e->place->path,
                                  .message = foreign,
                                  .hint = "make it yours with chown, and chmod go-w"};
    } else if (!is_allowed(ps, e->place, &c->tree)) {
        decide_untrusted(ps, p, missing);
        return;
    } else if (!c->sound) {
        fault = c->fault;
    } else {
        decide_sound(ps, p, c, missing);
        return;
    }
    verdict(p, foreign != NULL ? GEN_UNTRUSTED : GEN_FAILED, &fault);
    free(foreign);
    fall_back(ps, p, missing);
}

// ---- held versions ----------------------------------------------------------------------------

static void decide_held(struct plugin *p, const struct hold *h, want_list *missing)
{
    const struct past_unit *of = &h->of;
    char *hint = xasprintf("save the file again, or `afloat reload --force %s`", p->unit);
    assert(h->out || of->hash != NULL);
    verdict(p, GEN_HELD,
            &(struct gen_diag){.code = DIAG_HELD,
                               .path = of->path,
                               .message = h->out ? "it is kept out by an undo"
                                                 : "an earlier version is held by an undo",
                               .hint = hint});
    free(hint);
    if (!h->out) {
        p->want = get(p, of->hash, of->path, missing);
        p->mark = of->mark;
    }
}

/// Does the hold still stand? A file that became another one, or force, ends it.
static const struct hold *standing_hold(struct plugins *ps, struct plugin *p)
{
    const struct hold *h = past__hold(ps, p->unit);
    if (h == NULL) {
        return NULL;
    }
    bool changed = strcmp(h->over, look__hash(p)) != 0;
    bool forced = ps->force && was_asked(ps, p->unit);
    if (ps->undo_to == 0 && (changed || forced)) {
        past__release(ps, p->unit);
        return NULL;
    }
    return h;
}

// ---- switched off -----------------------------------------------------------------------------

bool plugin__is_chosen_off(const struct plugin *p)
{
    const char *const names[] = {p->unit, p->at.name};
    const struct json *v = NULL;
    for (size_t i = 0; i < ARRAY_LEN(names) && v == NULL; i++) {
        char *key = xasprintf("plugins.%s.enabled", names[i]);
        v = choices_get(p->owner->opts.hub->choices, str_of(key));
        free(key);
    }
    return !json_bool(v, true);
}

/// An undo serves what a line of the settings has switched off before it; what was switched off since, or by a
/// command or by code, is off.
static bool is_off(const struct plugins *ps, const struct plugin *p, const struct hold *h)
{
    const char *const *unloaded = (const char *const *)ps->unloaded.p;
    if (str_lookup(str_of(p->unit), unloaded, ps->unloaded.n) >= 0) {
        return true;
    }
    if (h != NULL && (p->entry == NULL || h->over_off)) {
        return plugin__is_chosen_off(p);
    }
    return p->entry != NULL && !p->entry->enabled;
}

// ---- all of them ------------------------------------------------------------------------------

static void decide(struct plugins *ps, struct plugin *p, want_list *missing)
{
    const struct hold *h = standing_hold(ps, p);
    const struct loaded *now = p->serving;
    assert(p->owner == ps && p->staged == NULL);
    p->act = ACT_NOTHING;
    p->want = p->back = NULL;
    p->why = GEN_REMOVE;
    p->needs_restart = false;
    verdict(p, GEN_LOADED, NULL);
    if (!ps->on) {
        p->why = GEN_DISABLE;
    } else if (is_off(ps, p, h)) {
        p->why = GEN_DISABLE;
        verdict(p, GEN_DISABLED, NULL);
    } else if (h != NULL) {
        decide_held(p, h, missing);
    } else if (p->entry != NULL) {
        decide_entry(ps, p, missing);
    }
    bool same = p->want != NULL && now != NULL && now->mark == p->mark && !p->stale &&
                strcmp(now->content->tree.hash, p->want->tree.hash) == 0;
    bool forced = ps->force && ps->undo_to == 0 && p->state == GEN_LOADED;
    bool said = p->state == p->said_state && gen_diag_equal(&p->verdict, &p->said);
    if (p->want != NULL && (!same || forced || plugin__is_dead(p))) {
        p->act = brake__holds(p) ? ACT_NOTHING : ACT_LOAD;
    } else if (p->want == NULL && now != NULL) {
        p->act = ACT_REMOVE;
    } else if (!said || p->entry == NULL) {
        p->act = ACT_SAY;
    }
}

static struct plugin *plugin_get(struct plugins *ps, const char *unit)
{
    struct plugin *p = plugins__plug(ps, unit);
    if (p == NULL) {
        p = xcalloc(1, sizeof *p);
        p->owner = ps;
        p->unit = xstrdup(unit);
        p->at = (struct plugin_origin){.name = p->unit, .path = "", .layer = "", .source = ""};
        p->said_state = GEN_LOADED;
        vec_push(&ps->plugins, p);
        map_set(&ps->units, str_of(unit), p);
    }
    return p;
}

static int by_order(const void *a, const void *b)
{
    const struct plugin *x = *(struct plugin *const *)a, *y = *(struct plugin *const *)b;
    return x->order != y->order ? (x->order < y->order ? -1 : 1) : strcmp(x->unit, y->unit);
}

/// Report each plugin that does not load because another one of its layer has its name.
static void say_duplicates(struct plugins *ps)
{
    vec_foreach (path, &ps->warned) {
        gen_unwarn(ps->opts.engine, DIAG_NAME_DUPLICATE, *path);
        free(*path);
    }
    ps->warned.n = 0;
    vec_foreach (e, &ps->entries.list) {
        if (ps->on && entry_is_duplicate(e)) {
            gen_warn(ps->opts.engine, e->fault);
            vec_push(&ps->warned, xstrdup(e->fault->path));
        }
    }
}

/// The entries go with the next look; a plugin whose entry is gone is still shown until the commit.
static void take_origin(struct plugin *p, const struct plugin_entry *e)
{
    const struct plugin_place *at = e->place;
    arena_fini(&p->arena);
    p->at = (struct plugin_origin){
        .name = arena_strdup(&p->arena, str_of(e->name)),
        .path = arena_strdup(&p->arena, str_of(at->path)),
        .layer = plugin_layer_name(at->layer),
        .source = at->source,
        .project = at->project != NULL ? arena_strdup(&p->arena, str_of(at->project)) : NULL,
        .said_path = at->said_path != NULL ? arena_strdup(&p->arena, str_of(at->said_path)) : NULL,
        .said_line = at->said_line,
        .options = json_clone(&p->arena, at->options),
        .prefer = json_clone(&p->arena, at->prefer),
    };
}

static void meet_entries(struct plugins *ps)
{
    vec_foreach (p, &ps->plugins) {
        (*p)->order = (int)ps->entries.list.n; // what has no entry comes last
    }
    for (size_t i = 0; i < ps->entries.list.n; i++) {
        const struct plugin_entry *e = &ps->entries.list.p[i];
        if (!entry_is_duplicate(e)) {
            struct plugin *p = plugin_get(ps, e->unit);
            p->entry = e;
            p->found = look__found(ps, e->place->path);
            p->order = (int)i;
            take_origin(p, e);
        }
    }
    vec_foreach (h, &ps->holds) {
        if (past__member(ps, (*h)->unit) == NULL) {
            plugin_get(ps, (*h)->unit);
        }
    }
    if (ps->plugins.n != 0) {
        qsort(ps->plugins.p, ps->plugins.n, sizeof *ps->plugins.p, by_order);
    }
}

/// True when there were new ones.
static bool meet_new_entries(struct plugins *ps)
{
    if (!ps->relisted) {
        return false;
    }
    ps->relisted = false;
    vec_foreach (p, &ps->places.list) {
        const struct found *s = look__found(ps, p->path);
        const struct content *c = s != NULL ? s->content : NULL;
        p->untrusted = p->project != NULL && c != NULL && !is_trusted(ps, p, c->tree.hash) &&
                       last_trusted(ps, p) == NULL;
    }
    entries_make(&ps->entries, &ps->places, choices_all(ps->opts.hub->choices));
    say_duplicates(ps);
    meet_entries(ps);
    ps->reordered = true;
    return true;
}

bool decide__all(struct plugins *ps)
{
    want_list missing = {0};
    bool again = ps->asked_kept;
    assert(ps->preparing && ps->remembered);
    if (!again) {
        // all of them if entries changed or a user asked; else those that were looked at, or wait to be staged
        bool all = meet_new_entries(ps) || !ps->watch_run;
        ps->run.n = 0;
        vec_foreach (p, &ps->plugins) {
            if (all || (*p)->looked || (*p)->act != ACT_NOTHING) {
                vec_push(&ps->run, *p);
            }
            (*p)->looked = false;
        }
    }
    vec_foreach (it, &ps->run) {
        struct plugin *p = *it;
        if (was_asked(ps, p->unit)) {
            decide(ps, p, &missing);
        } else {
            p->act = ACT_NOTHING;
            p->looked = true; // for the next run
        }
    }
    bool whole = missing.n == 0 || again; // what is not kept any more is not asked for twice
    if (!whole) {
        ps->asked_kept = true;
        fetch__begin(ps, missing.p, missing.n);
    }
    vec_fini(&missing);
    return whole;
}
