// Plugins that come and go by command: save, add, remove. Files are touched on a thread, each by one
// rename; what was there stays until the new thing is known to be good.
//
//     save     validate ── write beside, rename ── reload
//     add      a line of choices.json ── reload
//     remove   rename into trash/, or the line goes ── reload

#include <errno.h>
#include <stdio.h>

#include "api/handlers.h"
#include "api/plugin_int.h"
#include "base/path.h"
#include "base/time.h"
#include "loop/work.h"
#include "plugin/shipped.h"
#include "store/choices.h"

#define ENTRIES "plugin_entries"

/// One change on its way, in the arena of the call.
struct change {
    struct op_call *call;
    const char *path;  // what is written, moved or added
    const char *trash; // where its files go; NULL: they stay, or are gone
    bool removes;      // the answer says what was deleted
    struct str content;
    struct err e;
    int rc;
};

static struct change *change_new(struct op_call *c)
{
    struct change *ch = arena_alloc(c->arena, sizeof *ch);
    *ch = (struct change){.call = c};
    return ch;
}

/// Answer {KEY: name, path, report}.
static void answer(struct change *ch, const char *key, const struct gen_report *r)
{
    struct buf out = {.max = API_ANSWER_MAX};
    if (r == NULL) {
        op_fail(ch->call, PROBLEM_STOPPING, NULL, "the hub is stopping");
        return;
    }
    struct jw w = {.out = &out};
    jw_obj(&w);
    if (key != NULL) {
        jw_kstr(&w, key, api__name(ch->call));
    }
    jw_kstrz(&w, "path", ch->path);
    if (ch->removes) {
        jw_kstrz(&w, "trash", ch->trash);
    }
    jw_key(&w, "report");
    gen_report_write(r, &w);
    jw_end_obj(&w);
    api__answer_kept(ch->call->api, ch->call, buf_str(&out));
    buf_fini(&out);
}

// ---- save ------------------------------------------------------------------------------------

static void on_saved(const struct gen_report *r, void *arg)
{
    answer(arg, "name", r);
}

static void write_file(void *arg)
{
    struct change *ch = arg;
    char *dir = str_dup(path_dir(str_of(ch->path)));
    ch->rc = path_mkdirs(dir, 0700, &ch->e);
    if (ch->rc == 0) {
        ch->rc = path_write_atomic(ch->path, ch->content, 0600, &ch->e);
    }
    free(dir);
}

static void on_written(void *arg)
{
    struct change *ch = arg;
    if (ch->rc < 0) {
        op_fail(ch->call, PROBLEM_STORE_FAILED, NULL, "%s", ch->e.msg);
    } else {
        api__reload(ch->call->api, STR_NULL, false, on_saved, ch);
    }
}

static void on_valid(void *arg, const struct json *value, const struct api_invalid *no)
{
    struct change *ch = arg;
    struct api *api = ch->call->api;
    struct str name = api__name(ch->call), said = json_str(json_ptr(value, "/metadata/name"), "");
    if (no != NULL) {
        op_fail(ch->call, no->problem, NULL, "%s", no->detail);
    } else if (said.n != 0 && !str_eq(said, name)) {
        op_fail(ch->call, PROBLEM_INVALID_BODY, "make both the same",
                "Invalid plugin code: it says the name '%.*s' and is saved as '%.*s'",
                (int)MIN(said.n, PLUGIN_NAME_MAX), said.p, (int)name.n, name.p);
    } else if (api->files == NULL) {
        op_fail(ch->call, PROBLEM_STOPPING, NULL, "the hub is stopping");
    } else {
        work_submit(api->files, work_mount_key(ch->path), write_file, on_written, ch);
    }
}

static bool is_file(const struct plugin_row *p)
{
    return p->tree != NULL ? p->tree->is_file : plugin_lang_of(str_of(p->path)) != LANG_NONE;
}

/// Where code in `v->lang` goes, and how it is looked at meanwhile.
static void place(struct api *api, struct op_call *c, const struct plugin_row *p,
                  struct api_validation *v)
{
    v->name = arena_strdup(c->arena, api__name(c));
    if (p == NULL || is_file(p)) {
        v->path = p != NULL ? p->path
                            : arena_printf(c->arena, "%s/plugins/%s%s", api->o.hub->home->dir,
                                           v->name, plugin_lang_ending(v->lang));
        v->server = arena_strdup(c->arena, path_base(str_of(v->path)));
    } else {
        v->path = p->path;
        v->server = p->shape != NULL && p->shape->server != NULL
                        ? p->shape->server
                        : arena_printf(c->arena, "init%s", plugin_lang_ending(v->lang));
        v->tree = p->tree;
        v->options = p->options;
    }
}

