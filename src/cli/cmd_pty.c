// Terminals that outlive the hub: start, list, attach, end.

#include <errno.h>
#include <unistd.h>

#include "base/folder.h"
#include "base/path.h"
#include "cli/call.h"
#include "cli/pty_attach.h"
#include "cli/run_end.h"
#include "pty/tty.h"

static void add_command(struct buf *out, const struct json *row)
{
    buf_adds(out, json_get_text(row, "cmd"));
    json_foreach_item (arg, json_get(row, "args")) {
        buf_addc(out, ' ');
        buf_adds(out, json_str(arg, ""));
    }
}

const struct form form_pty_list = {
    .layout = {"ptys",
               COLUMNS(COL("ID", ID, "{id}"), COL("NAME", WORD, NULL), COL("STATE", STATE, NULL),
                       COL("STATUS", WORD, "{status}"), COL("SIZE", WORD, "{cols}x{rows}"),
                       COL("VIEWERS", WORD, "{viewers}"), COL("STARTED", TIME, "{started_at}"),
                       COL("DIRECTORY", PATH, "{directory}||{cwd}"),
                       COL_FN("COMMAND", TEXT, add_command)),
               "no terminals; start one with 'afloat pty new -- COMMAND'"}};

const struct form form_pty_kill = {.said = "terminal {deleted} ended"};

// ---- new -----------------------------------------------------------------------------------

static void write_body(struct cli *c, const char *cwd, struct buf *out)
{
    extern char **environ;
    const struct args *a = &c->args;
    const char *shell = getenv("SHELL");
    struct winsize size = tty_size(STDIN_FILENO);
    struct jw w = {.out = out};
    jw_obj(&w);
    bool typed = args_has(a, FLAG_TYPE); // the type has the program: all words are arguments
    bool resumed = args_has(a, FLAG_RESUME_PTY); // so has the run, unless another one is named
    if (resumed) {
        jw_kstrz(&w, "resume", args_value(a, FLAG_RESUME_PTY));
    }
    if (typed) {
        jw_kstrz(&w, "type", args_value(a, FLAG_TYPE));
    } else if (!resumed || a->words.n != 0) {
        jw_kstrz(&w, "cmd",
                 a->words.n != 0                     ? a->words.p[0]
                 : shell != NULL && shell[0] != '\0' ? shell
                                                     : "bash");
    }
    jw_karr(&w, "args");
    for (size_t i = typed ? 0 : 1; i < a->words.n; i++) {
        jw_strz(&w, a->words.p[i]);
    }
    jw_end_arr(&w);
    jw_kstrz(&w, "cwd", cwd);
    jw_kint(&w, "rows", size.ws_row);
    jw_kint(&w, "cols", size.ws_col);
    if (args_has(a, FLAG_NAME)) {
        jw_kstrz(&w, "name", args_value(a, FLAG_NAME));
    }
    if (args_has(a, FLAG_WORKTREE)) {
        jw_kbool(&w, "worktree", true);
    }
    jw_kobj(&w, "env"); // the program is the user's own: it gets all
    for (char **v = environ; *v != NULL; v++) {
        struct str value = str_of(*v);
        struct str name = str_cut(&value, '=');
        if (name.n != 0) {
            jw_key_str(&w, name);
            jw_str(&w, value);
        }
    }
    jw_end_obj(&w);
    jw_end_obj(&w);
}

/// The row of the new terminal, in `arena` and `answer`; the exit code.
static int start(struct cli *c, const char *cwd, struct client_answer *answer, struct arena *arena,
                 const struct json **row)
{
    struct buf body = {.max = SIZE_MAX};
    write_body(c, cwd, &body);
    struct client_request r = {
        .method = "POST", .path = ops[OP_PTY_NEW].path, .body = buf_str(&body)};
    int code = ask_accepted(c, &r, answer);
    if (code == EXIT_OK && c->json) {
        out_body(&c->out, buf_str(&answer->body));
    }
    *row = code == EXIT_OK ? ask_json(c, arena, answer) : NULL;
    buf_fini(&body);
    return code;
}

int cmd_pty_new(struct cli *c)
{
    const char *given = args_value(&c->args, FLAG_CWD);
    char *cwd = realpath(given != NULL ? given : ".", NULL);
    struct arena arena = {0};
    struct client_answer answer;
    const struct json *row = NULL;
    if (cwd == NULL) {
        int why = errno;
        out_error(&c->out, "cannot enter '%s': %s", given != NULL ? given : ".", strerror(why));
        return why == ENOENT || why == ENOTDIR ? EXIT_NOT_FOUND : EXIT_FAILED;
    }
    client_answer_init(&answer);
    int code = start(c, cwd, &answer, &arena, &row);
    bool stays = !c->json && !args_has(&c->args, FLAG_DETACH) && tty_in_foreground(STDIN_FILENO) &&
                 isatty(STDOUT_FILENO);
    if (row != NULL && !c->json) {
        char *id = str_dup(json_get_text(row, "id"));
        if (stays) {
            code = pty_attach(c, id);
        } else {
            out_addf(&c->out, "%s\n", id);
        }
        if (json_get_text(row, "run_id").n != 0) {
            run_end_say_work(c, json_get_text(row, "run_id"));
        }
        free(id);
    }
    arena_fini(&arena);
    client_answer_fini(&answer);
    free(cwd);
    return code;
}

// ---- attach --------------------------------------------------------------------------------

/// The one terminal whose id begins with `given`; found by the sockets, so that no hub is needed.
static int resolve(struct cli *c, const char *given, char out[64])
{
    char *dir = path_join(c->home.runtime, "pty");
    struct folder f = folder_open(dir);
    size_t n = 0;
    while (folder_next(&f)) {
        struct str name = str_of(f.name);
        if (str_ends(name, ".sock") && name.n < 60 && (given == NULL || str_starts(name, given))) {
            snprintf(out, 64, "%.*s", (int)name.n - 5, name.p);
            n++;
        }
    }
    free(dir);
    if (n == 0 && given == NULL) {
        out_error(&c->out, "no terminals; start one with 'afloat pty new'");
    } else if (n != 1) {
        out_error(&c->out,
                  n == 0          ? "there is no terminal '%s'; 'afloat pty list' shows them"
                  : given != NULL ? "several terminals begin with '%s'; give more of the id"
                                  : "there are several terminals; name one of 'afloat pty list'%s",
                  given != NULL ? given : "");
    }
    return n == 1 ? EXIT_OK : n == 0 ? EXIT_NOT_FOUND : EXIT_USAGE;
}

int cmd_pty_attach(struct cli *c)
{
    char id[64];
    int code = resolve(c, args_word(&c->args, 0), id);
    return code == EXIT_OK ? pty_attach(c, id) : code;
}

// ---- what the program itself starts --------------------------------------------------------

int cmd_keep(struct cli *c)
{
    return c->host->run_keeper(c->args.words.n != 0);
}
