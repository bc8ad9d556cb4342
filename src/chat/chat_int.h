#pragma once

#include "chat/face.h"
#include "cli/ask.h"
#include "cli/sent.h"
#include "cli/sessions.h"
#include "term/edit.h"
#include "view/gauge.h"
#include "view/history.h"
#include "view/menu.h"
#include "view/view.h"

// What the files of `afloat chat` share. One thread, one session at a time.

enum { CHAT_ID_MAX = SESSION_ID_MAX, CHAT_TEXT_MAX = 15 << 20 };

enum chat_line {
    CHAT_NONE,        // none yet
    CHAT_ELSEWHERE,   // none yet: another client began a turn, or has answered
    CHAT_LINE,        // something was entered
    CHAT_INTERRUPTED, // Ctrl-C
    CHAT_LEFT,        // Ctrl-D on an empty line
    CHAT_GONE,        // the terminal is closed, or we are told to end
};

/// What a key asks of the chat.
enum chat_input {
    INPUT_MORE,      // nothing
    INPUT_USED,      // nothing more
    INPUT_ENTER,     // the text is complete
    INPUT_QUEUE,     // it is, and is to wait for the end of the turn
    INPUT_ESCAPE,    // end the turn
    INPUT_INTERRUPT, // Ctrl-C
    INPUT_END,       // Ctrl-D on an empty line
};

struct chat;
struct run_follow;
/// Do what a key asks for while something else is waited for; a negative code ends the wait, else 0.
typedef int chat_on_input(struct chat *t, enum chat_input in);

/// A message that waits for its turn.
struct chat_queued {
    char turn[CHAT_ID_MAX];
    char *text;
};

struct chat {
    struct cli *c;
    struct view view;
    bool person;   // a user is at the terminal and can be asked
    bool prints;   // --print: asks nothing; a call that needs approval ends the turn
    bool whole;    // print the turn as one JSON object when it has ended
    bool drawable; // and the terminal takes escape sequences
    char id[CHAT_ID_MAX];
    uint64_t seq;   // of the last event seen: reading continues after it
    uint64_t heard; // the last event of the hub's own stream that was read; 0: it is not read

    // the terminal
    struct edit line, reply; // what is said, and answers to questions, which are no history
    struct edit *input;      // the one of them that keys go to; NULL: no input
    const char *prompt;      // of an answer; NULL: the face's
    struct gauge gauge;
    struct face *face;  // status line and prompt
    uint64_t looked_ns; // at its files
    struct keys keys;
    struct buf typed; // read, but not used yet
    uint64_t typed_ns, drawn_ns;
    uint64_t hold_ns; // until then nothing is drawn
    bool dirty;       // something changed since the last frame
    bool unfocused;   // the terminal says that the user looks at something else
    int resized;      // a signalfd, or -1
    struct client_watch watch;
    chat_on_input *on_input;
    enum chat_line line_end;

    struct buf ran; // what commands of the user have printed: the next message begins with it

    char *history; // the file of what was said in this project; NULL: none

    struct menu menu; // what Tab offers

    // the turn that is followed
    char turn[CHAT_ID_MAX]; // "": whatever comes, without an end
    bool joins;             // it began before we came, and is followed before the next line
    const char *end;        // the type of the event that ended it, a constant; NULL: it runs
    struct arena asked_in;
    const struct json *asked; // a permission or question that waits for a person; NULL: none
    bool signalled;           // Ctrl-C asked for its end: the next one leaves
    struct run_follow *run;   // of `afloat run`: what lines are for; NULL: none
    vec(struct chat_queued) queue;
};

// ---- chat.c ---------------------------------------------------------------------------------

/// Run `body` with a chat that has its view and its person; catches Ctrl-C. Without `typing` what is
/// typed meanwhile is left to the shell, but for answers to questions. The exit code of `body`.
typedef int chat_body(struct chat *t, void *arg);
int chat__with(struct cli *c, bool typing, chat_body *body, void *arg);

// ---- chat_open.c: which session -------------------------------------------------------------

/// Open the session that the flags name, or make one. The exit code; 0 leaves `id` and `seq` set.
int chat__open(struct chat *t);
/// Make a new one, by the flags.
int chat__new(struct chat *t);
/// Continue session `id` (the unique start of an id will do).
int chat__resume(struct chat *t, const char *id);
/// Read the session's row for the status, if there is one to be drawn; what fails leaves it as it is.
void chat__refresh(struct chat *t);
/// The exit code; `*out` is the row of the session, in `arena`.
int chat__row(struct chat *t, struct arena *arena, const struct json **out);

/// Write a body, of `text` if it is about one. The exit code.
typedef int chat_write(struct chat *t, struct buf *body, struct str text);
typedef void chat_take(struct chat *t, const struct json *answer);
/// Send what `write` writes; `take` gets the answer, unless it is a problem, which is told. The exit code.
int chat__send(struct chat *t, const char *method, const char *path, chat_write *write,
               struct str text, chat_take *take);

// ---- chat_past.c: what was said before ----------------------------------------------------------

/// Read the events of the session up to now: they become history of the input, and on a terminal the end
/// of the talk is shown. The exit code.
int chat__show_past(struct chat *t);
/// Write the talk as Markdown to `path`, which must not exist. The exit code.
int chat__export(struct chat *t, const char *path);

