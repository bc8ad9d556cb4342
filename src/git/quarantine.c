// A git directory for one worktree alone, so that a model can commit without writing the repository.
//
//     REPO/.git  <── objects by alternates, refs copied ── QUARANTINE <── "gitdir:" ── DIR/.git
//         │                                                  writable in the box
//         └── worktrees/ID ── gitdir ──> DIR/.git            (so that git knows DIR and its branch)
//
// In a box nothing beneath REPO/.git can be written (sandbox/box_git.c). The quarantine is a whole
// repository: it has its own objects, refs, index and logs, reads all older objects from REPO, and starts
// with a copy of REPO's branches, tags and remotes. Commits, stashes, branches, even a `gc` in there affect
// nothing else. What was made in it goes into REPO as one checked pack (import.c).
//
// Four files tell git and us where things are: `config`, `commondir` (here: otherwise a model could lead git
// to settings elsewhere), `gitdir` (the worktree's `.git`) and `registration` (REPO/.git/worktrees/ID). A
// session in a box cannot write them. Anything else in a quarantine is the model's: git reads it in a box
// only, and we follow no link that leads out of it. A quarantine in which git cannot work any more is made
// again; then the files are kept, and what was committed only there is lost.

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/path.h"
#include "git/git_int.h"

enum { HEAD_MAX = 4096, ASIDE_MAX = 100 };

// ---- refs ------------------------------------------------------------------------------------

void quarantine__ask_refs(struct git_job *j)
{
    // neither the stash nor what belongs to one checkout: those are the user's alone
    job__run(j, "for-each-ref", "--format=%(objectname) %(refname)", "refs/heads", "refs/tags",
             "refs/remotes", "refs/notes", "refs/replace", NULL);
    j->cmd.cut_ok = true;
}

int quarantine__take_refs(struct git_job *j, struct err *e)
{
    struct str text = buf_str(&j->cmd.out);
    (void)e;
    while (text.n != 0 && text.p[text.n - 1] != '\n') { // too many: the rest is left out
        text.n--;
    }
    j->refs = arena_str(&j->arena, text);
    return 0;
}

// ---- its files -------------------------------------------------------------------------------

static void add_setting(struct buf *out, const char *section, const char *key, const char *value)
{
    char *quoted = job__quote(value);
    buf_addf(out, "[%s]\n\t%s = %s\n", section, key, quoted);
    free(quoted);
}

static void add_path(struct buf *out, const char *section, const char *key, const char *dir,
                     const char *name)
{
    char *path = path_join(dir, name);
    add_setting(out, section, key, path);
    free(path);
}

/// The user's settings, between those of ours that they may change and those that they may not. The name of
/// the author is among the latter, as git reads it in REPO: in a box its file may be out of reach, and an
/// `includeIf "gitdir:..."` does not match here.
static char *write_config(const struct git_job *j, const struct quarantine *q)
{
    struct buf out = {.max = SIZE_MAX};
    bool long_ids = strlen(q->start) == 64;
    buf_addf(&out, "[core]\n\trepositoryformatversion = %d\n\tbare = false\n", long_ids);
    buf_addz(&out, long_ids ? "[extensions]\n\tobjectFormat = sha256\n" : "");
    add_path(&out, "core", "hooksPath", q->common, "hooks");
    add_path(&out, "lfs", "storage", q->common, "lfs");
    add_path(&out, "include", "path", q->common, "config");
    add_path(&out, "include", "path", q->git_dir, "config.worktree"); // may be missing
    add_setting(&out, "user", "name", j->user_name != NULL ? j->user_name : GIT_OUR_NAME);
    add_setting(&out, "user", "email", j->user_email != NULL ? j->user_email : GIT_OUR_EMAIL);
    buf_addz(&out, "[core]\n\tbare = false\n\tfsmonitor = false\n"
                   "[commit]\n\tgpgSign = false\n[tag]\n\tgpgSign = false\n[gc]\n\tauto = 0\n");
    return buf_take(&out, NULL);
}

