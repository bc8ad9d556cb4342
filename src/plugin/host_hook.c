// Hooks that lead into a host.
//
//     hook_run ── enter ──> host_call(hook) ┄┄> result ── take ──> hook_run_answer
//
// What a handler answers is a value like any other from outside: hook_args_take() checks it. With it come
// `state` and `memory`, if the handler changed them in its ctx; of a unit that may not offer everything they are
// ignored.
//
// Handlers of one turn are asked one after another, also when the turn has several tool calls under way: each sees
// what the one before left in ctx.state, as it would inside the hub.
//
// A point that cannot wait (on_model_delta) is sent to the host as an event, without an answer.

#include <assert.h>
#include <string.h>

#include "plugin/host_unit_int.h"

struct hook_job {
    struct host_call call;
    struct hook_run *run;
    struct offer *offer;
    struct hook_seen seen;
    const struct hook_ctx *turn; // whose handlers are asked one after another; NULL: at once
    bool sent;
};

/// Warn the author of a chain's handler that changed its argument and returned nothing: the change is lost.
static void note_dropped(const struct hook_job *j)
{
    const struct json *dropped = json_get(j->call.answer, "dropped");
    struct str name = json_get_text(dropped, "name"), path = json_get_text(dropped, "path");
    if (dropped == NULL || j->offer->how != HOOK_CHAIN || j->offer->unit->gen == NULL ||
        name.n > 32 || path.n > 4096) {
        return;
    }
    char *text = xasprintf("changed `" STR_FMT "` but returned nothing: add `return " STR_FMT "`",
                           STR_ARG(name), STR_ARG(name));
    char *file = path.n != 0 ? str_dup(path) : NULL;
    gen_unit_note(j->offer->unit->gen, &(struct gen_diag){.code = DIAG_CHANGE_DROPPED,
                                                          .path = file,
                                                          .line = host_line(dropped),
                                                          .hook = j->offer->name,
                                                          .message = text});
    free(file);
    free(text);
}

/// What the handler left in ctx, then its answer. A vote is "deny", or ["deny", "the reason"].
static enum hook_answer take(const struct hook_job *j, const struct json *value)
{
    static const struct {
        const char *word;
        enum hook_answer answer;
    } votes[] = {{"allow", HOOK_ALLOW}, {"ask", HOOK_ASK}, {"deny", HOOK_DENY}};
    struct hook_args *args = j->run->args;
    struct hook_ctx *ctx = args->ctx;
    const struct json *state = json_get(j->call.answer, "state");
    const struct json *memory = json_get(j->call.answer, "memory");
    struct err e = {0};
    if (j->offer->unit->rules->whole && ctx != NULL && ctx->arena != NULL &&
        (state != NULL || memory != NULL) && hook_ctx_take(ctx, &j->seen, state, memory, &e) < 0) {
        hook_run_fault(j->run, NULL, 0, "%s", e.msg);
        return HOOK_FAILED;
    }
    if (value == NULL || value->type == JSON_NULL || j->offer->how == HOOK_OBSERVE) {
        note_dropped(j);
        return HOOK_KEEP;
    }
    if (j->offer->how != HOOK_VETO) {
        if (hook_args_take(args, value, &e) < 0) {
            hook_run_fault(j->run, NULL, 0, "%s", e.msg);
            return HOOK_FAILED;
        }
        if (args->changed != NULL) {
            args->changed(args, j->run);
        }
        return HOOK_VALUE;
    }
    bool listed = value->type == JSON_ARR;
    struct str word = json_str(listed ? json_at(value, 0) : value, "");
    struct str reason = json_str(listed ? json_at(value, 1) : NULL, "");
    for (size_t i = 0; i < ARRAY_LEN(votes); i++) {
        if (str_eqz(word, votes[i].word)) {
            hook_run_fault(j->run, NULL, 0, STR_FMT, STR_ARG(reason));
            return votes[i].answer;
        }
    }
    hook_run_fault(j->run, NULL, 0, "answers \"allow\", \"ask\", \"deny\" or nothing");
    return HOOK_FAILED;
}

