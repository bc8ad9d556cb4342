// Which session a chat is about: a new one, the last one of this directory, or one by its id.
//
// A session that is continued gets the environment of this client: a restarted hub has lost the keys, and the
// user may have another PATH today.

#include <assert.h>
#include <errno.h>
#include <unistd.h>

#include "chat/chat_int.h"
#include "cli/sessions.h"

enum { REQUEST_MAX = 16 << 20 };

// ---- what the flags say --------------------------------------------------------------------

static int write_dir(struct chat *t, struct jw *w, const char *key, const char *given)
{
    int code = EXIT_OK;
    char *path = given != NULL ? realpath(given, NULL) : cli__here(t->c, &code);
    if (path == NULL && given != NULL) {
        code = cli__exit_of(-errno);
        out_error(&t->c->out, "cannot use the directory '%s': %s", given, err_text(-errno));
    }
    if (path == NULL) {
        return code;
    }
    if (key != NULL) {
        jw_key(w, key);
    }
    jw_strz(w, path);
    free(path);
    return EXIT_OK;
}

static int write_added_dirs(struct chat *t, struct jw *w)
{
    int code = EXIT_OK;
    if (!args_has(&t->c->args, FLAG_ADD_DIR)) {
        return code;
    }
    jw_karr(w, "writable");
    vec_foreach (f, &t->c->args.flags) {
        if (f->id == FLAG_ADD_DIR && code == EXIT_OK) {
            code = write_dir(t, w, NULL, f->value);
        }
    }
    jw_end_arr(w);
    return code;
}

static int write_body(struct chat *t, struct buf *body, bool fresh)
{
    const char *cwd = args_value(&t->c->args, FLAG_CWD);
    struct jw w = {.out = body};
    jw_obj(&w);
    // with -c, the flag chose the session, which stays where it works
    bool moves = cwd != NULL && !args_has(&t->c->args, FLAG_CONTINUE);
    int code = fresh || moves ? write_dir(t, &w, "working_dir", cwd) : EXIT_OK;
    sent_write_choices(t->c, &w);
    if (fresh && args_has(&t->c->args, FLAG_BOT)) {
        jw_kstrz(&w, "bot", args_value(&t->c->args, FLAG_BOT));
    }
    if (fresh && args_has(&t->c->args, FLAG_TYPE)) {
        jw_kstrz(&w, "type", args_value(&t->c->args, FLAG_TYPE));
    }
    if (fresh && args_has(&t->c->args, FLAG_ENGINE)) {
        jw_kstrz(&w, "engine", args_value(&t->c->args, FLAG_ENGINE));
    }
    if (code == EXIT_OK) {
        code = write_added_dirs(t, &w);
    }
    if (code == EXIT_OK) {
        jw_key(&w, "env");
        code = sent_write_env(t->c, &w);
    }
    if (code == EXIT_OK) {
        jw_end_obj(&w);
    }
    return code;
}

// ---- requests ------------------------------------------------------------------------------

static void take_row(struct chat *t, const struct json *row)
{
    struct str id = json_get_text(row, "id"), turn = json_get_text(row, "turn");
    snprintf(t->id, sizeof t->id, STR_FMT, STR_ARG(id));
    snprintf(t->turn, sizeof t->turn, STR_FMT, STR_ARG(turn));
    gauge_row(&t->gauge, row);
    sessions__note(t->c, row);
}

static int write_new(struct chat *t, struct buf *body, struct str unused)
{
    (void)unused;
    return write_body(t, body, true);
}

static int write_change(struct chat *t, struct buf *body, struct str unused)
{
    (void)unused;
    return write_body(t, body, false);
}

