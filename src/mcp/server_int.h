#pragma once

#include "base/map.h"
#include "gen/engine.h"
#include "hook/args.h"
#include "loop/timer.h"
#include "mcp/mcp.h"
#include "mcp/peer.h"

// What the files of this folder share about a server.
//
//     mcp.c      which servers there are: a source of generations
//     projects.c those of `.mcp.json` in trusted projects
//     guests.c   those that a client brings for one session
//     server.c   the life of one: started, asked for its lists, started again
//     offer.c    its tools and prompts as contributions of its unit
//     call.c     calls of them
//     approve.c  what the user has seen of its tools
//     asks.c     what it asks while it works
//     content.c  what a tool answers, as text
//     template.c templates of addresses

enum mcp_state { MCP_STARTING, MCP_READY, MCP_FAILED, MCP_DISABLED };

/// What a tool was when the user agreed to it.
struct mcp_approval {
    char *description;
    char *schema;          // JSON; NULL: not known
    char mark[SHA256_HEX]; // of both
};

/// Something that the server offers, and the item of the unit that stands for it.
struct mcp_offer {
    struct mcp_server *server;
    enum gen_kind kind;    // GEN_TOOL or GEN_COMMAND
    char *tool;            // the server's name for it
    char *name;            // ours
    char *about;           // as the item has it
    char *description;     // as the server has it now
    char *schema;          // the same, JSON; NULL: of a prompt
    char mark[SHA256_HEX]; // as in mcp_approval
    char **arguments;      // of a prompt, NULL at the end; else NULL
    bool changed;          // not what the user agreed to
    uint64_t id;           // of the item; 0: it has none
    unsigned refs;         // the server, and each item
    bool seen;             // while a list is compared
};

/// A call of the server's that is under way.
struct mcp_call {
    struct mcp_call *next, **link; // in the server's `calls` or `held`
    struct mcp_server *server;
    struct gen_call *call;
    struct mcp_request request;
    struct arena arena;        // of its request, and of a result that is held
    struct str members, name;  // as mcp_peer_ask() has them
    const struct json *result; // when it has come
    struct err why;            // code 0: `result`
    enum call_kind { CALL_TOOL, CALL_PROMPT, CALL_RESOURCE, CALL_COMPLETE } kind;
    // of CALL_COMPLETE: the value so far, what is put before and after each, and whether it is escaped between
    struct str typed, before, after;
    bool escapes;
    struct mcp_ask *asks; // what the server wants to know for it
    unsigned rounds;      // of questions, in the stateless era
};

enum { MCP_LOG_LINES = 50 };

typedef vec(char *) mcp_addresses;

/// One version of a server. It belongs to its unit once it was staged.
struct mcp_server {
    struct mcp *all;
    struct mcp_spec *spec;
    struct gen_unit *unit; // NULL: not staged, or a test
    struct mcp_peer *peer; // NULL: not running
    enum mcp_state state;
    char *error; // why it is not ready; NULL
    char title[200], version[16];
    bool first; // it has not been ready or failed since it was started
    unsigned tries;
    struct timer again;
    uint64_t ready_at;
    vec(char *) log; // the last lines of its log
    // lists
    vec(struct mcp_offer *) offers;
    mcp_addresses resources, templates;
    struct mcp_request list[MCP__LISTS];
    bool stale[MCP__LISTS]; // another one is to be asked for
    vec(char *) pages;      // of the list that is being read: JSON arrays
    size_t n_pages, bytes;
    enum mcp_list last;  // that was asked for
    unsigned reads;      // lists asked for in the current window
    struct timer window; // runs while lists have to wait for its end
    uint64_t window_end;
    struct mcp_call *calls, *held; // under way; answered, and waiting for a list
    // approvals
    struct map approved; // struct mcp_approval by the server's name of the tool
    char *document;      // where they are kept
    bool approvals_read, wants_start;
    unsigned reading; // requests to the store under way
    bool closed;
    // a test
    void (*tested)(struct mcp_server *s, void *arg);
    void *tested_arg;
};

/// What the world of the servers is.
struct mcp {
    struct mcp_opts o;
    struct mcp_world world;
    vec(struct mcp_server *) servers; // those in force, by name
    mcp_specs disabled;               // named, but not to be run
    vec(struct mcp_server *) staged;  // of the run under way
    vec(struct mcp_test *) tests;
    vec(struct mcp_waiter *) waiters;
    struct mcp_projects *projects;
    vec(struct mcp_guest *) guests;
    unsigned alive; // servers whose memory is still there
    bool stopped;
};

