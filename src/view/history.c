// What was said in a project, for the arrow keys and Ctrl-R of its next chats.
//
// `$AFLOAT_HOME/history/<slug>`, one JSON string a line. Chats append to it, each line with one write,
// so several can be open at once. A file that has grown too long is written anew when it is read; what
// another chat appends at that moment may be missing from it, as in the history of a shell.

#include "view/history.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/json.h"
#include "base/path.h"
#include "base/slug.h"
#include "trust/trust.h"

enum { TEXT_KEPT = 64 << 10, FILE_MAX = 1 << 20 };

char *history_path(const char *home, const char *dir)
{
    struct trust_place place = {0};
    char slug[SLUG_TEXT], *path = NULL;
    if (trust_place_of(&place, home, dir, NULL) == 0) {
        path = xasprintf("%s/history/%s", home, slug_taken(place.root, 16, slug));
    }
    trust_place_fini(&place);
    return path;
}

static void write_entry(struct buf *out, struct str text)
{
    struct jw w = {.out = out};
    jw_str(&w, text);
    buf_addc(out, '\n');
}

static void read_entries(struct edit *ed, struct str rest)
{
    while (rest.n != 0) {
        struct arena arena = {0};
        struct json *v = NULL;
        if (json_parse(&v, &arena, str_cut(&rest, '\n'), NULL, NULL) == 0) {
            edit_remember(ed, json_str(v, ""));
        }
        arena_fini(&arena);
    }
}

// Write the entries that are in memory in place of the file.
static void shorten(const struct edit *ed, const char *path)
{
    struct buf text = {.max = SIZE_MAX};
    vec_foreach (line, &ed->history) {
        write_entry(&text, str_of(*line));
    }
    int rc = path_write_atomic(path, buf_str(&text), 0600, NULL);
    (void)rc; // then it stays long until the next chat
    buf_fini(&text);
}

void history_load(struct edit *ed, const char *path)
{
    struct buf text = {.max = 64 << 20};
    if (path != NULL &&
        path_read(path, &text, NULL) == 0) { // else it is the first chat of this project
        read_entries(ed, buf_str(&text));
        if (text.n > FILE_MAX) {
            shorten(ed, path);
        }
    }
    buf_fini(&text);
}

void history_add(struct edit *ed, const char *path, struct str text)
{
    bool added = edit_remember(ed, text);
    if (path == NULL || !added || text.n > TEXT_KEPT) {
        return;
    }
    char *dir = str_dup(path_dir(str_of(path)));
    struct buf line = {.max = SIZE_MAX};
    write_entry(&line, text);
    bool there = mkdir(dir, 0700) == 0 || errno == EEXIST;
    int flags = O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK;
    int fd = there ? open(path, flags, 0600) : -1;
    if (fd >= 0) {
        ssize_t n = write(fd, line.p, line.n);
        (void)n; // a history is a convenience
        close(fd);
    }
    buf_fini(&line);
    free(dir);
}
