// `afloat run BOT [PROMPT]`: begin a run, follow it, say how it ended.
//
//     flags, directory, environment ──POST /bots/{bot}/runs──> run_id ──┬─ --detach: print it, leave
//                                                                       └─ run_follow.c ─> run_end.c
//
// The run is the hub's: this command starts it and watches. Only Ctrl-C and SIGTERM ask for its end, also
// while it is still starting.

#include <errno.h>
#include <signal.h>
#include <unistd.h>

#include "cli/call.h"
#include "cli/run_int.h"
#include "cli/sessions.h"
#include "client/interrupt.h"

enum { REQUEST_MAX = 16 << 20, BEGIN_MS = 3600 * 1000 }; // [worktree] setup may take its time

// ---- begin ---------------------------------------------------------------------------------

/// --wake-on, as an array. The hub's directory is another than ours; the paths need not exist yet.
static const char *wake_paths(struct cli *c, struct buf *out, const char *here)
{
    struct jw w = {.out = out};
    jw_arr(&w);
    vec_foreach (f, &c->args.flags) {
        if (f->id == FLAG_WAKE_ON && f->value[0] == '/') {
            jw_strz(&w, f->value);
        } else if (f->id == FLAG_WAKE_ON) {
            jw_strf(&w, "%s/%s", here, f->value);
        }
    }
    jw_end_arr(&w);
    return args_has(&c->args, FLAG_WAKE_ON) ? buf_z(out) : NULL;
}

/// --resume, as JSON: the id, or true without one.
static const char *resumed(struct cli *c, struct buf *out)
{
    const char *id = args_value(&c->args, FLAG_RESUME_RUN);
    struct jw w = {.out = out};
    if (id != NULL) {
        jw_strz(&w, id);
    } else {
        jw_bool(&w, true);
    }
    return args_has(&c->args, FLAG_RESUME_RUN) ? buf_z(out) : NULL;
}

static int send(struct cli *c, const struct ask_param *params, size_t n, struct client_answer *a)
{
    struct buf path = {.max = SIZE_MAX}, body = {.max = REQUEST_MAX};
    struct err e = {0};
    int64_t number;
    int rc = args_number(&c->args, FLAG_ITERATIONS, 0, &number, &e);
    rc = rc == 0 ? args_number(&c->args, FLAG_SLEEP, 0, &number, &e) : rc;
    rc = rc == 0 ? ask_build(OP_RUN_START, params, n, &path, &body, &e) : rc;
    struct client_request r = {
        .method = "POST", .path = buf_z(&path), .body = buf_str(&body), .timeout_ms = BEGIN_MS};
    int code = rc == 0 ? ask_request(c, &r, a) : cli__fail(c, &e);
    if (code == EXIT_OK && a->status / 100 != 2) {
        if (args_has(&c->args, FLAG_JSON)) {
            out_body(&c->out, buf_str(&a->body));
        }
        code = ask_problem(c, a);
    }
    buf_fini(&path);
    buf_fini(&body);
    return code;
}

// The answer is in `answer` when the exit code is 0.
static int begin(struct cli *c, const char *prompt, struct client_answer *answer)
{
    const struct args *a = &c->args;
    struct arena arena = {0};
    struct buf resume = {.max = SIZE_MAX}, wake = {.max = SIZE_MAX}, env = {.max = REQUEST_MAX};
    const char *model = args_value(a, FLAG_MODEL), *provider = args_value(a, FLAG_PROVIDER);
    char *here = getcwd(NULL, 0);
    if (here == NULL) {
        out_error(&c->out, "cannot use the current directory: %s", err_text(-errno));
        return EXIT_FAILED;
    }
    if (model != NULL && provider == NULL) {
        provider = chat__cut_provider(c, &arena, &model);
    }
    struct jw w = {.out = &env};
    int code = chat__write_env(c, &w);
    if (code == EXIT_OK) {
        const struct ask_param params[] = {
            {"bot", args_word(a, 0)},
            {"prompt", prompt},
            {"working_dir", here},
            {"iterations", args_value(a, FLAG_ITERATIONS)},
            {"sleep_secs", args_value(a, FLAG_SLEEP)},
            {"resume", resumed(c, &resume)},
            {"project", args_value(a, FLAG_PROJECT)},
            {"instructions", args_value(a, FLAG_INSTRUCTIONS)},
            {"wake_on", wake_paths(c, &wake, here)},
            {"on", args_value(a, FLAG_ON)},
            {"merge", args_has(a, FLAG_MERGE) ? "true" : NULL},
            {"worktree", args_has(a, FLAG_NO_WORKTREE) ? "false" : NULL},
            {"skip_git_check", args_has(a, FLAG_SKIP_GIT_CHECK) ? "true" : NULL},
            {"env", buf_z(&env)},
            {"provider", provider},
            {"model", model},
            {"engine", args_value(a, FLAG_ENGINE)},
            {"sandbox", args_value(a, FLAG_SANDBOX)},
            {"network", args_has(a, FLAG_NETWORK) ? "true" : NULL},
        };
        code = send(c, params, ARRAY_LEN(params), answer);
    }
    buf_fini(&resume);
    buf_fini(&wake);
    buf_fini(&env);
    arena_fini(&arena);
    free(here);
    return code;
}

// Nobody asked for the scripted model: the first session knows.
static void note_fallback(struct cli *c, const struct json *run)
{
    struct arena arena = {0};
    const struct json *row;
    const char *id = arena_strdup(&arena, json_get_text(run, "session_id"));
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
    struct arena arena = {0};
    client_answer_init(&a);
    int code = begin(c, prompt, &a);
    const struct json *row = code == EXIT_OK ? ask_json(c, &arena, &a) : NULL;
    if (row != NULL) {
        const char *id = arena_strdup(&arena, json_get_text(row, "run_id"));
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

// The id, in `arena`, of the one run of the bot that is running here; NULL for none or several.
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
    return one ? arena_strdup(arena, json_get_text(json_at(runs, 0), "run_id")) : NULL;
}

// Making the worktree, or its `setup`, takes long: the hub has the run, and we have no answer yet.
static int give_up(struct cli *c)
{
    struct arena arena = {0};
    const struct json *v;
    int signum = interrupt_take();
    out_resume(&c->out);
    if (signum == SIGHUP) {
        return EXIT_INTERRUPTED;
    }
    const char *id = find_begun(c, &arena);
    const struct ask_param params[] = {{"id", id}};
    if (id == NULL) {
        out_note(&c->out,
                 "left while the run was starting; 'afloat runs' shows whether it continues");
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
        struct str id = json_get_text(row, "run_id");
        struct str branch = json_get_text(row, "branch");
        snprintf(f->id, sizeof f->id, STR_FMT, STR_ARG(id));
        snprintf(f->bot, sizeof f->bot, "%s", args_word(&c->args, 0));
        out_note(&c->out, "run %s%s" STR_FMT, f->id, branch.n != 0 ? " on branch " : "",
                 STR_ARG(branch));
        if (str_eqz(json_get_text(row, "state"), "queued")) {
            out_note(&c->out, "it waits for a hub that can take it; 'afloat hubs' lists them");
        }
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
    struct buf text = {.max = CHAT_TEXT_MAX};
    char *prompt = NULL;
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
