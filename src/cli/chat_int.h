#pragma once

#include "cli/ask.h"
#include "cli/edit.h"
#include "cli/view.h"

// What the files of `afloat chat` share. One thread, one session at a time.

enum { CHAT_ID_MAX = 64, CHAT_TEXT_MAX = 15 << 20 };

struct chat {
    struct cli *c;
    struct view view;
    bool person;   // somebody sits at a terminal and can be asked
    bool prints;   // --print: nobody is asked, a call that needs approval ends the turn
    bool whole;    // print the turn as one JSON object when it has ended
    bool drawable; // and the terminal takes escape sequences
    char id[CHAT_ID_MAX];
    uint64_t seq; // of the last event seen: where reading goes on

    // the terminal
    struct edit line, reply; // what is said, and answers to questions, which are no history
    struct buf typed;        // read, but not used yet
    int resized;             // a signalfd, or -1

    // the turn that is followed
    char turn[CHAT_ID_MAX]; // "": whatever comes, without an end
    const char *end;        // the type of the event that ended it, a constant; NULL: goes on
    struct arena asked_in;
    const struct json *asked; // a permission or question that waits for a person; NULL: none
    bool interrupted;         // we asked for its end
};

// ---- cmd_chat.c -----------------------------------------------------------------------------

/// Is somebody at the terminal who may be asked?
bool chat__is_person(const struct cli *c);
/// Run `body` with a chat that has its view and its person; catches Ctrl-C. The exit code of `body`.
typedef int chat_body(struct chat *t, void *arg);
int chat__with(struct cli *c, chat_body *body, void *arg);

// ---- chat_open.c: which session -------------------------------------------------------------

/// Open the session that the flags name, or make one. The exit code; 0 leaves `id` and `seq` set.
int chat__open(struct chat *t);
/// Make a new one, by the flags.
int chat__new(struct chat *t);
/// Go on with session `id` (a unique start of one will do).
int chat__resume(struct chat *t, const char *id);
/// The exit code; `*out` is the row of the session, in `arena`.
int chat__row(struct chat *t, struct arena *arena, const struct json **out);

/// Write a body, of `text` if it is about one. The exit code.
typedef int chat_write(struct chat *t, struct buf *body, struct str text);
typedef void chat_take(struct chat *t, const struct json *answer);
/// Send what `write` writes; `take` gets the answer, unless it is a problem, which is told. The exit code.
int chat__send(struct chat *t, const char *method, const char *path, chat_write *write,
               struct str text, chat_take *take);

// ---- chat_env.c: what travels with the client -----------------------------------------------

/// Write the environment for the session's tools, and what chooses its model, as a JSON object.
int chat__write_env(struct cli *c, struct jw *w);
enum { CHAT_UMASK = 8 };
/// Our umask as the hub takes it: "0022".
const char *chat__umask(char out[CHAT_UMASK]);
/// Append the names, not the values, of the variables that hold keys here, with commas between them.
int chat__write_keys(struct cli *c, struct buf *out);
/// The provider's name in front of a '/' in `model`, when there is such a provider; the rest is moved to
/// `*model`. Lives in `arena`; NULL when there is none.
const char *chat__cut_provider(struct cli *c, struct arena *arena, const char **model);
/// Write `provider` and `model`, where --model and --provider say so, into the open object.
void chat__write_model(struct cli *c, struct jw *w);

// ---- chat_trust.c ---------------------------------------------------------------------------

/// Say when the project of `dir` holds something that is not trusted; with `bots` its bots too.
void chat__announce_untrusted(struct cli *c, const char *dir, bool bots);

// ---- chat_turn.c ----------------------------------------------------------------------------

/// Show an event of the session, parsed into `*ev` (NULL: it is no JSON), and note how far the journal
/// was read. False: there is nobody to show it to any more.
bool chat__show(struct chat *t, const struct client_event *e, struct arena *a, struct json **ev);

/// Say `text` and follow the turn to its end. The exit code: 0 completed, 1 failed, 130 interrupted; with
/// --print 4 when a call needed approval.
int chat__say(struct chat *t, struct str text);
/// Follow what the session does until the turn in `t->turn` ends or the person leaves.
int chat__follow(struct chat *t);
/// Ask for the end of the turn; that it has ended comes as an event.
void chat__interrupt(struct chat *t);

// ---- chat_person.c: asking ------------------------------------------------------------------

enum chat_line {
    CHAT_LINE,        // something was entered
    CHAT_INTERRUPTED, // Ctrl-C
    CHAT_LEFT,        // Ctrl-D on an empty line
    CHAT_GONE,        // the terminal is closed, or we are told to end
};

void chat__person_init(struct chat *t);
void chat__person_fini(struct chat *t);
/// Read one line with `ed`; it is edit_text(ed).
enum chat_line chat__read_line(struct chat *t, struct edit *ed);
/// The same for an answer to `prompt`; what was typed before the question does not count.
enum chat_line chat__ask(struct chat *t, const char *prompt);
/// Put what waits in `t->asked` before the person, and send what is answered. Without a person it is
/// denied; when the terminal goes away it goes on waiting. The exit code.
int chat__settle_asked(struct chat *t);

// ---- chat_slash.c ---------------------------------------------------------------------------

/// Run a line that begins with '/'. False when the person wants to leave.
bool chat__slash(struct chat *t, struct str line);

// ---- chat_plugin.c --------------------------------------------------------------------------

/// `/plugin NAME WHAT`: have the model write a plugin, check it, offer to save it.
void chat__write_plugin(struct chat *t, struct str arg);
