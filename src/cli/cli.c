// The way of a command: take the line apart, find the home, run the row's function, flush.
//
// Nothing is read or opened before the row is known, so that `afloat version` costs what starting a
// program costs. Each function of a row returns the exit code; what it printed is written here, and
// a write that failed is the command's failure.

#include "cli/cli.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "cli/cli_int.h"
#include "pty/tty.h"

int cli__exit_of(int code)
{
    static const struct {
        int code, exit;
    } rows[] = {
        {ERR_USAGE, EXIT_USAGE},         {ERR_NOT_FOUND, EXIT_NOT_FOUND},
        {ERR_DENIED, EXIT_NOT_ALLOWED},  {ERR_UNREACHABLE, EXIT_UNREACHABLE},
        {-ECONNRESET, EXIT_UNREACHABLE}, {-ETIMEDOUT, EXIT_UNREACHABLE},
        {ERR_CONFLICT, EXIT_CONFLICT},   {ERR_TIMEOUT, EXIT_TIMEOUT},
        {-EINTR, EXIT_INTERRUPTED},      {-ENOENT, EXIT_NOT_FOUND},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        if (rows[i].code == code) {
            return rows[i].exit;
        }
    }
    return code == 0 ? EXIT_OK : EXIT_FAILED;
}

int cli__fail(struct cli *c, const struct err *e)
{
    assert(e->code < 0); // an error that was set
    if (e->code != -EINTR) {
        out_error(&c->out, "%s", e->msg);
    }
    return cli__exit_of(e->code);
}

char *cli__here(struct cli *c, int *code)
{
    char *here = getcwd(NULL, 0);
    if (here == NULL) {
        struct err e = {0};
        err_sys(&e, "cannot use the current directory; go to one that exists");
        *code = cli__fail(c, &e);
    }
    return here;
}

int cli__read_all(int fd, struct buf *out, struct err *e)
{
    for (;;) {
        size_t room = MIN(out->max - out->n, (size_t)64 << 10);
        char one, *to = room != 0 ? buf_reserve(out, room) : &one;
        ssize_t n = read(fd, to, room != 0 ? room : 1);
        if (n == 0) {
            return 0;
        }
        if (n > 0 && room == 0) {
            return err_set(e, ERR_TOO_LARGE, "the input is larger than %zu bytes", out->max);
        }
        if (n > 0) {
            buf_grow(out, (size_t)n);
        } else if (errno != EINTR) {
            return err_sys(e, "cannot read the input");
        }
    }
}

int cli__confirm(struct cli *c, const char *question, const char *needs, struct err *e)
{
    char answer[16] = "";
    if (args_has(&c->args, FLAG_NO_INPUT) || isatty(STDIN_FILENO) != 1) {
        return err_set(e, ERR_DENIED, "%s", needs);
    }
    fprintf(stderr, "%s [y/N] ", question);
    fflush(stderr);
    ssize_t n = read(STDIN_FILENO, answer, sizeof answer - 1);
    bool yes = n > 0 && (answer[0] == 'y' || answer[0] == 'Y');
    return yes ? 0 : err_set(e, ERR_DENIED, "nothing was changed");
}

// A descriptor that came closed would be given to the next file or socket, and what we print would go
// there. It is filled with one that can only be used the wrong way, so that its use is still an error.
static void fill_stdio(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        if (fcntl(fd, F_GETFD) < 0 &&
            open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) < 0) {
            abort();
        }
    }
}

static enum out_color color_of(const struct args *a)
{
    const char *when = args_value(a, FLAG_COLOR);
    if (when == NULL || strcmp(when, "auto") == 0) {
        return OUT_AUTO;
    }
    return strcmp(when, "always") == 0 ? OUT_ALWAYS : OUT_NEVER;
}

static int run(struct cli *c)
{
    if (args_has(&c->args, FLAG_VERSION)) {
        return cmd_version(c);
    }
    bool bare = c->cmd == NULL && !args_has(&c->args, FLAG_HELP);
    if (bare && c->out.terminal && tty_in_foreground(STDIN_FILENO)) {
        c->cmd = command_default(command_find_noun(STR("tui")));
    }
    if (c->cmd == NULL) {
        help__print_all(&c->out, false);
        return EXIT_OK;
    }
    if (args_has(&c->args, FLAG_HELP)) {
        help__print(&c->out, c->cmd, c->args.only_noun);
        return EXIT_OK;
    }
    if ((c->cmd->mode & CMD_HOMELESS) != 0) {
        return c->cmd->run(c);
    }
    struct err e;
    if (home_resolve(&c->home, args_value(&c->args, FLAG_HOME), &e) < 0) {
        return cli__fail(c, &e);
    }
    int code = c->cmd->run(c);
    home_fini(&c->home);
    return code;
}

static int finish(struct cli *c, int code)
{
    if (out_flush(&c->out)) {
        return code;
    }
    if (c->out.fault == EINTR) {
        return EXIT_INTERRUPTED;
    }
    if (c->out.fault != EPIPE) { // a reader that has enough is no fault to tell anyone
        out_error(&c->out, "cannot write to stdout: %s", err_text(-c->out.fault));
    }
    return code != EXIT_OK ? code : EXIT_FAILED;
}

int cli_main(int argc, char **argv, const struct cli_host *host)
{
    assert(host != NULL && host->version != NULL);
    struct cli c = {.host = host};
    struct err e;
    fill_stdio();
    int rc = args_parse(&c.args, argc, argv, &e);
    c.cmd = c.args.cmd;
    c.json = args_has(&c.args, FLAG_JSON);
    out_init(&c.out, color_of(&c.args), args_has(&c.args, FLAG_QUIET));
    int code = rc < 0 ? cli__fail(&c, &e) : run(&c);
    code = finish(&c, code);
    out_fini(&c.out);
    args_fini(&c.args);
    return code;
}
