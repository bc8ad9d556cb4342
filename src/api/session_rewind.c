// GET /session/{id}/checkpoints and POST /session/{id}/rewind.

#include "api/handlers.h"
#include "api/session_int.h"
#include "base/time.h"
#include "rewind/rewind.h"

static void on_checkpoints(void *arg, const struct rewind_listed *list, size_t n,
                           const struct agent_no *no)
{
    struct op_call *c = arg;
    struct jw *w = api__session_begin(c, no);
    if (w == NULL) {
        return;
    }
    jw_karr(w, "checkpoints");
    for (size_t i = 0; i < n; i++) {
        char at[TIME_TEXT];
        jw_obj(w);
        jw_kstrz(w, "turn", list[i].turn);
        jw_kstrz(w, "at", time_format(list[i].at, at));
        jw_kstr(w, "text", list[i].text);
        jw_kstrs(w, "files", list[i].files.p, list[i].files.n);
        jw_kstrs(w, "not_kept", list[i].not_kept.p, list[i].not_kept.n);
        jw_kbool(w, "dropped", list[i].dropped);
        jw_end_obj(w);
    }
    jw_end_arr(w);
    op_end_obj(c, 200);
}

static void checkpoints(struct op_call *c, struct session *s)
{
    agent_checkpoints(s, on_checkpoints, c);
}

OF_SESSION(SESSION_CHECKPOINTS, checkpoints)

// ---- going back ---------------------------------------------------------------------------------

enum which { RESTORED, DELETED, CONFLICTS };

static void write_files(struct jw *w, const char *key, const struct rewind_result *r,
                        enum which which)
{
    jw_karr(w, key);
    for (size_t i = 0; i < r->n_files; i++) {
        const struct rewind_file *f = &r->files[i];
        if (which == CONFLICTS ? f->conflict : f->deletes == (which == DELETED)) {
            jw_strz(w, f->path);
        }
    }
    jw_end_arr(w);
}

static void on_rewound(void *arg, const struct rewind_result *r, const struct agent_no *no)
{
    struct op_call *c = arg;
    struct jw *w = api__session_begin(c, no);
    if (w == NULL) {
        return;
    }
    jw_kstrz(w, "to", r->to);
    write_files(w, "restored", r, RESTORED);
    write_files(w, "deleted", r, DELETED);
    write_files(w, "conflicts", r, CONFLICTS);
    jw_kstrs(w, "not_kept", r->not_kept.p, r->not_kept.n);
    jw_kbool(w, "dry_run", json_bool(json_get(c->params, "dry_run"), false));
    op_end_obj(c, 200);
}

static void go_back(struct op_call *c, struct session *s)
{
    const struct json *p = c->params;
    struct agent_rewind wish = {.to = json_get_text(p, "to"),
                                .files = json_bool(json_get(p, "files"), true),
                                .conversation = json_bool(json_get(p, "conversation"), true),
                                .dry_run = json_bool(json_get(p, "dry_run"), false),
                                .force = json_bool(json_get(p, "force"), false)};
    agent_rewind(s, &wish, on_rewound, c);
}

void op_SESSION_REWIND(struct api *api, struct op_call *c)
{
    if (!json_bool(json_get(c->params, "files"), true) &&
        !json_bool(json_get(c->params, "conversation"), true)) {
        op_fail(c, PROBLEM_INVALID_BODY, NULL,
                "nothing goes back: 'files' and 'conversation' are false");
        return;
    }
    (void)api;
    api__with_session(c, json_get_text(c->params, "id"), true, go_back);
}
