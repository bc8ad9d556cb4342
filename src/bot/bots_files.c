// Bots as files: listed, made, shown, changed, taken away, imported. Thin: catalog.h and import.h do it.

#include "base/folder.h"
#include "base/path.h"
#include "base/time.h"
#include "bot/ask.h"
#include "bot/import.h"
#include "bot/memory.h"
#include "bot/record.h"
#include "bot/run_int.h"
#include "bot/skillset.h"
#include "store/store.h"

// ---- rows ---------------------------------------------------------------------------------------

static void write_row(struct jw *w, const struct catalog_bot *bot)
{
    jw_kstrz(w, "name", bot->name);
    jw_kstrz(w, "description", bot->config.description);
    jw_kstrz(w, "source", bot_origin_name(bot->origin));
    jw_kstrz(w, "path", bot->file);
    if (bot->status < 0) {
        jw_kstrz(w, "error", bot->err.msg);
    }
}

static void write_rows(struct ask *a)
{
    struct jw *w = &a->w;
    jw_obj(w);
    jw_karr(w, "bots");
    vec_foreach (bot, &a->catalog.list) {
        jw_obj(w);
        write_row(w, *bot);
        jw_end_obj(w);
    }
    jw_end_arr(w);
    jw_karr(w, "untrusted");
    vec_foreach (bot, &a->catalog.untrusted) {
        jw_strz(w, (*bot)->path);
    }
    ask__answer_list(a);
}

void bots_list(struct ask *a)
{
    ask__locate(a, 0, write_rows);
}

// ---- one ----------------------------------------------------------------------------------------

/// What is read for it besides.
struct shown {
    struct skillset skills;
    struct memory memory;
    size_t sessions; // in the workspace
};

static void free_shown(void *data)
{
    struct shown *s = data;
    skillset_fini(&s->skills);
    memory_fini(&s->memory);
    free(s);
}

static void write_diags(struct jw *w, const struct catalog_bot *bot, const struct shown *s)
{
    jw_karr(w, "diagnostics");
    for (size_t i = 0; i < bot->diags.n; i++) {
        const struct config_diag *d = &bot->diags.p[i];
        jw_obj(w);
        jw_kstrz(w, "severity", d->severity == CONFIG_ERROR ? "error" : "warning");
        jw_kstrz(w, "path", d->path);
        jw_kint(w, "line", d->line);
        jw_kint(w, "col", d->col);
        jw_kstrz(w, "message", d->message);
        jw_kstrz(w, "hint", d->hint);
        jw_end_obj(w);
    }
    vec_foreach (d, &s->skills.skills.faults) {
        jw_obj(w);
        jw_kstrz(w, "severity", "warning");
        jw_kstr(w, "path", d->file);
        jw_kstr(w, "message", d->message);
        jw_end_obj(w);
    }
    jw_end_arr(w);
}

static void write_shown(struct ask *a)
{
    struct shown *s = a->data;
    struct jw *w = &a->w;
    skillset_judge(&s->skills, a->b->o.hub->trust);
    jw_obj(w);
    write_row(w, a->bot);
    jw_kstrz(w, "instructions", a->bot->config.instructions);
    jw_kobj(w, "settings");
    bot_config_write(&a->bot->config, w);
    jw_end_obj(w);
    jw_karr(w, "skills");
    vec_foreach (it, &s->skills.list) {
        jw_str(w, it->skill->name);
    }
    jw_end_arr(w);
    if (a->ws.dir != NULL) {
        jw_kstrz(w, "project", a->ws.slug);
        jw_kint(w, "memory_count", (int64_t)s->memory.list.n);
        jw_kint(w, "session_count", (int64_t)s->sessions);
    }
    write_diags(w, a->bot, s);
    jw_end_obj(w);
    ask__answer(a);
}

/// A directory in `history` each.
static size_t count_sessions(const char *space)
{
    size_t n = 0;
    char *dir = path_join(space, "history");
    for (struct folder f = folder_open(dir); folder_next(&f);) {
        n += f.name[0] != '.';
    }
    free(dir);
    return n;
}

static void read_shown(struct ask *a) // on the lane
{
    struct shown *s = a->data;
    struct shelf *sh = a->b->shelf;
    skillset_read(&s->skills, sh, a->b->home, a->bot, a->real);
    if (a->ws.dir == NULL) {
        return;
    }
    a->rc = memory_load(&s->memory, sh, a->ws.dir, &a->e);
    if (sh == NULL) {
        s->sessions = count_sessions(a->ws.dir);
    } else if (a->rc == 0) {
        char *history = path_join(a->ws.dir, "history");
        a->rc = shelf_count(sh, history, &s->sessions, &a->e);
        free(history);
    }
}

static void show(struct ask *a)
{
    a->data = xcalloc(1, sizeof(struct shown));
    a->free_data = free_shown;
    ask__work(a, read_shown, write_shown);
}

void bots_show(struct ask *a)
{
    bool placed = ask__str(a, "working_dir").p != NULL || ask__str(a, "project").p != NULL;
    ask__locate(a, placed ? WHERE_SPACE : 0, show);
}

