// `afloat run BOT [PROMPT]`: begin a run, follow it, say how it ended.
//
//     flags, directory, environment ──POST /bots/{bot}/runs──> run_id ──┬─ --detach: print it, leave
//                                                                       └─ run_follow.c ─> run_end.c
//
// The run is the hub's. What is here begins it and looks on; only Ctrl-C and SIGTERM, which a person
// sends, ask for its end, also while it is still beginning.

#include <errno.h>
#include <signal.h>
#include <unistd.h>

#include "cli/call.h"
#include "cli/run_int.h"
#include "cli/sessions.h"
#include "client/interrupt.h"

enum { REQUEST_MAX = 16 << 20, BEGIN_MS = 3600 * 1000 }; // [worktree] setup may take its time

// ---- what is asked for ---------------------------------------------------------------------

static int write_number(struct cli *c, struct jw *w, enum flag_id flag, const char *key)
{
    int64_t n;
    struct err e = {0};
    if (args_number(&c->args, flag, -1, &n, &e) < 0) {
        return cli__fail(c, &e);
    }
    if (n >= 0) {
        jw_kint(w, key, n);
    }
    return EXIT_OK;
}

// Paths are named as seen from here; the hub stands elsewhere. They need not be there yet.
static void write_paths(struct cli *c, struct jw *w, const char *here)
{
    jw_key(w, "wake_on");
    jw_arr(w);
    vec_foreach (f, &c->args.flags) {
        if (f->id == FLAG_WAKE_ON && f->value[0] == '/') {
            jw_strz(w, f->value);
        } else if (f->id == FLAG_WAKE_ON) {
            jw_strf(w, "%s/%s", here, f->value);
        }
    }
    jw_end_arr(w);
}

static void write_texts(struct cli *c, struct jw *w)
{
    static const struct {
        enum flag_id flag;
        const char *key;
    } texts[] = {{FLAG_PROJECT, "project"},
                 {FLAG_INSTRUCTIONS, "instructions"},
                 {FLAG_ENGINE, "engine"},
                 {FLAG_SANDBOX, "sandbox"}};
    static const struct {
        enum flag_id flag;
        const char *key;
        bool value;
    } switches[] = {{FLAG_NETWORK, "network", true},
                    {FLAG_MERGE, "merge", true},
                    {FLAG_NO_WORKTREE, "worktree", false},
                    {FLAG_SKIP_GIT_CHECK, "skip_git_check", true}};
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        if (args_has(&c->args, texts[i].flag)) {
            jw_kstrz(w, texts[i].key, args_value(&c->args, texts[i].flag));
        }
    }
    for (size_t i = 0; i < ARRAY_LEN(switches); i++) {
        if (args_has(&c->args, switches[i].flag)) {
            jw_kbool(w, switches[i].key, switches[i].value);
        }
    }
}

static void write_resume(struct cli *c, struct jw *w)
{
    const char *id = args_value(&c->args, FLAG_RESUME_RUN);
    if (id != NULL) {
        jw_kstrz(w, "resume", id);
    } else if (args_has(&c->args, FLAG_RESUME_RUN)) {
        jw_kbool(w, "resume", true);
    }
}

static int write_body(struct cli *c, struct jw *w, const char *prompt)
{
    char *here = getcwd(NULL, 0);
    if (here == NULL) {
        out_error(&c->out, "cannot use the current directory: %s", err_text(-errno));
        return EXIT_FAILED;
    }
    jw_obj(w);
    jw_kstrz(w, "working_dir", here);
    if (prompt != NULL) {
        jw_kstrz(w, "prompt", prompt);
    }
    int code = write_number(c, w, FLAG_ITERATIONS, "iterations");
    if (code == EXIT_OK) {
        code = write_number(c, w, FLAG_SLEEP, "sleep_secs");
    }
    write_resume(c, w);
    write_texts(c, w);
    chat__write_model(c, w);
    if (args_has(&c->args, FLAG_WAKE_ON)) {
        write_paths(c, w, here);
    }
    free(here);
    if (code == EXIT_OK) {
        jw_key(w, "env");
        code = chat__write_env(c, w);
    }
    if (code == EXIT_OK) {
        jw_end_obj(w);
    }
    return code;
}

