// What a command changes in the user's checkout: the list before and after it, and the files that were
// clean before.
//
//     git_status ──> the command ──> git_status ──> git_extract of what was clean and is not now
//
// Files that are dirty before the command are the caller's to keep, by their bytes. A clean one is in
// HEAD, and git writes it out again as its checkout did: with line ends, filters and mode.

#include "git/git_int.h"

struct status_job {
    struct git_job j;
    const char *since;
    vec(struct git_dirty) list;
    vec(const char *) dirs;
    struct git_status out;
    git_status_cb *cb;
    void *arg;
};

static struct status_job *self(struct git_job *j)
{
    return container_of(j, struct status_job, j);
}

static void ask_root(struct git_job *j)
{
    job__run(j, "rev-parse", "--show-toplevel", NULL);
    j->cmd.may_fail = true;
}

static int take_root(struct git_job *j, struct err *e)
{
    struct status_job *k = self(j);
    if (j->cmd.code != 0) {
        return job__grumble(j, ERR_NOT_FOUND, j->place.dir, e);
    }
    j->place.dir = k->out.root = job__line(j);
    return 0;
}

static void ask_status(struct git_job *j)
{
    job__run(j, "status", "--porcelain=v2", "--branch", "-z", "--no-renames",
             "--untracked-files=all", "--ignored=matching", "--ignore-submodules=all", NULL);
    job__only_reads(j);
}

/// Skip `n` words; what is left is the path, which may hold spaces.
static struct str after_words(struct str row, unsigned n)
{
    while (n-- > 0) {
        str_cut(&row, ' ');
    }
    return row;
}

/// A row: `1 XY sub mH mI mW hH hI path`, `u XY sub m1 m2 m3 mW h1 h2 h3 path`, `? path`, `! path` or
/// `# branch.oid COMMIT`.
static void take_row(struct status_job *k, struct str row)
{
    struct str words = row, type = str_cut(&words, ' ');
    char c = type.n == 1 ? type.p[0] : '\0';
    struct git_dirty it = {0};
    if (c == '#' && str_starts(words, "branch.oid ")) {
        char *head = arena_strdup(&k->j.arena, after_words(words, 1));
        k->out.head = job__is_id(head) ? head : "";
        return;
    }
    struct str path = c == '1' ? after_words(row, 8) : c == 'u' ? after_words(row, 10) : words;
    if (c == '\0' || strchr("1u?!", c) == NULL || path.n == 0) {
        return;
    }
    it.path = arena_strdup(&k->j.arena, path);
    if (str_ends(path, "/")) {
        vec_push(&k->dirs, it.path);
        return;
    }
    it.in_head = (c == '1' && !str_starts(after_words(row, 3), "000000 ")) || c == 'u';
    vec_push(&k->list, it);
}

static int take_status(struct git_job *j, struct err *e)
{
    struct str rest = buf_str(&j->cmd.out);
    (void)e;
    while (rest.n != 0) {
        take_row(self(j), str_cut(&rest, '\0'));
    }
    return 0;
}

static void ask_moved(struct git_job *j)
{
    struct status_job *k = self(j);
    if (k->since != NULL && *k->out.head != '\0' && strcmp(k->since, k->out.head) != 0) {
        job__run(j, "diff-tree", "-r", "-z", "--name-status", "--no-renames", k->since, k->out.head,
                 NULL);
    }
}

/// Rows `STATUS NUL PATH NUL`.
static int take_moved(struct git_job *j, struct err *e)
{
    struct status_job *k = self(j);
    struct str rest = buf_str(&j->cmd.out);
    (void)e;
    while (rest.n != 0) {
        struct str status = str_cut(&rest, '\0'), path = str_cut(&rest, '\0');
        struct git_dirty it = {
            .path = arena_strdup(&j->arena, path), .in_head = !str_eqz(status, "A"), .moved = true};
        vec_push(&k->list, it);
    }
    return 0;
}

