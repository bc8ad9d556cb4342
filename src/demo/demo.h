#pragma once

#include <stdbool.h>
#include <stddef.h>

// The tour as data: the files to save, the commands to type and the output to wait for, in order. See demo.c.

struct cli;

/// `afloat demo`; the exit code.
int demo_main(struct cli *c);

enum { DEMO_WORDS = 8 };

struct demo_step {
    const char *heading; // NULL: continues under the last one
    const char *text;    // a sentence or two under the heading; NULL: none
    const char *file,
        *content; // saved before: under the project, or under the home with "~/"; NULL: none
    const char *words[DEMO_WORDS]; // a command; "afloat" is this program, "@" is the kept word
    const char *typed; // instead of a command: a line for a shell that stays open; "exit" closes it
    const char *until; // what it must print; a command is run again until it does
    const char *keep;  // the word after this in the output is kept for "@"
    int exit;          // what the command must end with
    bool kill;         // kill -9 the hub before
    bool quiet;        // nothing of it is shown: it waits for something
};

/// The tour, and what follows it when nothing is to be left running.
extern const struct demo_step demo_tour[], demo_ending[];
extern const size_t n_demo_tour, n_demo_ending;

/// Printed at the end: what to type next, and what for. The last has no command.
struct demo_next {
    const char *command, *text;
};
extern const struct demo_next demo_next[];
