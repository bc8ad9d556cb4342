// What Tab completes at the prompt.
//
//     /na|        commands of the chat and of plugins
//     @src/ma|    files, from the working directory, and resources of MCP servers
//     !ma|        programs, and files behind them
//
// One candidate is put in; of several the part that they share, and they are offered in a row. Tab again
// goes from one to the next.

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/utf8.h"
#include "base/visible.h"
#include "cli/chat_int.h"
#include "term/text.h"

enum { OFFERED = 200 };

void chat__menu_close(struct chat *t)
{
    vec_foreach (name, &t->menu) {
        free(*name);
    }
    vec_fini(&t->menu);
}

static void offer(struct chat *t, struct str before, const char *name, const char *after)
{
    struct buf text;
    if (t->menu.n == OFFERED) {
        return;
    }
    buf_init(&text, SIZE_MAX);
    buf_addf(&text, STR_FMT "%s%s", STR_ARG(before), name, after);
    vec_push(&t->menu, buf_take(&text, NULL));
    buf_fini(&text);
}

void chat__offer(struct chat *t, struct str name)
{
    offer(t, name, "", "");
}

static bool is_hidden(const char *name, struct str start)
{
    return name[0] == '.' && (start.n == 0 || start.p[0] != '.');
}

static bool begins(const char *name, struct str start)
{
    return strncmp(name, start.p != NULL ? start.p : "", start.n) == 0;
}

static void offer_files(struct chat *t, struct str typed)
{
    const char *slash = typed.n != 0 ? memrchr(typed.p, '/', typed.n) : NULL;
    struct str dir = {typed.p, slash != NULL ? (size_t)(slash - typed.p) + 1 : 0};
    struct str start = str_from(typed, dir.n);
    struct buf path;
    buf_init(&path, SIZE_MAX);
    buf_addf(&path, "%s%s" STR_FMT, dir.n != 0 && dir.p[0] == '/' ? "" : t->gauge.dir,
             dir.n != 0 && dir.p[0] == '/' ? "" : "/", STR_ARG(dir));
    DIR *d = opendir(buf_z(&path));
    for (struct dirent *e; d != NULL && (e = readdir(d)) != NULL;) {
        struct stat st;
        if (begins(e->d_name, start) && !is_hidden(e->d_name, start) &&
            strcmp(e->d_name, "..") != 0 && strcmp(e->d_name, ".") != 0) {
            bool folder = fstatat(dirfd(d), e->d_name, &st, 0) == 0 && S_ISDIR(st.st_mode);
            offer(t, dir, e->d_name, folder ? "/" : "");
        }
    }
    if (d != NULL) {
        closedir(d);
    }
    buf_fini(&path);
}

static void offer_programs(struct chat *t, struct str start)
{
    for (struct str path = str_of(getenv("PATH")); path.n != 0;) {
        char *dir = str_dup(str_cut(&path, ':'));
        DIR *d = opendir(dir);
        for (struct dirent *e; d != NULL && start.n != 0 && (e = readdir(d)) != NULL;) {
            if (begins(e->d_name, start) && faccessat(dirfd(d), e->d_name, X_OK, 0) == 0) {
                offer(t, STR_NULL, e->d_name, "");
            }
        }
        if (d != NULL) {
            closedir(d);
        }
        free(dir);
    }
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

// Sort, and drop what is there twice.
static void tidy(struct chat *t)
{
    size_t n = 0;
    if (t->menu.n != 0) {
        qsort(t->menu.p, t->menu.n, sizeof t->menu.p[0], by_name);
    }
    for (size_t i = 0; i < t->menu.n; i++) {
        if (n > 0 && strcmp(t->menu.p[n - 1], t->menu.p[i]) == 0) {
            free(t->menu.p[i]);
        } else {
            t->menu.p[n++] = t->menu.p[i];
        }
    }
    t->menu.n = n;
}

static void find(struct chat *t)
{
    struct str line = {edit_text(t->input).p, t->input->at};
    size_t from = line.n;
    while (from > 0 && strchr(" \t\n", line.p[from - 1]) == NULL) {
        from--;
    }
    struct str word = str_from(line, from);
    bool first = str_trim((struct str){line.p, from}).n == 0;
    bool shell = str_starts(line, "!");
    t->menu_from = from;
    if (first && str_starts(word, "/")) {
        t->menu_from++;
        chat__slash_names(t, str_from(word, 1));
    } else if (first && str_starts(word, "!")) {
        t->menu_from++;
        offer_programs(t, str_from(word, 1));
    } else if (str_starts(word, "@")) {
        t->menu_from++;
        offer_files(t, str_from(word, 1));
        chat__resource_names(t, str_from(word, 1));
    } else if (shell && word.n != 0) {
        offer_files(t, word);
    }
    tidy(t);
    t->menu_chosen = t->menu.n;
}

static size_t shared(const struct chat *t)
{
    size_t n = strlen(t->menu.p[0]);
    for (size_t i = 1; i < t->menu.n; i++) {
        size_t k = 0;
        while (k < n && t->menu.p[i][k] == t->menu.p[0][k]) {
            k++;
        }
        n = k;
    }
    return utf8_cut(t->menu.p[0], strlen(t->menu.p[0]), n);
}

void chat__complete(struct chat *t)
{
    if (t->menu.n > 1) { // the next one that is offered
        t->menu_chosen = t->menu_chosen == t->menu.n ? 0 : (t->menu_chosen + 1) % t->menu.n;
        edit_replace(t->input, t->menu_from, str_of(t->menu.p[t->menu_chosen]));
        return;
    }
    find(t);
    if (t->menu.n == 0) {
        return;
    }
    size_t n = shared(t), typed = t->input->at - t->menu_from;
    bool only = t->menu.n == 1, folder = only && str_ends(str_of(t->menu.p[0]), "/");
    if (n > typed || only) {
        struct buf text;
        buf_init(&text, SIZE_MAX);
        buf_add(&text, t->menu.p[0], n);
        buf_addz(&text, only && !folder ? " " : "");
        edit_replace(t->input, t->menu_from, buf_str(&text));
        buf_fini(&text);
    }
    if (only) {
        chat__menu_close(t);
    }
}

void chat__menu_lines(const struct chat *t, struct buf *out, size_t cols)
{
    enum color_depth color = t->c->out.color;
    struct buf line;
    if (t->menu.n == 0) {
        return;
    }
    buf_init(&line, SIZE_MAX);
    for (size_t i = 0; i < t->menu.n; i++) {
        bool chosen = i == t->menu_chosen;
        buf_addz(&line, i > 0 ? "  " : "");
        buf_addz(&line, chosen ? color_on(color, COLOR_BOLD) : color_on(color, COLOR_DIM));
        buf_addz(&line, chosen && color == COLOR_NONE ? "*" : "");
        visible_add(&line, str_of(t->menu.p[i]), false);
        buf_addz(&line, color_off(color));
    }
    text_add_cut(out, buf_str(&line), cols);
    buf_addc(out, '\n');
    buf_fini(&line);
}
