// Which bots there are.
//
//     $AFLOAT_HOME/bots/NAME/config.md       the user's: read in place
//     <root>/.afloat/bots/NAME/              a project's: read as a tree with one hash, asked of trust
//
// A project's bot says how a model behaves and what it may do, so it counts like code: only when its very
// bytes were trusted. The user's own of the same name hides it.

#include "bot/catalog.h"

#include <errno.h>

#include "base/folder.h"
#include "base/path.h"

enum { BOTS_MAX = 1000 };

static const char *const origin_names[] = {[BOT_OF_USER] = "user", [BOT_OF_PROJECT] = "project"};

const char *bot_origin_name(enum bot_origin o)
{
    assert(o < ARRAY_LEN(origin_names));
    return origin_names[o];
}

// ---- reading ------------------------------------------------------------------------------------

static struct catalog_bot *bot_new(struct catalog *c, const char *name, enum bot_origin origin,
                                   const char *dir)
{
    struct catalog_bot *b = xcalloc(1, sizeof *b);
    b->name = arena_strdup(&c->arena, str_of(name));
    b->origin = origin;
    b->dir = arena_strdup(&c->arena, str_of(dir));
    b->file = arena_printf(&c->arena, "%s/config.md", dir);
    bot_config_init(&b->config);
    config_diags_init(&b->diags);
    vec_push(&c->list, b);
    return b;
}

static void bot_free(struct catalog_bot *b)
{
    bot_config_fini(&b->config);
    config_diags_fini(&b->diags);
    if (b->origin == BOT_OF_PROJECT) {
        tree_fini(&b->tree);
    }
    free(b);
}

static void take_file(struct catalog_bot *b, struct str text)
{
    b->status =
        text.n > BOT_CONFIG_BYTES
            ? err_set(&b->err, ERR_TOO_LARGE, "'%s' is above %d bytes", b->file, BOT_CONFIG_BYTES)
            : bot_config_parse(&b->config, text, b->file, &b->diags, &b->err);
}

static void read_user(struct catalog *c, const char *dir, const char *name)
{
    struct buf text = {.max = BOT_CONFIG_BYTES};
    char *own = path_join(dir, name);
    char *file = path_join(own, "config.md");
    struct err e = {0};
    int rc = path_read(file, &text, &e);
    if (rc != -ENOENT && rc != -ENOTDIR) {
        struct catalog_bot *b = bot_new(c, name, BOT_OF_USER, own);
        if (rc < 0) {
            b->status = rc;
            b->err = e;
        } else {
            take_file(b, buf_str(&text));
        }
    }
    buf_fini(&text);
    free(file);
    free(own);
}

static void read_project(struct catalog *c, const char *dir, const char *name)
{
    char *own = path_join(dir, name);
    if (path_is_dir(own)) {
        struct catalog_bot *b = bot_new(c, name, BOT_OF_PROJECT, own);
        b->path = arena_printf(&c->arena, ".afloat/bots/%s", name);
        b->status = tree_read(&b->tree, own, &b->err);
        const struct tree_file *f = b->status == 0 ? tree_find(&b->tree, STR("config.md")) : NULL;
        if (f != NULL) {
            take_file(b, f->bytes);
        } else if (b->status == 0) {
            b->status = err_set(&b->err, ERR_NOT_FOUND, "'%s' has no config.md", own);
        }
    }
    free(own);
}

/// Read every bot of `dir`, or `only` one.
static void read_dir(struct catalog *c, const char *dir, const char *only,
                     void (*read_one)(struct catalog *c, const char *dir, const char *name))
{
    if (only != NULL) {
        read_one(c, dir, only);
        return;
    }
    struct folder f = folder_open(dir);
    while (folder_next(&f)) {
        if (bot_name_valid(str_of(f.name)) && c->list.n < BOTS_MAX) {
            read_one(c, dir, f.name);
        }
    }
}

