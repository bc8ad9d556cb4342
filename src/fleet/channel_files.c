// Plugins of a set, as files here.
//
//     set + the files here + what the channel put here last (base)
//         ──> plan ──> contents by hash ──> kept: what is overwritten ──> state: doing ──> files
//         <── revert: what was kept, unless the user changed it meanwhile
//
// A place is written only when it has what the channel put there, or nothing. Anything else is the
// user's work: it stays, and is a conflict when the set says something new about that place.
//
//     is here     the set says    then
//     S           S               nothing to do
//     any         base            nothing to do: not changed elsewhere, perhaps changed here
//     base, none  S               written
//     other       S               conflict
//     base        nothing         moved to trash/
//     other       nothing         conflict: it stays, as this hub's own
//
// Files of a project are written only where its trust, as this hub keeps it, covers the very bytes; they are
// never removed.
//
// Invariants:
//   - the state says `doing` before the first file is touched and no more when the set is committed: a hub
//     that is killed between goes back at its start.
//   - what is overwritten is in state/channel/ before that, by its hash.
//   - contents are written only when their hash is the one that the set names.

#include "fleet/channel_files.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/path.h"
#include "store/tree.h"
#include "store/versions.h"
#include "trust/trust.h"

enum { STATE_MAX = 4 << 20, PLUGIN_BYTES = 8 << 20, SET_BYTES = 64 << 20 };

#define STATE_FILE "state/channel.json"
#define KEPT_DIR   "state/channel"

void channel_blobs_fini(channel_blobs *b)
{
    vec_foreach (it, b) {
        free(it->text);
    }
    vec_fini(b);
}

void channel_paths_fini(channel_paths *p)
{
    vec_foreach (it, p) {
        free(it->path);
        free(it->project);
    }
    vec_fini(p);
}

char *channel_path_of(const char *home, const struct set_item *it)
{
    return path_join(it->project != NULL ? it->project : home, it->place);
}

// ---- the state --------------------------------------------------------------------------------------

void channel_state_fini(struct channel_state *s)
{
    plugin_set_fini(&s->base);
    plugin_set_fini(&s->before_base);
    plugin_set_fini(&s->before_files);
    *s = (struct channel_state){0};
}

int channel_state_load(struct channel_state *s, const char *home, struct err *e)
{
    struct buf text = {.max = STATE_MAX};
    struct arena a = {0};
    struct json *v = NULL;
    char *path = path_join(home, STATE_FILE);
    *s = (struct channel_state){0};
    int rc = path_read(path, &text, e);
    if (rc == -ENOENT) {
        rc = 0;
    } else {
        rc = rc == 0 ? json_parse(&v, &a, buf_str(&text), NULL, e) : rc;
    }
    const struct json *before = json_get(v, "before");
    struct str channel = json_str(json_get(v, "channel"), "");
    memcpy(s->channel, channel.p, MIN(channel.n, sizeof s->channel - 1));
    s->number = json_int(json_get(v, "number"), 0);
    s->generation = json_int(json_get(v, "generation"), 0);
    s->doing = json_bool(json_get(v, "doing"), false);
    s->may_revert = before != NULL;
    s->before_number = json_int(json_get(before, "number"), 0);
    s->before_generation = json_int(json_get(before, "generation"), 0);
    rc = rc == 0 ? plugin_set_read(&s->base, json_get(v, "base"), e) : rc;
    rc = rc == 0 ? plugin_set_read(&s->before_base, json_get(before, "base"), e) : rc;
    rc = rc == 0 ? plugin_set_read(&s->before_files, json_get(before, "files"), e) : rc;
    if (rc < 0) {
        channel_state_fini(s);
        err_prefix(e, "cannot use '%s'", path);
    }
    free(path);
    buf_fini(&text);
    arena_fini(&a);
    return rc;
}