/// A new file; no sync: after a power cut a quarantine that is not whole is made again.
static int write_new(const char *dir, const char *name, struct str text, struct err *e)
{
    char *path = path_join(dir, name);
    FILE *f = fopen(path, "wxe");
    int rc = f == NULL || fwrite(text.p, 1, text.n, f) != text.n
                 ? err_sys(e, "cannot write '%s'", path)
                 : 0;
    if (f != NULL && fclose(f) != 0 && rc == 0) {
        rc = err_sys(e, "cannot write '%s'", path);
    }
    free(path);
    return rc;
}

/// Rename what is in the way of `path`: nothing is discarded that was not ours.
static void set_aside(const char *path)
{
    for (int i = 0; i < ASIDE_MAX; i++) {
        char *aside = xasprintf("%s-aside%d", path, i);
        bool done = !path_exists(aside) && rename(path, aside) == 0;
        free(aside);
        if (done) {
            return;
        }
    }
}

/// Write `dir/name` unless it holds `text` already; takes over `text`.
static int write_pointer(const char *dir, const char *name, char *text, struct err *e)
{
    char *path = path_join(dir, name);
    struct buf now = {.max = strlen(text) + 1};
    struct stat st;
    int rc = 0;
    bool there = lstat(path, &st) == 0, is_file = there && S_ISREG(st.st_mode);
    if (!is_file || path_read(path, &now, NULL) < 0 || !str_eqz(buf_str(&now), text)) {
        if (there && S_ISDIR(st.st_mode)) {
            set_aside(path);
        } else {
            unlink(path);
        }
        rc = write_new(dir, name, str_of(text), e);
    }
    buf_fini(&now);
    free(path);
    free(text);
    return rc;
}

static int write_pointers(const struct quarantine *q, struct err *e)
{
    int rc = write_pointer(q->dir, "commondir", xstrdup(".\n"), e);
    rc = rc == 0 ? write_pointer(q->dir, "gitdir", xasprintf("%s/.git\n", q->work_tree), e) : rc;
    rc =
        rc == 0 ? write_pointer(q->dir, "registration", xasprintf("%s\n", q->registration), e) : rc;
    // last: from here on it is the worktree's repository
    return rc == 0 ? write_pointer(q->work_tree, ".git", xasprintf("gitdir: %s\n", q->dir), e) : rc;
}

/// HEAD, the branch and all other refs as they are in the repository, settings, and where objects are.
static int write_contents(const struct git_job *j, const struct quarantine *q, struct err *e)
{
    char *objects = path_join(q->common, "objects"), *quoted = job__quote(objects);
    char *alternates = xasprintf("%s\n", quoted);
    char *head = xasprintf("ref: refs/heads/%s\n", q->branch);
    char *ours = xasprintf(" refs/heads/%s\n", q->branch);
    struct buf refs = {.max = SIZE_MAX};
    struct str rest = j->refs;
    buf_addf(&refs, "%s%s", q->tip, ours);
    while (rest.n != 0) {
        struct str line = {rest.p, str_cut(&rest, '\n').n + 1};
        if (!str_ends(line, ours)) {
            buf_adds(&refs, line);
        }
    }
    char *config = write_config(j, q);
    int rc = write_new(q->dir, "HEAD", str_of(head), e);
    rc = rc == 0 ? write_new(q->dir, "packed-refs", buf_str(&refs), e) : rc;
    rc = rc == 0 ? write_new(q->dir, "objects/info/alternates", str_of(alternates), e) : rc;
    rc = rc == 0 ? write_new(q->dir, "config", str_of(config), e) : rc;
    buf_fini(&refs);
    free(config);
    free(ours);
    free(head);
    free(alternates);
    free(quoted);
    free(objects);
    return rc;
}

