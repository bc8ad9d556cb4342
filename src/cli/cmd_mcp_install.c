// `afloat mcp install CLIENT`: put Afloat among the MCP servers of another program.
//
//     find the client's file ─> what it would hold ─> the same already? done ─> ask ─> unchanged? ─> backup ─> replace in one step
//
// Files of JSON are read and written again, with everything else in them; one that is not plain JSON (with comments)
// is left alone, and the user is shown what to add. In codex's TOML a table is appended. Links are followed: dotfiles
// are often kept elsewhere.

#include <assert.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/json.h"
#include "base/path.h"
#include "base/toml.h"
#include "cli/cli_int.h"

enum { FILE_MAX = 16 << 20 };

/// Where each client keeps its servers, and what it wants of one.
static const struct client_file {
    const char *name, *title;
    const char *env;     // names another directory for its files, if it is set; NULL: nothing does
    const char *dir;     // where they are else, below the home directory
    const char *path;    // in there
    const char *key;     // of the object of servers; NULL: TOML
    const char *members; // more members of a server, as JSON with a comma at the end
} clients[] = {
    {"claude", "Claude Code", "CLAUDE_CONFIG_DIR", ".", ".claude.json", "mcpServers",
     "\"type\":\"stdio\","},
    {"cursor", "Cursor", NULL, ".cursor", "mcp.json", "mcpServers", ""},
    {"vscode", "VS Code", "XDG_CONFIG_HOME", ".config", "Code/User/mcp.json", "servers",
     "\"type\":\"stdio\","},
    {"zed", "Zed", "XDG_CONFIG_HOME", ".config", "zed/settings.json", "context_servers",
     "\"source\":\"custom\","},
    {"codex", "Codex", "CODEX_HOME", ".codex", "config.toml", NULL, ""},
};

struct install {
    struct cli *c;
    const struct client_file *client;
    char *program;
    char *path; // of the file, links followed
    struct buf old, new;
    bool exists;
    mode_t mode;
};

// ---- what it would hold -----------------------------------------------------------------------

/// A text as a string of the client's format.
static void add_quoted(const struct install *in, struct buf *out, const char *text)
{
    struct jw w = {.out = out};
    if (in->client->key == NULL) {
        toml_add_str(out, str_of(text));
    } else {
        jw_strz(&w, text);
    }
}

/// The server as an object of JSON, or as a table of TOML.
static void write_server(const struct install *in, struct buf *out)
{
    bool toml = in->client->key == NULL;
    if (toml) {
        buf_addz(out, "[mcp_servers.afloat]\ncommand = ");
    } else {
        buf_addf(out, "{%s\"command\":", in->client->members);
    }
    add_quoted(in, out, in->program);
    buf_addz(out, toml ? "\nargs = [\"mcp\"]\n" : ",\"args\":[\"mcp\"]");
    if (getenv("AFLOAT_HOME") != NULL ||
        args_has(&in->c->args, FLAG_HOME)) { // the client would not find it by itself
        buf_addz(out, toml ? "env = { AFLOAT_HOME = " : ",\"env\":{\"AFLOAT_HOME\":");
        add_quoted(in, out, in->c->home.dir);
        buf_addz(out, toml ? " }\n" : "}");
    }
    buf_addz(out, toml ? "" : "}");
}

static int make_json(struct install *in, struct arena *a, struct err *e)
{
    assert(in->client->key != NULL);
    struct json *whole = NULL, *server;
    struct buf text = {.max = SIZE_MAX};
    struct err why = {0};
    write_server(in, &text);
    int rc = json_parse(&server, a, str_of(arena_strdup(a, buf_str(&text))), NULL, e);
    buf_fini(&text);
    if (rc == 0 && str_trim(buf_str(&in->old)).n != 0 &&
        (json_parse(&whole, a, buf_str(&in->old), NULL, &why) < 0 || whole->type != JSON_OBJ)) {
        return err_set(
            e, ERR_PARSE,
            "'%s' is not plain JSON (%s); add by hand what 'afloat mcp install %s --print' shows",
            in->path, why.msg[0] != '\0' ? why.msg : "not an object", in->client->name);
    }
    const struct json *servers = json_get(whole, in->client->key);
    struct json *now = json_with(a, servers, STR("afloat"), server);
    json_write(&in->new, json_with(a, whole, str_of(in->client->key), now), 2);
    buf_addc(&in->new, '\n');
    return rc;
}