int channel_state_save(const struct channel_state *s, const char *home, struct err *e)
{
    struct buf text = {.max = SIZE_MAX};
    char *path = path_join(home, STATE_FILE);
    struct jw w = {.out = &text};
    jw_obj(&w);
    jw_kstrz(&w, "channel", s->channel);
    jw_kint(&w, "number", s->number);
    jw_kint(&w, "generation", s->generation);
    jw_kbool(&w, "doing", s->doing);
    jw_key(&w, "base");
    plugin_set_write(&s->base, &w);
    if (s->may_revert) {
        jw_kobj(&w, "before");
        jw_kint(&w, "number", s->before_number);
        jw_kint(&w, "generation", s->before_generation);
        jw_key(&w, "base");
        plugin_set_write(&s->before_base, &w);
        jw_key(&w, "files");
        plugin_set_write(&s->before_files, &w);
        jw_end_obj(&w);
    }
    jw_end_obj(&w);
    int rc = path_write_atomic(path, buf_str(&text), 0600, e);
    buf_fini(&text);
    free(path);
    return rc;
}

// ---- what is here -----------------------------------------------------------------------------------

/// Read the files at the place of `it` into `t`; `local` gets its hash, "" for nothing. A symbolic link is the
/// user's own arrangement: its contents count, and it is never replaced.
static int read_local(const char *home, const struct set_item *it, struct tree *t,
                      char local[SHA256_HEX], struct err *e)
{
    char *path = channel_path_of(home, it);
    int rc = tree_read(t, path, e);
    local[0] = '\0';
    if (rc == 0) {
        memcpy(local, t->hash, SHA256_HEX);
    }
    free(path);
    return rc == ERR_NOT_FOUND ? 0 : rc;
}

/// Does this hub's trust cover contents `hash` of a project's plugin? Read anew each time: `afloat trust` may
/// have changed it, and nothing else can.
static bool is_trusted(const char *home, const struct set_item *it, const char *hash)
{
    struct trust *book;
    struct trust_place place = {0};
    struct err e = {0};
    bool ok = trust_open(&book, home, &e) == 0 &&
              trust_place_of(&place, home, it->project, &e) == 0 &&
              strcmp(place.root, it->project) == 0 &&
              trust_ask(book, &place, TRUST_PLUGIN, it->place, hash) != TRUST_NO;
    trust_place_fini(&place);
    trust_close(book);
    return ok;
}

static int refuse(struct err *e, int code, const char *place, const char *why)
{
    return err_set(e, code, "'%.100s' cannot be sent to other hubs: %s", place, why);
}

static int collect_one(const char *home, const struct channel_path *from, struct plugin_set *set,
                       channel_blobs *blobs, size_t *total, struct err *e)
{
    const char *root = from->project != NULL ? from->project : home;
    const char *place = path_below(root, from->path);
    struct set_item it = {.place = place, .project = from->project};
    struct tree t;
    struct buf text = {.max = SIZE_MAX};
    if (place == NULL || !plugin_set_may_hold(str_of(place), from->project) ||
        plugin_set_find(set, &it) != NULL) {
        return 0; // [[plugins]] and `plugin add` name paths of this machine
    }
    int rc = read_local(home, &it, &t, it.hash, e);
    if (rc < 0 || it.hash[0] == '\0') {
        return rc;
    }
    tree_to_text(&t, &text);
    *total += text.n;
    if (from->project != NULL && !is_trusted(home, &it, it.hash)) {
        rc = 0;
    } else if (t.link != NULL) {
        rc = refuse(e, ERR_DENIED, place, "it has a symbolic link; put a file in its place");
    } else if (text.n > PLUGIN_BYTES || *total > SET_BYTES || set->items.n == PLUGIN_SET_MAX) {
        char why[100];
        snprintf(why, sizeof why,
                 "the limits are %d MiB for a plugin, %d MiB and %d plugins in all",
                 PLUGIN_BYTES >> 20, SET_BYTES >> 20, PLUGIN_SET_MAX);
        rc = refuse(e, ERR_TOO_LARGE, place, why);
    } else {
        struct channel_blob b = {.text = str_dup(buf_str(&text)), .n = text.n};
        memcpy(b.hash, it.hash, SHA256_HEX);
        vec_push(blobs, b);
        plugin_set_add(set, place, from->project, it.hash);
    }
    buf_fini(&text);
    tree_fini(&t);
    return rc;
}