int quarantine__make(const struct git_job *j, const struct quarantine *q, struct err *e)
{
    static const char *const dirs[] = {"objects/info", "objects/pack", "refs/heads", "refs/tags",
                                       "info"};
    const struct {
        const char *dir, *name;
    } lists[] = {{q->common, "info/exclude"}, // git would otherwise find them in the repository
                 {q->common, "info/attributes"},
                 {q->common, "shallow"},
                 {q->git_dir, "info/sparse-checkout"}};
    assert(q->registration != NULL && q->tip != NULL);
    int rc = path_remove_tree(q->dir, e);
    for (size_t i = 0; i < ARRAY_LEN(dirs) && rc == 0; i++) {
        char *path = path_join(q->dir, dirs[i]);
        rc = path_mkdirs(path, 0700, e);
        free(path);
    }
    rc = rc == 0 ? write_contents(j, q, e) : rc;
    for (size_t i = 0; i < ARRAY_LEN(lists) && rc == 0; i++) {
        char *from = path_join(lists[i].dir, lists[i].name), *to = path_join(q->dir, lists[i].name);
        rc = files__copy(from, to, 0, e);
        free(to);
        free(from);
    }
    return rc == 0 ? write_pointers(q, e) : rc;
}

// ---- after a model has worked there ------------------------------------------------------------

/// Make HEAD and index files, or git would wait for them; replace an invalid HEAD by our branch.
static void put_files_right(const struct quarantine *q)
{
    static const char *const needed[] = {"HEAD", "index"};
    struct stat st;
    for (size_t i = 0; i < ARRAY_LEN(needed); i++) {
        char *path = path_join(q->dir, needed[i]);
        struct buf text = {.max = HEAD_MAX};
        bool there = lstat(path, &st) == 0, good = there && S_ISREG(st.st_mode);
        if (i == 0 && good) {
            good = path_read(path, &text, NULL) == 0;
            char *line = str_dup(str_trim(buf_str(&text)));
            good = good && (str_starts(str_of(line), "ref: refs/") || job__is_id(line));
            free(line);
        }
        if (there && !good) {
            set_aside(path);
        }
        if (i == 0 && !good) {
            char *head = xasprintf("ref: refs/heads/%s\n", q->branch);
            (void)!write_new(q->dir, "HEAD", str_of(head), NULL); // git says why not
            free(head);
        }
        buf_fini(&text);
        free(path);
    }
}

static void put_dirs_right(const struct quarantine *q)
{
    static const char *const needed[] = {"objects", "refs"};
    struct stat st;
    for (size_t i = 0; i < ARRAY_LEN(needed); i++) {
        char *path = path_join(q->dir, needed[i]);
        if (lstat(path, &st) == 0 && !S_ISDIR(st.st_mode)) {
            set_aside(path);
        }
        mkdir(path, 0700); // it is there, or git says why not
        free(path);
    }
}

/// Locks that a killed git has left; a link on the way may lead anywhere inside, never out.
static void remove_locks(const struct quarantine *q)
{
    char *branch = xasprintf("refs/heads/%s", q->branch);
    const char *const locks[] = {"index", "HEAD", "packed-refs", branch};
    int at = open(q->dir, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    for (size_t i = 0; i < ARRAY_LEN(locks) && at >= 0; i++) {
        struct str parent = path_dir(str_of(locks[i])), name = path_base(str_of(locks[i]));
        char *dir = str_dup(parent), *lock = xasprintf(STR_FMT ".lock", STR_ARG(name));
        int fd = path_open_beneath(at, dir, O_PATH | O_DIRECTORY, 0, NULL);
        if (fd >= 0) {
            unlinkat(fd, lock, 0);
            close(fd);
        }
        free(lock);
        free(dir);
    }
    if (at >= 0) {
        close(at);
    }
    free(branch);
}

int quarantine__put_right(const struct quarantine *q, bool *broken, struct err *e)
{
    struct stat dir, file;
    char *config = path_join(q->dir, "config"); // git reads its settings before anything else
    *broken = lstat(q->dir, &dir) != 0 || !S_ISDIR(dir.st_mode) || lstat(config, &file) != 0 ||
              !S_ISREG(file.st_mode);
    free(config);
    if (*broken) {
        return 0;
    }
    put_dirs_right(q);
    put_files_right(q);
    remove_locks(q);
    return write_pointers(q, e);
}
