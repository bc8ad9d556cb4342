#pragma once

#include "base/json.h"
#include "base/vec.h"
#include "client/async.h"
#include "loop/timer.h"
#include "lua/refs.h"
#include "term/cells.h"
#include "term/edit.h"
#include "tui/tui.h"
#include "view/gauge.h"
#include "view/menu.h"
#include "view/view.h"
#include "watch/watch.h"

// What the files of this folder share. One thread, one loop.
//
//     hub ── model.c, talk.c ──> state ── ui.c: Lua ──> tree ── node.c ──> nodes ── draw.c ──> grid ── screen.c
//     keys ── screen.c ──> input.c ──> the widget in focus, or an action in Lua ── call.c ──> hub
//     files ── sources.c ──> ui.c: a new Lua state beside the old one, then a swap

struct tui;
struct ui;
struct node;
struct terminal;

enum { TUI_ID = 64 };

// ---- screen.c: the terminal ---------------------------------------------------------------------

struct screen {
    int fd; // a descriptor of our own; -1: not open
    uv_poll_t poll;
    struct keys keys;
    struct timer esc;
    struct buf out; // written, but not yet taken by the terminal
    struct cells shown, next;
    bool whole;     // what the terminal shows is not known
    bool unfocused; // the terminal says that the user looks at something else
    bool moves;     // it was asked to tell of every movement of the mouse, not only of dragging
    bool open;
};

/// Take the terminal and begin to read it.
int screen__open(struct tui *t, struct err *e) MUST_CHECK;
/// Give it back as it was.
void screen__close(struct tui *t);
/// Write what turns the screen into `next`. Only while screen__is_ready().
void screen__show(struct tui *t);
/// Tell a user who looks at something else.
void screen__notify(struct tui *t, struct str what);
/// True when the terminal has taken all that was written.
bool screen__is_ready(const struct tui *t);
/// Read the window's size anew; true when it changed.
bool screen__take_size(struct tui *t);

// ---- node.c: the tree ---------------------------------------------------------------------------

enum node_size { SIZE_SHARE, SIZE_CELLS, SIZE_PERCENT, SIZE_FIT };

/// A part of the screen, as the layout asked for it. Lives in the arena of its tree.
struct node {
    const struct widget *widget;
    const struct json *v; // the fields
    struct node *first, *next;
    struct str id; // empty: cannot have the focus
    struct style style;
    enum node_size kind;
    int size;
    bool border;
    bool popup;            // above the rest
    struct rect at, inner; // all of it; without its border
};

/// A kind of node.
struct widget {
    const char *name;
    const char *fields; // "text:sa wrap:b", types as in op_param, `x` is a node, `X` a list of them
    bool focuses;
    bool from_end; // its scroll counts rows below the last one shown
    bool types;    // takes what is typed: only a few keys are ours while it has the focus
    int (*fit)(struct tui *t, struct node *n, bool rows, int other); // NULL: 1 row, all columns
    void (*draw)(struct tui *t, struct node *n);
    bool (*first)(struct tui *t, struct node *n, const struct key *k); // before all; or NULL
    bool (*key)(struct tui *t, struct node *n, const struct key *k);   // NULL: none
    void (*mouse)(struct tui *t, struct node *n, const struct key *k); // NULL: none
};
extern const struct widget widgets[];
extern const size_t n_widgets;

/// Make nodes of what the layout returned, in `a`; strings are those of `v`. A node, field, style or size that is
/// not known is an error that says where.
int node__parse(struct node **out, struct arena *a, const struct json *v, struct err *e) MUST_CHECK;
/// Give every node of `t->tree` its place, and list them in `t->nodes` in the order of drawing: popups last.
void node__arrange(struct tui *t, int rows, int cols);
/// The `style` of `v`; `otherwise` when it has none, or none that can be read.
struct style node__style_of(const struct json *v, struct style otherwise);
/// Read a style: "bold accent" or {fg, bg, bold, ...}; NULL is `otherwise`.
int node__style(struct style *out, const struct json *v, struct style otherwise,
                struct err *e) MUST_CHECK;
/// A number field.
int node__int(const struct node *n, const char *key, int otherwise);
/// A text field; "" if there is none.
struct str node__str(const struct node *n, const char *key);

// ---- widgets ------------------------------------------------------------------------------------

/// What a widget keeps between frames, by its id.
struct kept {
    struct str id;     // owned
    int top;           // the first row that is shown
    struct edit edit;  // of an input
    struct menu menu;  // what completion offers there
    char *history;     // the project's history file; NULL: none
    bool has_history;  // it was looked for
    uint64_t since_ns; // when it came onto the screen
    unsigned frame;    // when it was last there
};

/// The one of `id`, made if there is none.
struct kept *kept__of(struct tui *t, struct str id);
/// Free what all widgets keep.
void kept__fini(struct tui *t);

