// The past of improvements: versions that are kept, and held by an undo.
//
//     file ── `now`: what is to serve ──┬── what is there
//                                       └── what an undo holds; then `under` is what is there
//
// For whom an improvement is active is kept with its version: one that an undo brings back after its file
// was removed must not be active for more sessions than before.

#include <assert.h>

#include "plugin/improvements_int.h"
#include "plugin/past.h"

static struct str name_of(const char *unit)
{
    return str_from(str_of(unit), strlen(IMPROVEMENTS));
}

static struct file *file_of(struct improvements *imp, const char *unit)
{
    struct str name = name_of(unit);
    char *path = xasprintf("%s/" STR_FMT ".lua", imp->opts.dir, STR_ARG(name));
    struct file *f = improvements__file(imp, name, path);
    free(path);
    return f;
}

// ---- holds --------------------------------------------------------------------------------------

static void id_of(const struct file *f, const struct holding *h, char out[SHA256_HEX])
{
    out[0] = '\0';
    if (h->exists) {
        past_hash(f->path, h->bytes, out);
    }
}

/// What is there counts again.
static void uncover(struct file *f)
{
    assert(f->held);
    improvement__bytes_free(&f->now.bytes);
    f->now = f->under;
    f->under = (struct holding){0};
    f->held = f->judged = false;
    f->say = f->now.exists ? SAID : SAY_GONE;
}

static void cover(struct file *f, const struct past_held *h)
{
    uint8_t hash[SHA256_SIZE];
    assert(!f->held);
    f->under = f->now;
    f->now = (struct holding){.exists = !h->out};
    f->held = true;
    f->judged = false;
    improvement__drop_trial(f); // a file that is held does not go with it
    if (h->out) {
        f->say = SAY_GONE;
        return;
    }
    f->now.bytes = (struct str){str_dup(h->text.bytes), h->text.bytes.n};
    sha256_hex((sha256_of(f->now.bytes, hash), hash), f->now.hash);
    f->judged = f->serving != NULL && strcmp(f->serving->hash, f->now.hash) == 0;
    f->say = SAY_HELD;
    struct str of = f->under.exists ? STR_NULL : str_of(h->text.note), kind = str_cut(&of, ' ');
    if (str_eqz(kind, scope_kind_name(SCOPE_SESSION))) {
        scopes_set(&f->owner->scopes, str_of(f->name), SCOPE_SESSION, of);
    }
}

void improvements__take_holds(struct improvements *imp)
{
    const char *unit;
    struct past_held h;
    char hash[SHA256_HEX];
    for (size_t at = 0; imp->opts.past != NULL &&
                        (unit = past_next_held(imp->opts.past, IMPROVEMENTS, &at)) != NULL;) {
        struct file *f = file_of(imp, unit);
        id_of(f, &f->now, hash);
        if (past_held(imp->opts.past, unit, &h) && strcmp(h.over, hash) == 0) {
            cover(f, &h);
        } else {
            past_unhold(imp->opts.past, unit);
            at--;
            improvements__sweep(f);
        }
    }
}

bool improvements__end_hold(struct file *f, const struct holding *h)
{
    if (f->under.exists == h->exists && strcmp(f->under.hash, h->hash) == 0) {
        return false;
    }
    improvements__force(f);
    return true;
}

void improvements__force(struct file *f)
{
    past_unhold(f->owner->opts.past, f->unit);
    uncover(f);
}

void improvements__say_held(struct file *f, struct gen_stage *s)
{
    if (f->held) {
        gen_stage_stand(s, f->unit, GEN_HELD,
                        &(struct gen_diag){.code = DIAG_HELD,
                                           .path = f->path,
                                           .message = f->now.exists
                                                          ? "an earlier version is held by an undo"
                                                          : "it is kept out by an undo",
                                           .hint = "save the file again, or `afloat reload "
                                                   "--force`"});
    }
}

// ---- what the past asks -------------------------------------------------------------------------

static bool on_serving(void *arg, const char *unit, struct past_text *out)
{
    struct improvements *imp = arg;
    struct file *f = improvements__find(imp, name_of(unit));
    if (f == NULL || f->serving == NULL) {
        return false;
    }
    struct scope s = scopes_get(&imp->scopes, str_of(f->name));
    free(imp->note); // "session s-1", "all ": borrowed until the next call
    imp->note = xasprintf("%s %s", scope_kind_name(s.kind), s.of);
    *out = (struct past_text){.path = f->path,
                              .layer = "improvement",
                              .hash = f->serving->id,
                              .note = imp->note,
                              .revision = f->serving->unit->revision};
    return true;
}

static void on_disk(void *arg, const char *unit, char out[SHA256_HEX])
{
    struct file *f = improvements__find(arg, name_of(unit));
    out[0] = '\0';
    if (f != NULL) {
        id_of(f, f->held ? &f->under : &f->now, out);
    }
}

static void on_held(void *arg, const char *unit)
{
    struct improvements *imp = arg;
    struct file *f = improvements__find(imp, name_of(unit));
    struct past_held h;
    if (f != NULL && f->held) {
        uncover(f);
    }
    if (past_held(imp->opts.past, unit, &h)) {
        cover(file_of(imp, unit), &h);
    }
}

static const struct past_member member = {
    .prefix = IMPROVEMENTS, .serving = on_serving, .on_disk = on_disk, .held = on_held};

void improvements__join_past(struct improvements *imp)
{
    if (imp->opts.past != NULL) {
        past_join(imp->opts.past, &member, imp->opts.dir, imp);
    }
}

void improvements__serves(struct file *f)
{
    struct version *v = f->serving;
    struct plugins *past = f->owner->opts.past;
    if (past != NULL) {
        past_hash(f->path, v->bytes, v->id);
    }
    if (past != NULL && !f->held && !v->spare) {
        past_keep(past, &(struct past_text){.path = f->path, .hash = v->id, .bytes = v->bytes});
    }
    improvement__bytes_free(&v->bytes);
}
