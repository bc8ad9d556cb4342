#pragma once

// An agent with everything below it: a store in a home of its own, the scripted model, no plugins. Each
// function waits for its answer; one that does not come within RIG_PATIENCE_MS fails the test.

#include "agent/agent_int.h"
#include "event/event.h"
#include "net/http_client.h"
#include "store/choices.h"
#include "trust/trust.h"
#include "unit/loop.h"

enum { RIG_PATIENCE_MS = 30000 };

struct rig {
    struct loop loop;
    struct home home;
    struct config *config;
    struct config_live settings; // has it
    struct hub_parts hub;        // what is below, for the parts under test
    struct store *store;
    struct event_log *events;
    struct choices *choices;
    struct trust *trust;
    struct http_client *http;
    struct providers *providers;
    struct gen_engine *engine;
    struct agent *agent;
    const char *permission; // of sessions made; NULL: auto
    // what came last
    bool answered;
    enum problem problem; // PROBLEM__COUNT: none
    char detail[300];
    struct buf text; // the JSON of the answer
    char id[32];     // of the session made last
    unsigned made, changed, ended, vacated;
};

/// Everything in `home`, which must exist.
void rig_open(struct rig *r, const char *home);
void rig_close(struct rig *r);
/// Stop its agent and wait until that is done; rig_close() does it otherwise.
void rig_stop(struct rig *r);

/// Run the loop until `*flag`, or until `is(arg)`; at most RIG_PATIENCE_MS.
void rig_wait(struct rig *r, const bool *flag);
void rig_until(struct rig *r, bool (*is)(const void *arg), const void *arg);

/// Make a session whose model plays `scenario` (JSON lines; NULL: that in work/scenario), into r->id.
/// False: r->problem says why.
bool rig_new(struct rig *r, const char *work, const char *scenario);
/// The session in memory, found in the store if need be; NULL: r->problem says why.
struct session *rig_get(struct rig *r, const char *id);
/// The list of sessions, into r->text.
bool rig_list(struct rig *r);
/// PATCH it with this JSON.
bool rig_patch(struct rig *r, struct session *s, const char *params);
/// Give the session the environment of rig_new() again, as a client does that resumes it.
bool rig_resume(struct rig *r, const char *id, const char *work);
/// Send and wait for the end of the turn; the answer is in r->text.
bool rig_send(struct rig *r, const char *id, const char *text);
/// Only send: r->answered tells of the end.
void rig_begin(struct rig *r, struct session *s, const char *text);
/// agent_outcome_cb: the outcome as JSON into r->text.
void rig_outcome(void *arg, const struct agent_outcome *o, const struct agent_no *no);
/// Allow what turn t1 asks for first, and wait for its end.
bool rig_allow(struct rig *r, const char *id);
bool rig_end(struct rig *r, const char *id, bool purge);
