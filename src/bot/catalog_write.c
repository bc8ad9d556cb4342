// Making, changing and deleting the user's bots.
//
//     create   config.md beside, linked into its name: of two at once one wins, none is overwritten
//     patch    read ── bot_config_edit ── bot_config_parse ── renamed into place
//     delete   config.md, then skills/ ──rename──> trash/<time>-<bot>/; workspaces stay
//
// Killed in the middle of a deletion the bot is gone already, for config.md goes first, and its skills are
// still where they were: another deletion or a new bot of that name finds them.

#include <errno.h>
#include <unistd.h>

#include "base/path.h"
#include "bot/catalog.h"
#include "bot/config_edit.h"
#include "bot/trash.h"

// ---- create -------------------------------------------------------------------------------------

static const char template_head[] =
    "# What this bot is: afloat bots show NAME. Lines that begin with '#' are explanations; take "
    "the '#'\n"
    "# away to set a key. The text below the second '+++' is what the bot is told to do.\n";

static const char template_keys[] =
    "# max_iterations = 10           # 0: no limit; not set: 1 with a PROMPT, else 10\n"
    "# sleep_secs = 30               # between two iterations\n"
    "# model = \"\"                    # not set: what the hub uses\n"
    "# provider = \"\"\n"
    "# engine = \"native\"            # or codex, claude\n"
    "# sandbox = \"workspace-write\"   # or read-only, danger-full-access\n"
    "# network = false\n"
    "# skip_git_check = false        # true: may run outside of git\n"
    "# worktree = true               # false: works in your own tree\n"
    "# merge = \"ask\"                 # or auto, never\n"
    "# plugins = \"*\"                 # or a list of names\n"
    "# stop_phrase = \"\"              # ends the run when the bot says it\n"
    "#\n"
    "# [worktree]                    # instead of worktree = true\n"
    "# include = [\".env\"]            # ignored files that are copied\n"
    "# link = [\"node_modules\"]       # and that are linked\n"
    "# setup = [\"npm ci\"]            # commands run in the new worktree, inside the sandbox\n";

static const char template_body[] =
    "Say here what the bot is to do, how it knows that it is done, and what it must not touch.\n";

/// A description in the file is one string; bot_config_edit() knows how to write it.
static int write_template(struct buf *out, struct str description, struct str instructions,
                          struct err *e)
{
    struct buf plain = {.max = SIZE_MAX};
    struct json_member m = {STR("description"), {.type = JSON_STR, .s = description}};
    struct json keys = {.type = JSON_OBJ, .n = 1, .members = &m};
    buf_addf(&plain, "+++\n%s# description = \"\"\n%s+++\n\n%s", template_head, template_keys,
             template_body);
    int rc = bot_config_edit(out, buf_str(&plain), &keys,
                             str_trim(instructions).n != 0 ? instructions : STR_NULL, e);
    buf_fini(&plain);
    return rc;
}

/// The text must be one that can be read back.
static int check_text(struct str text, const char *name, struct err *e)
{
    struct bot_config c;
    struct config_diags d;
    bot_config_init(&c);
    config_diags_init(&d);
    int rc = text.n > BOT_CONFIG_BYTES
                 ? err_set(e, ERR_TOO_LARGE, "the config of '%s' would be above %d bytes", name,
                           BOT_CONFIG_BYTES)
                 : bot_config_parse(&c, text, "config.md", &d, e);
    if (rc == 0 && d.n != 0) {
        rc = err_set(e, ERR_INVALID, "%s", d.p[0].message); // an unknown key
    }
    config_diags_fini(&d);
    bot_config_fini(&c);
    return rc == ERR_PARSE ? err_set(e, ERR_INVALID, "%s", e != NULL ? e->msg : "") : rc;
}

static char *config_path(const char *home, const char *name)
{
    return xasprintf("%s/bots/%s/config.md", home, name);
}

