// What Tab completes at the prompt.
//
//     /na|        commands of the chat and of plugins
//     /name wo|   words of a command; the caller knows them
//     @src/ma|    files, from the working directory, and resources of MCP servers
//     !ma|        programs, and after them files
//
// One candidate is put in; of several the part that they share, and they are offered in a row. Tab again
// goes from one to the next.

#include "view/menu.h"

#include <assert.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/folder.h"
#include "base/utf8.h"

enum { OFFERED = 200 };

void menu_close(struct menu *m)
{
    vec_foreach (name, &m->names) {
        free(*name);
    }
    vec_fini(&m->names);
}

static void offer(struct menu *m, struct str before, const char *name, const char *after)
{
    struct buf text = {.max = SIZE_MAX};
    if (m->names.n == OFFERED) {
        return;
    }
    buf_addf(&text, STR_FMT "%s%s", STR_ARG(before), name, after);
    vec_push(&m->names, buf_take(&text, NULL));
    buf_fini(&text);
}

void menu_offer(struct menu *m, struct str name)
{
    offer(m, name, "", "");
}

static bool is_hidden(const char *name, struct str start)
{
    return name[0] == '.' && (start.n == 0 || start.p[0] != '.');
}

static bool begins(const char *name, struct str start)
{
    return strncmp(name, start.p != NULL ? start.p : "", start.n) == 0;
}

static void offer_files(struct menu *m, const char *base, struct str typed)
{
    const char *slash = typed.n != 0 ? memrchr(typed.p, '/', typed.n) : NULL;
    struct str dir = {typed.p, slash != NULL ? (size_t)(slash - typed.p) + 1 : 0};
    struct str start = str_from(typed, dir.n);
    struct buf path = {.max = SIZE_MAX};
    buf_addf(&path, "%s%s" STR_FMT, dir.n != 0 && dir.p[0] == '/' ? "" : base,
             dir.n != 0 && dir.p[0] == '/' ? "" : "/", STR_ARG(dir));
    struct folder f = folder_open(buf_z(&path));
    while (folder_next(&f)) {
        struct stat st;
        if (begins(f.name, start) && !is_hidden(f.name, start)) {
            bool is_dir = fstatat(dirfd(f.stream), f.name, &st, 0) == 0 && S_ISDIR(st.st_mode);
            offer(m, dir, f.name, is_dir ? "/" : "");
        }
    }
    buf_fini(&path);
}

static void offer_programs(struct menu *m, struct str start)
{
    for (struct str path = str_of(getenv("PATH")); path.n != 0 && start.n != 0;) {
        char *dir = str_dup(str_cut(&path, ':'));
        struct folder f = folder_open(dir);
        while (folder_next(&f)) {
            if (begins(f.name, start) && faccessat(dirfd(f.stream), f.name, X_OK, 0) == 0) {
                offer(m, STR_NULL, f.name, "");
            }
        }
        free(dir);
    }
}

// Sort, and drop what is there twice.
static void tidy(struct menu *m)
{
    size_t n = 0;
    str_sort((void *)m->names.p, m->names.n);
    for (size_t i = 0; i < m->names.n; i++) {
        if (n > 0 && strcmp(m->names.p[n - 1], m->names.p[i]) == 0) {
            free(m->names.p[i]);
        } else {
            m->names.p[n++] = m->names.p[i];
        }
    }
    m->names.n = n;
}

static void find(struct menu *m, const struct edit *ed, const char *dir, menu_more *more, void *arg)
{
    struct str line = {edit_text(ed).p, ed->at};
    size_t from = line.n;
    while (from > 0 && strchr(" \t\n", line.p[from - 1]) == NULL) {
        from--;
    }
    struct str word = str_from(line, from);
    bool first = str_trim((struct str){line.p, from}).n == 0;
    bool shell = str_starts(line, "!");
    m->from = from;
    if (first && str_starts(word, "/")) {
        m->from++;
        more(arg, m, '/', str_from(word, 1));
    } else if (first && str_starts(word, "!")) {
        m->from++;
        offer_programs(m, str_from(word, 1));
    } else if (str_starts(word, "@")) {
        m->from++;
        offer_files(m, dir, str_from(word, 1));
        more(arg, m, '@', str_from(word, 1));
    } else if (shell && word.n != 0) {
        offer_files(m, dir, word);
    } else if (!first && str_starts(line, "/")) {
        more(arg, m, ' ', line);
    }
    tidy(m);
    m->chosen = m->names.n;
}

static size_t shared(const struct menu *m)
{
    assert(m->names.n != 0);
    size_t n = strlen(m->names.p[0]);
    for (size_t i = 1; i < m->names.n; i++) {
        size_t k = 0;
        while (k < n && m->names.p[i][k] == m->names.p[0][k]) {
            k++;
        }
        n = k;
    }
    return utf8_cut(m->names.p[0], strlen(m->names.p[0]), n);
}

void menu_complete(struct menu *m, struct edit *ed, const char *dir, menu_more *more, void *arg)
{
    if (m->names.n > 1) { // the next one that is offered
        m->chosen = m->chosen == m->names.n ? 0 : (m->chosen + 1) % m->names.n;
        edit_replace(ed, m->from, str_of(m->names.p[m->chosen]));
        return;
    }
    find(m, ed, dir, more, arg);
    if (m->names.n == 0) {
        return;
    }
    size_t n = shared(m), typed = ed->at - m->from;
    bool only = m->names.n == 1, folder = only && str_ends(str_of(m->names.p[0]), "/");
    if (n > typed || only) {
        struct buf text = {.max = SIZE_MAX};
        buf_add(&text, m->names.p[0], n);
        buf_addz(&text, only && !folder ? " " : "");
        edit_replace(ed, m->from, buf_str(&text));
        buf_fini(&text);
    }
    if (only) {
        menu_close(m);
    }
}
