// Which file system a path is on, without asking that file system.
//
// stat(2) on a dead network mount hangs, and the keys of work.h exist to contain that. The kernel's mount table
// answers from memory. A line of it reads
//
//     36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw
//           device     mount point, with space, tab, newline and backslash as \ooo
//
// So the table is read on the loop thread, once per job: the kernel asks no file system for a line of it, and
// twenty lines take about 0.1 ms.
//
// The key is made of the device, so that bind mounts of one file system share it. Symbolic links are not
// followed: a link into a dead mount gets the key of where the link is.

#include "base/buf.h"
#include "base/path.h"
#include "loop/work_int.h"

enum { TABLE_MAX = 4 << 20 };

/// The next byte of an escaped name.
static char next_byte(struct str *s)
{
    char c = s->p[0];
    size_t n = 1;
    bool octal = s->n >= 4 && c == '\\' && s->p[1] >= '0' && s->p[1] <= '3';
    if (octal && s->p[2] >= '0' && s->p[2] <= '7' && s->p[3] >= '0' && s->p[3] <= '7') {
        c = (char)((s->p[1] - '0') * 64 + (s->p[2] - '0') * 8 + (s->p[3] - '0'));
        n = 4;
    }
    *s = str_from(*s, n);
    return c;
}

/// Length of the mount point if `path` is on or under it, else 0.
static size_t match(struct str point, const char *path)
{
    size_t n = 0;
    while (point.n != 0) {
        if (next_byte(&point) != path[n]) {
            return 0;
        }
        n++;
    }
    return n == 1 || path[n] == '\0' || path[n] == '/' ? n : 0; // 1: the root
}

uint64_t mount__key(struct str table, const char *path)
{
    uint64_t key = 0;
    size_t best = 0;
    while (table.n != 0) {
        struct str line = str_cut(&table, '\n');
        str_cut(&line, ' '); // id
        str_cut(&line, ' '); // parent
        struct str device = str_cut(&line, ' ');
        str_cut(&line, ' '); // root inside the file system
        size_t n = match(str_cut(&line, ' '), path);
        if (n != 0 && n >= best) { // of two on one point the later covers the earlier
            uint64_t major, minor;
            struct str first = str_cut(&device, ':');
            bool good = str_to_u64(first, &major) && str_to_u64(device, &minor);
            best = n;
            key = good ? (major << 32 | (minor & UINT32_MAX)) + 1 : 0;
        }
    }
    return key;
}

uint64_t work_mount_key(const char *path)
{
    struct buf table = {.max = TABLE_MAX};
    uint64_t key = 0;
    if (path[0] == '/' && path_read("/proc/self/mountinfo", &table, NULL) == 0) {
        char *clean = path_clean(path);
        key = mount__key(buf_str(&table), clean);
        free(clean);
    }
    buf_fini(&table);
    return key;
}
