// The skills of a bot, from up to four places.
//
//     $AFLOAT_HOME/bots/BOT/skills   ┐
//     skills/ of a project's bot     ├─ the bot's own     ┐
//     $AFLOAT_HOME/skills            ── the user's        ├─ first of a name wins
//     <root>/.afloat/skills          ── the project's     ┘  when its bytes are trusted
//
// They are read anew for each iteration: a skill that a bot saves in one is there in the next. A skill that
// cannot be read is told and left out.

#include "bot/skillset.h"

#include <errno.h>
#include <unistd.h>

#include "base/front.h"
#include "base/path.h"
#include "base/utf8.h"
#include "bot/history.h"
#include "bot/trash.h"

enum { DESCRIPTION_CHARS = 500, NAME_BYTES = 64 };

static const char *const origin_names[] = {
#define X(id, name) [SKILL_OF_##id] = (name),
    SKILL_ORIGINS(X)
#undef X
};

const char *skill_origin_name(enum skill_origin o)
{
    assert(o < ARRAY_LEN(origin_names));
    return origin_names[o];
}

// ---- reading ------------------------------------------------------------------------------------

/// Those of a directory: what hubs have in common first.
static void read_place(struct skills *s, struct shelf *sh, const char *dir)
{
    struct shelf_texts shared;
    struct err e = {0};
    if (shelf_list(sh, dir, &s->arena, &shared, &e) < 0) {
        skills_add_fault(s, dir, e.msg);
    }
    for (size_t i = 0; i < shared.n; i++) {
        struct str name = path_base(str_of(shared.list[i].name));
        if (str_ends(name, ".md") && name.n > strlen(".md")) {
            name.n -= strlen(".md");
            skills_add(s, shared.list[i].name, name, shared.list[i].text);
        }
    }
    skills_read(s, dir);
}

void skillset_read(struct skillset *s, struct shelf *sh, const char *home,
                   const struct catalog_bot *bot, const char *dir)
{
    *s = (struct skillset){0};
    skills_init(&s->skills);
    if (bot != NULL) {
        char *own = xasprintf("%s/bots/%s/skills", home, bot->name);
        read_place(&s->skills, sh, own);
        if (bot->origin == BOT_OF_PROJECT) {
            skills_read_tree(&s->skills, &bot->tree, bot->dir, "skills/");
        }
        free(own);
    }
    s->n_bot = s->skills.list.n;
    char *user = path_join(home, "skills");
    read_place(&s->skills, sh, user);
    s->n_user = s->skills.list.n;
    if (dir != NULL && trust_place_of(&s->place, home, dir, NULL) == 0) {
        skills_read_project(&s->skills, s->place.root);
    }
    free(user);
}

static int by_name(const void *a, const void *b)
{
    const struct skillset_item *x = a, *y = b;
    return str_cmp(x->skill->name, y->skill->name);
}

void skillset_judge(struct skillset *s, const struct trust *t)
{
    assert(s->list.n == 0 && s->n_bot <= s->n_user && s->n_user <= s->skills.list.n);
    for (size_t i = 0; i < s->skills.list.n; i++) {
        const struct skill *sk = &s->skills.list.p[i];
        enum skill_origin origin = i < s->n_bot    ? SKILL_OF_BOT
                                   : i < s->n_user ? SKILL_OF_USER
                                                   : SKILL_OF_PROJECT;
        bool trusted =
            origin != SKILL_OF_PROJECT ||
            trust_allows_hash(t, &s->place, TRUST_SKILL, sk->path.p, sk->hash, sk->foreign);
        if (!trusted) {
            s->untrusted++;
        } else if (skillset_find(s, sk->name) == NULL) {
            vec_push(&s->list, ((struct skillset_item){origin, sk}));
        }
    }
    if (s->list.n != 0) {
        qsort(s->list.p, s->list.n, sizeof *s->list.p, by_name);
    }
}

void skillset_add_shipped(struct skillset *s)
{
    struct skills *own = &s->shipped;
    assert(own->list.n == 0);
    skills_init(own);
    skills_add_shipped(own);
    vec_foreach (sk, &own->list) {
        if (skillset_find(s, sk->name) == NULL) {
            vec_push(&s->list, ((struct skillset_item){SKILL_OF_SHIPPED, sk}));
        }
    }
}

