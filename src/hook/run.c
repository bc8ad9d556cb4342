// One dispatch: enter handler after handler and put their answers together.
//
//     start ─> [live? fits?] ─> enter ─┬─ answer at once ─> settle ─> next handler ... ─> over
//                                      └─ HOOK_LATER ─> timer ─┬─ hook_run_answer() ─> settle ─> next
//                                                              └─ out of time ─> cancel ─> settle
//
// The usual handler answers at once: then the loop below is all there is, without an allocation and
// with one look at the clock for each handler (the end of one is the beginning of the next).
//
// What a fault means depends on the kind and on `on_error`: observe, chain and first continue with what
// they had, a veto or a handler with HOOK_BLOCK refuses: enforcement fails closed. For the same reason
// such handlers are never switched off for being slow.
//
// Invariants:
//   - the set is pinned from the beginning to the end of a run.
//   - `waiting` exactly while a handler that said HOOK_LATER has not answered and was not cancelled;
//     the timer runs exactly as long.
//   - after `done` or hook_run_cancel() the run is not touched any more.

#include "hook/run.h"

#include <assert.h>
#include <stdarg.h>

#include "base/log.h"
#include "base/redact.h"
#include "base/time.h"
#include "base/utf8.h"

static bool fits(const struct hook *h, struct str subject)
{
    return h->filter == NULL || str_glob(str_of(h->filter), subject);
}

static bool is_enforcing(const struct hook *h)
{
    return h->kind == HOOK_VETO || h->terms.on_error == HOOK_BLOCK;
}

static bool is_fault(const struct hook *h, enum hook_answer a)
{
    bool is_vote = a >= HOOK_ALLOW && a <= HOOK_DENY;
    return a >= HOOK_FAILED || (h->kind == HOOK_VETO ? a == HOOK_VALUE : is_vote);
}

static void clear_fault(struct hook_run *r)
{
    r->fault.line = 0;
    r->fault.path[0] = r->fault.msg[0] = r->fault.traceback[0] = '\0';
}

// ---- faults -------------------------------------------------------------------------------

static void note_fault(struct hook_run *r, struct hook *h, enum hook_answer how)
{
    const struct hook_keeper *k = r->list->keeper;
    if (how == HOOK_TIMEOUT) {
        if (r->fault.msg[0] == '\0') { // else its side said which limit it met
            hook_run_fault(r, r->fault.path, r->fault.line, "ran out of time after %u ms",
                           r->timeout_ms);
        }
    } else if (how < HOOK_FAILED) {
        hook_run_fault(r, NULL, 0, "gave an answer that a %s point does not have",
                       hook_kind_name(h->kind));
    }
    h->stats.errors++;
    bool switched_off = how == HOOK_TIMEOUT && !is_enforcing(h) && ++h->strikes >= HOOK_STRIKES;
    h->struck_out = h->struck_out || switched_off;
    struct buf clean = {.max = SIZE_MAX};
    redact_text(&clean, str_of(r->fault.msg)); // other plugins may read it
    if (switched_off || h->last_error == NULL || strcmp(h->last_error, buf_z(&clean)) != 0) {
        log_warn(LOG_HUB, "hook=%s name=%s fault=%s off=%d", LOGQ(str_of(h->point)).z,
                 LOGQ(str_of(h->name)).z, LOGQ(str_of(r->fault.msg)).z, switched_off);
    }
    free(h->last_error);
    h->last_error = xstrdup(buf_z(&clean));
    buf_fini(&clean);
    if (k->fault != NULL) {
        k->fault(k->arg, h, how, r, switched_off);
    }
    if (r->on_fault != NULL) {
        r->on_fault(r->arg, h, how, r, switched_off);
    }
}

// ---- answers ------------------------------------------------------------------------------

