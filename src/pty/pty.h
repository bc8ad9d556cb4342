#pragma once

#include <sys/ioctl.h>
#include <termios.h>

#include "base/err.h"

/// A pseudo-terminal: what is written to `slave` comes out of `master` and the other way round. Both
/// are close-on-exec; the master does not block.
///
/// The slave stays open on our side for as long as the pair lives. So a program that has closed its
/// terminal for a while does not look like one that has ended: only the process tells that.
struct pty {
    int master, slave;
};

/// Open a pair of `size`. `modes` may be NULL: the kernel's defaults.
int pty_open(struct pty *p, const struct winsize *size, const struct termios *modes,
             struct err *e) MUST_CHECK;
void pty_close(struct pty *p);

/// Tell the programs on the slave that their window is of this size now, pixels included.
void pty_resize(const struct pty *p, const struct winsize *size);
