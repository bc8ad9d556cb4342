// A project's settings for the program: the text handed on is the one whose hash was looked up.

#include "trust/settings.h"

#include <sys/stat.h>

#include "base/path.h"
#include "trust/trust.h"
#include "trust/trust_int.h"

static void read_file(struct trust_settings *s, const char *home, const struct trust_place *p,
                      enum trust_kind kind, const char *file)
{
    struct tree t;
    struct trust *book;
    struct err e = {0};
    int rc = trust_read_item(&t, p->root, file, &e);
    if (rc == 0 && (!t.is_file || memchr(t.files.p[0].bytes.p, '\0', t.files.p[0].bytes.n))) {
        rc = err_set(&e, ERR_INVALID, "it is not a text file");
        tree_fini(&t);
    }
    if (rc < 0) {
        s->why = xstrdup(e.msg);
        return;
    }
    s->text = str_dup(t.files.p[0].bytes);
    (void)!trust_open(&book, home, NULL); // on failure an empty book
    s->trusted = trust_allows(book, p, kind, file, &t);
    trust_close(book);
    tree_fini(&t);
}

static void read_for(struct trust_settings *s, const char *home, const char *dir,
                     enum trust_kind kind, const char *file)
{
    struct trust_place p = {0};
    struct stat st;
    *s = (struct trust_settings){0};
    if (trust_place_of(&p, home, dir, NULL) == 0) {
        char *path = path_join(p.root, file);
        if (lstat(path, &st) == 0) {
            read_file(s, home, &p, kind, file);
        }
        free(path);
        s->root = p.root;
        p.root = NULL;
    }
    trust_place_fini(&p);
}

void trust_settings_read(struct trust_settings *s, const char *home, const char *dir)
{
    read_for(s, home, dir, TRUST_CONFIG, TRUST_CONFIG_PATH);
}

void trust_servers_read(struct trust_settings *s, const char *home, const char *dir)
{
    read_for(s, home, dir, TRUST_MCP, TRUST_MCP_PATH);
}

void trust_settings_fini(struct trust_settings *s)
{
    free(s->root);
    free(s->text);
    free(s->why);
    *s = (struct trust_settings){0};
}
