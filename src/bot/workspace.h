#pragma once

#include "base/slug.h"
#include "store/shelf.h"

// What a bot keeps for one project: `$AFLOAT_HOME/bots/<bot>/workspaces/<slug>/` with
//
//     workspace.json   {"path": "/real/path"}: whose it is; made once, never changed by us
//     memory.json      memory.h
//     session_number   history_number.h: the last number given out
//     history/<id>/    what sessions leave
//     lock             held for moments by who changes memory or takes a number
//
// Everything here blocks; on any thread and in any process.

struct workspace {
    char *bot, *slug;
    char *dir;   // absolute
    char *rel;   // relative to the home: "bots/<bot>/workspaces/<slug>"
    char *path;  // of the project; NULL if the workspace has no claim
    bool exists; // on disk
};

enum workspace_how {
    WORKSPACE_LOOK, // make nothing; the answer is what WORKSPACE_MAKE would give now
    WORKSPACE_MAKE,
};

/// A project, as this machine knows it. Everything is borrowed.
struct workspace_project {
    // the real path of the main repository's root, or of the directory where there is no git
    const char *path;
    const char *common; // the repository's .git; NULL: there is none
    // where hubs that share a store say whose a workspace is; NULL: in files alone
    struct shelf *sh;
};

/// The workspace of `bot` for the project `p`. Found again by its path; else the slug that is free, claimed so
/// that no other path can have it. Hubs that share a store have one workspace for a repository: that of the same
/// remote, or, when one of two has none, of the same path. Of two at once each gets his own. ERR_INVALID for a bad
/// bot's name. The caller ends `*w` with workspace_fini(), on failure too.
int workspace_of_path(struct workspace *w, const char *home, const char *bot,
                      const struct workspace_project *p, enum workspace_how how,
                      struct err *e) MUST_CHECK;
/// What a repository is known by on every machine: host and path of its remote `origin`, or of the first one.
/// `common` is its .git. Caller frees; NULL: it has none. Blocks.
char *workspace_remote(const char *common);
/// The address `url` of a remote in the same form. Caller frees; NULL: it says nothing on another machine.
char *workspace_address(struct str url);
/// The one that is called `slug` (--project), also of another project. ERR_INVALID for a bad slug.
int workspace_of_slug(struct workspace *w, const char *home, const char *bot, const char *slug,
                      enum workspace_how how, struct err *e) MUST_CHECK;
void workspace_fini(struct workspace *w);

/// Lock `dir` against other runs and processes; waits 5 s at most (ERR_TIMEOUT). Returns a descriptor for
/// workspace_unlock(), or a negative code. Killed holders lock nothing.
int workspace_lock(const char *dir, struct err *e) MUST_CHECK;
void workspace_unlock(int fd);
