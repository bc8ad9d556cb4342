// Skills from files.
//
//     +++                      ---                     no front: the name is the file's, the first
//     name = "deploy"          name: deploy            line of the text says what it is for
//     description = "..."      description: ...
//     +++                      ---
//     body ...                 body ...

#include "agent/skills.h"

#include <assert.h>

#include "base/folder.h"
#include "base/front.h"
#include "base/path.h"
#include "base/toml.h"
#include "base/utf8.h"
#include "trust/scan.h"

#define PROJECT_SKILLS ".afloat/skills" // from the root

enum { WORDS_MAX = 200 }; // bytes of a description that is the first line of the text

void skills_init(struct skills *s)
{
    *s = (struct skills){0};
}

void skills_fini(struct skills *s)
{
    vec_fini(&s->list);
    vec_fini(&s->faults);
    arena_fini(&s->arena);
}

// ---- one file -----------------------------------------------------------------------------------

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

static void take_lines(struct skill *out, struct str head)
{
    struct str key, value;
    while (front_pair(&head, &key, &value)) {
        if (str_eqz(key, "name") && value.n != 0) {
            out->name = value;
        } else if (str_eqz(key, "description")) {
            out->description = value;
        }
    }
}

/// The description of a skill without a front: its first line with text.
static struct str first_words(struct str text)
{
    while (text.n != 0) {
        struct str line = str_trim(front_line(&text));
        while (line.n != 0 && line.p[0] == '#') {
            line = str_trim(str_from(line, 1));
        }
        if (line.n != 0) {
            return (struct str){line.p, utf8_cut(line.p, line.n, WORDS_MAX)};
        }
    }
    return STR("");
}

int skill_parse(struct skill *out, struct str text, struct str name, struct arena *a, struct err *e)
{
    struct front f = front_split(text);
    int rc = 0;
    *out = (struct skill){.name = name, .body = str_trim(f.body)};
    switch (f.kind) {
    case FRONT_UNCLOSED:
        rc = err_set(e, ERR_PARSE, "the front matter of skill '%.*s' is not closed",
                     (int)MIN(name.n, (size_t)64), name.p);
        break;
    case FRONT_TOML: rc = take_toml(out, f.head, a, e); break;
    case FRONT_LINES: take_lines(out, f.head); break;
    case FRONT_NONE: out->description = first_words(f.body); break;
    }
    for (size_t i = 0; rc == 0 && i < out->name.n; i++) {
        if ((unsigned char)out->name.p[i] < ' ' || out->name.p[i] == 0x7F) {
            rc = err_set(e, ERR_PARSE, "the name of the skill has control characters");
        }
    }
    return rc;
}

// ---- a directory --------------------------------------------------------------------------------

void skills_add_fault(struct skills *s, const char *file, const char *message)
{
    vec_push(&s->faults, ((struct skill_fault){arena_str(&s->arena, str_of(file)),
                                               arena_str(&s->arena, str_of(message))}));
}

bool skills_add(struct skills *s, const char *file, struct str name, struct str bytes)
{
    struct skill sk;
    struct err e = {0};
    int rc = bytes.n > SKILL_BYTES
                 ? err_set(&e, ERR_TOO_LARGE, "the skill is larger than %d bytes", SKILL_BYTES)
                 : skill_parse(&sk, arena_str(&s->arena, bytes), arena_str(&s->arena, name),
                               &s->arena, &e);
    if (rc < 0) {
        skills_add_fault(s, file, e.msg);
        return false;
    }
    sk.file = arena_str(&s->arena, str_of(file));
    vec_push(&s->list, sk);
    return true;
}

/// NAME of NAME.md.
static struct str stem_of(struct str entry)
{
    return str_ends(entry, ".md") ? (struct str){entry.p, entry.n - 3} : entry;
}

/// Add the skill that is the whole of `t`: a file NAME.md, or a directory with SKILL.md.
static bool add_tree(struct skills *s, const struct tree *t, const char *path, struct str entry)
{
    bool is_md = str_ends(entry, ".md");
    const struct tree_file *f = t->is_file ? &t->files.p[0] : tree_find(t, STR("SKILL.md"));
    if (f == NULL || t->is_file != is_md) {
        return false; // not a skill
    }
    char *file = t->is_file ? xstrdup(path) : path_join(path, "SKILL.md");
    bool added = skills_add(s, file, stem_of(entry), f->bytes);
    free(file);
    return added;
}

static void read_entry(struct skills *s, const char *dir, const char *entry)
{
    struct tree t;
    struct err e = {0};
    char *path = path_join(dir, entry);
    if (tree_read(&t, path, &e) < 0) {
        skills_add_fault(s, path, e.msg);
    } else {
        add_tree(s, &t, path, str_of(entry));
        tree_fini(&t);
    }
    free(path);
}

static void read_project_entry(struct skills *s, const char *root, const char *entry)
{
    struct tree t;
    struct err e = {0};
    const char *rel = arena_printf(&s->arena, PROJECT_SKILLS "/%s", entry);
    char *path = path_join(root, rel);
    if (trust_read_item(&t, root, rel, &e) < 0) {
        skills_add_fault(s, path, e.msg);
    } else {
        if (add_tree(s, &t, path, str_of(entry))) {
            struct skill *sk = vec_last(&s->list);
            sk->path = str_of(rel);
            snprintf(sk->hash, sizeof sk->hash, "%s", t.hash);
            sk->foreign = t.foreign != NULL;
        }
        tree_fini(&t);
    }
    free(path);
}

/// Call `each` with `in` for the names in `dir` that may be skills.
static void read_names(struct skills *s, const char *dir, const char *in,
                       void (*each)(struct skills *s, const char *in, const char *entry))
{
    struct folder f = folder_open(dir);
    vec(const char *) names = {0};
    while (folder_next(&f)) {
        if (f.name[0] != '.' && names.n < SKILLS_MAX) {
            vec_push(&names, arena_strdup(&s->arena, str_of(f.name)));
        }
    }
    str_sort(names.p, names.n);
    vec_foreach (name, &names) {
        each(s, in, *name);
    }
    vec_fini(&names);
}

void skills_read(struct skills *s, const char *dir)
{
    read_names(s, dir, dir, read_entry);
}

void skills_read_project(struct skills *s, const char *root)
{
    char *dir = path_join(root, PROJECT_SKILLS);
    read_names(s, dir, root, read_project_entry);
    free(dir);
}

void skills_read_tree(struct skills *s, const struct tree *t, const char *root, const char *under)
{
    vec_foreach (f, &t->files) {
        struct str rest = str_of(f->path);
        if (!str_starts(rest, under) || s->list.n >= SKILLS_MAX) {
            continue;
        }
        rest = str_from(rest, strlen(under));
        struct str entry = str_cut(&rest, '/');
        bool is_file = rest.p == NULL && str_ends(entry, ".md");
        if (entry.n != 0 && entry.p[0] != '.' && (is_file || str_eqz(rest, "SKILL.md"))) {
            char *file = path_join(root, f->path);
            skills_add(s, file, is_file ? stem_of(entry) : entry, f->bytes);
            free(file);
        }
    }
}

void skills_add_shipped(struct skills *s)
{
    for (const struct shipped *f = shipped_skills; f->rel != NULL; f++) {
        struct str name = {f->rel, strlen(f->rel) - strlen(".md")};
        struct skill sk;
        int rc = skill_parse(&sk, (struct str){f->text, f->n}, name, &s->arena, NULL);
        assert(rc == 0 && sk.description.n != 0);
        if (skills_find(s, sk.name) == NULL) {
            vec_push(&s->list, sk);
        }
    }
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