void skillset_fini(struct skillset *s)
{
    skills_fini(&s->shipped);
    vec_fini(&s->list);
    skills_fini(&s->skills);
    trust_place_fini(&s->place);
}

const struct skillset_item *skillset_find(const struct skillset *s, struct str name)
{
    vec_foreach (it, &s->list) {
        if (str_eq(it->skill->name, name)) {
            return it;
        }
    }
    return NULL;
}

// ---- saving -------------------------------------------------------------------------------------

int skillset_name_check(struct str name, struct err *e)
{
    bool ok = name.n != 0 && name.n <= NAME_BYTES && name.p[0] != '-' && name.p[0] != '_';
    for (size_t i = 0; ok && i < name.n; i++) {
        char c = name.p[i];
        ok = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
    }
    return ok ? 0
              : err_set(e, ERR_INVALID,
                        "'%.*s' cannot be a skill's name: use a-z, 0-9, '_' and '-', 64 at most, "
                        "beginning with a letter or digit",
                        (int)MIN(name.n, (size_t)80), name.p);
}

static int check_text(const struct skillset_new *n, struct err *e)
{
    if (!utf8_valid(n->body) || !utf8_valid(n->description) ||
        (n->body.n != 0 && memchr(n->body.p, 0, n->body.n) != NULL)) {
        return err_set(e, ERR_INVALID, "a skill is text in UTF-8");
    }
    if (str_trim(n->body).n == 0) {
        return err_set(e, ERR_INVALID, "the body of a skill says what to do: it cannot be empty");
    }
    return n->body.n <= SKILL_BYTES / 2
               ? 0
               : err_set(e, ERR_TOO_LARGE, "a skill has at most %d bytes", SKILL_BYTES / 2);
}

static char *skills_dir(const char *home, const char *bot)
{
    return bot != NULL ? xasprintf("%s/bots/%s/skills", home, bot) : path_join(home, "skills");
}

/// The file of the skill `name` in `dir`, or NULL; caller frees.
static char *find_file(struct shelf *sh, const char *dir, struct str name)
{
    struct skills s;
    skills_init(&s);
    read_place(&s, sh, dir);
    const struct skill *sk = skills_find(&s, name);
    char *file = sk != NULL ? str_dup(sk->file) : NULL;
    skills_fini(&s);
    return file;
}

/// Room in the trash for what is called like `file`; `*kept` is its path, caller frees.
static int make_room(const char *home, const char *file, char **kept, struct err *e)
{
    char *room;
    struct str base = path_base(str_of(file));
    int rc = trash_room(home, "skill", &room, e);
    *kept = rc == 0 ? xasprintf("%s/" STR_FMT, room, STR_ARG(base)) : NULL;
    free(room);
    return rc;
}

/// A copy of the old file in the trash, by a second name for it.
static int keep_old(const char *home, const char *file, struct err *e)
{
    char *kept;
    int rc = make_room(home, file, &kept, e);
    if (rc == 0 && link(file, kept) != 0) {
        rc = err_sys(e, "cannot keep '%s' in the trash", file);
    }
    free(kept);
    return rc;
}

/// The same for a text that is in no file.
static int keep_text(const char *home, const char *name, struct str text, struct err *e)
{
    char *kept;
    int rc = make_room(home, name, &kept, e);
    rc = rc == 0 ? path_write_atomic(kept, text, 0600, e) : rc;
    free(kept);
    return rc;
}

/// Move a skill to the trash: its file, or the directory of its SKILL.md.
static int drop_file(const char *home, const char *file, struct err *e)
{
    struct str s = str_of(file);
    char *entry = str_dup(str_ends(s, "/SKILL.md") ? path_dir(s) : s), *where;
    int rc = trash_move(home, "skill", entry, &where, e);
    free(where);
    free(entry);
    return rc;
}

