// What was deleted.
//
// Names begin with the time in milliseconds, so that the newest are found last, and are made with mkdir(),
// so that two deletions in the same millisecond do not meet.

#include "bot/trash.h"

#include <assert.h>
#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/path.h"
#include "base/time.h"

enum { TRIES = 100 };

int trash_room(const char *home, const char *name, char **where, struct err *e)
{
    assert(home[0] == '/' && strchr(name, '/') == NULL);
    char *trash = path_join(home, "trash");
    int64_t now = time_wall_ms();
    int rc = path_mkdirs(trash, 0700, e);
    *where = NULL;
    for (int i = 0; rc == 0 && *where == NULL; i++) {
        char *path = xasprintf("%s/%lld-%s", trash, (long long)now + i, name);
        if (mkdir(path, 0700) == 0) {
            *where = path;
            break;
        }
        rc = errno == EEXIST && i < TRIES ? 0 : err_sys(e, "cannot make '%s'", path);
        free(path);
    }
    free(trash);
    return rc;
}

int trash_move(const char *home, const char *name, const char *path, char **where, struct err *e)
{
    char *room;
    int rc = trash_room(home, name, &room, e);
    *where = NULL;
    if (rc < 0) {
        return rc;
    }
    struct str base = path_base(str_of(path));
    char *to = xasprintf("%s/" STR_FMT, room, STR_ARG(base));
    if (rename(path, to) < 0) {
        rc = errno == ENOENT ? err_set(e, ERR_NOT_FOUND, "'%s' was just removed", path)
                             : err_sys(e, "cannot move '%s' to '%s'", path, to);
        rmdir(room);
        free(to);
    } else {
        *where = to;
    }
    free(room);
    return rc;
}
