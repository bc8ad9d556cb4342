// Files that come with the program, installed for the user to change.
//
// A template is several files, and half of one is worse than none: a manifest without its code is a plugin that
// fails. So nothing appears in its place before all of it is written:
//
//     check     no file exists (or the user gave --force), no plugin has the name already
//     stage     all files go to a directory `.afloat-template-XXXXXX` in the same root
//     place     missing directories are renamed as a whole, the highest first;
//               a file that exists goes to the trash before the new one takes its name
//     undo      a step that fails takes the earlier ones back, in reverse order
//
// Renames never replace (RENAME_NOREPLACE): a file that appears meanwhile ends the installation.

#include "template/template.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/path.h"
#include "base/vec.h"
#include "template/shipped.h"

static const struct template templates[] = {
#define HOME    false
#define PROJECT true
#define TEMPLATE(na, place, a, de, ne)                                                             \
    {.name = na, .project = place, .as = a, .description = de, .next = ne},
#include "template/templates.def"
#undef TEMPLATE
#undef PROJECT
#undef HOME
};

// ---- what there is ---------------------------------------------------------------------------

const struct template *template_at(size_t i)
{
    return i < ARRAY_LEN(templates) ? &templates[i] : NULL;
}

const struct template *template_find(struct str name)
{
    for (size_t i = 0; i < ARRAY_LEN(templates); i++) {
        if (str_eqz(name, templates[i].name)) {
            return &templates[i];
        }
    }
    return NULL;
}

/// The part of `f->rel` below the directory of the template; NULL: it is another template's.
static const char *below(const struct template *t, const struct shipped *f)
{
    size_t n = strlen(t->name);
    return strncmp(f->rel, t->name, n) == 0 && f->rel[n] == '/' ? f->rel + n + 1 : NULL;
}

const struct shipped *template_file(const struct template *t, size_t i)
{
    for (const struct shipped *f = shipped_templates; f->rel != NULL; f++) {
        if (below(t, f) != NULL && i-- == 0) {
            return f;
        }
    }
    return NULL;
}

static void add_replaced(struct buf *out, struct str text, const char *mark, const char *by)
{
    const char *at;
    while ((at = memmem(text.p, text.n, mark, strlen(mark))) != NULL) {
        buf_add(out, text.p, (size_t)(at - text.p));
        buf_addz(out, by);
        text = str_from(text, (size_t)(at - text.p) + strlen(mark));
    }
    buf_adds(out, text);
}

void template_fill(struct buf *out, struct str text, const char *as)
{
    struct buf named = {.max = SIZE_MAX};
    char *tool = xstrdup(as != NULL ? as : "");
    for (char *p = tool; *p != '\0'; p++) {
        *p = (char)(*p == '-' ? '_' : *p); // models take no '-' in names of tools
    }
    add_replaced(&named, text, "@NAME@", as != NULL ? as : "");
    add_replaced(out, buf_str(&named), "@TOOL@", tool);
    buf_fini(&named);
    free(tool);
}

char *template_path(const struct template *t, const struct shipped *f, const char *as)
{
    struct buf out = {.max = SIZE_MAX};
    const char *rel = below(t, f);
    assert(rel != NULL && (as == NULL) == (t->as == NULL));
    if (as != NULL) {
        add_replaced(&out, str_of(rel), "NAME", as);
    } else {
        buf_addz(&out, rel);
    }
    return buf_take(&out, NULL);
}

// ---- installing ------------------------------------------------------------------------------

struct move {
    char *from, *to;
};

struct install {
    const struct template *t;
    const char *as, *root, *trash;
    char *stage;
    vec(struct move) moves; // done, in order
    struct err *e;
};

/// A plugin that has the name of the one in `path` already, in another form: greet.py for greet.lua. Caller frees.
static char *other_form(const struct install *in, const char *path)
{
    static const char *const endings[] = {"", ".lua", ".py", ".mjs", ".js", ".ts", ".c"};
    struct str rest = str_of(path + strlen("plugins/")), own = str_cut(&rest, '/');
    struct str stem = own, name = str_cut(&stem, '.');
    for (size_t i = 0; i < ARRAY_LEN(endings); i++) {
        char *form = xasprintf(STR_FMT "%s", STR_ARG(name), endings[i]);
        char *full = xasprintf("%s/plugins/%s", in->root, form);
        bool taken = !str_eqz(own, form) && path_exists(full);
        free(form);
        if (taken) {
            return full;
        }
        free(full);
    }
    return NULL;
}

/// Refuse a path with a symbolic link among its directories: a foreign repository may contain links.
static int refuse_links(const struct install *in, const char *path)
{
    int rc = 0;
    for (const char *end = strchr(path, '/'); rc == 0 && end != NULL; end = strchr(end + 1, '/')) {
        char *part = xasprintf("%s/%.*s", in->root, (int)(end - path), path);
        struct stat st;
        if (lstat(part, &st) == 0 && S_ISLNK(st.st_mode)) {
            rc = err_set(in->e, ERR_DENIED, "'%s' is a symbolic link; remove it first", part);
        }
        free(part);
    }
    return rc;
}

