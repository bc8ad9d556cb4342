// What a project sets for the program: the bytes that are handed on are those whose hash was looked up.

#include "trust/settings.h"

#include <sys/stat.h>

#include "base/path.h"
#include "trust/trust.h"
#include "trust/trust_int.h"

static bool is_there(const char *root)
{
    struct stat st;
    char *path = path_join(root, TRUST_CONFIG_PATH);
    bool there = lstat(path, &st) == 0;
    free(path);
    return there;
}

static bool ask(const char *home, const struct trust_place *p, const struct tree *tree)
{
    struct trust *book;
    int rc = trust_open(&book, home, NULL);
    (void)rc; // an empty book then
    bool yes = trust_allows(book, p, TRUST_CONFIG, TRUST_CONFIG_PATH, tree);
    trust_close(book);
    return yes;
}

static void read_file(struct trust_settings *s, const char *home, const struct trust_place *p)
{
    struct tree t;
    struct err e = {0};
    int rc = trust__read_item(&t, p->root, TRUST_CONFIG_PATH, &e);
    if (rc == 0 && (!t.is_file || memchr(t.files.p[0].bytes.p, '\0', t.files.p[0].bytes.n))) {
        rc = err_set(&e, ERR_INVALID, "it is no text");
        tree_fini(&t);
    }
    if (rc < 0) {
        s->why = xstrdup(e.msg);
        return;
    }
    s->text = str_dup(t.files.p[0].bytes);
    s->trusted = ask(home, p, &t);
    tree_fini(&t);
}

void trust_settings_read(struct trust_settings *s, const char *home, const char *dir)
{
    struct trust_place p = {0};
    *s = (struct trust_settings){0};
    if (trust_place_of(&p, home, dir, NULL) == 0) {
        if (is_there(p.root)) {
            read_file(s, home, &p);
        }
        s->root = p.root;
        p.root = NULL;
    }
    trust_place_fini(&p);
}

void trust_settings_fini(struct trust_settings *s)
{
    free(s->root);
    free(s->text);
    free(s->why);
    *s = (struct trust_settings){0};
}
