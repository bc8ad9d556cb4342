#pragma once

#include "gen/gen.h"

// What a run says about itself and about the whole set.

enum gen_need { GEN_PAGE_RELOAD, GEN_SESSION_RESTART, GEN_HUB_RESTART };
/// "page-reload", "session-restart", "hub-restart"
const char *gen_need_name(enum gen_need need);

struct gen_report_row {
    const char *name;
    enum gen_state state;
    uint64_t revision; // of what serves; 0 when nothing does
    bool serving;
    enum gen_state change; // what this run did: GEN_ADDED, GEN_CHANGED, GEN_REMOVED or GEN_KEPT
};

struct gen_report_need {
    const char *plugin;
    enum gen_need kind;
    const char *reason;
};

/// All strings live as long as the report.
struct gen_report {
    bool ok; // no diagnostic is an error
    bool dry_run;
    bool committed; // there is a new generation
    uint64_t generation, previous;
    const char *trigger;
    uint64_t duration_us;
    size_t kept;
    struct gen_report_row *rows; // all that is not simply kept, in load order
    size_t n_rows;
    const struct gen_diag *diags; // plugin and source filled in
    size_t n_diags;
    struct gen_report_need *needs;
    size_t n_needs;
    struct arena arena; // private
};

/// The object of the contract: added, changed, removed, failed, rows, diagnostics, needs.
void gen_report_write(const struct gen_report *r, struct jw *w);