/// It is as it should be: read it again and show it.
static void reshow(struct ask *a)
{
    struct json_member m = {.key = STR("bot"), .value = {.type = JSON_STR, .s = str_of(a->name)}};
    struct json one = {.type = JSON_OBJ, .n = 1, .members = &m};
    bots_ask(a->b, bots_show, &one, a->cb, a->arg);
    ask__drop(a);
}

// ---- changes ------------------------------------------------------------------------------------

/// The keys of config.md among the parameters, as an object; NULL: there are none.
static const struct json *keys_of(struct ask *a)
{
    static const char *const others[] = {"name", "bot", "instructions"};
    const struct json *out = ask__without(a, &a->arena, others, ARRAY_LEN(others));
    return out->n != 0 ? out : NULL;
}

static void create(struct ask *a) // on the lane
{
    const char *home = a->b->home;
    const struct json *keys = keys_of(a);
    char *trash = NULL;
    a->rc = catalog_create(home, a->name, ask__str(a, "description"), ask__str(a, "instructions"),
                           &a->e);
    if (a->rc == 0 && keys != NULL &&
        (a->rc = catalog_patch(home, a->name, keys, STR_NULL, &a->e)) < 0 &&
        catalog_delete(home, a->name, false, &trash, NULL) < 0) {
        err_prefix(&a->e, "the bot was made, but");
    }
    free(trash);
}

/// The parameter `key` is the name of a bot that need not be there. False: it cannot be one, and was refused.
static bool take_name(struct ask *a, const char *key)
{
    struct err e = {0};
    a->name = ask__z(a, key);
    if (bot_name_check(str_of(a->name), &e) < 0) {
        ask__no(a, PROBLEM_INVALID_NAME, NULL, "%s", e.msg);
        return false;
    }
    return true;
}

void bots_create(struct ask *a)
{
    if (take_name(a, "name")) {
        a->named = true;
        ask__work(a, create, reshow);
    }
}

static void patch(struct ask *a) // on the lane
{
    a->rc = catalog_patch(a->b->home, a->name, keys_of(a), ask__str(a, "instructions"), &a->e);
}

static void patch_found(struct ask *a)
{
    if (a->bot->origin == BOT_OF_PROJECT) {
        ask__no(a, PROBLEM_CONFLICT, NULL, "'%s' belongs to the project: edit '%s'", a->name,
                a->bot->file);
    } else {
        ask__work(a, patch, reshow);
    }
}

void bots_patch(struct ask *a)
{
    ask__locate(a, 0, patch_found);
}

static void on_rescanned(void *arg, int status, const struct err *e)
{
    struct ask *a = arg;
    if (status < 0) {
        ask__fail(a, e);
    } else {
        ask__answer(a);
    }
}

/// Files of sessions were put there or taken away: lists know of it before the answer is given.
static void rescan(struct ask *a, const char *dir)
{
    store_rescan(a->b->store, str_of(dir), on_rescanned, a);
}

static void remove_bot(struct ask *a) // on the lane
{
    char *where = NULL;
    const char *dir = arena_printf(&a->arena, "%s/bots/%s", a->b->home, a->name);
    bool history = json_bool(json_get(a->params, "history"), false);
    if (a->b->shelf != NULL && history && path_exists(dir)) {
        // a file that goes to the trash with the rest
        const char *file =
            arena_printf(&a->arena, "%s/store-%lld.jsonl", dir, (long long)time_wall_ms());
        a->rc = shelf_drop_bot(a->b->shelf, a->name, file, &a->e);
    }
    if (a->rc == 0) {
        a->rc = catalog_delete(a->b->home, a->name, history, &where, &a->e);
    }
    jw_obj(&a->w);
    jw_kstrz(&a->w, "deleted", a->name);
    jw_kstrz(&a->w, "history", history ? "trash" : "kept");
    jw_kstrz(&a->w, "trash", where);
    jw_end_obj(&a->w);
    free(where);
}

static void removed(struct ask *a)
{
    rescan(a, arena_printf(&a->arena, "bots/%s/", a->name));
}

void bots_delete(struct ask *a)
{
    if (!take_name(a, "bot")) {
        return;
    }
    vec_foreach (r, &a->b->runs) {
        const struct record *rec = &(*r)->rec;
        if (strcmp(rec->bot, a->name) == 0) {
            ask__no(a, PROBLEM_CONFLICT, NULL, "'%s' runs: `afloat runs stop %s` first", a->name,
                    rec->run_id);
            return;
        }
    }
    ask__work(a, remove_bot, removed);
}

// ---- import -------------------------------------------------------------------------------------

static void import(struct ask *a) // on the lane
{
    struct import_report r = {0};
    a->rc = import_openbot(&r, a->b->shelf, a->b->home, ask__z(a, "path"), ask__z(a, "as"), &a->e);
    import_write(&r, &a->w);
    import_report_fini(&r);
}

static void imported(struct ask *a)
{
    rescan(a, "bots/");
}

void bots_import(struct ask *a)
{
    if (!str_starts(ask__str(a, "path"), "/")) {
        ask__no(a, PROBLEM_INVALID_BODY, NULL, "'path' must be an absolute path");
        return;
    }
    ask__work(a, import, imported);
}
