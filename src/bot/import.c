// Take over an openbot home.
//
//     from/skills/NAME.md                       ──> skills/NAME.md
//     from/bots/BOT/config.md                   ──> bots/BOT/config.md      what ours cannot read: comments
//     from/bots/BOT/skills/                     ──> bots/BOT/skills/
//     from/bots/BOT/memory.json                 ──> memory of each of its workspaces
//     from/bots/BOT/workspaces/SLUG/memory.json ──> bots/BOT/workspaces/SLUG/memory.json
//     from/bots/BOT/workspaces/SLUG/history/    ──> import_history.c
//
// The other home is data of unknown origin: links are not followed, sizes are bounded, and whatever fails is
// an item of the report. Workspaces are not claimed: the first project of that name takes them.

#include <errno.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/skills.h"
#include "base/folder.h"
#include "base/front.h"
#include "base/log.h"
#include "base/path.h"
#include "bot/config.h"
#include "bot/import_int.h"
#include "bot/memory.h"
#include "bot/workspace.h"
#include "store/tree.h"

enum { MENDS = 20 }; // lines of a config.md that are made comments one by one

static const char *const outcome_names[] = {
#define X(id, name) [IMPORT_##id] = (name),
    IMPORT_OUTCOMES(X)
#undef X
};

// ---- the report ---------------------------------------------------------------------------------

void import_report_fini(struct import_report *r)
{
    vec_foreach (it, &r->items) {
        free(it->name);
        free(it->message);
    }
    vec_fini(&r->items);
}

void import__note(struct import *im, enum import_outcome outcome, const char *kind,
                  const char *name, const char *fmt, ...)
{
    struct import_item it = {.outcome = outcome, .kind = kind};
    char message[400];
    assert(outcome < IMPORT_OUTCOME_COUNT);
    im->report->counts[outcome]++;
    if (outcome == IMPORT_KEPT && strcmp(kind, "session") == 0) {
        return; // a second import has thousands of them
    }
    it.name = xstrdup(name);
    if (fmt != NULL) {
        va_list ap;
        va_start(ap, fmt);
        vsnprintf(message, sizeof message, fmt, ap);
        va_end(ap);
        it.message = xstrdup(message);
    }
    vec_push(&im->report->items, it);
}

// ---- their files --------------------------------------------------------------------------------

int import__read(const char *path, struct buf *out, struct err *e)
{
    struct stat st;
    if (lstat(path, &st) < 0) {
        return err_sys(e, "cannot look at '%s'", path);
    }
    if (!S_ISREG(st.st_mode)) {
        return err_set(e, ERR_DENIED, "'%s' is no file of its own", path);
    }
    return path_read(path, out, e);
}

bool import__is_dir(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

char **import__list(const char *dir, size_t *n)
{
    vec(char *) names = {0};
    struct folder f = {0};
    if (import__is_dir(dir)) {
        f = folder_open(dir);
    }
    while (folder_next(&f)) {
        if (f.name[0] != '.' && names.n < IMPORT_ENTRIES) {
            vec_push(&names, xstrdup(f.name));
        }
    }
    str_sort((void *)names.p, names.n);
    *n = names.n;
    return names.p;
}

void import__free_list(char **names, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        free(names[i]);
    }
    free(names);
}

void import__drop(const char *path)
{
    struct err e;
    if (path_remove_tree(path, &e) < 0) {
        log_warn(LOG_STORE, "left=%s error=%s", LOGQ(str_of(path)).z, LOGQ(str_of(e.msg)).z);
    }
}

static const char *join(struct import *im, const char *dir, const char *name)
{
    return arena_printf(&im->arena, "%s/%s", dir, name);
}

// ---- skills -------------------------------------------------------------------------------------

static int write_tree(const struct tree *t, const char *dir, struct err *e)
{
    int rc = 0;
    vec_foreach (f, &t->files) {
        char *path = path_join(dir, f->path);
        char *parent = str_dup(path_dir(str_of(path)));
        rc = rc == 0 ? path_mkdirs(parent, 0700, e) : rc;
        rc = rc == 0 ? path_write_new(path, f->bytes, f->executable ? 0700 : 0600, e) : rc;
        free(parent);
        free(path);
    }
    return rc;
}