int channel_collect(const char *home, const channel_paths *paths, struct plugin_set *set,
                    channel_blobs *blobs, struct err *e)
{
    size_t total = 0;
    int rc = 0;
    vec_foreach (p, paths) {
        rc = rc == 0 ? collect_one(home, p, set, blobs, &total, e) : rc;
    }
    return rc;
}

// ---- the plan ---------------------------------------------------------------------------------------

static void plan_item(channel_plan *plan, const char *home, const struct channel_state *s,
                      const struct set_item *it, bool removed)
{
    const char *base = plugin_set_hash(&s->base, it), *hash = removed ? "" : it->hash;
    struct channel_step step = {.item = it, .what = CHANNEL_KEEP};
    struct tree t;
    struct stat st;
    if (it->project != NULL && (removed || stat(it->project, &st) != 0)) {
        return; // a project that is not here; what it has is never removed
    }
    int rc = read_local(home, it, &t, step.local, NULL);
    bool there = rc == 0 && step.local[0] != '\0', link = there && t.link != NULL;
    if (rc < 0) {
        step.what = CHANNEL_CONFLICT;
        step.why = "cannot be read on this hub";
    } else if (strcmp(step.local, hash) == 0 || (!removed && strcmp(base, hash) == 0)) {
        step.what = CHANNEL_KEEP;
    } else if (it->project != NULL && !is_trusted(home, it, hash)) {
        step.what = CHANNEL_SKIP;
        step.why = "not trusted on this hub";
    } else if (link) {
        step.what = CHANNEL_CONFLICT;
        step.why = "has a symbolic link on this hub";
    } else if (strcmp(step.local, base) == 0 || step.local[0] == '\0') {
        step.what = removed ? CHANNEL_REMOVE : CHANNEL_WRITE;
    } else {
        step.what = CHANNEL_CONFLICT;
        step.why = base[0] != '\0' ? "changed on this hub" : "other contents on this hub";
    }
    if (there) {
        tree_fini(&t);
    }
    if (!(removed && rc == 0 && !there)) {
        vec_push(plan, step);
    }
}

void channel_make_plan(channel_plan *plan, const char *home, const struct channel_state *s,
                       const struct plugin_set *set)
{
    vec_foreach (it, &set->items) {
        plan_item(plan, home, s, it, false);
    }
    vec_foreach (it, &s->base.items) {
        if (plugin_set_find(set, it) == NULL) {
            plan_item(plan, home, s, it, true);
        }
    }
}

// ---- files ------------------------------------------------------------------------------------------

/// What reading passes over stays with the plugin: repositories and installed packages.
static void keep_private(const char *from, const char *to)
{
    static const char *const names[] = {".git", ".hg", ".svn", "node_modules"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        char *a = path_join(from, names[i]), *b = path_join(to, names[i]);
        (void)!rename(a, b); // most have none
        free(a);
        free(b);
    }
}

/// A directory is made beside and swapped in one step.
static int put_dir(const char *path, const struct tree *t, struct err *e)
{
    char *parent = str_dup(path_dir(str_of(path)));
    char *beside = path_join(parent, ".afloat-new");
    char *made = path_join(beside, t->hash);
    int rc = versions_put(beside, t, e);
    if (rc == 0 && renameat2(AT_FDCWD, made, AT_FDCWD, path, RENAME_EXCHANGE) == 0) {
        keep_private(made, path);
    } else if (rc == 0 && (errno != ENOENT || rename(made, path) != 0)) {
        rc = err_sys(e, "cannot write '%s'", path);
    }
    (void)!path_remove_tree(beside, NULL);
    free(parent);
    free(beside);
    free(made);
    return rc;
}

