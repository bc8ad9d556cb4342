// The tools that read and write one file, and the one that lists.
//
// All of it runs on the lane. A text that is too long for the model is given in parts that end at a line, with
// the number of the next line; nothing here is stored in the outputs directory.

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/tool_int.h"
#include "base/path.h"
#include "base/utf8.h"
#include "base/vec.h"

enum { LINES = 2000, ENTRIES_MAX = 2000, DEPTH_MAX = 20 };

/// The member `path` of the input as an absolute path.
static int input_path(struct tool_job *c, const char *fallback, char **out, struct err *e)
{
    return tool__path(c, json_str(json_get(c->input, "path"), fallback), out, e);
}

// ---- read_file -------------------------------------------------------------------------------

static struct str cut_line(struct str *rest)
{
    ptrdiff_t i = str_index(*rest, '\n');
    struct str line = {rest->p, i >= 0 ? (size_t)i + 1 : rest->n};
    *rest = str_from(*rest, line.n);
    return line;
}

/// Lines `first` to `first + limit - 1`, as far as they fit; a first line that does not is cut.
static void add_lines(struct buf *out, struct str text, int64_t first, int64_t limit)
{
    int64_t number = 1;
    while (text.n != 0 && number < first) {
        cut_line(&text);
        number++;
    }
    if (text.n == 0 && first > 1) {
        buf_addf(out, "[the file has %lld lines]\n", (long long)number - 1);
    }
    while (text.n != 0 && number - first < limit) {
        struct str rest = text, line = cut_line(&rest);
        if (out->n != 0 && out->n + line.n > TOOL_OUTPUT_MAX) {
            break;
        }
        size_t n = utf8_cut(line.p, line.n, TOOL_OUTPUT_MAX - out->n);
        buf_add(out, line.p, n);
        if (n < line.n) {
            buf_addf(out, "\n[%zu bytes of this line left out]\n", line.n - n);
        }
        text = rest;
        number++;
    }
    if (text.n != 0) {
        buf_addf(out, "[more follows: go on with offset %lld]\n", (long long)number);
    }
}

/// Read the file that the input names; the caller ends `text` in any case.
static int read_named(struct tool_job *c, char **path, struct buf *text, struct err *e)
{
    buf_init(text, TOOL_FILE_MAX);
    int rc = input_path(c, "", path, e);
    return rc == 0 ? tool__read_file(c, *path, text, e) : rc;
}

static int read_file(struct tool_job *c, struct err *e)
{
    struct buf text;
    char *path;
    int rc = read_named(c, &path, &text, e);
    if (rc == 0) {
        add_lines(&c->text, buf_str(&text), json_int(json_get(c->input, "offset"), 1),
                  json_int(json_get(c->input, "limit"), LINES));
    }
    buf_fini(&text);
    return rc;
}

const struct tool_ops tool_READ_FILE = {
    .start = tool__start_job, .cancel = tool__cancel_job, .work = read_file};

// ---- write_file, edit_file -------------------------------------------------------------------

static int write_file(struct tool_job *c, struct err *e)
{
    struct str text = json_get_text(c->input, "content");
    char *path;
    int rc = input_path(c, "", &path, e);
    if (rc == 0 && text.n > TOOL_FILE_MAX) {
        rc = err_set(e, ERR_TOO_LARGE, "content is larger than %d MiB", TOOL_FILE_MAX >> 20);
    }
    if (rc == 0) {
        rc = tool__write(c, path, text, e);
    }
    if (rc == 0) {
        buf_addf(&c->text, "wrote %zu bytes to %s\n", text.n, path);
    }
    return rc;
}

const struct tool_ops tool_WRITE_FILE = {
    .start = tool__start_job, .cancel = tool__cancel_job, .work = write_file};

static size_t count(struct str text, struct str what)
{
    size_t n = 0;
    const char *at;
    while ((at = memmem(text.p, text.n, what.p, what.n)) != NULL) {
        text = str_from(text, (size_t)(at - text.p) + what.n);
        n++;
    }
    return n;
}

/// Models write line feeds. If all lines of `text` end in CR LF and `given` has no CR, return `given` with CR LF, in
/// `room`.
static struct str fit_lines(struct str text, struct str given, struct buf *room)
{
    size_t lines = count(text, STR("\n"));
    if (lines == 0 || lines != count(text, STR("\r\n")) || str_index(given, '\r') >= 0) {
        return given;
    }
    for (size_t i = 0; i < given.n; i++) {
        buf_adds(room, given.p[i] == '\n' ? STR("\r\n") : (struct str){given.p + i, 1});
    }
    return buf_str(room);
}

