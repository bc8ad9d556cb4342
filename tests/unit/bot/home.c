#include "unit/bot/home.h"

#include <dirent.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/path.h"

const char *at(const char *fmt, ...)
{
    static char buffers[8][1024];
    static unsigned next;
    char *out = buffers[next++ % 8];
    int n = snprintf(out, sizeof buffers[0], "%s/", test_dir());
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(out + n, sizeof buffers[0] - (size_t)n, fmt, ap);
    va_end(ap);
    return out;
}

void put_bytes(const char *rel, struct str bytes)
{
    char *path = path_join(test_dir(), rel);
    char *dir = str_dup(path_dir(str_of(path)));
    CHECK_INT(path_mkdirs(dir, 0700, NULL), 0);
    CHECK_INT(path_write_atomic(path, bytes, 0600, NULL), 0);
    free(dir);
    free(path);
}

void put_file(const char *rel, const char *text)
{
    put_bytes(rel, str_of(text));
}

void make_dir(const char *rel)
{
    CHECK_INT(path_mkdirs(at("%s", rel), 0700, NULL), 0);
}

const char *text_of(const char *path)
{
    static struct buf kept[16]; // static: not a leak
    static unsigned next;
    struct buf *b = &kept[next++ % 16];
    buf_fini(b);
    buf_init(b, SIZE_MAX);
    if (path_read(path, b, NULL) < 0) {
        return "";
    }
    return buf_z(b);
}

bool is_there(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0;
}

size_t count_in(const char *path)
{
    size_t n = 0;
    DIR *d = opendir(path);
    for (struct dirent *it = d != NULL ? readdir(d) : NULL; it != NULL; it = readdir(d)) {
        n += strcmp(it->d_name, ".") != 0 && strcmp(it->d_name, "..") != 0;
    }
    if (d != NULL) {
        closedir(d);
    }
    return n;
}

/// Wait until everybody is there: the pipe is closed for all of them at once.
static void wait_for_start(int gate[2])
{
    char none;
    close(gate[1]);
    CHECK_INT(read(gate[0], &none, 1), 0);
    close(gate[0]);
}

void in_processes(int n, void (*work)(int i))
{
    pid_t pids[32];
    int gate[2];
    (void)test_dir(); // one for all of them
    CHECK_INT(pipe(gate), 0);
    for (int i = 0; i < n; i++) {
        pids[i] = fork();
        CHECK(pids[i] >= 0);
        if (pids[i] == 0) {
            wait_for_start(gate);
            work(i);
            _exit(0);
        }
    }
    close(gate[0]);
    close(gate[1]);
    for (int i = 0; i < n; i++) {
        int status;
        CHECK(waitpid(pids[i], &status, 0) == pids[i]);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
}