static int put_tree(const char *path, const struct tree *t, struct err *e)
{
    char *parent = str_dup(path_dir(str_of(path)));
    int rc = path_mkdirs(parent, 0700, e);
    if (rc == 0 && t->is_file) {
        const struct tree_file *f = &t->files.p[0];
        rc = path_write_atomic(path, f->bytes, f->executable ? 0700 : 0600, e);
    } else if (rc == 0) {
        rc = put_dir(path, t, e);
    }
    free(parent);
    return rc;
}

static int move_to_trash(const char *home, const char *path, struct err *e)
{
    char *dir = path_join(home, "trash");
    struct str name = path_base(str_of(path));
    char *to = xasprintf("%s/%lld-" STR_FMT, dir, (long long)time(NULL) * 1000, STR_ARG(name));
    int rc = path_mkdirs(dir, 0700, e);
    if (rc == 0 && rename(path, to) != 0 && errno != ENOENT) {
        rc = err_sys(e, "cannot move '%s' to the trash", path);
    }
    free(dir);
    free(to);
    return rc;
}

// ---- there and back ---------------------------------------------------------------------------------

static const struct channel_blob *find_blob(const channel_blobs *blobs, const char *hash)
{
    vec_foreach (b, blobs) {
        if (strcmp(b->hash, hash) == 0) {
            return b;
        }
    }
    return NULL;
}

static int write_item(const char *home, const struct set_item *it, const channel_blobs *blobs,
                      struct err *e)
{
    const struct channel_blob *b = find_blob(blobs, it->hash);
    struct tree t;
    if (b == NULL) {
        return err_set(e, ERR_NOT_FOUND, "the store does not have the contents of '%.100s'",
                       it->place);
    }
    int rc = tree_of_text(&t, (struct str){b->text, b->n}, e);
    if (rc < 0) {
        return err_prefix(e, "'%.60s'", it->place);
    }
    char *path = channel_path_of(home, it);
    if (strcmp(t.hash, it->hash) != 0) {
        rc = err_set(e, ERR_CORRUPT, "the contents of '%.100s' are not what their hash says",
                     it->place);
    } else if (t.is_file && strcmp(t.files.p[0].path, path_base(str_of(path)).p) != 0) {
        rc = err_set(e, ERR_CORRUPT, "'%.100s' holds another file", it->place);
    } else {
        rc = put_tree(path, &t, e);
    }
    free(path);
    tree_fini(&t);
    return rc;
}

static int keep_local(const char *home, const struct channel_step *step, struct err *e)
{
    struct tree t;
    char now[SHA256_HEX];
    char *dir = path_join(home, KEPT_DIR);
    int rc = read_local(home, step->item, &t, now, e);
    if (rc == 0 && strcmp(now, step->local) != 0) {
        rc = err_set(e, ERR_CONFLICT, "'%.100s' was changed meanwhile", step->item->place);
    }
    if (now[0] != '\0') {
        rc = rc == 0 ? versions_put(dir, &t, e) : rc;
        tree_fini(&t);
    }
    free(dir);
    return rc;
}

/// The state after the plan is done.
static void next_state(struct channel_state *s, const channel_plan *plan,
                       const struct plugin_set *set, int64_t number)
{
    struct channel_state next = {.number = number,
                                 .generation = s->generation,
                                 .doing = true,
                                 .may_revert = true,
                                 .before_number = s->number,
                                 .before_generation = s->generation,
                                 .before_base = s->base};
    assert(!s->may_revert);
    memcpy(next.channel, s->channel, sizeof next.channel);
    vec_foreach (step, plan) {
        bool in_set = plugin_set_find(set, step->item) != NULL;
        bool ours = step->what == CHANNEL_KEEP || step->what == CHANNEL_WRITE;
        const char *hash = ours ? step->item->hash : plugin_set_hash(&s->base, step->item);
        if (in_set && hash[0] != '\0') {
            plugin_set_add(&next.base, step->item->place, step->item->project, hash);
        }
        if (step->what == CHANNEL_WRITE || step->what == CHANNEL_REMOVE) {
            plugin_set_add(&next.before_files, step->item->place, step->item->project, step->local);
        }
    }
    *s = next;
}