/// Append our table, unless TOML does not allow it there: to an inline `mcp_servers = {...}`, for one.
static int append_table(struct install *in, struct arena *a, const struct buf *table, struct err *e)
{
    struct toml *new;
    bool ends = in->old.n == 0 || str_ends(buf_str(&in->old), "\n");
    buf_adds(&in->new, buf_str(&in->old));
    buf_addz(&in->new, in->old.n == 0 ? "" : ends ? "\n" : "\n\n");
    buf_adds(&in->new, buf_str(table));
    return toml_parse(&new, a, buf_str(&in->new), NULL, NULL, NULL) == 0
               ? 0
               : err_set(e, ERR_CONFLICT,
                         "'%s' has its servers in a form to which none can be appended; add by "
                         "hand what 'afloat mcp install codex --print' shows",
                         in->path);
}

static int make_toml(struct install *in, struct arena *a, struct err *e)
{
    assert(in->client->key == NULL);
    struct buf table = {.max = SIZE_MAX};
    struct err why = {0};
    struct toml *old;
    int rc = toml_parse(&old, a, buf_str(&in->old), NULL, NULL, &why);
    if (rc < 0) {
        return err_set(e, rc,
                       "'%s' is not TOML (%s); add by hand what 'afloat mcp install codex --print' "
                       "shows",
                       in->path, why.msg);
    }
    write_server(in, &table);
    if (toml_get(toml_get(old, "mcp_servers"), "afloat") == NULL) {
        rc = append_table(in, a, &table, e);
    } else if (strstr(buf_z(&in->old), buf_z(&table)) != NULL) {
        buf_adds(&in->new, buf_str(&in->old));
    } else {
        rc = err_set(e, ERR_CONFLICT,
                     "'%s' has another server 'afloat'; change it by hand to what "
                     "'afloat mcp install codex --print' shows",
                     in->path);
    }
    buf_fini(&table);
    return rc;
}

// ---- finding and replacing ----------------------------------------------------------------------

static int find_client(struct install *in, struct err *e)
{
    const char *name = args_word(&in->c->args, 0);
    const char *names[ARRAY_LEN(clients)];
    for (size_t i = 0; i < ARRAY_LEN(clients); i++) {
        names[i] = clients[i].name;
        if (strcmp(name, clients[i].name) == 0) {
            in->client = &clients[i];
            return 0;
        }
    }
    const char *nearest = str_nearest(str_of(name), names, ARRAY_LEN(names));
    return err_set(e, ERR_USAGE,
                   "unknown client '%s'%s%s%s; known are claude, cursor, vscode, zed and codex",
                   name, nearest != NULL ? " (did you mean '" : "", nearest != NULL ? nearest : "",
                   nearest != NULL ? "'?)" : "");
}

static int read_old(struct install *in, struct err *e)
{
    const char *home = getenv("HOME");
    struct stat st;
    if (home == NULL || home[0] != '/') {
        return err_set(e, ERR_INVALID, "HOME is not set, so the files of %s cannot be found",
                       in->client->title);
    }
    const char *moved = in->client->env != NULL ? getenv(in->client->env) : NULL;
    char *usual =
        strcmp(in->client->dir, ".") != 0 ? path_join(home, in->client->dir) : xstrdup(home);
    char *path = path_join(moved != NULL && moved[0] == '/' ? moved : usual, in->client->path);
    char *real = realpath(path, NULL);
    free(usual);
    in->path = real != NULL ? real : path;
    if (real != NULL) {
        free(path);
    }
    in->mode = 0600;
    in->exists = stat(in->path, &st) == 0;
    if (!in->exists) {
        return 0;
    }
    in->mode = st.st_mode & 0777;
    return path_read(in->path, &in->old, e);
}

