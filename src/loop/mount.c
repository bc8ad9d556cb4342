// Which file system a path lies on, without asking that file system.
//
// stat(2) on a dead network mount hangs, and hanging is what the keys of work.h are there to
// contain. The kernel's mount table answers from memory. A line of it reads
//
//     36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw
//           device     mount point, with space, tab, newline and backslash as \ooo
//
// The key is made of the device, so that bind mounts of one file system share it. Symbolic links
// are not followed: a link into a dead mount gets the key of where the link lies.

#include <stdio.h>

#include "base/buf.h"
#include "base/path.h"
#include "loop/work_int.h"

enum { TABLE_MAX = 4 << 20 };

static bool is_octal(struct str s)
{
    return s.n >= 4 && s.p[0] == '\\' && s.p[1] >= '0' && s.p[1] <= '3' && s.p[2] >= '0' &&
           s.p[2] <= '7' && s.p[3] >= '0' && s.p[3] <= '7';
}

/// The next byte of an escaped name.
static char next_byte(struct str *s)
{
    char c = s->p[0];
    size_t n = 1;
    if (is_octal(*s)) {
        c = (char)((s->p[1] - '0') * 64 + (s->p[2] - '0') * 8 + (s->p[3] - '0'));
        n = 4;
    }
    *s = str_from(*s, n);
    return c;
}

/// Length of the mount point if `path` lies on or under it, else 0.
static size_t match(struct str point, const char *path)
{
    size_t n = 0;
    while (point.n != 0) {
        if (next_byte(&point) != path[n]) {
            return 0;
        }
        n++;
    }
    if (n == 1) {
        return 1; // the root
    }
    return path[n] == '\0' || path[n] == '/' ? n : 0;
}

static uint64_t device_key(struct str device)
{
    uint64_t major, minor;
    struct str first = str_cut(&device, ':');
    if (!str_to_u64(first, &major) || !str_to_u64(device, &minor)) {
        return 0;
    }
    return (major << 32 | (minor & UINT32_MAX)) + 1;
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
            best = n;
            key = device_key(device);
        }
    }
    return key;
}

static void read_all(FILE *f, struct buf *out)
{
    char part[8192];
    size_t n;
    while ((n = fread(part, 1, sizeof part, f)) != 0) {
        buf_add(out, part, n);
    }
}

uint64_t work_mount_key(const char *path)
{
    FILE *f = path[0] == '/' ? fopen("/proc/self/mountinfo", "re") : NULL;
    if (f == NULL) {
        return 0;
    }
    struct buf table;
    buf_init(&table, TABLE_MAX);
    read_all(f, &table);
    fclose(f);
    char *clean = path_clean(path);
    uint64_t key = mount__key(buf_str(&table), clean);
    free(clean);
    buf_fini(&table);
    return key;
}
