// The hub as a process: run it, start it in the background, look at it, stop it.

#include <errno.h>
#include <signal.h>
#include <unistd.h>

#include "base/path.h"
#include "cli/call.h"
#include "cli/report.h"
#include "client/holder.h"
#include "client/interrupt.h"
#include "client/start.h"
#include "keep/terms.h"

enum { STOP_WAIT_MS = 30000, TROUBLES_MS = 2000, TERMINALS_MS = 10000 };

int cmd_hub(struct cli *c)
{
    const char *repo = args_value(&c->args, FLAG_REPO), *set = getenv("AFLOAT_REPO");
    struct cli_hub_opts opts = {.home = args_value(&c->args, FLAG_HOME),
                                .listen = args_value(&c->args, FLAG_LISTEN),
                                .profile = args_value(&c->args, FLAG_PROFILE),
                                .repo = repo != NULL || set == NULL || set[0] == '\0' ? repo : set,
                                .safe = args_has(&c->args, FLAG_SAFE)};
    if (opts.repo != NULL && access(opts.repo, F_OK) < 0) {
        out_error(&c->out, "cannot find '%s': %s", opts.repo, err_text(-errno));
        return EXIT_NOT_FOUND;
    }
    return c->host->run_hub(&opts);
}

// ---- start and status ----------------------------------------------------------------------

static void show_health(struct cli *c, const struct client_answer *a)
{
    const struct layout health = {
        .columns = COLUMNS(COL("version", TEXT, NULL), COL("pid", TEXT, NULL),
                           COL("generation", TEXT, NULL), COL("uptime", SPAN, "{uptime_s}"),
                           COL("socket", TEXT, "{$socket}"), COL("listen", TEXT, "{listen}||off"))};
    struct arena arena = {0};
    const struct json *v = c->json ? NULL : ask_json(c, &arena, a);
    if (c->json) {
        out_body(&c->out, buf_str(&a->body));
    } else if (v != NULL) {
        struct str lost = json_get_text(v, "store_error");
        show_answer(c, &health, v);
        if (lost.n != 0) {
            out_addf(&c->out, "the store cannot be used: " STR_FMT "\n", STR_ARG(lost));
        }
    }
    arena_fini(&arena);
}

int cmd_start(struct cli *c)
{
    struct client_answer a;
    bool already = false;
    int code = ask_start(c, &already);
    if (code != EXIT_OK) {
        return code;
    }
    client_answer_init(&a);
    code =
        ask_accepted(c, &(struct client_request){.method = "GET", .path = ops[OP_HEALTH].path}, &a);
    if (code == EXIT_OK && c->json) {
        show_health(c, &a);
    } else if (code == EXIT_OK) {
        out_note(&c->out,
                 already ? "the hub is already running (pid %ld)" : "hub started (pid %ld)",
                 (long)holder_find(&c->home));
    }
    client_answer_fini(&a);
    return code;
}

// No answer on the socket: is there a process that should give one?
static int tell_absence(struct cli *c)
{
    pid_t pid = holder_find(&c->home);
    struct err e = {0};
    if (holder_look(&c->home, &e) < 0) {
        return cli__fail(c, &e);
    }
    if (pid != 0) {
        out_error(&c->out, "the hub (pid %ld) does not answer", (long)pid);
        return EXIT_UNREACHABLE;
    }
    // the hub takes its pid file along when it goes by itself
    bool killed = access(c->home.pid, F_OK) == 0;
    char *words = killed ? start_last_words(&c->home) : NULL;
    out_error(&c->out,
              killed ? "hub is not running; the last one did not end by itself%s%s"
                     : "hub is not running%s%s",
              words != NULL ? ", its last words: " : "", words != NULL ? words : "");
    free(words);
    return EXIT_UNREACHABLE;
}

int cmd_status(struct cli *c)
{
    struct client_answer a;
    int code = EXIT_OK;
    client_answer_init(&a);
    if (ask_health(c, &a)) {
        ask_note_build(c, &a);
        show_health(c, &a);
        if (!c->json) { // problems of modules and plugins; an older hub does not know the operation
            struct arena arena = {0};
            report_print_problems(&c->out,
                                  ask_quietly(c, OP_RELOAD_LAST, NULL, 0, TROUBLES_MS, &arena));
            arena_fini(&arena);
        }
    } else {
        code = a.status > 299 ? ask_problem(c, &a) : tell_absence(c);
    }
    client_answer_fini(&a);
    return code;
}

// ---- stop ----------------------------------------------------------------------------------

enum { STOP_TAKEN = -1, STOP_UNHEARD = -2 }; // else an exit code: the hub has refused