/// A directory is made beside and renamed, so that it is there whole or not at all.
static int put_tree(struct import *im, const struct tree *t, const char *dir, const char *name,
                    struct err *e)
{
    const char *to = join(im, dir, name);
    const char *temp = arena_printf(&im->arena, "%s/.import-%s", dir, name);
    import__drop(temp); // of an import that was killed
    bool shared = im->shelf != NULL && t->is_file;
    int rc =
        shared ? shelf_write(im->shelf, to, t->files.p[0].bytes, 0, e) : path_mkdirs(dir, 0700, e);
    if (rc == 0 && t->is_file && !shared) {
        rc = path_write_new(to, t->files.p[0].bytes, 0600, e);
    } else if (rc == 0 && !shared) {
        rc = write_tree(t, temp, e);
        if (rc == 0 && rename(temp, to) < 0) {
            rc = err_sys(e, "cannot make '%s'", to);
        }
        import__drop(temp);
    }
    return rc;
}

/// Why the skill will not be read by us; empty when it will.
static struct err skill_fault(const struct tree *t)
{
    struct err e = {0};
    struct arena a = {0};
    struct skill sk;
    const struct tree_file *f = t->is_file ? &t->files.p[0] : tree_find(t, STR("SKILL.md"));
    if (f == NULL) {
        err_set(&e, ERR_INVALID, "it has no SKILL.md");
    } else if (f->bytes.n > SKILL_BYTES) {
        err_set(&e, ERR_TOO_LARGE, "it is above %d bytes", SKILL_BYTES);
    } else if (skill_parse(&sk, f->bytes, STR("skill"), &a, &e) == 0) {
        e.msg[0] = '\0';
    }
    arena_fini(&a);
    return e;
}

static void take_skill(struct import *im, const char *from, const char *to, const char *name,
                       const char *label)
{
    struct tree t;
    struct err e = {0};
    const char *theirs = join(im, from, name), *ours = join(im, to, name);
    struct stat st;
    struct buf has = {.max = SKILL_BYTES};
    int64_t rev;
    int shared = im->shelf != NULL ? shelf_read(im->shelf, ours, &has, &rev, NULL) : -ENOENT;
    buf_fini(&has);
    if (path_exists(ours) || shared == 0 || shared == ERR_TOO_LARGE) {
        import__note(im, IMPORT_KEPT, "skill", label, NULL);
    } else if (lstat(theirs, &st) == 0 && S_ISLNK(st.st_mode)) {
        import__note(im, IMPORT_FAILED, "skill", label, "'%s' is a symbolic link", theirs);
    } else if (tree_read(&t, theirs, &e) < 0) {
        import__note(im, IMPORT_FAILED, "skill", label, "%s", e.msg);
    } else {
        struct err fault = t.files.n != 0 ? skill_fault(&t) : (struct err){.msg = "it is empty"};
        int rc = t.files.n != 0 ? put_tree(im, &t, to, name, &e) : 0;
        const char *why = rc < 0 ? e.msg : fault.msg;
        enum import_outcome good = fault.msg[0] != '\0' ? IMPORT_WARNED : IMPORT_TAKEN;
        enum import_outcome bad = rc == ERR_CONFLICT ? IMPORT_KEPT : IMPORT_FAILED;
        import__note(im, rc < 0 || t.files.n == 0 ? bad : good, "skill", label,
                     why[0] != '\0' && bad != IMPORT_KEPT ? "%s" : NULL, why);
        tree_fini(&t);
    }
}

/// `bot` is NULL for those of all bots.
static void take_skills(struct import *im, const char *from, const char *to, const char *bot)
{
    size_t n;
    char **names = import__list(from, &n);
    for (size_t i = 0; i < n; i++) {
        if (str_ends(str_of(names[i]), ".md") || import__is_dir(join(im, from, names[i]))) {
            take_skill(im, from, to, names[i], bot != NULL ? join(im, bot, names[i]) : names[i]);
        }
    }
    import__free_list(names, n);
}

// ---- config.md ----------------------------------------------------------------------------------

/// Read `text` as ours; the line of the first error, or 0.
static uint32_t first_error(struct str text, struct err *e, size_t *warnings)
{
    struct bot_config c;
    struct config_diags d;
    uint32_t line = 0;
    bot_config_init(&c);
    config_diags_init(&d);
    if (bot_config_parse(&c, text, "config.md", &d, e) < 0) {
        for (size_t i = 0; i < d.n && line == 0; i++) {
            line = d.p[i].severity == CONFIG_ERROR ? MAX(d.p[i].line, 1) : 0;
        }
    } else if (d.n != 0) {
        err_set(e, ERR_INVALID, "%s", d.p[0].message);
    }
    *warnings = d.n;
    config_diags_fini(&d);
    bot_config_fini(&c);
    return line;
}