static int by_path(const void *a, const void *b)
{
    return strcmp(((const struct git_dirty *)a)->path, ((const struct git_dirty *)b)->path);
}

/// Each path once. Where both lists have it, what `since` says of it counts: it was there before.
static int sort_list(struct git_job *j, struct err *e)
{
    struct status_job *k = self(j);
    size_t n = 0;
    (void)e;
    if (k->list.n != 0) {
        qsort(k->list.p, k->list.n, sizeof *k->list.p, by_path);
    }
    for (size_t i = 0; i < k->list.n; i++) {
        struct git_dirty *it = &k->list.p[i], *last = n != 0 ? &k->list.p[n - 1] : NULL;
        if (last == NULL || strcmp(last->path, it->path) != 0) {
            k->list.p[n++] = *it;
        } else if (it->moved) {
            *last = *it;
        }
    }
    k->list.n = n;
    return 0;
}

static void report(struct git_job *j, int status, const struct err *e)
{
    struct status_job *k = self(j);
    static const struct git_status nothing = {.root = "", .head = ""};
    k->out.p = k->list.p;
    k->out.n = k->list.n;
    k->out.dirs = (struct git_names){.p = k->dirs.p, .n = k->dirs.n};
    k->cb(k->arg, status, e, status == 0 ? &k->out : &nothing);
    vec_fini(&k->list);
    vec_fini(&k->dirs);
}

struct git_job *git_status(struct git *g, const char *dir, const char *since, git_status_cb *cb,
                           void *arg)
{
    // clang-format off
    static const struct git_step steps[] = {
        STEP_COMMAND("root", ask_root, take_root),
        STEP_COMMAND("status", ask_status, take_status),
        STEP_COMMAND("moved", ask_moved, take_moved),
        STEP_THINK("sort", sort_list),
        STEPS_END
    };
    // clang-format on
    struct status_job *k = job__new(g, sizeof *k, steps, NULL, report);
    k->cb = cb;
    k->arg = arg;
    k->since = since != NULL && *since != '\0' ? job__dup(&k->j, since) : NULL;
    k->out.root = k->out.head = "";
    k->j.place.dir = job__dup(&k->j, dir);
    return &k->j;
}

// ---- files of a commit ---------------------------------------------------------------------------

struct extract_job {
    struct git_job j;
    const char *commit, *into;
    struct git_names paths;
    git_done_cb *cb;
    void *arg;
};

static void write_out(struct git_job *j)
{
    struct extract_job *k = container_of(j, struct extract_job, j);
    j->place.git_dir = j->look.git_dir;
    j->place.work_tree = k->into;
    job__run(j, "--literal-pathspecs", "checkout", "-q", "--no-overlay", k->commit,
             "--pathspec-from-file=-", "--pathspec-file-nul", NULL);
    job__feed(j, &k->paths);
}

static void report_extract(struct git_job *j, int status, const struct err *e)
{
    struct extract_job *k = container_of(j, struct extract_job, j);
    k->cb(k->arg, status, e);
}

struct git_job *git_extract(struct git *g, const char *root, const char *commit,
                            const struct git_names *paths, const char *into, git_done_cb *cb,
                            void *arg)
{
    // clang-format off
    static const struct git_step steps[] = {
        LOOK_STEPS,
        STEP_WORK("temporary index", state__copy_index),
        STEP_COMMAND("write out", write_out, NULL),
        STEPS_END
    };
    // clang-format on
    struct extract_job *k = job__new(g, sizeof *k, steps, NULL, report_extract);
    const char **list = arena_calloc(&k->j.arena, paths->n + 1, sizeof *list);
    for (size_t i = 0; i < paths->n; i++) {
        list[i] = job__dup(&k->j, paths->p[i]);
    }
    k->paths = (struct git_names){.p = list, .n = paths->n};
    k->commit = job__dup(&k->j, commit);
    k->into = job__dup(&k->j, into);
    k->cb = cb;
    k->arg = arg;
    k->j.place.dir = job__dup(&k->j, root);
    return &k->j;
}
