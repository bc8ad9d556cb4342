// The files below a directory, by name, to complete a name that the user types.
//
// Near ones come first, a level after the other: a tree with more files than an answer holds still has all those at its
// top. What version control and package managers keep is left out (watch_ignore_default); links are not followed.

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "api/api_int.h"
#include "api/handlers.h"
#include "base/folder.h"
#include "base/vec.h"
#include "loop/work.h"
#include "watch/ignore.h"

enum { NAMES_MAX = 20000, DIRS_MAX = 20000 };

struct search {
    struct op_call *call;
    char *dir;
    struct buf answer;
    int error;         // errno of `dir` itself
    vec(char *) below; // directories, relative to `dir`, in the order in which they are read
    size_t n;          // names so far
    bool more;
};

/// Read one directory; "" is the first.
static void read_dir(struct search *s, struct jw *w, const char *rel)
{
    const char *slash = rel[0] != '\0' ? "/" : "";
    char *path = xasprintf("%s%s%s", s->dir, slash, rel);
    struct folder f = folder_open(path);
    if (f.stream == NULL && rel[0] == '\0') {
        s->error = errno;
    }
    while (folder_next(&f)) {
        struct stat st;
        char *name = xasprintf("%s%s%s", rel, slash, f.name);
        bool dir =
            f.type == DT_DIR || (f.type == DT_UNKNOWN &&
                                 fstatat(dirfd(f.stream), f.name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
                                 S_ISDIR(st.st_mode));
        bool left_out = ignore_match(watch_ignore_default, str_of(name), dir);
        bool full = dir ? s->below.n >= DIRS_MAX : s->n >= NAMES_MAX;
        s->more = s->more || (full && !left_out);
        if (dir && !left_out && !full) {
            vec_push(&s->below, name);
            continue;
        }
        if (!left_out && !full) {
            jw_strz(w, name);
            s->n++;
        }
        free(name);
    }
    free(path);
}

static void search(void *arg)
{
    struct search *s = arg;
    struct jw w = {.out = &s->answer};
    jw_obj(&w);
    jw_kstrz(&w, "dir", s->dir);
    jw_karr(&w, "names");
    read_dir(s, &w, "");
    size_t i = 0;
    for (; i < s->below.n && s->n < NAMES_MAX; i++) {
        read_dir(s, &w, s->below.p[i]);
    }
    s->more = s->more || i < s->below.n;
    jw_end_arr(&w);
    jw_kbool(&w, "more", s->more);
    jw_end_obj(&w);
}

static void on_searched(void *arg)
{
    struct search *s = arg;
    api__answer_list(s->call, s->dir, s->error, &s->answer);
    vec_fini_each(&s->below, free);
    free(s);
}

void op_FILES_FIND(struct api *api, struct op_call *c)
{
    struct str dir = json_get_text(c->params, "dir");
    if (api__require_path(api, c, dir)) {
        struct search *s = xcalloc(1, sizeof *s);
        *s = (struct search){.call = c, .dir = str_dup(dir), .answer = {.max = SIZE_MAX}};
        work_submit(api__page_lane(api), work_mount_key(s->dir), search, on_searched, s);
    }
}
