// The past of modules: versions that are kept, held by an undo, or served instead of a broken file.
//
//     a version of a user's file serves ──> kept; the last good one of that file
//     an undo ──> hold: files__find() gives the held text (or none) instead of the file on disk
//     a file that fails to load at start ──> its last good text is loaded instead
//
// A hold is a cover over the user's file: everything else (what changed, what stands on it, what is
// unloaded) follows by itself. It ends when the file becomes another one, or by force.

#include "bind/modules_int.h"
#include "bind/plugin_int.h"
#include "plugin/past.h"

static const char prefix[] = "lua:";

// ---- what the past asks -------------------------------------------------------------------------

static bool on_serving(void *arg, const char *unit, struct past_text *out)
{
    struct modules *ms = arg;
    const struct module *m = map_get(&ms->space->modules, modules__name_of(str_of(unit)));
    const struct version *v = m != NULL ? m->live : NULL;
    if (v == NULL || v->host != NULL || !files__is_users(v->text)) {
        return false;
    }
    *out = (struct past_text){.path = v->text->path,
                              .layer = v->text->layer,
                              .hash = files__text_id(v->text),
                              .revision = v->unit->revision};
    return true;
}

static void on_disk(void *arg, const char *unit, char out[SHA256_HEX])
{
    struct modules *ms = arg;
    struct files__text *t = files__users(&ms->files, modules__name_of(str_of(unit)));
    snprintf(out, SHA256_HEX, "%s", t != NULL ? files__text_id(t) : "");
}

static void on_held(void *arg, const char *unit)
{
    struct modules *ms = arg;
    struct past_held h;
    if (past_held(ms->past, unit, &h)) {
        files__cover(&ms->files, modules__name_of(str_of(unit)), h.out ? NULL : h.text.path,
                     h.text.bytes);
        modules__get(ms->space, modules__name_of(str_of(unit)))->attempted = true;
    } else {
        files__uncover(&ms->files, modules__name_of(str_of(unit)));
    }
}

static const struct past_member member = {
    .prefix = prefix, .serving = on_serving, .on_disk = on_disk, .held = on_held};

// ---- holds --------------------------------------------------------------------------------------

void past__cover_all(struct modules *ms)
{
    const char *unit;
    struct past_held h;
    char hash[SHA256_HEX];
    for (size_t at = 0;
         ms->past != NULL && (unit = past_next_held(ms->past, prefix, &at)) != NULL;) {
        on_disk(ms, unit, hash);
        if (past_held(ms->past, unit, &h) && strcmp(h.over, hash) == 0) {
            on_held(ms, unit);
        } else {
            past_unhold(ms->past, unit);
            at--;
        }
    }
}

void past__end_holds(struct modules *ms, const struct gen_request *req)
{
    struct str name;
    for (size_t at = 0; files__next_cover(&ms->files, &at, &name);) {
        char *unit = xasprintf("%s" STR_FMT, prefix, STR_ARG(name));
        const struct module *m = modules__get(ms->space, name);
        if (!files__is_covered(&ms->files, name) || (req->force && graph__is_named(req, m))) {
            files__uncover(&ms->files, name);
            past_unhold(ms->past, unit);
            at = 0;
        }
        free(unit);
    }
}

void past__say_held(struct gen_stage *s, const struct module *m)
{
    const struct modules *ms = m->space->ms;
    if (!files__is_covered(&ms->files, str_of(m->name))) {
        return;
    }
    const struct files__text *t = files__users(&ms->files, str_of(m->name));
    char *hint = xasprintf("save the file again, or `afloat reload --force %s`", m->name);
    gen_stage_stand(s, m->unit_name, GEN_HELD,
                    &(struct gen_diag){.code = DIAG_HELD,
                                       .origin = "module",
                                       .path = t != NULL ? t->path : NULL,
                                       .message = "an earlier version is held by an undo",
                                       .hint = hint});
    free(hint);
}

// ---- versions -----------------------------------------------------------------------------------

void past__serves(struct version *v)
{
    struct modules *ms = v->module->space->ms;
    if (ms->past != NULL && files__is_users(v->text) &&
        files__text_same(files__users(&ms->files, str_of(v->module->name)), v->text)) {
        past_keep(ms->past, &(struct past_text){.path = v->text->path,
                                                .hash = files__text_id(v->text),
                                                .bytes = v->text->bytes});
    }
}

struct files__text *past__last_good(const struct module *m, const struct files__text *broken)
{
    struct modules *ms = m->space->ms;
    struct str bytes;
    bool found = ms->past != NULL && files__is_users(broken) &&
                 past_good(ms->past, broken->path, &bytes) && !str_eq(bytes, broken->bytes);
    return found ? files__text_copy(broken->path, ROOT_USER, bytes) : NULL;
}

void modules_set_past(struct modules *ms, struct plugins *past)
{
    ms->past = past;
    past_join(past, &member, ms->files.roots[ROOT_USER].dir, ms);
}