/// Put `# ` in front of line `n`, or of every line of the settings when `n` is 0.
static void comment_out(struct buf *text, uint32_t n)
{
    struct buf out = {.max = SIZE_MAX};
    struct str rest = buf_str(text);
    uint32_t line = 0;
    bool in_head = true;
    while (rest.n != 0) {
        struct str at = rest, s = front_line(&rest);
        size_t whole = rest.p != NULL ? (size_t)(rest.p - at.p) : at.n;
        line++;
        bool fence = line == 1 || str_eqz(str_trim(s), "+++");
        in_head = in_head && (line == 1 || !fence);
        if (n != 0 ? line == n : in_head && !fence) {
            buf_addz(&out, "# ");
        }
        buf_add(&out, at.p, whole);
    }
    buf_clear(text);
    buf_adds(text, buf_str(&out));
    buf_fini(&out);
}

/// Make `text` something that we can read; what was wrong is in `why`. False when it cannot be.
static bool mend_config(struct buf *text, struct err *why)
{
    size_t warnings;
    struct err e = {0};
    uint32_t line = first_error(buf_str(text), why, &warnings);
    for (int i = 0; i < MENDS && line > 1; i++) {
        comment_out(text, line);
        line = first_error(buf_str(text), &e, &warnings);
    }
    if (line > 1) {
        comment_out(text, 0);
        line = first_error(buf_str(text), &e, &warnings);
    }
    return line == 0;
}

static void take_config(struct import *im, const char *from, const char *to, const char *bot)
{
    struct buf text = {.max = BOT_CONFIG_BYTES};
    struct err e = {0};
    const char *theirs = join(im, from, "config.md"), *ours = join(im, to, "config.md");
    int rc = path_exists(theirs) ? import__read(theirs, &text, &e) : 0;
    if (path_exists(ours)) {
        import__note(im, IMPORT_KEPT, "bot", bot, NULL);
    } else if (rc < 0 || !mend_config(&text, &e)) {
        import__note(im, IMPORT_FAILED, "bot", bot, "%s", e.msg);
    } else {
        struct err why = {0};
        rc = path_mkdirs(to, 0700, &why);
        rc = rc == 0 ? path_write_new(ours, buf_str(&text), 0600, &why) : rc;
        const char *message = rc < 0 ? why.msg : e.msg;
        enum import_outcome good = e.msg[0] != '\0' ? IMPORT_WARNED : IMPORT_TAKEN;
        import__note(im, rc < 0 ? IMPORT_FAILED : good, "bot", bot,
                     message[0] != '\0' ? "%s" : NULL, message);
    }
    buf_fini(&text);
}

// ---- memory -------------------------------------------------------------------------------------

static int merge_memory(struct shelf *sh, const char *theirs, const char *ours,
                        struct memory_merge *m, struct err *e)
{
    struct buf text = {.max = MEMORY_BYTES};
    struct arena a = {0};
    struct json *v;
    struct json_opts opts = {.dup = JSON_DUP_LAST};
    int rc = import__read(theirs, &text, e);
    rc = rc == 0 ? json_parse(&v, &a, buf_str(&text), &opts, e) : rc;
    if (rc == 0) {
        const struct json *entries = json_get(v, "entries");
        rc = entries != NULL && entries->type == JSON_OBJ
                 ? 0
                 : err_set(e, ERR_INVALID, "'%s' has no object 'entries'", theirs);
        rc = rc == 0 ? path_mkdirs(ours, 0700, e) : rc;
        rc = rc == 0 ? memory_merge(sh, ours, entries, m, e) : rc;
    }
    arena_fini(&a);
    buf_fini(&text);
    return rc;
}

static void take_memory(struct import *im, const char *theirs, const char *ours, const char *label)
{
    struct memory_merge m = {0};
    struct err e = {0};
    if (!path_exists(theirs)) {
        return;
    }
    if (merge_memory(im->shelf, theirs, ours, &m, &e) < 0) {
        import__note(im, IMPORT_FAILED, "memory", label, "%s", e.msg);
    } else if (m.refused != 0) {
        enum import_outcome rest = m.kept != 0 ? IMPORT_KEPT : IMPORT_FAILED;
        import__note(im, m.added != 0 ? IMPORT_WARNED : rest, "memory", label,
                     "%zu added, %zu not taken: no key, too large or too many", m.added, m.refused);
    } else if (m.added != 0) {
        import__note(im, IMPORT_TAKEN, "memory", label, "%zu added", m.added);
    } else {
        import__note(im, IMPORT_KEPT, "memory", label, NULL);
    }
}