void op_PLUGIN_SAVE(struct api *api, struct op_call *c)
{
    struct str name = api__name(c), content = json_get_text(c->params, "content");
    struct api_row row;
    bool reserved = op_has_path("/plugin/", name);
    if (!api__require_plugins(api, c)) {
        return;
    }
    if (reserved || !plugin_name_valid(name)) {
        op_fail(c, PROBLEM_INVALID_NAME,
                reserved ? NULL : "a-z first, then a-z, 0-9, '-' and '_'; 64 at most",
                reserved ? "'%.*s' is reserved" : "'%.*s' is no name for a plugin",
                (int)MIN(name.n, 100), name.p);
        return;
    }
    bool found = api__row_find(api, name, &row);
    // a save does not change a project's plugin or a shipped one: it makes a namesake of the user's
    bool known =
        found && (str_starts(str_of(row.p.layer), "user") || strcmp(row.p.layer, "config") == 0);
    if (found && row.inside) { // its path is that of a whole module
        api__refuse_inside(c, &row);
        return;
    }
    struct api_validation v = {.content = content};
    const char *server = known && row.p.shape != NULL ? row.p.shape->server : NULL;
    server = known && is_file(&row.p) ? row.p.path : server; // whose language the plugin has
    if (!api__find_lang(c, json_get_text(c->params, "lang"), server, content, &v.lang)) {
        return;
    }
    place(api, c, known ? &row.p : NULL, &v);
    if (str_trim(content).n == 0) {
        op_fail(c, PROBLEM_INVALID_BODY, "`afloat plugin remove NAME` takes a plugin away",
                "Invalid plugin code: it is empty");
        return;
    }
    struct change *ch = change_new(c);
    ch->content = content;
    ch->path = known && !is_file(&row.p) ? arena_printf(c->arena, "%s/%s", v.path, v.server)
                                         : arena_strdup(c->arena, str_of(v.path));
    api__validate(api, &v, on_valid, ch);
}

// ---- the lines of `plugin add` ---------------------------------------------------------------

static void on_reloaded(const struct gen_report *r, void *arg)
{
    struct change *ch = arg;
    answer(ch, ch->removes ? "deleted" : NULL, r);
}

static void on_choice(void *arg, int status, const struct err *e)
{
    struct change *ch = arg;
    if (status < 0) {
        op_fail(ch->call, PROBLEM_STORE_FAILED, NULL, "%s", e->msg);
    } else {
        api__reload(ch->call->api, STR_NULL, false, on_reloaded, ch);
    }
}

/// Is this entry of the list the one for `path`, or for the shipped plugin `name`?
static bool is_entry(const struct json *entry, const char *path, struct str name)
{
    struct str named = json_get_text(entry, "name");
    return named.n != 0 ? str_eq(named, name) : str_eqz(json_get_text(entry, "path"), path);
}

/// Take the entry of the change out of the list and, unless that removes it, add it at the end.
static void set_entries(struct change *ch, struct str name)
{
    struct buf text = {.max = SIZE_MAX};
    struct jw w = {.out = &text};
    jw_arr(&w);
    json_foreach_item (entry, choices_get(ch->call->api->o.hub->choices, STR(ENTRIES))) {
        if (!is_entry(entry, ch->path, name)) {
            jw_value(&w, entry);
        }
    }
    if (!ch->removes) {
        jw_obj(&w);
        jw_kstr(&w, name.n != 0 ? "name" : "path", name.n != 0 ? name : str_of(ch->path));
        jw_end_obj(&w);
    }
    jw_end_arr(&w);
    choices_set(ch->call->api->o.hub->choices, STR(ENTRIES), buf_str(&text), on_choice, ch);
    buf_fini(&text);
}

void op_PLUGIN_ADD(struct api *api, struct op_call *c)
{
    struct str given = json_get_text(c->params, "path"), name = STR_NULL;
    if (!api__require_plugins(api, c)) {
        return;
    }
    struct buf all = {.max = SIZE_MAX};
    bool shipped = shipped_has(given);
    shipped_add_names(&all);
    const char *hint = arena_printf(c->arena, "these come with the program: %s", buf_z(&all));
    buf_fini(&all);
    if (shipped) {
        name = given;
    } else if (given.n == 0 || given.p[0] != '/' || memchr(given.p, '\0', given.n) != NULL) {
        bool name_like = given.n != 0 && memchr(given.p, '/', given.n) == NULL;
        op_fail(c, name_like ? PROBLEM_NOT_FOUND : PROBLEM_INVALID_BODY, hint,
                name_like
                    ? "no plugin '" STR_FMT "' comes with the program; a path must be absolute"
                    : "'" STR_FMT "' must be an absolute path, or the name of a plugin that comes "
                      "with the program",
                STR_ARG(given));
        return;
    }
    char *clean = path_clean(arena_strdup(c->arena, given));
    const char *path = arena_strdup(c->arena, str_of(clean));
    free(clean);
    if (!shipped &&
        path_below(path, api->o.hub->home->dir) != NULL) { // our log would change the plugin
        op_fail(c, PROBLEM_INVALID_BODY, "name the plugin's own directory",
                "'%s' holds the home of Afloat", path);
        return;
    }
    json_foreach_item (entry, choices_get(api->o.hub->choices, STR(ENTRIES))) {
        if (is_entry(entry, path, name)) {
            op_fail(c, PROBLEM_NAME_TAKEN, NULL, "'%s' was added before", path);
            return;
        }
    }
    struct change *ch = change_new(c);
    ch->path = path;
    set_entries(ch, name);
}