// ---- begin ---------------------------------------------------------------------------------

static char *path_of(const char *bot)
{
    struct buf path, body;
    const struct ask_param params[] = {{"bot", bot}};
    buf_init(&path, SIZE_MAX);
    buf_init(&body, SIZE_MAX);
    int rc = ask_build(OP_RUN_START, params, ARRAY_LEN(params), &path, &body, NULL);
    (void)rc; // a string always fits
    char *out = xstrdup(buf_z(&path));
    buf_fini(&path);
    buf_fini(&body);
    return out;
}

// The answer is in `a` when the exit code is 0.
static int begin(struct cli *c, const char *prompt, struct client_answer *a)
{
    struct buf body;
    struct jw w;
    char *path = path_of(args_word(&c->args, 0));
    buf_init(&body, REQUEST_MAX);
    jw_init(&w, &body);
    int code = write_body(c, &w, prompt);
    if (code == EXIT_OK) {
        struct client_request r = {
            .method = "POST", .path = path, .body = buf_str(&body), .timeout_ms = BEGIN_MS};
        code = ask_request(c, &r, a);
    }
    if (code == EXIT_OK && a->status / 100 != 2) {
        if (args_has(&c->args, FLAG_JSON)) {
            out_body(&c->out, buf_str(&a->body));
        }
        code = ask_problem(c, a);
    }
    buf_fini(&body);
    free(path);
    return code;
}

// Nobody asked for the scripted model: the first session knows.
static void note_fallback(struct cli *c, const struct json *run)
{
    struct arena arena;
    const struct json *row;
    arena_init(&arena);
    const char *id = arena_strdup(&arena, json_str(json_get(run, "session_id"), ""));
    const struct ask_param params[] = {{"id", id}};
    if (id[0] != '\0' &&
        sessions__ask(c, OP_SESSION_SHOW, params, ARRAY_LEN(params), &arena, &row) == EXIT_OK &&
        json_bool(json_get(row, "fallback"), false)) {
        out_note(&c->out, "no model key found: this is the scripted demo model");
    }
    arena_fini(&arena);
}

static int detach(struct cli *c, const char *prompt)
{
    struct client_answer a;
    struct arena arena;
    client_answer_init(&a);
    arena_init(&arena);
    int code = begin(c, prompt, &a);
    const struct json *row = code == EXIT_OK ? ask_json(c, &arena, &a) : NULL;
    if (row != NULL) {
        const char *id = arena_strdup(&arena, json_str(json_get(row, "run_id"), ""));
        if (c->json) {
            out_body(&c->out, buf_str(&a.body));
        } else {
            out_addf(&c->out, "%s\n", id);
        }
        note_fallback(c, row);
        follow__say_detached(c, id, args_word(&c->args, 0));
    }
    client_answer_fini(&a);
    arena_fini(&arena);
    return code != EXIT_OK || row != NULL ? code : EXIT_FAILED;
}

// ---- Ctrl-C before it has begun ------------------------------------------------------------

// The one run of the bot that goes on here; its id, in `arena`, NULL when there is none or several.
static const char *find_begun(struct cli *c, struct arena *arena)
{
    char *here = getcwd(NULL, 0);
    const struct json *v;
    const struct ask_param params[] = {
        {"bot", args_word(&c->args, 0)}, {"state", "running"}, {"working_dir", here}};
    int code = ask_value(c, OP_RUN_LIST, params, ARRAY_LEN(params), arena, &v);
    const struct json *runs = json_get(v, "runs");
    bool one = code == EXIT_OK && json_at(runs, 0) != NULL && json_at(runs, 1) == NULL;
    free(here);
    return one ? arena_strdup(arena, json_str(json_get(json_at(runs, 0), "run_id"), "")) : NULL;
}