static int ask_to_stop(struct cli *c)
{
    struct client_answer a;
    client_answer_init(&a);
    int outcome = STOP_UNHEARD;
    // 503: too busy, or stopping already; a signal will do
    if (ask_send(c, OP_HUB_STOP, NULL, 0, 2000, &a, NULL) == 0 && a.status != 503) {
        bool taken = a.status / 100 == 2;
        if (c->json) {
            out_body(&c->out, buf_str(&a.body));
        }
        outcome = taken ? STOP_TAKEN : ask_problem(c, &a);
    }
    client_answer_fini(&a);
    return outcome;
}

// A hub that takes no requests any more gets the signal that means the same.
static int signal_to_stop(struct cli *c, pid_t pid)
{
    if (holder_find(&c->home) != pid) {
        return EXIT_OK; // gone meanwhile
    }
    if (kill(pid, SIGTERM) < 0 && errno != ESRCH) {
        out_error(&c->out, "cannot signal the hub (pid %ld): %s", (long)pid, err_text(-errno));
        return EXIT_FAILED;
    }
    out_note(&c->out, "the hub (pid %ld) does not answer; it was sent SIGTERM", (long)pid);
    return EXIT_OK;
}

/// End what outlives the hub.
static void end_terminals(struct cli *c)
{
    char *dir = path_join(c->home.runtime, "pty");
    unsigned n = terms_kill_all(dir, TERMINALS_MS);
    if (n != 0) {
        out_note(&c->out, "%u terminal%s ended", n, n == 1 ? "" : "s");
    }
    free(dir);
}

/// No hub was found: does a command such as `fsck` use the home? It is never stopped.
static int tell_none(struct cli *c)
{
    pid_t tool = holder_find_tool(&c->home);
    if (tool != 0) {
        out_error(&c->out, "the home is in use by process %ld, which is no hub and is not stopped",
                  (long)tool);
        return EXIT_CONFLICT;
    }
    out_note(&c->out, "hub is not running");
    return EXIT_OK;
}

static int stop_hub(struct cli *c)
{
    pid_t pid = holder_find(&c->home);
    int outcome = holder_is_dormant(&c->home) ? STOP_UNHEARD : ask_to_stop(c);
    if (outcome >= 0) {
        return outcome;
    }
    struct err e = {0};
    if (outcome == STOP_UNHEARD && holder_look(&c->home, &e) < 0) {
        return cli__fail(c, &e);
    }
    if (outcome == STOP_UNHEARD && pid == 0) {
        return tell_none(c);
    }
    int code = outcome == STOP_TAKEN ? EXIT_OK : signal_to_stop(c, pid);
    if (code == EXIT_OK && pid != 0) {
        int rc = holder_wait_gone(pid, interrupt_deadline(STOP_WAIT_MS));
        code = cli__exit_of(rc);
        if (rc == ERR_TIMEOUT) {
            out_error(&c->out,
                      "the hub (pid %ld) is still running after %d s; 'kill -9 %ld' ends it",
                      (long)pid, STOP_WAIT_MS / 1000, (long)pid);
        }
    }
    if (code == EXIT_OK) {
        out_note(&c->out, "hub stopped");
    }
    return code;
}

int cmd_stop(struct cli *c)
{
    int code = stop_hub(c);
    if (args_has(&c->args, FLAG_ALL)) {
        end_terminals(c);
    }
    return code;
}

int cli__stop_all(struct cli *c)
{
    bool json = c->json;
    c->json = false; // the answer of the hub is not this command's
    int code = stop_hub(c);
    end_terminals(c);
    c->json = json;
    return code;
}

int cmd_host_script(struct cli *c)
{
    return c->host->run_host_script(c->cmd->verb, args_has(&c->args, FLAG_VALIDATE));
}

int cmd_host_lua(struct cli *c)
{
    if (args_has(&c->args, FLAG_VALIDATE)) {
        return c->host->run_validate();
    }
    if (c->args.words.n == 0) {
        out_error(&c->out, "'host lua' needs PATH");
        return EXIT_USAGE;
    }
    return c->host->run_host_lua(c->args.words.p[0]);
}

// ---- the hubs that share a store -----------------------------------------------------------

const struct form form_hub_list = {
    .layout = {"hubs",
               COLUMNS(COL("NAME", ID, NULL), COL("STATE", STATE, NULL), COL("LABELS", TEXT, NULL),
                       COL("GENERATION", WORD, NULL), COL("RUNS", WORD, NULL),
                       COL("SEEN", TIME, "{seen_at}")),
               "no hubs"}};

const struct form form_hub_label = {.words = "name labels",
                                    .said = "labels of {name}: {labels}||{name} has no labels"};
const struct form form_hub_drain = {
    .said = "{name} takes {state=draining?no new runs; its current runs continue:new runs again}"};