static int replace(struct tool_job *c, const char *path, struct str text, struct str old,
                   struct str new, struct err *e)
{
    struct buf changed = {.max = TOOL_FILE_MAX};
    size_t n = count(text, old);
    if (n == 0) {
        return err_set(e, ERR_NOT_FOUND, "'old' does not occur in '%s': read the file again", path);
    }
    if (n > 1 && !json_bool(json_get(c->input, "all"), false)) {
        return err_set(e, ERR_CONFLICT,
                       "'old' occurs %zu times in '%s': give more of what is around it, or set all",
                       n, path);
    }
    int rc = 0;
    const char *at;
    while ((at = memmem(text.p, text.n, old.p, old.n)) != NULL) {
        size_t before = (size_t)(at - text.p);
        buf_add(&changed, text.p, before);
        buf_adds(&changed, new);
        text = str_from(text, before + old.n);
    }
    buf_adds(&changed, text);
    if (!buf_ok(&changed)) {
        rc = err_set(e, ERR_TOO_LARGE, "'%s' would be larger than %d MiB", path,
                     TOOL_FILE_MAX >> 20);
    } else {
        rc = tool__write(c, path, buf_str(&changed), e);
    }
    buf_fini(&changed);
    if (rc == 0) {
        buf_addf(&c->text, "replaced %zu in %s\n", n, path);
    }
    return rc;
}

static int edit_file(struct tool_job *c, struct err *e)
{
    struct buf file, old = {.max = SIZE_MAX}, new = {.max = SIZE_MAX};
    char *path;
    int rc = read_named(c, &path, &file, e);
    if (rc == 0) {
        struct str text = {buf_z(&file), file.n};
        rc = replace(c, path, text, fit_lines(text, json_get_text(c->input, "old"), &old),
                     fit_lines(text, json_get_text(c->input, "new"), &new), e);
    }
    buf_fini(&file);
    buf_fini(&old);
    buf_fini(&new);
    return rc;
}

const struct tool_ops tool_EDIT_FILE = {
    .start = tool__start_job, .cancel = tool__cancel_job, .work = edit_file};

// ---- list_files ------------------------------------------------------------------------------

struct entry {
    char *name; // in the arena
    unsigned char type;
};

struct listing {
    struct tool_job *call;
    size_t left;  // entries that may still be shown
    bool cut;     // there were more
    size_t depth; // levels to go down
};

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct entry *)a)->name, ((const struct entry *)b)->name);
}

static unsigned char type_of(int dir, const struct dirent *d)
{
    struct stat st;
    if (d->d_type != DT_UNKNOWN || fstatat(dir, d->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0) {
        return d->d_type;
    }
    return S_ISDIR(st.st_mode) ? DT_DIR : S_ISLNK(st.st_mode) ? DT_LNK : DT_REG;
}

/// List a directory; takes `fd`. Links are shown but not followed, and `.git` is not entered: its files are many and
/// say little.
static void list_dir(struct listing *l, int fd, const char *real, const char *shown, size_t depth)
{
    vec(struct entry) entries = {0};
    DIR *dir = fdopendir(fd);
    const struct dirent *d;
    if (dir == NULL) {
        close(fd);
        return;
    }
    while ((d = readdir(dir)) != NULL && entries.n < (64 << 10)) {
        if (strcmp(d->d_name, ".") != 0 && strcmp(d->d_name, "..") != 0) {
            const struct entry one = {arena_strdup(&l->call->arena, str_of(d->d_name)),
                                      type_of(fd, d)};
            vec_push(&entries, one);
        }
    }
    if (entries.n != 0) {
        qsort(entries.p, entries.n, sizeof *entries.p, by_name);
    }
    vec_foreach (it, &entries) {
        if (l->left == 0 || atomic_load(&l->call->cancelled)) {
            l->cut = true;
            break;
        }
        struct buf *out = &l->call->text;
        char *name = arena_printf(&l->call->arena, "%s%s", shown, it->name);
        tool_output_clean(out, str_of(name));
        buf_addz(out, it->type == DT_DIR ? "/\n" : it->type == DT_LNK ? "@\n" : "\n");
        l->left--;
        if (it->type == DT_DIR && depth < l->depth && strcmp(it->name, ".git") != 0) {
            char *inner = arena_printf(&l->call->arena, "%s/%s", strcmp(real, "/") == 0 ? "" : real,
                                       it->name);
            int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
            int below = box_may_read(l->call->box, inner, NULL) ? openat(fd, it->name, flags) : -1;
            if (below >= 0) {
                list_dir(l, below, inner, arena_printf(&l->call->arena, "%s/", name), depth + 1);
            }
        }
    }
    vec_fini(&entries);
    closedir(dir);
}

static int list_files(struct tool_job *c, struct err *e)
{
    struct listing l = {.call = c, .left = ENTRIES_MAX};
    char *path, *real;
    l.depth = (size_t)MIN(json_int(json_get(c->input, "depth"), 1), DEPTH_MAX);
    int rc = input_path(c, ".", &path, e);
    int fd = rc == 0 ? tool__open(c, path, true, &real, e) : rc;
    if (fd < 0) {
        return fd;
    }
    list_dir(&l, fd, real, "", 1);
    if (c->text.n == 0) {
        buf_addz(&c->text, "[empty]\n");
    }
    if (l.cut) {
        buf_addz(&c->text, "[more follows: list a directory further down]\n");
    }
    return 0;
}

const struct tool_ops tool_LIST_FILES = {
    .start = tool__start_job, .cancel = tool__cancel_job, .work = list_files};
