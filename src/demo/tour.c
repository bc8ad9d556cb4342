// What the tour shows, in the order in which someone who has never seen the program can follow it.

#include "cli/ask.h"
#include "demo/demo.h"

#define SIGNATURE(version)                                                                         \
    "on_final(function(ctx, text)\n  return text .. \"\\n-- signed by version " version "\"\nend)" \
    "\n"

static const char broken[] = "on_final(function(ctx, text)\n  return text .. .. \"broken\"\nend)\n";

// clang-format off
const struct demo_step demo_tour[] = {
    {.heading = "A model that works with real tools",
     .text = "No key is needed for the tour: the offline model follows simple rules, but its tools are real.",
     .words = {"afloat", "chat", "replace \"hello\" with \"goodbye\" in notes.txt"}, .until = "is changed"},
    {.words = {"git", "diff"}, .until = "+goodbye"},

    {.heading = "Change the agent while it runs",
     .text = "A plugin is a file. This hook sees the last text of every turn, and may change it.",
     .file = "~/plugins/signature.lua", .content = SIGNATURE("1"),
     .words = {"afloat", "plugins"}, .until = "signature"},
    {.words = {"afloat", "chat", "-c", "read notes.txt"}, .until = "signed by version 1"},
    {.text = "Saved again, it changes the very next answer of the same conversation.",
     .file = "~/plugins/signature.lua", .content = SIGNATURE("2"),
     .words = {"afloat", "events", "--types", "plugin.changed"}, .until = "revision=2", .quiet = true},
    {.words = {"afloat", "chat", "-c", "read notes.txt"}, .until = "signed by version 2"},

    {.heading = "A broken save changes nothing",
     .text = "The error names the file and the line, and the last good version keeps running.",
     .file = "~/plugins/signature.lua", .content = broken,
     .words = {"afloat", "reload"}, .exit = EXIT_RELOAD, .until = "signature.lua:2"},
    {.words = {"afloat", "chat", "-c", "read notes.txt"}, .until = "signed by version 2"},

    {.heading = "A bot works on its own branch",
     .text = "Your files change only when you apply its work.",
     .words = {"afloat", "bots", "create", "fixer"}},
    {.words = {"afloat", "run", "fixer", "write \"x = 1\" to answer.txt"}, .until = "complete", .keep = "afloat: run "},
    {.words = {"afloat", "runs", "diff", "@"}, .until = "+x = 1"},
    {.words = {"afloat", "runs", "apply", "@"}},
    {.words = {"git", "status", "--short"}, .until = "answer.txt"},

    {.heading = "A shell that follows its environment",
     .text = "The shell stays open while the file that describes its environment is saved.",
     .file = ".afloat/env.toml", .content = "[env]\nGREETING = \"good evening\"\n",
     .words = {"afloat", "trust", "--follow"}},
    {.text = "Inside 'afloat shell':",
     .typed = "echo $GREETING", .until = "\ngood evening"},
    {.text = "The file is saved by an editor; the shell has the new value at its next command.",
     .file = ".afloat/env.toml", .content = "[env]\nGREETING = \"good morning\"\n",
     .typed = "echo $GREETING", .until = "\ngood morning"},
    {.typed = "exit"},

    {.heading = "kill -9, and nothing is lost",
     .text = "The next command starts a new hub, and the conversation continues.",
     .words = {"afloat", "status"}, .exit = EXIT_UNREACHABLE, .kill = true},
    {.words = {"afloat", "chat", "-c", "read answer.txt"}, .until = "x = 1"},
    {.words = {"afloat", "sessions"}},
};
const size_t n_demo_tour = ARRAY_LEN(demo_tour);

const struct demo_step demo_ending[] = {
    {.words = {"afloat", "stop"}, .quiet = true},
    {.words = {"afloat", "fsck"}, .quiet = true},
};
const size_t n_demo_ending = ARRAY_LEN(demo_ending);

const struct demo_next demo_next[] = {
    {"afloat setup", "find a real model: a key, or a server on this machine"},
    {"afloat chat", "talk, in any directory"},
    {"afloat plugin new hello", "your first plugin"},
    {"afloat shell", "your shell, with the project's environment"},
    {"afloat open", "the page, in a browser"},
    {"afloat help", "the commands to begin with"},
    {NULL, NULL},
};
// clang-format on
