// What was said in a project, for the arrow keys and Ctrl-R of its next chats.
//
// `$AFLOAT_HOME/history/<slug>`, one JSON string a line. Chats append to it, each line with one write,
// so several can be open at once. A file that has grown too long is written anew when it is read; what
// another chat appends at that moment may be missing from it, as in the history of a shell.

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/slug.h"
#include "cli/chat_int.h"
#include "trust/trust.h"

enum { TEXT_KEPT = 64 << 10, FILE_MAX = 1 << 20 };

static char *path_of(struct chat *t, const char *dir)
{
    struct trust_place place = {0};
    char slug[SLUG_TEXT], *path = NULL;
    if (trust_place_of(&place, t->c->home.dir, dir, NULL) == 0 &&
        asprintf(&path, "%s/history/%s", t->c->home.dir, slug_taken(place.root, 16, slug)) < 0) {
        abort();
    }
    trust_place_fini(&place);
    return path;
}

static void write_entry(struct buf *out, struct str text)
{
    struct jw w;
    jw_init(&w, out);
    jw_str(&w, text);
    buf_addc(out, '\n');
}

static void read_entries(struct chat *t, struct str rest)
{
    while (rest.n != 0) {
        struct arena arena;
        struct json *v = NULL;
        arena_init(&arena);
        if (json_parse(&v, &arena, str_cut(&rest, '\n'), NULL, NULL) == 0) {
            edit_remember(&t->line, json_str(v, ""));
        }
        arena_fini(&arena);
    }
}

// Write the entries that are in memory in place of the file.
static void shorten(struct chat *t)
{
    char *fresh;
    struct buf text;
    if (asprintf(&fresh, "%s.new", t->history) < 0) {
        abort();
    }
    buf_init(&text, SIZE_MAX);
    vec_foreach (line, &t->line.history) {
        write_entry(&text, str_of(*line));
    }
    int fd = open(fresh, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    bool whole = fd >= 0 && write(fd, buf_z(&text), text.n) == (ssize_t)text.n;
    if (fd >= 0) {
        close(fd);
    }
    if (whole && rename(fresh, t->history) != 0) {
        unlink(fresh);
    }
    buf_fini(&text);
    free(fresh);
}

void chat__history_load(struct chat *t, const char *dir)
{
    struct buf text;
    free(t->history);
    t->history = path_of(t, dir);
    int fd = t->history != NULL ? open(t->history, O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0) {
        return; // the first chat of this project
    }
    buf_init(&text, 64 << 20);
    if (cli__read_all(fd, &text, &(struct err){0}) == 0) {
        read_entries(t, buf_str(&text));
        if (text.n > FILE_MAX) {
            shorten(t);
        }
    }
    buf_fini(&text);
    close(fd);
}

void chat__history_add(struct chat *t, struct str text)
{
    char dir[PATH_MAX];
    size_t before = t->line.history.n;
    edit_remember(&t->line, text);
    if (t->history == NULL || t->line.history.n == before || text.n > TEXT_KEPT) {
        return;
    }
    struct buf line;
    buf_init(&line, SIZE_MAX);
    write_entry(&line, text);
    snprintf(dir, sizeof dir, "%s/history", t->c->home.dir);
    bool there = mkdir(dir, 0700) == 0 || errno == EEXIST;
    int fd = there ? open(t->history, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600) : -1;
    if (fd >= 0) {
        ssize_t n = write(fd, line.p, line.n);
        (void)n; // a history is a convenience
        close(fd);
    }
    buf_fini(&line);
}