static int check_file(struct install *in, const struct shipped *f, const char *path)
{
    (void)f;
    char *full = path_join(in->root, path);
    char *other = str_starts(str_of(path), "plugins/") ? other_form(in, path) : NULL;
    int rc = in->t->project ? refuse_links(in, path) : 0;
    if (rc == 0 && other != NULL) {
        rc = err_set(in->e, ERR_CONFLICT,
                     "there is a plugin of that name already: '%s'; 'afloat plugin remove' moves "
                     "it to the trash",
                     other);
    } else if (rc == 0 && in->trash == NULL && path_exists(full)) {
        rc = err_set(in->e, ERR_CONFLICT, "'%s' exists already; '--force' moves it to the trash",
                     full);
    }
    free(other);
    free(full);
    return rc;
}

static int stage_file(struct install *in, const struct shipped *f, const char *path)
{
    struct buf text = {.max = SIZE_MAX};
    char *full = path_join(in->stage, path), *dir = str_dup(path_dir(str_of(full)));
    template_fill(&text, (struct str){f->text, f->n}, in->as);
    int rc = path_mkdirs(dir, in->t->project ? 0755 : 0700, in->e);
    if (rc == 0) {
        rc = path_write_atomic(full, buf_str(&text), in->t->project ? 0644 : 0600, in->e);
    }
    free(dir);
    free(full);
    buf_fini(&text);
    return rc;
}

/// Rename, and remember it for the case that a later step fails.
static int move(struct install *in, const char *from, const char *to)
{
    if (renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) == 0) {
        vec_push(&in->moves, ((struct move){xstrdup(from), xstrdup(to)}));
        return 0;
    }
    if (errno == EXDEV) {
        return err_set(in->e, ERR_CONFLICT,
                       "'%s' is on another file system than '%s': move it away by hand", from, to);
    }
    return errno == EEXIST ? err_set(in->e, ERR_CONFLICT, "'%s' exists already", to)
                           : err_sys(in->e, "cannot put '%s' in its place", to);
}

/// Move a file that is in the way to the trash.
static int put_aside(struct install *in, const char *path)
{
    char *from = path_join(in->root, path), *to = path_join(in->trash, path);
    char *dir = str_dup(path_dir(str_of(to)));
    int rc = path_mkdirs(dir, 0700, in->e);
    if (rc == 0) {
        rc = move(in, from, to);
    }
    free(dir);
    free(to);
    free(from);
    return rc;
}

/// Move a staged file, or the highest directory of it that the root does not have, into its place.
static int place_file(struct install *in, const struct shipped *f, const char *path)
{
    (void)f;
    char *part = xstrdup(path);
    int rc = 0;
    for (char *slash = strchr(part, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        char *there = path_join(in->root, part);
        bool missing = !path_exists(there);
        free(there);
        if (missing) {
            break; // `part` ends here
        }
        *slash = '/';
    }
    char *staged = path_join(in->stage, part), *full = path_join(in->root, part);
    bool waits = path_exists(staged); // else it came with the directory of an earlier file
    if (waits && in->trash != NULL && path_exists(full)) {
        rc = put_aside(in, part);
    }
    if (waits && rc == 0) {
        rc = move(in, staged, full);
    }
    free(full);
    free(staged);
    free(part);
    return rc;
}

/// Run `step` for every file of the template; the first failure ends it.
static int each_file(struct install *in,
                     int (*step)(struct install *in, const struct shipped *f, const char *path))
{
    const struct shipped *f;
    int rc = 0;
    for (size_t i = 0; rc == 0 && (f = template_file(in->t, i)) != NULL; i++) {
        char *path = template_path(in->t, f, in->as);
        rc = step(in, f, path);
        free(path);
    }
    return rc;
}

/// Forget the moves, or undo them.
static void end_moves(struct install *in, bool undo)
{
    while (in->moves.n != 0) {
        struct move m = vec_pop(&in->moves);
        if (undo && rename(m.to, m.from) != 0) {
            err_set(in->e, ERR_CONFLICT, "'%s' could not be moved back to '%s'", m.to, m.from);
        }
        free(m.from);
        free(m.to);
    }
    vec_fini(&in->moves);
}

int template_install(const struct template *t, const char *as, const char *root, const char *trash,
                     struct err *e)
{
    struct install in = {.t = t, .as = as, .root = root, .trash = trash, .e = e};
    int rc = each_file(&in, check_file);
    if (rc == 0) {
        rc = path_mkdirs(root, 0700, e);
    }
    if (rc < 0) {
        return rc;
    }
    in.stage = xasprintf("%s/.afloat-template-XXXXXX", root);
    if (mkdtemp(in.stage) == NULL) {
        rc = err_sys(e, "cannot write in '%s'", root);
    } else {
        rc = each_file(&in, stage_file);
        rc = rc == 0 ? each_file(&in, place_file) : rc;
        end_moves(&in, rc < 0);
        int left = path_remove_tree(in.stage, NULL);
        (void)left; // the installation is as it is
    }
    free(in.stage);
    return rc;
}