// Making the worktree, or its `setup`, takes long: the hub has the run, and we have no answer yet.
static int give_up(struct cli *c)
{
    struct arena arena;
    const struct json *v;
    int signum = interrupt_take();
    out_resume(&c->out);
    if (signum == SIGHUP) {
        return EXIT_INTERRUPTED;
    }
    arena_init(&arena);
    const char *id = find_begun(c, &arena);
    const struct ask_param params[] = {{"id", id}};
    if (id == NULL) {
        out_note(&c->out,
                 "left while the run was beginning; 'afloat runs' shows whether it goes on");
    } else if (ask_value(c, OP_RUN_STOP, params, ARRAY_LEN(params), &arena, &v) == EXIT_OK) {
        follow__say_end(c, v, NULL);
    }
    arena_fini(&arena);
    return EXIT_INTERRUPTED;
}

// ---- begin, follow, end --------------------------------------------------------------------

static int begin_followed(struct run_follow *f, const char *prompt)
{
    struct cli *c = f->chat->c;
    struct client_answer a;
    client_answer_init(&a);
    int code = follow__mark(c, &f->mark);
    if (code == EXIT_OK) {
        code = begin(c, prompt, &a);
    }
    if (interrupt_seen() != 0) {
        code = give_up(c);
    }
    const struct json *row = code == EXIT_OK ? ask_json(c, &f->arena, &a) : NULL;
    if (row != NULL) {
        struct str id = json_str(json_get(row, "run_id"), "");
        struct str branch = json_str(json_get(row, "branch"), "");
        snprintf(f->id, sizeof f->id, STR_FMT, STR_ARG(id));
        snprintf(f->bot, sizeof f->bot, "%s", args_word(&c->args, 0));
        out_note(&c->out, "run %s%s" STR_FMT, f->id, branch.n != 0 ? " on branch " : "",
                 STR_ARG(branch));
        note_fallback(c, row);
    }
    client_answer_fini(&a);
    return code != EXIT_OK || row != NULL ? code : EXIT_FAILED;
}

static int run_here(struct chat *t, void *arg)
{
    struct run_follow f = {.chat = t};
    arena_init(&f.arena);
    int code = begin_followed(&f, arg);
    if (code == EXIT_OK) {
        code = follow__run(&f);
    }
    if (code == EXIT_OK) {
        code = follow__ask_merge(&f);
        int ended = follow__say_end(t->c, f.end, &t->view);
        code = code != EXIT_OK ? code : ended;
    }
    arena_fini(&f.arena);
    return code;
}

static int read_prompt(struct cli *c, struct buf *text, char **out)
{
    const char *word = args_word(&c->args, 1);
    int code = EXIT_OK;
    *out = word != NULL ? xstrdup(word) : NULL;
    if (word != NULL && strcmp(word, "-") == 0) {
        code = call_read_text(c, word, text);
        free(*out);
        *out = xstrdup(buf_z(text));
    }
    if (code == EXIT_OK && *out != NULL && str_trim(str_of(*out)).n == 0) {
        out_error(&c->out, "the PROMPT is empty; without one the bot has its instructions alone");
        code = EXIT_USAGE;
    }
    return code;
}

int cmd_run(struct cli *c)
{
    struct buf text;
    char *prompt = NULL;
    buf_init(&text, CHAT_TEXT_MAX);
    int code = read_prompt(c, &text, &prompt);
    if (code == EXIT_OK) {
        chat__announce_untrusted(c, ".", true);
        code = args_has(&c->args, FLAG_DETACH) ? detach(c, prompt)
                                               : chat__with(c, true, run_here, prompt);
    }
    free(prompt);
    buf_fini(&text);
    return code;
}
