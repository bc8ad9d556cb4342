// Secrets and the token. Values are never in argv, in a log or in an error: they come from stdin, and a
// terminal does not show them.

#include <errno.h>
#include <termios.h>
#include <unistd.h>

#include "cli/call.h"
#include "client/interrupt.h"
#include "config/secrets.h"
#include "config/token.h"

enum {
    TYPED_MAX = 4094, // bytes: of a longer line a terminal drops the rest without a word
    PASTE_MS = 50     // more input this soon after a line was pasted with it
};

// ---- reading a value -----------------------------------------------------------------------

/// Did more come with the line that was read? It is read and forgotten: left alone, the shell would take it for commands,
/// and show it. Returns 1, 0 or -EINTR.
static int drain_paste(struct termios silent)
{
    struct pollfd p = {.fd = STDIN_FILENO, .events = POLLIN};
    char rest[512];
    int rc, more = 0;
    silent.c_lflag &= ~(tcflag_t)ICANON; // a last line without an end shows as well
    tcsetattr(STDIN_FILENO, TCSANOW, &silent);
    while ((rc = interrupt_wait(&p, 1, interrupt_deadline(PASTE_MS))) > 0 &&
           read(STDIN_FILENO, rest, sizeof rest) > 0) {
        more = 1;
    }
    explicit_bzero(rest, sizeof rest);
    return rc < 0 ? rc : more;
}

// One line without echo, which is off before we ask: what is typed at once does not show either.
// The terminal is put back whatever happens, Ctrl-C included.
static int read_hidden(const char *name, struct buf *out, struct err *e)
{
    struct termios usual, silent;
    if (tcgetattr(STDIN_FILENO, &usual) < 0) {
        return err_sys(e, "cannot use the terminal");
    }
    silent = usual;
    silent.c_lflag &= ~(tcflag_t)(ECHO | ECHONL);
    interrupt_catch();
    tcsetattr(STDIN_FILENO, TCSAFLUSH, &silent);
    fprintf(stderr, "value of %s (not shown): ", name);
    struct pollfd p = {.fd = STDIN_FILENO, .events = POLLIN};
    int rc = interrupt_wait(&p, 1, 0);
    ssize_t n = 0;
    if (rc > 0) {
        char *room = buf_reserve(out, SECRET_VALUE_MAX);
        n = read(STDIN_FILENO, room, SECRET_VALUE_MAX); // a terminal gives a whole line
        buf_grow(out, n > 0 ? (size_t)n : 0);
        rc = drain_paste(silent);
    }
    tcsetattr(STDIN_FILENO, TCSAFLUSH, &usual);
    fputc('\n', stderr);
    if (rc < 0) {
        return err_set(e, rc, "interrupted");
    }
    if (rc > 0 || n > TYPED_MAX) {
        return err_set(e, ERR_USAGE,
                       "nothing is stored: the value has several lines or is too long for a "
                       "terminal; use 'afloat secret set %s < FILE'",
                       name);
    }
    return n < 0 ? err_sys(e, "cannot read the terminal") : 0;
}

// ---- secrets -------------------------------------------------------------------------------

int cmd_secret_set(struct cli *c)
{
    const char *name = args_word(&c->args, 0);
    struct buf value = {.max = 2 * SECRET_VALUE_MAX};
    struct err e = {0};
    if (secrets_check_name(name, &e) < 0) { // before the value is asked for
        out_error(&c->out, "%s", e.msg);
        return EXIT_USAGE;
    }
    int rc = isatty(STDIN_FILENO) != 1 ? cli__read_all(STDIN_FILENO, &value, &e)
             : args_has(&c->args, FLAG_NO_INPUT)
                 ? err_set(&e, ERR_USAGE, "the value comes from stdin: afloat secret set %s < FILE",
                           name)
                 : read_hidden(name, &value, &e);
    struct str line = buf_str(&value); // without one line end
    line.n -= str_ends(line, "\n");
    line.n -= str_ends(line, "\r");
    rc = rc == 0 ? home_prepare(&c->home, &e) : rc;
    rc = rc == 0 ? secrets_set(c->home.secrets, name, line, &e) : rc;
    if (value.p != NULL) {
        explicit_bzero(value.p, value.cap);
    }
    buf_fini(&value);
    if (rc < 0) {
        return cli__fail(c, &e);
    }
    out_note(&c->out, "secret '%s' is stored", name);
    return EXIT_OK;
}

int cmd_secret_list(struct cli *c)
{
    const struct layout secrets = {"secrets", COLUMNS(COL("NAME", ID, "{}")), "no secrets stored"};
    struct secret_names names = {0};
    struct buf text = {.max = SIZE_MAX};
    struct err e = {0};
    if (secrets_list(c->home.secrets, &names, &e) < 0) {
        return cli__fail(c, &e);
    }
    struct jw w = {.out = &text};
    jw_obj(&w);
    jw_karr(&w, "secrets");
    for (size_t i = 0; i < names.n; i++) {
        jw_strz(&w, names.p[i]);
    }
    jw_end_arr(&w);
    jw_end_obj(&w);
    buf_addc(&text, '\n');
    show_local(c, &secrets, buf_str(&text));
    buf_fini(&text);
    secret_names_fini(&names);
    return EXIT_OK;
}

int cmd_secret_remove(struct cli *c)
{
    struct err e = {0};
    if (secrets_remove(c->home.secrets, args_word(&c->args, 0), &e) < 0) {
        return cli__fail(c, &e);
    }
    out_note(&c->out, "secret '%s' is deleted", args_word(&c->args, 0));
    return EXIT_OK;
}

// ---- the token -----------------------------------------------------------------------------

int cmd_token_show(struct cli *c)
{
    char token[TOKEN_LEN + 1];
    struct err e = {0};
    int rc = token_read(c->home.token, token, &e);
    if (rc == ERR_NOT_FOUND) {
        err_set(&e, rc,
                "no token yet: it is made when the hub first listens on TCP ('afloat open')");
    }
    if (rc < 0) {
        return cli__fail(c, &e);
    }
    out_addf(&c->out, c->json ? "{\"token\":\"%s\"}\n" : "%s\n", token);
    if (c->out.terminal) {
        out_note(&c->out, "keep it secret: it gives access to everything you can do here");
    }
    explicit_bzero(token, sizeof token);
    return EXIT_OK;
}

const struct form form_token_rotate = {
    .said = "the token is new; the old one no longer works, and all browsers are logged out"};
