// From a quarantine into the repository: the commits of a worktree, as one pack that is checked.
//
//     in the box    git pack-objects: what `tips` have and the repository has not ──> a file of ours
//     here          its size, its header: no more objects than a repository should get at once
//     the repository    unpack-objects or index-pack, --strict ──> objects, whole and well formed
//
// This is what a fetch does with untrusted bytes. Only bytes cross the border: git outside the box never
// reads the quarantine, so its settings, hooks, alternates and links have no effect. Git takes the name of
// each object from its content, checks what trees, commits and tags hold, and that all they point at exists.
// Refs are not part of it: the caller names the commits, and moves one branch (keep.c).

#include <assert.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/path.h"
#include "git/git_int.h"

enum { OBJECTS_MAX = 2000000, LOOSE_MAX = 100, HEADER = 12 };
static const uint64_t pack_max = 2ULL << 30;

int import__make_file(struct git_job *j, struct err *e)
{
    struct git_import *i = &j->import;
    int rc = i->tips.n != 0 && j->tmp == NULL ? job__make_tmp(j, e) : 0;
    if (rc == 0 && i->tips.n != 0) {
        char *path = path_join(j->tmp, "pack");
        i->fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        rc = i->fd < 0 ? err_sys(e, "cannot make '%s'", path) : 0;
        free(path);
    }
    return rc;
}

void import__pack(struct git_job *j)
{
    struct git_import *i = &j->import;
    struct buf in = {.max = SIZE_MAX};
    if (i->tips.n == 0) {
        return;
    }
    assert(i->fd > 0);
    for (size_t n = 0; n < i->tips.n; n++) {
        buf_addf(&in, "%s\n", i->tips.p[n]);
    }
    buf_addf(&in, "^%s\n", i->since);
    job__run(j, "pack-objects", "-q", "--revs", "--local", "--delta-base-offset", "--stdout", NULL);
    j->cmd.in = arena_str(&j->arena, buf_str(&in));
    j->cmd.out_fd = i->fd;
    j->cmd.max_file = pack_max;
    buf_fini(&in);
}

int import__check(struct git_job *j, struct err *e)
{
    struct git_import *i = &j->import;
    unsigned char header[HEADER];
    if (i->tips.n == 0) {
        return 0;
    }
    if (pread(i->fd, header, HEADER, 0) != HEADER || memcmp(header, "PACK", 4) != 0) {
        return err_set(e, ERR_CORRUPT, "git made no pack of the work");
    }
    i->n_objects = (uint32_t)header[8] << 24 | (uint32_t)header[9] << 16 |
                   (uint32_t)header[10] << 8 | header[11];
    if (i->n_objects > OBJECTS_MAX) {
        return err_set(e, ERR_TOO_LARGE, "the work has %llu objects, more than %d",
                       (unsigned long long)i->n_objects, OBJECTS_MAX);
    }
    return lseek(i->fd, 0, SEEK_SET) == 0 ? 0 : err_sys(e, "cannot read the pack of the work");
}

void import__take(struct git_job *j)
{
    struct git_import *i = &j->import;
    j->place.dir = j->place.git_dir = i->common;
    j->place.work_tree = j->place.objects = NULL;
    box_free(j->place.box);
    j->place.box = NULL;
    if (i->tips.n == 0 || i->n_objects == 0) {
        return;
    }
    if (i->n_objects < LOOSE_MAX) { // as git does it: a pack for each run would slow the user down
        job__run(j, "unpack-objects", "-q", "--strict", NULL);
    } else {
        job__run(j, "index-pack", "--stdin", "--strict", NULL);
    }
    j->cmd.in_fd = i->fd;
    j->cmd.may_fail = true;
}

int import__taken(struct git_job *j, struct err *e)
{
    return j->cmd.code == 0
               ? 0
               : job__grumble(j, UV_EIO, "the repository refuses the commits made here", e);
}
