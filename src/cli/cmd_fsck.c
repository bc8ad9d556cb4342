// Checking what is stored, with the home to ourselves.
//
// The same lock that makes a hub the only one keeps hubs out while we read and repair. We write our pid
// into it too, so that a hub that is started meanwhile names the right process, and a second line, so that `stop`
// does not take us for a hub. A home that cannot be written can still be checked: no hub can start in it either.

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include "cli/call.h"
#include "client/holder.h"
#include "config/instance.h"
#include "store/fsck.h"

// The lock's file, or -1 with errno. Without it on a read-only disk there is nothing to lock, and
// what holds its place is the directory.
static int open_lock(struct cli *c, bool *writable)
{
    const char *path = c->home.lock;
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    *writable = fd >= 0;
    if (fd < 0 && (errno == EROFS || errno == EACCES) && !args_has(&c->args, FLAG_REPAIR)) {
        fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
        if (fd < 0 && errno == ENOENT) {
            fd = open(c->home.dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        }
    }
    return fd;
}

int cli__take_home(struct cli *c, int *fd)
{
    const char *path = c->home.lock;
    char text[32];
    bool writable;
    *fd = open_lock(c, &writable);
    if (*fd < 0) {
        int fault = errno; // telling it may change errno
        if (fault == ENOENT) {
            out_error(&c->out, "there is no home at '%s': nothing is stored yet", c->home.dir);
        } else {
            out_error(&c->out, "cannot open '%s': %s", path, err_text(-fault));
        }
        return fault == ENOENT ? EXIT_NOT_FOUND : EXIT_FAILED;
    }
    if (flock(*fd, LOCK_EX | LOCK_NB) < 0) {
        pid_t tool = holder_find_tool(&c->home);
        out_error(&c->out,
                  tool != 0
                      ? "the home is in use by process %ld; try again when it has ended"
                      : "the home is in use by process %ld; 'afloat stop --wait' ends the hub",
                  (long)(tool != 0 ? tool : holder_find(&c->home)));
        close(*fd);
        return EXIT_CONFLICT;
    }
    int n = snprintf(text, sizeof text, "%ld\n" INSTANCE_TOOL "\n", (long)getpid());
    if (writable && (ftruncate(*fd, 0) < 0 || pwrite(*fd, text, (size_t)n, 0) != n)) {
        out_error(&c->out, "cannot write '%s': %s", path, err_text(-errno));
        close(*fd);
        return EXIT_FAILED;
    }
    return EXIT_OK;
}

static bool has_open_errors(struct str report)
{
    struct arena arena = {0};
    struct json *v = NULL;
    bool found = false;
    int rc = json_parse(&v, &arena, report, NULL, NULL); // our own writing
    json_foreach_item (f, rc == 0 ? json_get(v, "findings") : NULL) {
        found = found || (str_eqz(json_get_text(f, "severity"), "error") &&
                          !json_bool(json_get(f, "repaired"), false));
    }
    arena_fini(&arena);
    return found;
}

int cmd_fsck(struct cli *c)
{
    const struct layout findings = {
        "findings",
        COLUMNS(COL("SEVERITY", STATE, "{repaired?repaired}||{severity}"), COL("KIND", WORD, NULL),
                COL("PATH", ID, NULL), COL("MESSAGE", LONG, NULL)),
        NULL};
    struct fsck_counts n = {0};
    struct buf report = {.max = FSCK_REPORT_MAX};
    struct err e = {0};
    int fd;
    int code = cli__take_home(c, &fd);
    if (code != EXIT_OK) {
        return code;
    }
    int rc = fsck_run(c->home.dir, args_has(&c->args, FLAG_REPAIR), &report, &n, &e);
    if (rc < 0) {
        code = cli__fail(c, &e);
    } else {
        buf_addc(&report, '\n');
        show_local(c, &findings, buf_str(&report));
        code = has_open_errors(buf_str(&report)) ? EXIT_FAILED : EXIT_OK;
    }
    if (rc == 0 && !c->json) {
        out_addf(&c->out, "%zu sessions checked, %zu faults found, %zu repaired\n", n.sessions,
                 n.found, n.repaired);
    }
    buf_fini(&report);
    close(fd);
    return code;
}