static int write_new(const char *home, const char *name, struct str text, struct err *e)
{
    char *path = config_path(home, name);
    char *dir = str_dup(path_dir(str_of(path)));
    int rc = path_mkdirs(dir, 0700, e);
    rc = rc == 0 ? path_write_new(path, text, 0600, e) : rc;
    if (rc == ERR_CONFLICT) {
        err_set(e, rc, "there is a bot '%s' already: edit '%s', or delete it first", name, path);
    } else if (rc < 0) {
        rmdir(dir); // only when it is empty: it was made for this
    }
    free(dir);
    free(path);
    return rc;
}

int catalog_create(const char *home, const char *name, struct str description,
                   struct str instructions, struct err *e)
{
    struct buf text = {.max = SIZE_MAX};
    struct err why = {0};
    int rc = bot_name_check(str_of(name), &why);
    rc = rc == 0 ? write_template(&text, description, instructions, &why) : rc;
    rc = rc == 0 ? check_text(buf_str(&text), name, &why) : rc;
    rc = rc == 0 ? write_new(home, name, buf_str(&text), &why) : rc;
    buf_fini(&text);
    return rc == 0 ? 0 : err_set(e, rc, "%s", why.msg);
}

/// There is no such bot of the user's; the nearest is named.
static int say_missing(const char *home, const char *name, struct err *e)
{
    struct catalog c;
    struct catalog_bot *came;
    int rc = catalog_read(&c, home, NULL, name, e);
    rc = rc == 0 ? catalog_find(&c, str_of(name), &came, e) : rc;
    catalog_fini(&c);
    return rc == 0 ? err_set(e, ERR_NOT_FOUND, "you have no bot '%s'", name) : rc;
}

// ---- patch --------------------------------------------------------------------------------------

int catalog_patch(const char *home, const char *name, const struct json *keys,
                  struct str instructions, struct err *e)
{
    struct buf old = {.max = BOT_CONFIG_BYTES}, text = {.max = SIZE_MAX};
    struct err why = {0};
    char *path = config_path(home, name);
    int rc = bot_name_check(str_of(name), &why);
    rc = rc == 0 ? path_read(path, &old, &why) : rc;
    rc = rc == -ENOENT ? say_missing(home, name, &why) : rc;
    rc = rc == 0 ? bot_config_edit(&text, buf_str(&old), keys, instructions, &why) : rc;
    rc = rc == 0 ? check_text(buf_str(&text), name, &why) : rc;
    rc = rc == 0 ? path_write_atomic(path, buf_str(&text), 0600, &why) : rc;
    buf_fini(&text);
    buf_fini(&old);
    free(path);
    return rc == 0 ? 0 : err_set(e, rc, "%s", why.msg);
}

// ---- delete -------------------------------------------------------------------------------------

/// config.md and skills/ alone. Of several at once, the one that gets config.md has deleted the bot.
static int trash_parts(const char *home, const char *name, const char *dir, char **where,
                       struct err *e)
{
    static const char *const parts[] = {"config.md", "skills"};
    int rc = trash_room(home, name, where, e);
    for (size_t i = 0; rc == 0 && i < ARRAY_LEN(parts); i++) {
        char *from = path_join(dir, parts[i]);
        char *to = path_join(*where, parts[i]);
        if (rename(from, to) < 0 && errno != ENOENT) {
            rc = err_sys(e, "cannot move '%s' to '%s'", from, to);
        } else if (i == 0 && !path_exists(to)) {
            rc = err_set(e, ERR_NOT_FOUND, "bot '%s' was just deleted", name);
            rmdir(*where);
        }
        free(to);
        free(from);
    }
    rmdir(dir); // a bot that never ran leaves nothing
    return rc;
}

int catalog_delete(const char *home, const char *name, bool history, char **where, struct err *e)
{
    char *dir = xasprintf("%s/bots/%s", home, name), *file = config_path(home, name);
    int rc = bot_name_check(str_of(name), e);
    *where = NULL;
    if (rc == 0 && !path_exists(history ? dir : file)) {
        rc = say_missing(home, name, e);
    } else if (rc == 0) {
        rc = history ? trash_move(home, name, dir, where, e)
                     : trash_parts(home, name, dir, where, e);
    }
    if (rc < 0) {
        free(*where);
        *where = NULL;
    }
    free(file);
    free(dir);
    return rc;
}
