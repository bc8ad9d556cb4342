#pragma once

#include "cli/args.h"
#include "cli/cli.h"
#include "config/home.h"
#include "view/out.h"

// What the files of this folder share.

/// The exit codes of CONTRACT 2.
enum cli_exit {
    EXIT_OK = 0,
    EXIT_FAILED = 1,
    EXIT_USAGE = 2,
    EXIT_NOT_FOUND = 3,
    EXIT_NOT_ALLOWED = 4,
    EXIT_UNREACHABLE = 5,
    EXIT_RELOAD = 6, // a reload had failures
    EXIT_CONFLICT = 7,
    EXIT_TIMEOUT = 124,
    EXIT_INTERRUPTED = 130,
};

/// One command on its way.
struct client_watch;

struct cli {
    const struct cli_host *host;
    const struct command *cmd;
    struct args args;
    struct out out;
    struct home home;
    bool json;
    bool build_noted;           // that the hub is of another build, once a command
    struct client_watch *watch; // while an operation is waited for; NULL: nothing else
    unsigned patience_ms;       // for an operation's answer; 0: the usual
};

/// The exit code for one of our error codes.
int cli__exit_of(int code);

/// Say what `e` says on stderr and return its exit code.
int cli__fail(struct cli *c, const struct err *e);

/// Stop the hub and end its terminals, with notes only; the exit code.
int cli__stop_all(struct cli *c);

/// Keep hubs out of the home until `*fd` is closed; the exit code, and why not was said.
int cli__take_home(struct cli *c, int *fd) MUST_CHECK;

/// Say `question` and wait for a yes. Without a terminal, or with --no-input, ERR_DENIED says what `needs` one.
int cli__confirm(struct cli *c, const char *question, const char *needs, struct err *e) MUST_CHECK;

/// The current directory, for the caller to free. NULL: it is gone; that was said, with `*code`.
char *cli__here(struct cli *c, int *code);

/// Read all of descriptor `fd` into `out`, whose maximum bounds it.
int cli__read_all(int fd, struct buf *out, struct err *e) MUST_CHECK;

// the commands with code of their own, each a CODE() of commands.def
#define CODE(fn) int fn(struct cli *c);
#define CALL(form)
#define COMMAND(how, ...) how
#include "cli/commands.def"
#undef CODE
#undef CALL
#undef COMMAND

/// The overview: the ten commands to begin with, or `all` of them.
void help__print_all(struct out *o, bool all);

/// Help for one command (`noun` without verbs, or one verb of it), or for a noun with all its verbs.
void help__print(struct out *o, const struct command *row, bool all_verbs);
