// A checkout as it is now, uncommitted changes included, as a tree in the repository.
//
//     the user's index ── copied, with its time ──> an index of ours ── add -A ──> write-tree
//
// With GIT_INDEX_FILE git reads and writes the copy, so the user's index stays as it is byte for byte; only
// new blobs and trees are left in the object store. The copy keeps the time of the original: git trusts a
// file's recorded size and time only when they are older than the index.
//
// `add -A` resolves whatever the index says (unmerged, intent to add) in favour of the files on disk, and
// leaves ignored files alone. It would record an untracked repository in the checkout as a bare link to a
// commit that exists only there; those links are removed again.

#include <assert.h>

#include "base/path.h"
#include "git/git_int.h"

enum { NESTED_MAX = 1000 };

int state__copy_index(struct git_job *j, struct err *e)
{
    int rc = job__make_tmp(j, e);
    if (rc < 0) {
        return rc;
    }
    char *from = path_join(j->look.git_dir, "index");
    j->place.index = arena_printf(&j->arena, "%s/index", j->tmp);
    rc = files__copy(from, j->place.index, 0, e);
    free(from);
    return rc;
}

void state__add(struct git_job *j)
{
    job__run(j, "add", "-A", "--sparse", "--ignore-errors", NULL);
    j->cmd.may_fail = true;
}

int state__added(struct git_job *j, struct err *e)
{
    if (j->cmd.code == 1) { // the rest is in
        struct err said;
        job__grumble(j, 0, "some files could not be taken along", &said);
        job__note(j, "%s", said.msg);
        return 0;
    }
    return j->cmd.code == 0 ? 0 : job__grumble(j, UV_EIO, "git add", e);
}

void state__ask_changes(struct git_job *j)
{
    assert(j->look.head != NULL);
    job__run(j, "diff-index", "--cached", "--raw", "-z", "--no-renames", "--ignore-submodules=none",
             j->look.head, "--", NULL);
}

int state__changes(struct git_job *j, struct err *e)
{
    struct str rest = buf_str(&j->cmd.out);
    struct buf nested = {.max = SIZE_MAX};
    (void)e;
    j->changed = false;
    while (rest.n != 0) {
        struct str meta = str_cut(&rest, '\0'), path = str_cut(&rest, '\0');
        // `:000000 160000 ...`: a link to a commit where nothing was
        if (str_starts(str_from(meta, strlen(":000000 ")), "160000 ") &&
            !str_starts(str_from(meta, 1), "160000 ")) {
            buf_adds(&nested, path);
            buf_addc(&nested, '\0');
        } else {
            j->changed = true;
        }
    }
    j->nested = job__names(j, buf_str(&nested), NESTED_MAX);
    buf_fini(&nested);
    return 0;
}

void state__drop_nested(struct git_job *j)
{
    if (j->nested.n != 0) {
        job__run(j, "update-index", "--force-remove", "-z", "--stdin", NULL);
        job__feed(j, &j->nested);
    }
}

void state__write(struct git_job *j)
{
    if (j->changed) {
        job__run(j, "write-tree", NULL);
        j->cmd.id = &j->tree;
    } else {
        j->tree = j->look.tree;
    }
}