/// Take the answer of `h`. False: no other handler is asked.
static bool settle(struct hook_run *r, struct hook *h, enum hook_answer a)
{
    uint64_t now = time_mono_ns();
    hook_stats_add(&h->stats, now - r->since_ns);
    r->since_ns = now;
    r->hook = NULL;
    if (a != HOOK_TIMEOUT) {
        h->strikes = 0;
    }
    if (!is_fault(h, a)) {
        r->ran++;
        if (h->kind == HOOK_OBSERVE || a <= r->result) {
            return true;
        }
        r->result = a;
        if (h->kind == HOOK_CHAIN) {
            return true;
        }
        r->by = h;
        return h->kind == HOOK_VETO && a != HOOK_DENY;
    }
    r->failed++;
    note_fault(r, h, a);
    r->since_ns = time_mono_ns(); // the next one does not pay for the log
    if (!is_enforcing(h)) {
        return true;
    }
    r->result = HOOK_DENY;
    r->by = h;
    return false;
}

// ---- the loop -----------------------------------------------------------------------------

static void unpin(struct hook_run *r)
{
    const struct hook_keeper *k = r->list->keeper;
    if (k->unpin != NULL) {
        k->unpin(k->arg);
    }
}

static void on_deadline(void *arg)
{
    struct hook_run *r = arg;
    struct hook *h = r->hook;
    h->terms.target->cancel(h->terms.data, r);
    hook_run_answer(r, HOOK_TIMEOUT);
}

/// Continue with the next handler. True: over.
static bool advance(struct hook_run *r)
{
    const struct hook_list *l = r->list;
    while (r->at < l->n) {
        struct hook *h = l->hooks[r->at++];
        if (!hook_is_live(h) || !fits(h, r->subject)) {
            continue;
        }
        r->hook = h;
        r->timeout_ms = h->terms.timeout_ms != 0 ? h->terms.timeout_ms : *h->terms.limit_ms;
        clear_fault(r);
        r->entering = true;
        enum hook_answer a = h->terms.target->enter(h->terms.data, r);
        r->entering = false;
        if (a == HOOK_LATER) {
            assert(r->may_wait && h->terms.target->cancel != NULL);
            r->waiting = true;
            timer_init(&r->deadline, r->loop, on_deadline, r);
            timer_start(&r->deadline, r->timeout_ms);
            return false;
        }
        if (!settle(r, h, a)) {
            break;
        }
    }
    unpin(r);
    return true;
}

// ---- public -------------------------------------------------------------------------------

bool hook_run_start(struct hook_run *run, const struct hook_run_opts *o)
{
    assert(!o->may_wait || (o->loop != NULL && o->done != NULL));
    const struct hook_keeper *k = o->list->keeper;
    if (k->pin != NULL) {
        k->pin(k->arg);
    }
    run->args = o->args;
    run->may_wait = o->may_wait;
    clear_fault(run);
    run->target_data = NULL;
    run->result = HOOK_KEEP;
    run->by = NULL;
    run->ran = run->failed = run->at = 0;
    run->list = o->list;
    run->loop = o->loop;
    run->subject = o->subject;
    run->done = o->done;
    run->on_fault = o->fault;
    run->arg = o->arg;
    run->waiting = false;
    run->since_ns = time_mono_ns();
    return advance(run);
}

void hook_run_answer(struct hook_run *run, enum hook_answer answer)
{
    assert(run->waiting && !run->entering && answer != HOOK_LATER);
    run->waiting = false;
    timer_stop(&run->deadline);
    bool more = settle(run, run->hook, answer);
    if (!more) {
        run->at = run->list->n;
    }
    if (advance(run)) {
        run->done(run, run->arg);
    }
}

void hook_run_cancel(struct hook_run *run)
{
    assert(run->waiting);
    run->waiting = false;
    timer_stop(&run->deadline);
    run->hook->terms.target->cancel(run->hook->terms.data, run);
    unpin(run);
}

void hook_run_fault(struct hook_run *run, const char *path, int line, const char *fmt, ...)
{
    struct hook_fault *f = &run->fault;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(f->msg, sizeof f->msg, fmt, ap);
    va_end(ap);
    if (path != f->path) {
        snprintf(f->path, sizeof f->path, "%s", path != NULL ? path : "");
        f->traceback[0] = '\0';
    }
    f->line = line;
}

void hook_run_traceback(struct hook_run *run, const char *text)
{
    struct hook_fault *f = &run->fault;
    size_t n = utf8_cut(text, strlen(text), sizeof f->traceback - 1);
    memcpy(f->traceback, text, n);
    f->traceback[n] = '\0';
}