int chat__send(struct chat *t, const char *method, const char *path, chat_write *write,
               struct str text, chat_take *take)
{
    assert(write != NULL && take != NULL);
    struct client_answer a;
    struct arena arena = {0};
    struct buf body = {.max = REQUEST_MAX};
    client_answer_init(&a);
    int code = write(t, &body, text);
    struct client_request r = {.method = method, .path = path, .body = buf_str(&body)};
    if (code == EXIT_OK) {
        code = ask_accepted(t->c, &r, &a);
    }
    const struct json *v = code == EXIT_OK ? ask_json(t->c, &arena, &a) : NULL;
    if (v != NULL) {
        take(t, v);
    }
    buf_fini(&body);
    arena_fini(&arena);
    client_answer_fini(&a);
    return code != EXIT_OK || v != NULL ? code : EXIT_FAILED;
}

// ---- the last one ---------------------------------------------------------------------------

struct last {
    char *here;
    const char *bot; // NULL: none
    char *id;        // CHAT_ID_MAX bytes; "" until it is found
};

// A conversation, not an iteration of a run. One in a worktree belongs to where it was started.
static bool is_last(const struct json *row, void *arg)
{
    struct last *l = arg;
    bool in_run = json_get_text(row, "run_id").n != 0;
    bool fits = str_eqz(json_get_text(row, in_run ? "started_in" : "working_dir"), l->here) &&
                str_eq(json_get_text(row, "bot"), str_of(l->bot)) &&
                !str_eqz(json_get_text(row, "state"), "ended");
    if (fits) {
        snprintf(l->id, CHAT_ID_MAX, STR_FMT, STR_ARG(json_get_text(row, "id")));
    }
    return !fits;
}

// The newest session of this directory that can be continued.
static int find_last(struct chat *t, char id[CHAT_ID_MAX])
{
    const char *given = args_value(&t->c->args, FLAG_CWD);
    struct last l = {.here = realpath(given != NULL ? given : ".", NULL),
                     .bot = args_value(&t->c->args, FLAG_BOT),
                     .id = id};
    id[0] = '\0';
    int code = l.here != NULL ? sessions__each(t->c, is_last, &l) : EXIT_OK;
    if (code == EXIT_OK && id[0] == '\0') {
        out_error(&t->c->out,
                  "this directory has no session to continue; start one with 'afloat chat'");
        code = EXIT_NOT_FOUND;
    }
    free(l.here);
    return code;
}

// ---- shared --------------------------------------------------------------------------------

int chat__new(struct chat *t)
{
    t->seq = 0;
    return chat__send(t, "POST", ops[OP_SESSION_NEW].path, write_new, STR_NULL, take_row);
}

int chat__resume(struct chat *t, const char *id)
{
    assert(id != NULL);
    char path[2 * CHAT_ID_MAX];
    int code = sessions__resolve(t->c, id, t->id, sizeof t->id);
    if (code != EXIT_OK) {
        return code;
    }
    snprintf(path, sizeof path, "/session/%s", t->id);
    t->seq = 0;
    code = chat__send(t, "PATCH", path, write_change, STR_NULL, take_row);
    return code == EXIT_OK ? chat__show_past(t) : code;
}

int chat__open(struct chat *t)
{
    const struct args *a = &t->c->args;
    if (args_has(a, FLAG_RESUME)) {
        return chat__resume(t, args_value(a, FLAG_RESUME));
    }
    if (!args_has(a, FLAG_CONTINUE)) {
        return chat__new(t);
    }
    char id[CHAT_ID_MAX];
    int code = find_last(t, id);
    return code == EXIT_OK ? chat__resume(t, id) : code;
}

int chat__row(struct chat *t, struct arena *arena, const struct json **out)
{
    struct ask_param params[] = {{"id", t->id}};
    return ask_value(t->c, OP_SESSION_SHOW, params, ARRAY_LEN(params), arena, out);
}

void chat__refresh(struct chat *t)
{
    struct arena arena = {0};
    const struct json *row =
        t->drawable
            ? ask_quietly(t->c, OP_SESSION_SHOW, &(struct ask_param){"id", t->id}, 1, 0, &arena)
            : NULL;
    if (row != NULL) {
        gauge_row(&t->gauge, row);
    }
    arena_fini(&arena);
}
