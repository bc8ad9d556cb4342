#pragma once

#include <sys/ioctl.h>
#include <termios.h>

#include "base/err.h"
#include "base/str.h"

// The terminal that we were started on. There is one per process, and so one guard: whatever mode we
// put it in, it gets back the one it had, when we leave, exit, crash or are stopped.

/// True when `fd` is a terminal and we are its foreground job: we may read it and change its modes
/// without being stopped for it.
bool tty_in_foreground(int fd);

/// The window of `fd`, pixels included; 24 x 80 when it does not say.
struct winsize tty_size(int fd);

enum tty_mode {
    TTY_QUIET, // as it was, but what is typed is not shown; Ctrl-C still is a signal
    TTY_KEYS,  // every byte comes as it is typed, Ctrl-C too; what is written goes as usual
    TTY_RAW,   // every byte comes as it is typed and goes as it is written
};

/// Take the terminal `fd` in this mode; from one mode into the other is allowed. What was typed
/// already is kept. -EAGAIN when we are not in its foreground.
int tty_take(int fd, enum tty_mode mode, struct err *e) MUST_CHECK;

/// Give it back as it was. Nothing happens when it was not taken.
void tty_give_back(void);

/// The modes it had before it was taken; NULL when it is not taken.
const struct termios *tty_modes(void);

enum { TTY_FAREWELL_MAX = 256 };

/// Bytes that are written to the terminal when it is given back, however that happens; at most
/// TTY_FAREWELL_MAX, copied. Empty: none.
void tty_set_farewell(struct str bytes);

/// A descriptor of our own for the terminal of `fd`, close-on-exec, so that making it non-blocking does not
/// affect other processes. Where that terminal cannot be opened again (another user's,
/// after su) it is a plain duplicate, and giving the terminal back makes it block again.
int tty_reopen(int fd, struct err *e) MUST_CHECK;