// ---- remove ----------------------------------------------------------------------------------

static void move_to_trash(void *arg)
{
    struct change *ch = arg;
    char *dir = str_dup(path_dir(str_of(ch->trash)));
    ch->rc = path_mkdirs(dir, 0700, &ch->e);
    if (ch->rc == 0 && rename(ch->path, ch->trash) < 0) {
        ch->rc = errno == EXDEV
                     ? err_set(&ch->e, ERR_CONFLICT,
                               "'%s' is on another file system: remove it by hand", ch->path)
                     : err_sys(&ch->e, "cannot move '%s'", ch->path);
    }
    free(dir);
}

/// Nothing of it is on disk any more: what an undo or a choice says about the name goes too, so that a
/// plugin of that name begins anew, switched on.
static void forget_name(struct change *ch)
{
    struct str name = api__name(ch->call);
    const char *key = arena_printf(ch->call->arena, "plugins." STR_FMT ".enabled", STR_ARG(name));
    ch->removes = true;
    plugins_forget_hold(ch->call->api->plugins, name);
    if (choices_get(ch->call->api->o.hub->choices, str_of(key)) != NULL) {
        choices_set(ch->call->api->o.hub->choices, str_of(key), STR_NULL, on_choice, ch);
    } else {
        on_choice(ch, 0, NULL);
    }
}

static void on_moved(void *arg)
{
    struct change *ch = arg;
    struct str name = api__name(ch->call);
    if (ch->call->api->plugins == NULL) {
        op_fail(ch->call, PROBLEM_STOPPING, NULL, "the hub is stopping");
    } else if (ch->rc == -ENOENT && !plugins_forget_hold(ch->call->api->plugins, name)) {
        // another client, or the user, removed it after we looked
        op_fail(ch->call, PROBLEM_NOT_FOUND, NULL, "Plugin not found: " STR_FMT, STR_ARG(name));
    } else if (ch->rc < 0 && ch->rc != -ENOENT) {
        op_fail(ch->call, ch->rc == ERR_CONFLICT ? PROBLEM_CONFLICT : PROBLEM_STORE_FAILED, NULL,
                "%s", ch->e.msg);
    } else {
        ch->trash = ch->rc == 0 ? ch->trash : NULL;
        forget_name(ch);
    }
}

static void remove_files(struct change *ch, const char *path)
{
    struct arena *a = ch->call->arena;
    struct str base = path_base(str_of(path));
    ch->path = arena_strdup(a, str_of(path));
    ch->trash = arena_printf(a, "%s/trash/%lld-" STR_FMT, ch->call->api->o.hub->home->dir,
                             (long long)time_wall_ms(), STR_ARG(base));
    work_submit(ch->call->api->files, work_mount_key(ch->path), move_to_trash, on_moved, ch);
}

void op_PLUGIN_REMOVE(struct api *api, struct op_call *c)
{
    struct api_row row;
    if (!api__require_plugins(api, c) || !api__row_of(api, c, &row)) {
        return;
    }
    const struct plugin_row *p = &row.p;
    struct change *ch = NULL;
    if (p->required) {
        op_fail(c, PROBLEM_PLUGIN_REQUIRED, "take `required` out of its entry in config.toml first",
                "plugin '%s' is required and cannot be removed", p->name);
    } else if (row.inside) {
        api__refuse_inside(c, &row);
    } else if (row.scope != NULL) {
        remove_files(change_new(c),
                     p->path[0] != '\0'
                         ? p->path
                         : arena_printf(c->arena, "%s/lua/%s.lua", api->o.hub->home->dir, p->name));
    } else if (strcmp(p->source, "discovered") == 0) {
        remove_files(change_new(c), p->path);
    } else if (strcmp(p->source, "choice") == 0) {
        ch = change_new(c);
        ch->path = arena_strdup(c->arena, str_of(p->path));
        plugins_forget_hold(api->plugins, api__name(c));
        ch->removes = true;
        set_entries(ch, str_of(p->name));
    } else if (p->source[0] == '\0') { // an undo keeps it out, and nothing of it is on disk
        ch = change_new(c);
        ch->path = "";
        forget_name(ch);
    } else {
        op_fail(c, PROBLEM_CONFLICT, "`afloat plugin disable NAME` switches it off",
                "plugin '%s' comes from %s and is removed there", p->name,
                strcmp(p->source, "config") == 0 ? "[[plugins]] in config.toml" : p->source);
    }
}