int channel_take(const channel_plan *plan, const char *home, struct channel_state *s,
                 const struct plugin_set *set, int64_t number, const channel_blobs *blobs,
                 struct err *e)
{
    int rc = 0;
    vec_foreach (step, plan) {
        if (rc == 0 && (step->what == CHANNEL_WRITE || step->what == CHANNEL_REMOVE)) {
            rc = keep_local(home, step, e);
        }
    }
    if (rc < 0) {
        return rc;
    }
    next_state(s, plan, set, number);
    rc = channel_state_save(s, home, e);
    vec_foreach (step, plan) {
        if (rc == 0 && step->what == CHANNEL_WRITE) {
            rc = write_item(home, step->item, blobs, e);
        } else if (rc == 0 && step->what == CHANNEL_REMOVE) {
            char *path = channel_path_of(home, step->item);
            rc = move_to_trash(home, path, e);
            free(path);
        }
    }
    if (rc < 0) {
        struct buf kept = {.max = SIZE_MAX};
        (void)!channel_revert(home, s, &kept, NULL); // tried again at the next start
        buf_fini(&kept);
    }
    return rc;
}

static int restore(const char *home, const struct set_item *it, struct err *e)
{
    char *path = channel_path_of(home, it), *dir = path_join(home, KEPT_DIR);
    struct tree t;
    int rc = it->hash[0] == '\0' ? path_remove_tree(path, e) : versions_get(&t, dir, it->hash, e);
    if (rc == 0 && it->hash[0] != '\0') {
        rc = put_tree(path, &t, e);
        tree_fini(&t);
    }
    free(path);
    free(dir);
    return rc == -ENOENT ? 0 : rc;
}

int channel_revert(const char *home, struct channel_state *s, struct buf *kept, struct err *e)
{
    struct channel_state back = {.number = s->before_number, .generation = s->before_generation};
    int rc = 0;
    assert(s->may_revert);
    vec_foreach (it, &s->before_files.items) {
        struct tree t;
        char local[SHA256_HEX];
        int read = read_local(home, it, &t, local, NULL);
        if (read == 0 && local[0] != '\0') {
            tree_fini(&t);
        }
        bool ours = read == 0 && strcmp(local, plugin_set_hash(&s->base, it)) == 0;
        if (ours && strcmp(local, it->hash) != 0) {
            int put = restore(home, it, e);
            rc = rc == 0 ? put : rc;
        } else if (read < 0 || strcmp(local, it->hash) != 0) {
            buf_addf(kept, "%s%s", kept->n != 0 ? ", " : "", it->place);
        }
    }
    if (rc < 0) {
        return rc;
    }
    memcpy(back.channel, s->channel, sizeof back.channel);
    plugin_set_copy(&back.base, &s->before_base);
    channel_state_fini(s);
    *s = back;
    return channel_confirm(home, s, e);
}

static bool keep_none(const char *hash, void *arg)
{
    (void)hash;
    (void)arg;
    return false;
}

int channel_confirm(const char *home, struct channel_state *s, struct err *e)
{
    char *dir = path_join(home, KEPT_DIR);
    s->doing = s->may_revert = false;
    plugin_set_fini(&s->before_base);
    plugin_set_fini(&s->before_files);
    int rc = channel_state_save(s, home, e);
    if (rc == 0) {
        (void)versions_prune(dir, keep_none, NULL, NULL);
    }
    free(dir);
    return rc;
}
