// Skills from files.
//
//     +++                      ---                     no front: the name is the file's, the first
//     name = "deploy"          name: deploy            line of the text says what it is for
//     description = "..."      description: ...
//     +++                      ---
//     body ...                 body ...

#include "agent/skills.h"

#include <dirent.h>

#include "base/path.h"
#include "base/toml.h"
#include "store/tree.h"

void skills_init(struct skills *s)
{
    *s = (struct skills){0};
    arena_init(&s->arena);
}

void skills_fini(struct skills *s)
{
    vec_fini(&s->list);
    arena_fini(&s->arena);
}

// ---- one file -----------------------------------------------------------------------------------

/// The next line of `*rest`, without its end.
static struct str next_line(struct str *rest)
{
    struct str line = str_cut(rest, '\n');
    return line.n != 0 && line.p[line.n - 1] == '\r' ? (struct str){line.p, line.n - 1} : line;
}

/// What stands between the first line and the next one that is `fence`; `*rest` is what follows it.
static bool cut_front(struct str text, const char *fence, struct str *front, struct str *rest)
{
    struct str at = text;
    if (!str_eqz(next_line(&at), fence)) {
        return false;
    }
    front->p = at.p;
    while (at.n != 0) {
        struct str line = next_line(&at);
        if (str_eqz(line, fence)) {
            front->n = (size_t)(line.p - front->p);
            *rest = at;
            return true;
        }
    }
    *front = STR_NULL;
    return true;
}

static struct str text_of(const struct toml *doc, const char *key)
{
    const struct toml *v = toml_get(doc, key);
    return v != NULL && v->type == TOML_STR ? v->s : STR("");
}

static int take_toml(struct skill *out, struct str front, struct arena *a, struct err *e)
{
    struct toml *doc;
    int rc = toml_parse(&doc, a, front, NULL, NULL, e);
    if (rc == 0) {
        struct str name = text_of(doc, "name");
        out->name = name.n != 0 ? name : out->name;
        out->description = text_of(doc, "description");
    }
    return rc;
}

static struct str unquoted(struct str s)
{
    bool quoted = s.n >= 2 && (s.p[0] == '"' || s.p[0] == '\'') && s.p[s.n - 1] == s.p[0];
    return quoted ? (struct str){s.p + 1, s.n - 2} : s;
}

static void take_lines(struct skill *out, struct str front)
{
    while (front.n != 0) {
        struct str value = next_line(&front);
        struct str key = str_trim(str_cut(&value, ':'));
        value = unquoted(str_trim(value));
        if (str_eqz(key, "name") && value.n != 0) {
            out->name = value;
        } else if (str_eqz(key, "description")) {
            out->description = value;
        }
    }
}

/// Without a front the first line that says something is the description.
static struct str first_words(struct str text)
{
    while (text.n != 0) {
        struct str line = str_trim(next_line(&text));
        while (line.n != 0 && line.p[0] == '#') {
            line = str_trim(str_from(line, 1));
        }
        if (line.n != 0) {
            return (struct str){line.p, MIN(line.n, (size_t)200)};
        }
    }
    return STR("");
}

int skill_parse(struct skill *out, struct str text, struct str name, struct arena *a, struct err *e)
{
    struct str front = STR_NULL;
    *out = (struct skill){.name = name, .body = text};
    bool toml = cut_front(text, "+++", &front, &out->body);
    bool lines = !toml && cut_front(text, "---", &front, &out->body);
    if ((toml || lines) && front.p == NULL) {
        return err_set(e, ERR_PARSE, "the front matter of skill '%.*s' is not closed",
                       (int)MIN(name.n, (size_t)64), name.p);
    }
    int rc = toml ? take_toml(out, front, a, e) : 0;
    if (lines) {
        take_lines(out, front);
    }
    out->body = str_trim(out->body);
    if (!toml && !lines) {
        out->description = first_words(text);
    }
    return rc;
}

// ---- a directory --------------------------------------------------------------------------------

/// Read `dir`/`entry` as a skill; what is not one is passed over.
static void read_entry(struct skills *s, const char *dir, const char *entry, const char *prefix,
                       bool hashed)
{
    struct tree t;
    struct skill sk;
    struct str name = str_of(entry);
    char *path = path_join(dir, entry);
    bool file = str_ends(name, ".md");
    if (tree_read(&t, path, NULL) == 0) {
        const struct tree_file *f = t.is_file ? &t.files.p[0] : tree_find(&t, STR("SKILL.md"));
        name = arena_str(&s->arena, (struct str){name.p, name.n - (file ? 3 : 0)});
        if (f != NULL && f->bytes.n <= SKILL_BYTES && t.is_file == file &&
            skill_parse(&sk, arena_str(&s->arena, f->bytes), name, &s->arena, NULL) == 0) {
            if (hashed) {
                sk.path = str_of(arena_printf(&s->arena, "%s/%s", prefix, entry));
                snprintf(sk.hash, sizeof sk.hash, "%s", t.hash);
            }
            vec_push(&s->list, sk);
        }
        tree_fini(&t);
    }
    free(path);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

void skills_read(struct skills *s, const char *dir, const char *prefix, bool hashed)
{
    DIR *d = opendir(dir);
    vec(char *) names = {0};
    for (struct dirent *it = d != NULL ? readdir(d) : NULL; it != NULL; it = readdir(d)) {
        if (it->d_name[0] != '.' && names.n < SKILLS_MAX) {
            vec_push(&names, xstrdup(it->d_name));
        }
    }
    if (d != NULL) {
        closedir(d);
    }
    if (names.n != 0) {
        qsort(names.p, names.n, sizeof *names.p, by_name);
    }
    vec_foreach (name, &names) {
        read_entry(s, dir, *name, prefix, hashed);
        free(*name);
    }
    vec_fini(&names);
}

const struct skill *skills_find(const struct skills *s, struct str name)
{
    vec_foreach (it, &s->list) {
        if (str_eq(it->name, name)) {
            return it;
        }
    }
    return NULL;
}