/// The client may have written its file while the question stood; what it wrote must not be undone.
static int check_unchanged(const struct install *in, struct err *e)
{
    struct buf now = {.max = FILE_MAX};
    bool exists = access(in->path, F_OK) == 0;
    int rc = exists ? path_read(in->path, &now, e) : 0;
    if (rc == 0 && (exists != in->exists || !str_eq(buf_str(&now), buf_str(&in->old)))) {
        rc = err_set(e, ERR_CONFLICT,
                     "'%s' changed meanwhile and stays as it is; type the command again", in->path);
    }
    buf_fini(&now);
    return rc;
}

static int replace(struct install *in, struct err *e)
{
    assert(in->path != NULL);
    char *backup = xasprintf("%s.afloat-backup", in->path);
    char *dir = str_dup(path_dir(str_of(in->path)));
    int rc = path_mkdirs(dir, 0700, e);
    rc = rc == 0 ? check_unchanged(in, e) : rc;
    if (rc == 0 && in->exists) {
        rc = path_write_atomic(backup, buf_str(&in->old), in->mode, e);
    }
    if (rc == 0) {
        rc = path_write_atomic(in->path, buf_str(&in->new), in->mode, e);
    }
    if (rc == 0) {
        out_note(&in->c->out, "added 'afloat' to %s%s%s; restart %s to use it", in->path,
                 in->exists ? ", the old file is " : "", in->exists ? backup : "",
                 in->client->title);
    }
    free(dir);
    free(backup);
    return rc;
}

static void print(struct install *in)
{
    struct buf text = {.max = SIZE_MAX}, pretty = {.max = SIZE_MAX};
    struct arena a = {0};
    struct json *server;
    if (in->client->key == NULL) {
        write_server(in, &pretty);
    } else {
        buf_addf(&text, "{\"%s\":{\"afloat\":", in->client->key);
        write_server(in, &text);
        buf_addz(&text, "}}");
        if (json_parse(&server, &a, buf_str(&text), NULL, NULL) == 0) {
            json_write(&pretty, server, 2);
            buf_addc(&pretty, '\n');
        }
    }
    out_note(&in->c->out, "for %s, in %s:", in->client->title, in->path);
    out_add(&in->c->out, buf_str(&pretty));
    buf_fini(&text);
    buf_fini(&pretty);
    arena_fini(&a);
}

int cmd_mcp_install(struct cli *c)
{
    struct install in = {.c = c};
    struct err e = {0};
    struct arena a = {0};
    buf_init(&in.old, FILE_MAX);
    buf_init(&in.new, SIZE_MAX);
    int rc = find_client(&in, &e);
    if (rc == 0 && (in.program = path_own_program(&e)) == NULL) {
        rc = e.code;
    }
    rc = rc == 0 ? read_old(&in, &e) : rc;
    if (rc == 0 && args_has(&c->args, FLAG_PRINT)) {
        print(&in);
    } else if (rc == 0) {
        rc = in.client->key != NULL ? make_json(&in, &a, &e) : make_toml(&in, &a, &e);
        if (rc == 0 && str_eq(buf_str(&in.old), buf_str(&in.new))) {
            out_note(&c->out, "%s has Afloat already, in %s", in.client->title, in.path);
        } else if (rc == 0) {
            const char *question = arena_printf(&a, "Add Afloat to the MCP servers of %s in %s?",
                                                in.client->title, in.path);
            const char *needs = arena_printf(
                &a,
                "this changes '%s' and needs a yes on a terminal; 'afloat mcp install %s --print' "
                "shows what to add by hand",
                in.path, in.client->name);
            rc = cli__confirm(c, question, needs, &e);
            rc = rc == 0 ? replace(&in, &e) : rc;
        }
    }
    free(in.path);
    free(in.program);
    buf_fini(&in.old);
    buf_fini(&in.new);
    arena_fini(&a);
    return rc == 0 ? EXIT_OK : cli__fail(c, &e);
}
