// Pseudo-terminals.
//
// The slave is opened through the master (TIOCGPTPEER), not by its name: inside a container or
// another mount namespace the name may lead elsewhere, or nowhere.

#include "pty/pty.h"

#include <assert.h>
#include <fcntl.h>
#include <unistd.h>

int pty_open(struct pty *p, const struct winsize *size, const struct termios *modes, struct err *e)
{
    p->slave = -1;
    p->master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);
    if (p->master < 0) {
        return err_sys(e, "cannot open a pseudo-terminal");
    }
    int rc = 0;
    if (grantpt(p->master) != 0 || unlockpt(p->master) != 0) {
        rc = err_sys(e, "cannot unlock a pseudo-terminal");
    } else if ((p->slave = ioctl(p->master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC)) < 0) {
        rc = err_sys(e, "cannot open a pseudo-terminal's other end");
    }
    if (rc == 0 && modes != NULL && tcsetattr(p->slave, TCSANOW, modes) != 0) {
        rc = err_sys(e, "cannot set the modes of a pseudo-terminal");
    }
    if (rc < 0) {
        pty_close(p);
        return rc;
    }
    pty_resize(p, size);
    return 0;
}

void pty_close(struct pty *p)
{
    if (p->master >= 0) {
        close(p->master);
    }
    if (p->slave >= 0) {
        close(p->slave);
    }
    p->master = p->slave = -1;
}

void pty_resize(const struct pty *p, const struct winsize *size)
{
    assert(p->master >= 0);
    ioctl(p->master, TIOCSWINSZ, size); // fails only for a descriptor that is no terminal
}