// ---- bots ---------------------------------------------------------------------------------------

/// The memory that openbot keeps beside the workspaces counts for each of them; where both have a key the
/// workspace's own wins, for it is taken first.
static void take_workspace(struct import *im, const char *from, const char *to, const char *bot,
                           const char *slug)
{
    const char *theirs = arena_printf(&im->arena, "%s/workspaces/%s", from, slug);
    const char *ours = arena_printf(&im->arena, "%s/workspaces/%s", to, slug);
    const char *label = join(im, bot, slug);
    if (!slug_valid(str_of(slug))) {
        import__note(im, IMPORT_FAILED, "memory", label, "'%s' cannot be a workspace's name", slug);
    } else if (import__is_dir(theirs)) {
        take_memory(im, join(im, theirs, "memory.json"), ours, label);
        take_memory(im, join(im, from, "memory.json"), ours, label);
        import__history(im, join(im, theirs, "history"), ours, label);
    }
}

/// The bot that is called `theirs` there, as `name`.
static void take_bot(struct import *im, const char *theirs, const char *name)
{
    const char *from = arena_printf(&im->arena, "%s/bots/%s", im->from, theirs);
    const char *to = arena_printf(&im->arena, "%s/bots/%s", im->home, name);
    struct err e = {0};
    if (!import__is_dir(from)) {
        import__note(im, IMPORT_FAILED, "bot", name, "it is no directory of its own");
    } else if (bot_name_check(str_of(name), &e) < 0) {
        import__note(im, IMPORT_FAILED, "bot", name,
                     "%s; rename its directory, or import it alone with --as NAME", e.msg);
    } else {
        size_t n;
        char **slugs = import__list(join(im, from, "workspaces"), &n);
        take_config(im, from, to, name);
        take_skills(im, join(im, from, "skills"), join(im, to, "skills"), name);
        for (size_t i = 0; i < n; i++) {
            take_workspace(im, from, to, name, slugs[i]);
        }
        if (n == 0 && path_exists(join(im, from, "memory.json"))) {
            import__note(im, IMPORT_FAILED, "memory", name,
                         "it belongs to no workspace: afloat memory %s set KEY VALUE", name);
        }
        import__free_list(slugs, n);
    }
}

static int take_all(struct import *im, const char *as, struct err *e)
{
    size_t n;
    char **names = import__list(join(im, im->from, "bots"), &n);
    int rc = as == NULL || n == 1
                 ? 0
                 : err_set(e, ERR_INVALID, "a name can be given to one bot, and there are %zu", n);
    if (rc == 0) {
        take_skills(im, join(im, im->from, "skills"), join(im, im->home, "skills"), NULL);
    }
    for (size_t i = 0; i < n && rc == 0; i++) {
        take_bot(im, names[i], as != NULL ? as : names[i]);
    }
    import__free_list(names, n);
    return rc;
}

int import_openbot(struct import_report *r, struct shelf *sh, const char *home, const char *from,
                   const char *as, struct err *e)
{
    struct import im = {.shelf = sh, .home = home, .from = from, .report = r};
    const char *state = join(&im, home, "state");
    int rc = import__is_dir(join(&im, from, "bots")) || import__is_dir(join(&im, from, "skills"))
                 ? path_mkdirs(state, 0700, e)
                 : err_set(e, ERR_NOT_FOUND,
                           "'%s' is no home of openbot: it has neither bots/ nor skills/", from);
    int fd = rc == 0 ? workspace_lock(state, e) : rc;
    if (fd >= 0) {
        rc = take_all(&im, as, e);
        workspace_unlock(fd);
    }
    arena_fini(&im.arena);
    return fd < 0 ? fd : rc;
}

void import_write(const struct import_report *r, struct jw *w)
{
    jw_obj(w);
    for (size_t i = 0; i < IMPORT_OUTCOME_COUNT; i++) {
        jw_kint(w, outcome_names[i], (int64_t)r->counts[i]);
    }
    jw_karr(w, "items");
    vec_foreach (it, &r->items) {
        jw_obj(w);
        jw_kstrz(w, "outcome", outcome_names[it->outcome]);
        jw_kstrz(w, "kind", it->kind);
        jw_kstrz(w, "name", it->name);
        if (it->message != NULL) {
            jw_kstrz(w, "message", it->message);
        }
        jw_end_obj(w);
    }
    jw_end_arr(w);
    jw_end_obj(w);
}
