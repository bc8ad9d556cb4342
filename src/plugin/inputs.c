// What code read while it loaded: paths, each with a mark of what was there.
//
// The mark is taken before the read. A file that changes between the two has another mark than the one
// noted and is loaded once more, where the other order would miss the change.

#include "plugin/inputs.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/folder.h"
#include "base/map.h"

static const uint64_t seed[2] = {7, 8};

enum { READ_MAX = 1 << 20 }; // of what code may read while it loads

uint64_t plugin_input_mark(const char *path)
{
    struct stat st;
    uint64_t mark = 1;
    if (stat(path, &st) < 0) {
        return 0;
    }
    if (S_ISDIR(st.st_mode)) { // a sum: the order in which names come does not matter
        mark = 2;
        for (struct folder f = folder_open(path); folder_next(&f);) {
            mark += map_hash_seeded(seed, str_of(f.name));
        }
        return mark;
    }
    bool read_it = S_ISREG(st.st_mode) && st.st_size <= READ_MAX;
    int fd = read_it ? open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1;
    if (fd < 0) {
        const int64_t facts[] = {(int64_t)st.st_ino, st.st_size, st.st_mtim.tv_sec,
                                 st.st_mtim.tv_nsec};
        return map_hash_seeded(seed, (struct str){(const char *)facts, sizeof facts}) | 1;
    }
    char bytes[1 << 16];
    for (ssize_t n; (n = read(fd, bytes, sizeof bytes)) > 0;) {
        mark = mark * 31 + map_hash_seeded(seed, (struct str){bytes, (size_t)n});
    }
    close(fd);
    return mark != 0 ? mark : 1;
}

static struct plugin_input *find(struct plugin_inputs *in, const char *path)
{
    vec_foreach (it, &in->list) {
        if (strcmp(it->path, path) == 0) {
            return it;
        }
    }
    return NULL;
}

void plugin_inputs_add(struct plugin_inputs *in, const char *path)
{
    if (find(in, path) == NULL) { // the first mark counts: code may have used what it read then
        struct plugin_input it = {.path = xstrdup(path), .mark = plugin_input_mark(path)};
        vec_push(&in->list, it);
    }
}

void plugin_inputs_own(struct plugin_inputs *in, const char *path)
{
    struct plugin_input *it = find(in, path);
    if (it != NULL) {
        it->own = true;
    } else {
        vec_push(&in->list, ((struct plugin_input){.path = xstrdup(path), .own = true}));
    }
}

void plugin_inputs_fini(struct plugin_inputs *in)
{
    vec_foreach (it, &in->list) {
        free(it->path);
    }
    vec_fini(&in->list);
}
