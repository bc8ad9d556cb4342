// `afloat run BOT [PROMPT]`: begin a run, follow it, say how it ended.
//
//     flags, directory, environment ──POST /bots/{bot}/runs──> run_id ──┬─ --detach: print it, leave
//                                                                       └─ run_follow.c ─> run_end.c
//
// The run is the hub's: this command starts it and watches. Only Ctrl-C and SIGTERM ask for its end, also
// while it is still starting.

#include <assert.h>
#include <signal.h>
#include <unistd.h>

#include "chat/chat.h"
#include "chat/run_int.h"
#include "cli/call.h"
#include "cli/pty_attach.h"
#include "cli/sessions.h"
#include "client/interrupt.h"
#include "client/travel.h"

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
    int code = EXIT_OK;
    char *here = cli__here(c, &code);
    if (here == NULL) {
        return code;
    }
    if (model != NULL && provider == NULL) {
        provider = sent_cut_provider(c, &arena, &model);
    }
    struct jw w = {.out = &env};
    code = sent_write_env(c, &w);
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

// The first session knows what was chosen for it.
static void note_session(struct cli *c, const struct json *run)
{
    chat__tell_faults(c);
    struct arena arena = {0};
    const struct json *row;
    const char *id = arena_strdup(&arena, json_get_text(run, "session_id"));
    const struct ask_param params[] = {{"id", id}};
    if (id[0] != '\0' &&
        sessions__ask(c, OP_SESSION_SHOW, params, ARRAY_LEN(params), &arena, &row) == EXIT_OK) {
        sessions__note(c, row);
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
        note_session(c, row);
        run_end_say_detached(c, id, args_word(&c->args, 0));
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
        run_end_say(c, v, NULL);
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
        note_session(c, row);
    }
    client_answer_fini(&a);
    return code != EXIT_OK || row != NULL ? code : EXIT_FAILED;
}

/// If the run wants it and there is a user: ask whether to merge, and merge; `f->end` is the new record. The exit code.
static int ask_merge(struct run_follow *f)
{
    assert(f->end != NULL);
    struct chat *t = f->chat;
    const struct json *v, *record = f->end;
    char question[256], id[SESSION_ID_MAX], into[256];
    struct str branch = json_get_text(record, "branch"),
               base = json_get_text(record, "base_branch");
    if (!t->person || !json_bool(json_get(record, "wants_merge"), false)) {
        return EXIT_OK;
    }
    snprintf(question, sizeof question, "merge " STR_FMT "%s" STR_FMT "? [y/N] ", STR_ARG(branch),
             base.n != 0 ? " into " : "", STR_ARG(base));
    enum chat_line line = chat__ask(t, question);
    struct str answer = str_trim(edit_text(&t->reply));
    if (line != CHAT_LINE || (!str_caseeqz(answer, "y") && !str_caseeqz(answer, "yes"))) {
        return EXIT_OK;
    }
    snprintf(id, sizeof id, STR_FMT, STR_ARG(json_get_text(record, "run_id")));
    snprintf(into, sizeof into, STR_FMT, STR_ARG(base)); // where it began, as the question says
    char mask[TRAVEL_UMASK];
    const struct ask_param params[] = {
        {"id", id}, {"umask", travel_umask(mask)}, {"into", into[0] != '\0' ? into : NULL}};
    int code = ask_value(t->c, OP_RUN_MERGE, params, ARRAY_LEN(params), &f->arena, &v);
    f->end = code == EXIT_OK ? v : record;
    return code;
}

static int run_here(struct chat *t, void *arg)
{
    struct run_follow f = {.chat = t};
    int code = begin_followed(&f, arg);
    if (code == EXIT_OK) {
        code = follow__run(&f);
    }
    if (code == EXIT_OK) {
        code = ask_merge(&f);
        int ended = run_end_say(t->c, f.end, &t->view);
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

int chat_run(struct cli *c)
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

// ---- attach --------------------------------------------------------------------------------

static int attach(struct chat *t, void *arg)
{
    struct run_follow f = {.chat = t, .watching = true, .look = true};
    snprintf(f.id, sizeof f.id, "%s", (const char *)arg);
    int code = follow__mark(t->c, &f.mark);
    if (code == EXIT_OK) {
        code = follow__run(&f);
    }
    if (code == EXIT_OK) {
        code = run_end_say(t->c, f.end, &t->view);
    }
    arena_fini(&f.arena);
    return code;
}

int chat_attach_run(struct cli *c)
{
    const struct ask_param params[] = {{"id", args_word(&c->args, 0)}};
    const struct json *v = NULL;
    struct arena arena = {0};
    int code = ask_value(c, OP_RUN_SHOW, params, ARRAY_LEN(params), &arena, &v);
    char *id = code == EXIT_OK ? str_dup(json_get_text(v, "run_id")) : NULL;
    if (code == EXIT_OK && json_get_text(v, "terminal").n != 0) {
        char *terminal = str_dup(json_get_text(v, "terminal"));
        code = pty_attach(c, terminal);
        free(terminal);
    } else if (code == EXIT_OK) {
        code = chat__with(c, true, attach, id);
    }
    free(id);
    arena_fini(&arena);
    return code;
}
