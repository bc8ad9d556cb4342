#pragma once

#include <stdint.h>
#include <sys/resource.h>

// What proc.c and the program afloat-launch say to each other.
//
//     afloat-launch [-s] [-3] [-c] -d DIR -f FILES [-m BYTES] [-t SECONDS] [-u N] [-z BYTES]
//                   [-k UMASK] [-x] [-b RULE]... [-n | -l] [-M BYTES] -- PROGRAM ARG...
//
// -s  stay as supervisor            -3  descriptor 3 is for the program
// -d  working directory             -f  soft limit of open files
// -c  descriptor 0 is a terminal that becomes the program's controlling one; core dumps stay as they
//     were, since a person works there
// -k  umask, a decimal number
// -x  run it in a box (with -s)     -n  the box has the network
// -l  the box has a network of its own, in which there is nothing but 127.0.0.1; what listens there on LAUNCH_PORT is
//     the hub: it gets the socket with LAUNCH_LISTENS
// -M  memory of a box in all        -u  processes, also of a box in all
// -b  a rule of the box
//
// A rule is a letter and an absolute path without symbolic links, `.` and `..`; outer paths come
// before inner ones. What no rule names can be read, not written. Between letter and path may stand
// DEVICE:INODE (hexadecimal) of the directory that is meant; another one in its place is refused.
//
//     w  a directory that can be written       r  what can only be read, in one that can be written
//     h  what cannot be seen                   k  a directory that must not appear: as r, and made
//     t  the directory that is /tmp               for the time being if it is missing
//                                              f  the same for a file
//
// Its environment is the program's. Descriptors 0 to 2 (and 3) are the program's, 4 is the channel:
// a socket on which the launcher sends reports, and a supervisor receives orders. The channel
// closing without a report of failure means that the program runs (or, with -s, see LAUNCH_ENDED).

enum { LAUNCH_EXTRA_FD = 3, LAUNCH_CHANNEL_FD = 4, LAUNCH_RULES_MAX = 256, LAUNCH_PORT = 4711 };

// letter, resource, member of struct proc_opts
#define LAUNCH_LIMITS(X)                                                                           \
    X('m', RLIMIT_AS, memory_limit)                                                                \
    X('t', RLIMIT_CPU, cpu_limit_s)                                                                \
    X('u', RLIMIT_NPROC, process_limit)                                                            \
    X('z', RLIMIT_FSIZE, file_size_limit)

enum launch_limit { LAUNCH_LIMIT_PROCESSES = 1, LAUNCH_LIMIT_MEMORY };

enum launch_kind {
    LAUNCH_LISTENS =
        -1, // the descriptor that comes with it listens in the box; value is LAUNCH_PORT
    LAUNCH_LIMITED =
        0, // supervisor: value is the enum launch_limit that the box passed; it was ended
    LAUNCH_ENDED = 1,  // supervisor: the program and its descendants are gone; value is its status
    LAUNCH_NO_SETUP,   // value is the errno: a limit or descriptor could not be set
    LAUNCH_NO_DIR,     // value is the errno: cannot enter DIR
    LAUNCH_NO_PROGRAM, // value is the errno: cannot execute PROGRAM
    // the box cannot be made, and nothing was run; value is the errno
    LAUNCH_NO_NAMESPACE,
    LAUNCH_NO_MOUNT,
    LAUNCH_NO_LANDLOCK,
    LAUNCH_NO_FILTER,
};

struct launch_report {
    int32_t kind;
    int32_t value;
};

/// To a supervisor: send this signal to every descendant. SIGKILL is repeated until none is left.
struct launch_order {
    int32_t signal;
};