/// Call the handler in the host. Without a job (`j` NULL) it is only sent an event, and cannot answer.
static void send_hook(const struct offer *o, const struct hook_run *run, struct hook_job *j)
{
    const struct hook_args *args = run->args;
    struct buf text = {.max = SIZE_MAX};
    if (j != NULL) {
        assert(!j->sent);
        j->sent = true;
        if (args->ctx != NULL) {
            j->seen = (struct hook_seen){args->ctx->state, args->ctx->memory};
        }
    }
    struct jw w = {.out = &text};
    jw_obj(&w);
    jw_kstrz(&w, "point", o->name);
    jw_kint(&w, "handler", o->handler);
    jw_kint(&w, "deadline_ms", run->timeout_ms);
    hook_args_write(args, &w);
    jw_end_obj(&w);
    if (j != NULL) {
        host_call(o->unit->host, &j->call, "hook", host__inner(&text));
    } else {
        host_event(o->unit->host, str_of(o->name), buf_str(&text));
    }
    buf_fini(&text);
}

static bool is_asked(const struct host_unit *u, const struct hook_ctx *turn)
{
    for (size_t i = 0; i < u->jobs.n; i++) {
        if (u->jobs.p[i]->sent && u->jobs.p[i]->turn == turn) {
            return true;
        }
    }
    return false;
}

/// The job is over: the next one of its turn is asked.
static void end_job(struct hook_job *j)
{
    struct host_unit *u = j->offer->unit;
    struct hook_job *next = NULL;
    for (size_t i = u->jobs.n; i-- > 0;) {
        struct hook_job *it = u->jobs.p[i];
        if (it == j) {
            vec_remove(&u->jobs, i);
        } else if (!it->sent && it->turn == j->turn) {
            next = it;
        }
    }
    if (next != NULL && !is_asked(u, j->turn) && u->host != NULL) {
        send_hook(next->offer, next->run, next);
    }
    free(j);
}

static void on_done(struct host_call *c, int status, const struct json *value,
                    const struct host_fault *fault)
{
    struct hook_job *j = container_of(c, struct hook_job, call);
    struct hook_run *run = j->run;
    enum hook_answer answer;
    if (status < 0) {
        hook_run_fault(run, fault->path, fault->line, "%s", fault->message);
        answer = fault->code == DIAG_HOOK_TIMEOUT ? HOOK_TIMEOUT : HOOK_FAILED;
    } else {
        answer = take(j, value);
    }
    end_job(j);
    hook_run_answer(run, answer);
}

static enum hook_answer enter(void *data, struct hook_run *run)
{
    struct offer *o = data;
    bool live = host__is_live(o);
    if (live && !run->may_wait && o->how == HOOK_OBSERVE) {
        send_hook(o, run, NULL);
        return HOOK_KEEP;
    }
    if (!live || !run->may_wait) {
        hook_run_fault(run, NULL, 0, "%s",
                       live ? "a host cannot be asked here" : "its host has ended");
        return HOOK_FAILED;
    }
    const struct hook_args *args = run->args;
    struct hook_job *j = xcalloc(1, sizeof *j);
    *j = (struct hook_job){.call = {.done = on_done, .timeout_ms = run->timeout_ms},
                           .run = run,
                           .offer = o,
                           .turn = o->unit->rules->whole ? args->ctx : NULL};
    run->target_data = j;
    bool waits = j->turn != NULL && is_asked(o->unit, j->turn);
    vec_push(&o->unit->jobs, j);
    if (!waits) {
        send_hook(o, run, j);
    }
    return HOOK_LATER;
}

static void cancel(void *data, struct hook_run *run)
{
    struct hook_job *j = run->target_data;
    host__cancel(data, &j->call);
    end_job(j);
}

const struct hook_target host__hook_face = {
    .enter = enter,
    .cancel = cancel,
    .release = host__release,
};