// ---- chat_shell.c -------------------------------------------------------------------------------

/// Run a command line of the user's in the session's directory, on the terminal; what it prints is added to
/// `ran`, unless the line begins with '!'.
void chat__shell(struct chat *t, struct str line);

// ---- chat_picture.c: pictures in what is said ---------------------------------------------------

/// Does the text name a picture?
bool chat__has_pictures(struct chat *t, struct str text);
/// Write the member `images` with the pictures that `text` names, if there are any, and say so.
void chat__write_pictures(struct chat *t, struct str text, struct jw *w);

// ---- chat_trust.c ---------------------------------------------------------------------------

/// Say when the project of `dir` holds something that is not trusted; with `bots` its bots too.
void chat__announce_untrusted(struct cli *c, const char *dir, bool bots);

// ---- chat_news.c: what the hub says about settings and plugins ----------------------------------

/// Print the faults of the settings as they are now, a line each.
void chat__tell_faults(struct cli *c);
/// From here on what breaks or changes in the hub is shown at the prompt.
void chat__news_begin(struct chat *t);
/// Show what has come so far: for a terminal whose line cannot be drawn again.
void chat__news_so_far(struct chat *t);
/// Wait until a line was entered (`line_end`), showing such news meanwhile. 0, or -EINTR.
int chat__wait_for_line(struct chat *t, struct client_watch *w) MUST_CHECK;

// ---- chat_turn.c ----------------------------------------------------------------------------

/// Does `e` say more than that the hub went away? A connection that broke or is refused says just that.
bool chat__adds_to_lost(const struct err *e);

/// Show an event of the session, parsed into `*ev` (NULL: it is no JSON), and note how far the journal
/// was read. False: stdout cannot be written any more.
bool chat__show(struct chat *t, const struct client_event *e, struct arena *a, struct json **ev);

/// Say `text` and follow the turn to its end. The exit code: 0 completed, 1 failed, 130 interrupted; with
/// --print 4 when a call needed approval.
int chat__say(struct chat *t, struct str text);
/// Append `text` to `out`, and the text of each resource that it names as `@SERVER:ADDRESS`.
void chat__add_resources(struct chat *t, struct str text, struct buf *out);
/// Offer the resources whose name begins so.
void chat__resource_names(struct chat *t, struct menu *m, struct str start);
/// Follow what the session does until the turn in `t->turn` ends or the person leaves.
int chat__follow(struct chat *t);
/// Ask for the end of the turn; that it has ended comes as an event.
void chat__interrupt(struct chat *t);

/// Cycle the permission mode: ask, edits, plan, auto.
void chat__next_permission(struct chat *t);
/// Set it; the exit code.
int chat__set_permission(struct chat *t, const char *mode);

// ---- chat_input.c: the rows at the end of the screen ------------------------------------------

/// `typing`: there is an input all the time, not only for answers to questions.
void chat__person_init(struct chat *t, bool typing);
void chat__person_fini(struct chat *t);
/// Take the terminal, and draw from now on; nothing on one that cannot be drawn on.
void chat__screen_begin(struct chat *t);
void chat__screen_end(struct chat *t);
/// Something is to be drawn, soon.
void chat__changed(struct chat *t);

/// Read keys and draw while a request is on its way: for its `watch`. Lives as long as `t`.
struct client_watch *chat__watch(struct chat *t, chat_on_input *on_input);

/// Read one line; it is edit_text(t->input) until edit_start().
enum chat_line chat__read_line(struct chat *t);
/// The same for an answer to `prompt`, in `t->reply`; what was typed before the question does not count.
enum chat_line chat__ask(struct chat *t, const char *prompt);
/// Print what was entered.
void chat__print_line(struct chat *t, const char *prompt, struct str text);
/// The terminal has been closed: nothing can be written to it.
bool chat__is_gone(const struct chat *t);
/// Tell a user who looks at something else. `what` is ours.
void chat__notify(struct chat *t, const char *what);

// ---- chat_complete.c --------------------------------------------------------------------------

/// Tab: complete what is before the cursor, or offer what could be; again, take the next of them.
void chat__complete(struct chat *t);
void chat__menu_lines(const struct chat *t, struct buf *out, size_t cols);

// ---- chat_person.c: asking --------------------------------------------------------------------

/// Put what waits in `t->asked` before the person, and send what is answered. Without a person it is
/// denied; when the terminal is closed it keeps waiting. The exit code.
int chat__settle_asked(struct chat *t);

// ---- chat_slash.c ---------------------------------------------------------------------------

/// Run a line that begins with '/'. False when the person wants to leave.
bool chat__slash(struct chat *t, struct str line);
/// Offer the commands, our own and those of plugins, whose names begin with `start`.
void chat__slash_names(struct chat *t, struct menu *m, struct str start);
/// The words that may stand at the end of `line`, a command with words after it.
void chat__slash_words(struct chat *t, struct menu *m, struct str line);

// ---- chat_plugin.c --------------------------------------------------------------------------

/// `/plugin NAME WHAT`: have the model write a plugin, check it, offer to save it.
void chat__write_plugin(struct chat *t, struct str arg);