/// By name; the user's before a project's of the same.
static int by_name(const void *a, const void *b)
{
    const struct catalog_bot *x = *(struct catalog_bot *const *)a;
    const struct catalog_bot *y = *(struct catalog_bot *const *)b;
    int order = strcmp(x->name, y->name);
    return order != 0 ? order : (int)x->origin - (int)y->origin;
}

static void read_places(struct catalog *c, const char *home, const char *only)
{
    char *own = path_join(home, "bots");
    read_dir(c, own, only, read_user);
    free(own);
    if (c->place.root != NULL) {
        char *theirs = path_join(c->place.root, ".afloat/bots");
        read_dir(c, theirs, only, read_project);
        free(theirs);
    }
}

int catalog_read(struct catalog *c, const char *home, const char *dir, const char *only,
                 struct err *e)
{
    *c = (struct catalog){0};
    int rc = only != NULL ? bot_name_check(str_of(only), e) : 0;
    if (rc < 0) {
        return rc;
    }
    rc = dir != NULL ? trust_place_of(&c->place, home, dir, NULL) : 0;
    (void)rc; // the place is then empty
    read_places(c, home, only);
    if (only != NULL && c->list.n == 0) {
        read_places(c, home, NULL); // there is none: the nearest may be meant
    }
    if (c->list.n != 0) {
        qsort(c->list.p, c->list.n, sizeof *c->list.p, by_name);
    }
    return 0;
}

// ---- judging ------------------------------------------------------------------------------------

void catalog_judge(struct catalog *c, const struct trust *t)
{
    size_t kept = 0;
    for (size_t i = 0; i < c->list.n; i++) {
        struct catalog_bot *b = c->list.p[i];
        assert((b->path != NULL) == (b->origin == BOT_OF_PROJECT));
        bool trusted =
            b->origin == BOT_OF_USER ||
            (b->tree.hash[0] != '\0' && trust_allows(t, &c->place, TRUST_BOT, b->path, &b->tree));
        if (kept != 0 && strcmp(c->list.p[kept - 1]->name, b->name) == 0) {
            bot_free(b); // the user's stands in front of it
        } else if (trusted) {
            c->list.p[kept++] = b;
        } else {
            vec_push(&c->untrusted, b);
        }
    }
    c->list.n = kept;
}

void catalog_fini(struct catalog *c)
{
    vec_foreach (b, &c->list) {
        bot_free(*b);
    }
    vec_foreach (b, &c->untrusted) {
        bot_free(*b);
    }
    vec_fini(&c->list);
    vec_fini(&c->untrusted);
    trust_place_fini(&c->place);
    arena_fini(&c->arena);
}

static int say_missing(const struct catalog *c, struct str name, struct err *e)
{
    const char **names = xcalloc(c->list.n + 1, sizeof *names);
    for (size_t i = 0; i < c->list.n; i++) {
        names[i] = c->list.p[i]->name;
    }
    const char *nearest = str_nearest(name, names, c->list.n);
    int rc = err_set(e, ERR_NOT_FOUND, "there is no bot '%.*s'%s%s%s", (int)MIN(name.n, (size_t)64),
                     name.p, nearest != NULL ? ", did you mean '" : "",
                     nearest != NULL ? nearest : "; create it with 'afloat bots create NAME'",
                     nearest != NULL ? "'?" : "");
    free(names);
    return rc;
}

int catalog_find(const struct catalog *c, struct str name, struct catalog_bot **out, struct err *e)
{
    *out = NULL;
    vec_foreach (b, &c->list) {
        if (str_eqz(name, (*b)->name)) {
            *out = *b;
            return 0;
        }
    }
    vec_foreach (b, &c->untrusted) {
        if (str_eqz(name, (*b)->name)) {
            return err_set(
                e, ERR_DENIED,
                "the project's bot '%s' is not trusted; look at '%s', then: afloat trust",
                (*b)->name, (*b)->path);
        }
    }
    return say_missing(c, name, e);
}
