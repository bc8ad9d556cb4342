// Session numbers.
//
// The last number is in `session_number`, replaced by rename under the workspace's lock before it is given out: a
// process that is killed then has used it up. A workspace without the file, or with an invalid one, begins above the
// highest number of its history, so a number is never given out twice, even after a loss.

#include "bot/history_number.h"

#include <errno.h>

#include "base/folder.h"
#include "base/json.h"
#include "base/path.h"
#include "bot/workspace.h"

enum { NUMBER_BYTES = 64, META_BYTES = 16 << 20 };

static uint64_t number_of_session(const char *history, const char *id)
{
    struct buf text = {.max = META_BYTES};
    struct arena a = {0};
    struct json *meta;
    uint64_t number = 0;
    char *path = xasprintf("%s/%s/metadata.json", history, id);
    if (path_read(path, &text, NULL) == 0 &&
        json_parse(&meta, &a, buf_str(&text), NULL, NULL) == 0) {
        int64_t n = json_int(json_get(meta, "session_number"), 0);
        number = n > 0 ? (uint64_t)n : 0;
    }
    arena_fini(&a);
    buf_fini(&text);
    free(path);
    return number;
}

/// The highest number in the history.
static int scan_history(const char *dir, uint64_t *last, struct err *e)
{
    char *history = path_join(dir, "history");
    struct folder f = folder_open(history);
    int rc = f.stream != NULL || errno == ENOENT ? 0 : err_sys(e, "cannot list '%s'", history);
    *last = 0;
    while (folder_next(&f)) {
        if (f.name[0] != '.') {
            *last = MAX(*last, number_of_session(history, f.name));
        }
    }
    free(history);
    return rc;
}

static int read_last(const char *dir, const char *path, uint64_t *last, struct err *e)
{
    struct buf text = {.max = NUMBER_BYTES};
    int rc = path_read(path, &text, e);
    bool good = rc == 0 && str_to_u64(str_trim(buf_str(&text)), last) && *last < INT64_MAX;
    buf_fini(&text);
    bool gone = rc == -ENOENT || rc == 0 || rc == ERR_TOO_LARGE;
    return good ? 0 : gone ? scan_history(dir, last, e) : rc;
}

/// Move the last number on: by one, or to `at_least`.
static int move_on(struct shelf *sh, const char *dir, uint64_t at_least, uint64_t *out,
                   struct err *e)
{
    uint64_t last = 0;
    if (sh != NULL) {
        return shelf_number(sh, dir, at_least, out, e);
    }
    int fd = workspace_lock(dir, e);
    if (fd < 0) {
        return fd;
    }
    char *path = path_join(dir, "session_number");
    int rc = read_last(dir, path, &last, e);
    uint64_t next = at_least != 0 ? MAX(last, at_least) : last + 1;
    char line[NUMBER_BYTES];
    snprintf(line, sizeof line, "%llu\n", (unsigned long long)next);
    rc = rc == 0 ? path_write_atomic(path, str_of(line), 0600, e) : rc;
    free(path);
    workspace_unlock(fd);
    *out = next;
    return rc;
}

int history_number_take(struct shelf *sh, const char *dir, uint64_t *out, struct err *e)
{
    return move_on(sh, dir, 0, out, e);
}

int history_number_raise(struct shelf *sh, const char *dir, uint64_t n, struct err *e)
{
    uint64_t ignored;
    return n == 0 ? 0 : move_on(sh, dir, MIN(n, (uint64_t)INT64_MAX - 1), &ignored, e);
}
