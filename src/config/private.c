// Files that hold secrets: read only when no other user could have read or written them.
//
// The checks are made on the open file, not on its name, so that nothing can be put in its place
// between check and read. A symbolic link is refused: another user could point it at a file of ours
// that he wants to be read.

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/path.h"
#include "config/private_int.h"

static int check_owner(const char *path, const struct stat *st, struct err *e)
{
    if (!S_ISREG(st->st_mode)) {
        return err_set(e, ERR_DENIED, "'%s' is not a regular file", path);
    }
    if (st->st_uid != geteuid()) {
        return err_set(e, ERR_DENIED, "file belongs to user %u; run: sudo chown %u '%s'",
                       (unsigned)st->st_uid, (unsigned)geteuid(), path);
    }
    if ((st->st_mode & 077) != 0) {
        return err_set(e, ERR_DENIED, "file is open to other users; run: chmod 600 '%s'", path);
    }
    return 0;
}

int private__read(const char *path, struct buf *out, struct err *e)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);

    if (fd < 0 && errno == ENOENT) {
        return err_set(e, ERR_NOT_FOUND, "there is no '%s'", path);
    }
    if (fd < 0 && errno == ELOOP) {
        return err_set(e, ERR_DENIED, "'%s' is a symbolic link", path);
    }
    if (fd < 0) {
        return err_sys(e, "cannot open '%s'", path);
    }
    int rc =
        fstat(fd, &st) == 0 ? check_owner(path, &st, e) : err_sys(e, "cannot look at '%s'", path);
    if (rc == 0 && (rc = path_read_fd(fd, out, &st)) < 0) {
        err_set(e, rc, "cannot read '%s': %s", path, err_text(rc));
    }
    close(fd);
    return rc;
}