/// Draw a node without its children: its border, if it has one, then what is in it.
void draw__node(struct tui *t, struct node *n);
/// Columns of a text from outside, as draw__cut() shows it.
int draw__width(struct str text);
/// Write a text from outside into the first row of `r`, from column `col` of the screen on, cut with '…' where `r` ends. Control
/// characters are shown as escapes. Returns the columns that it takes.
int draw__cut(struct tui *t, struct rect r, int col, struct str text, struct style style);
/// Write lines of ours that end in line feeds, from row `skip` on.
void draw__lines(struct tui *t, struct rect r, struct str lines, int skip, struct style style);
/// The sign that there is more above or below.
void draw__more(struct tui *t, struct rect r, int top, int total);

// ---- ui.c: one build of the interface -----------------------------------------------------------

enum ui_kind { UI_LAYOUT, UI_KEYBINDINGS, UI_ACTIONS, UI_EVENTS, UI__KINDS };
extern const char *const ui_kind_names[UI__KINDS];

/// One of the files that make the interface.
struct ui_file {
    char *path; // as errors name it
    enum ui_kind kind;
    struct str text; // borrowed
    bool bad;        // left out of this build
};
typedef vec(struct ui_file) ui_files;

/// What went wrong, for the status row.
struct ui_fault {
    char text[512]; // "layout.lua:3: ..."
    char path[1024];
    bool slow; // it was stopped: a limit was passed
};

/// Build an interface of `files` in a Lua state of its own, with the `_tui_state` of `before` (may be NULL), and draw it once
/// to see that it can be. NULL with `f` set when it cannot.
struct ui *ui__new(struct tui *t, const ui_files *files, struct ui *before, struct ui_fault *f);
/// Another one is used from now on: it goes when no action of it waits for the hub any more. NULL is allowed.
void ui__retire(struct ui *ui);
/// Let it go at once; what waits is ended. NULL is allowed.
void ui__free(struct ui *ui);

/// Run the layout: `*tree` is made in `a`. 0, or -1 with `f` set.
int ui__render(struct ui *ui, struct arena *a, struct node **tree, struct ui_fault *f);
/// The action of a key is run; false when it has none. With `only_reserved` just those that work everywhere.
bool ui__press(struct ui *ui, const char *key, bool only_reserved);
/// Run an action by its name; `arg` may be NULL.
void ui__act(struct ui *ui, struct str action, const struct json *arg);
/// Run the handlers of an event of the hub.
void ui__event(struct ui *ui, struct str type, const struct json *event);
/// Ask the interface about the mouse: true when it has dealt with it.
bool ui__mouse(struct ui *ui, const struct json *event);
/// The interface whose code runs in `L`.
struct tui *ui__tui(lua_State *L);

/// `_tui_state[table][id]`, or `_tui_state[id]` when `table` is NULL. Strings live until the value changes.
struct str ui__get_str(struct ui *ui, const char *table, struct str id);
int ui__get_int(struct ui *ui, const char *table, struct str id, int otherwise);
void ui__set_str(struct ui *ui, const char *table, struct str id, struct str value);
void ui__set_int(struct ui *ui, const char *table, struct str id, int value);

// ---- call.c: what Lua can do --------------------------------------------------------------------

/// The library `afloat`.
int call__open_lib(lua_State *L);

// ---- sources.c: the files ------------------------------------------------------------------------

struct source_dir;
struct sources {
    struct watcher *watcher;
    vec(struct source_dir *) dirs; // in load order
    struct timer soon;
};

/// Begin to watch the user's files; the first build follows.
void sources__open(struct tui *t);
/// Stop watching, and free the texts.
void sources__close(struct tui *t);
/// The plugins are these now: their ui/ directories are watched.
void sources__set_plugins(struct tui *t, const struct json *plugins);
/// Build from what the files hold now; a file that fails keeps its last good text.
void sources__build(struct tui *t);
/// A file did not keep its limits while it was drawn: build without this version of it.
void sources__reject(struct tui *t, const struct ui_fault *f);

// ---- model.c: what the hub says -----------------------------------------------------------------

enum doc_id {
    DOC_SESSIONS, // the newest
    DOC_WAITING,  // all that waited for an answer when the hub was reached, and still do
    DOC_PLUGINS,
    DOC_RUNS,
    DOC_PTYS,
    DOC_COMMANDS,
    DOC_SESSION,
    DOC_REPORT,
    DOC_MESSAGES,
    DOC__COUNT
};

/// One answer of the hub, without nulls.
struct doc {
    struct arena arena;
    const struct json *v; // NULL: nothing came yet
    unsigned version;     // counts changes
    struct async *call;
    bool again; // something changed while it was on its way
    struct timer soon;
    struct tui *t;
};

struct model {
    struct doc docs[DOC__COUNT];
    struct async *events;
    uint64_t seen; // id of the last event
    struct timer retry;
    int64_t generation;
    bool lost; // the hub does not answer
    char env[64];
};

