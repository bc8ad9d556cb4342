#pragma once

// What kill -9 loops kill: a process that appends to one session as fast as it can.

/// What it says on its pipe for each append that was acknowledged.
struct journal_ack {
    unsigned long long last_seq;
    int synced;
};

/// Open the store in `home`, make session `id` when it is not there, and append until killed, several
/// requests at a time, WRITTEN and SYNCED mixed by `seed`. Each acknowledgement goes to `fd` at once.
_Noreturn void journal_writer_run(const char *home, const char *id, int fd, unsigned seed);