/// One that brings a front of its own is saved without it: ours says what it is called.
static void write_skill(struct buf *out, const struct skillset_new *n)
{
    struct front f = front_split(n->body);
    bool has_front = f.kind == FRONT_TOML || f.kind == FRONT_LINES;
    buf_addf(out, "---\nname: " STR_FMT "\ndescription: \"", STR_ARG(n->name));
    history_write_line(out, n->description, DESCRIPTION_CHARS);
    buf_addf(out, "\"\n---\n\n" STR_FMT "\n", STR_ARG(str_trim(has_front ? f.body : n->body)));
}

static int put_file(const char *home, const char *file, const char *old, struct str text,
                    struct err *e)
{
    int rc = old != NULL && strcmp(old, file) == 0 ? keep_old(home, old, e) : 0;
    rc = rc == 0 ? path_write_atomic(file, text, 0600, e) : rc;
    return rc == 0 && old != NULL && strcmp(old, file) != 0 ? drop_file(home, old, e) : rc;
}

// ---- in a shared store --------------------------------------------------------------------------

/// Put `text` in the place of `path`, or nothing (`text.p` NULL). What was there goes to this machine's trash.
static int replace_shared(struct shelf *sh, const char *home, const char *path, struct str text,
                          struct err *e)
{
    int rc;
    do { // what another hub has just written goes to the trash too
        int64_t rev;
        struct buf old = {.max = SKILL_BYTES};
        rc = shelf_read(sh, path, &old, &rev, e);
        bool there = rc == 0;
        rc = there ? keep_text(home, path, buf_str(&old), e) : rc == -ENOENT ? 0 : rc;
        if (rc == 0 && text.p != NULL) {
            rc = shelf_write(sh, path, text, rev, e);
        } else if (rc == 0 && there) {
            rc = shelf_remove(sh, path, rev, e);
        }
        buf_fini(&old);
    } while (rc == ERR_CONFLICT);
    return rc;
}

static bool is_shared(const char *file)
{
    return file[0] != '/'; // read_place()
}

static int put_shared(struct shelf *sh, const char *home, const char *path, const char *old,
                      struct str text, struct err *e)
{
    int rc = replace_shared(sh, home, path, text, e);
    bool renamed = old != NULL && is_shared(old) && !str_ends(str_of(path), old);
    return rc == 0 && renamed ? replace_shared(sh, home, old, STR_NULL, e) : rc;
}

int skillset_save(struct shelf *sh, const char *home, const char *bot, const struct skillset_new *n,
                  struct err *e)
{
    int rc = bot != NULL ? bot_name_check(str_of(bot), e) : 0;
    rc = rc == 0 ? skillset_name_check(n->name, e) : rc;
    rc = rc == 0 ? check_text(n, e) : rc;
    if (rc < 0) {
        return rc;
    }
    struct buf text = {.max = SKILL_BYTES};
    char *dir = skills_dir(home, bot);
    char *path = xasprintf("%s/" STR_FMT ".md", dir, STR_ARG(n->name));
    char *old = find_file(sh, dir, n->name);
    write_skill(&text, n);
    if (sh != NULL) {
        rc = put_shared(sh, home, path, old, buf_str(&text), e);
    } else {
        rc = path_mkdirs(dir, 0700, e);
        rc = rc == 0 ? put_file(home, path, old, buf_str(&text), e) : rc;
    }
    buf_fini(&text);
    free(old);
    free(path);
    free(dir);
    return rc;
}

int skillset_remove(struct shelf *sh, const char *home, const char *bot, struct str name,
                    struct err *e)
{
    int rc = bot != NULL ? bot_name_check(str_of(bot), e) : 0;
    if (rc < 0) {
        return rc;
    }
    char *dir = skills_dir(home, bot);
    char *file = find_file(sh, dir, name);
    if (file == NULL) {
        rc = err_set(e, ERR_NOT_FOUND, "there is no skill '%.*s' in '%s'",
                     (int)MIN(name.n, (size_t)64), name.p, dir);
    } else {
        rc = is_shared(file) ? replace_shared(sh, home, file, STR_NULL, e)
                             : drop_file(home, file, e);
    }
    free(file);
    free(dir);
    return rc;
}