/// Begin to follow the hub's events, and ask for all documents.
void model__open(struct tui *t);
/// End what is under way, and free the documents.
void model__close(struct tui *t);
/// Ask again for one of them, soon; bursts become one question.
void model__refresh(struct tui *t, enum doc_id id);
/// A copy in which members that are null are left out: in Lua a missing field is nil.
struct json *model__without_nulls(struct arena *a, const struct json *v);
/// Replace a document that is not asked for; `v` is copied.
void model__set(struct tui *t, enum doc_id id, const struct json *v);

// ---- talk.c: the session that is open -----------------------------------------------------------

/// An event as it came.
struct talk_event {
    char *data;
    bool piece; // of something that comes whole later
};

/// A message of the session, for the model. Both are owned.
struct talk_message {
    struct str role, text;
};

struct talk {
    char id[TUI_ID]; // "": none
    struct async *stream;
    struct timer retry;
    uint64_t seq;
    vec(struct talk_event) events; // to be shown again at another width
    size_t bytes;
    struct out out;
    struct view view;
    struct gauge gauge;
    struct buf lines;  // final rows at `cols`
    vec(size_t) rows;  // where each begins in `lines`
    size_t cols, done; // for which width; how many of `events` are in `lines`
    bool details;
    struct timer tick;
    vec(struct talk_message) messages; // the last of them
    size_t said_bytes;                 // of their texts
    bool said;                         // `messages` changed
};

/// Begin without a session.
void talk__init(struct tui *t);
/// Leave the session, and free what is kept.
void talk__fini(struct tui *t);
/// Show this session; "" for none.
void talk__open(struct tui *t, struct str id);
/// Show all that tools print, or little.
void talk__set_details(struct tui *t, bool all);
/// Hand the messages to the model, if they changed.
void talk__update(struct tui *t);
/// The widget.
void talk__draw(struct tui *t, struct node *n);

// ---- terminal.c: programs in keepers ------------------------------------------------------------

/// The widget.
void terminal__draw(struct tui *t, struct node *n);
bool terminal__key(struct tui *t, struct node *n, const struct key *k);
/// Append a key as a terminal sends it to a program that has asked for application cursor keys, or for pastes.
void terminal__add_key(struct buf *out, const struct key *k, bool application, bool paste);
void terminal__mouse(struct tui *t, struct node *n, const struct key *k);
/// The bytes that a program is told of a mouse with, on this cell of its screen; `sgr`: in the form that it asked for.
void terminal__add_mouse(struct buf *out, const struct key *k, int row, int col, bool sgr);
/// Whether a program on the screen wants to know of every movement of the mouse.
bool terminal__wants_moves(const struct tui *t);
/// Let go what was not drawn in this frame, or all.
void terminal__sweep(struct tui *t, bool all);

// ---- input.c: keys and the focus ----------------------------------------------------------------

/// Take a key or what a mouse did: for the widget in focus, or for the action that is bound to it.
void input__key(struct tui *t, const struct key *k);
/// The node in focus; NULL when nothing can have it.
struct node *input__focused(struct tui *t);
/// Give the focus to the next (1) or the one before (-1).
void input__move(struct tui *t, int by);
/// Append the name of a key as bindings spell it: "ctrl+p".
void input__name(struct buf *out, const struct key *k);

// ---- app.c ----------------------------------------------------------------------------------

struct tui {
    const struct tui_opts *o;
    struct loop loop;
    struct client_peer hub;
    struct screen screen;
    struct sources sources;
    struct model model;
    struct talk talk;
    vec(struct terminal *) terminals; // that are on the screen
    struct ui *ui;                    // NULL until the first build
    vec(struct ui *) old; // builds that were replaced, and whose actions wait for the hub

    struct arena tree_in[2]; // the one shown, and the next
    unsigned tree_at;
    struct node *tree;        // NULL until the first frame
    vec(struct node *) nodes; // in the order of drawing
    vec(struct kept *) kept;
    unsigned frame;

    struct kept *held;         // of the node that a button of the mouse was pressed on; NULL: none
    int focus_by;              // the focus is to move: 1, -1
    bool layout_due, draw_due; // the layout is to be run; the screen is to be drawn
    uint64_t drawn_ns;
    struct timer soon;

    char error[512]; // of the interface's files; "": none
    char note[512], note_style[32];
    struct timer note_over;
    bool over;
    int status; // why it ended
};

/// Something changed: run the layout, or with false only draw, in a moment.
void app__changed(struct tui *t, bool layout);
/// The same at once, after a key.
void app__hurry(struct tui *t);
/// Bring the tree up to date without drawing, before the next key.
void app__settle(struct tui *t);
/// Show a line in the status row for a while.
void app__note(struct tui *t, struct str text, const char *style);
/// End the interface: 0, or the negative code of what went wrong.
void app__quit(struct tui *t, int status);