// mcp.c
/// The settings of some server may be others.
void mcp__changed(struct mcp *m);
/// The settings of servers are as they should be for `at`, a directory and perhaps a session: wait for those that
/// start, then call `done`.
void mcp__wait(struct mcp *m, const struct mcp_place *at, loop_fn *done, void *arg);
/// A server has started or failed for the first time.
void mcp__wake(struct mcp *m);

// projects.c
struct mcp_projects *mcp__projects_open(struct mcp *m);
/// Stop watching and reading; mcp_enter() calls under way are answered.
void mcp__projects_close(struct mcp_projects *p);
void mcp__projects_free(struct mcp_projects *p); // when the loop has ended
/// Add the servers of all projects in which sessions work.
void mcp__projects_specs(const struct mcp_projects *p, mcp_specs *out);

// guests.c
/// Add the servers of all sessions that have some of their own.
void mcp__guests_specs(const struct mcp *m, mcp_specs *out);
void mcp__guests_free(struct mcp *m);

// server.c
/// A server that does not run yet. Owns `spec`.
struct mcp_server *mcp__server_new(struct mcp *all, struct mcp_spec *spec);
void mcp__server_start(struct mcp_server *s);
/// End its process; its memory goes when nothing refers to it.
void mcp__server_close(struct mcp_server *s);
void mcp__server_write(const struct mcp_server *s, bool whole, struct jw *w);
/// A call came back while a list is read, or is about to be: true, and `mcp__flush_held()` follows.
bool mcp__server_listing(const struct mcp_server *s);
/// Read a list again.
void mcp__server_relist(struct mcp_server *s, enum mcp_list list);
const char *mcp__state_name(enum mcp_state state);

// offer.c
/// Make the items of the unit what `list`, an array of the server's, says.
void mcp__offer_list(struct mcp_server *s, enum mcp_list list, const struct json *items);
/// Take all of a kind back.
void mcp__withdraw(struct mcp_server *s);
void mcp__offers_free(struct mcp_server *s);

// call.c
/// How an item is called; its data is the offer.
extern const struct gen_target mcp__offer_target;
/// Answer the calls that waited for a list.
void mcp__flush_held(struct mcp_server *s);
/// The server has ended: answer the calls that are still under way with `why`.
void mcp__end_calls(struct mcp_server *s, const char *why);
/// Read a resource; `call` is answered with its text, as a tool's call is with its result.
void mcp__read(struct mcp_server *s, struct str uri, struct gen_call *call);
/// Ask for the words that may stand at the cursor; answers with an array.
void mcp__complete(struct mcp_server *s, const struct mcp_typed *typed, struct gen_call *call);
/// Send a call again with what the session said to its questions; `answers` NULL: nothing, and `e` says why.
void mcp__call_again(struct mcp_call *c, const struct json *answers, struct str state,
                     const struct err *e);

// asks.c
/// The server asks for something: on_request of its peer; and no longer needs it: on_given_up.
void mcp__server_asks(void *arg, const struct rpc_message *m);
void mcp__server_gives_up(void *arg, const struct json *id);
/// Is the answer to a call questions to be answered first? Then they are asked, or `e` says why they cannot be.
bool mcp__asks_input(struct mcp_call *c, const struct json *answer, struct err *e);
/// The call is over: withdraw its questions.
void mcp__asks_forget(struct mcp_call *c);

// projects.c
/// The directories that the server works in, as the result of roots/list.
void mcp__roots(const struct mcp_server *s, struct buf *out);

// approve.c
/// Read what was agreed to; mcp__server_start() follows when it is there.
void mcp__approvals_read(struct mcp_server *s);
/// Judge an offer: a new one counts as agreed to, and `*news` is set. False: no more tools can be kept, so this one must
/// not be offered.
bool mcp__approve_new(struct mcp_server *s, struct mcp_offer *o, bool *news);
/// The user has agreed to it as it is.
void mcp__approve(struct mcp_server *s, const struct mcp_offer *o);
void mcp__approvals_write(struct mcp_server *s);
const struct mcp_approval *mcp__approval(const struct mcp_server *s, const char *tool);
void mcp__approvals_free(struct mcp_server *s);

// content.c
/// What a tool answered, as a result of gen/result.h.
const struct json *mcp__result(struct arena *a, const struct json *answer);
/// The messages of a prompt, or the contents of a resource, as one text.
struct str mcp__prompt_text(struct arena *a, const struct json *answer);
struct str mcp__resource_text(struct arena *a, const struct json *answer);
