// Routes that lead into a host.
//
//     gen_route_call ──> host_call(route) ┄┄> result ── gen_answer_read ──> HTTP
//
// A route that runs out of time three times in a row is switched off until its plugin changes.

#include <stdio.h>

#include "base/time.h"
#include "gen/answer.h"
#include "plugin/host_unit_int.h"

struct route_job {
    struct host_call call;
    struct gen_route_call *gen;
    struct offer *offer;
    uint64_t since_ns;
};

static void on_done(struct host_call *c, int status, const struct json *value,
                    const struct host_fault *fault)
{
    struct route_job *j = container_of(c, struct route_job, call);
    struct gen_route_call *gen = j->gen;
    struct offer *o = j->offer;
    struct gen_answer a = {0};
    struct arena arena = {0};
    struct err e = {0};
    int rc = status < 0 ? err_set(&e, status, "%s", fault->message)
                        : gen_answer_read(&a, &arena, value, &e);
    host__count(o, j->since_ns, rc < 0);
    host__note_call(o, rc, &e, fault);
    o->strikes = rc == ERR_TIMEOUT ? o->strikes + 1 : 0;
    if (o->strikes == HOOK_STRIKES) { // too often out of time: not asked any more
        char text[160];
        snprintf(text, sizeof text, "route '%.90s' ran out of time %d times in a row", o->name,
                 HOOK_STRIKES);
        o->off = true;
        gen_unit_note(o->unit->gen,
                      &(struct gen_diag){.code = DIAG_HOOK_DISABLED, .message = text});
    }
    free(j);
    gen->done(gen, rc < 0 ? 0 : a.status, a.headers, rc < 0 ? 0 : a.n, a.body, rc < 0 ? &e : NULL);
    arena_fini(&arena);
}

static void call(void *data, struct gen_route_call *gen)
{
    struct offer *o = data;
    struct err e = {0};
    if (o->off || !host__is_live(o)) {
        err_set(&e, o->off ? ERR_DENIED : UV_EPIPE, "route '%s' %s", o->name,
                o->off ? "is switched off: it ran out of time too often"
                       : "cannot be called: its host has ended");
        gen->done(gen, 0, NULL, 0, STR_NULL, &e);
        return;
    }
    struct route_job *j = xcalloc(1, sizeof *j);
    *j = (struct route_job){
        .call = {.done = on_done, .timeout_ms = host__tool_ms(o->unit)},
        .gen = gen,
        .offer = o,
        .since_ns = time_mono_ns(),
    };
    gen->target_data = j;
    struct arena a = {0};
    const struct json params = gen_route_params(gen, &a), headers = gen_route_headers(gen, &a),
                      query = gen_route_query(gen, &a);
    struct buf text = {.max = SIZE_MAX};
    struct jw w = {.out = &text};
    jw_obj(&w);
    jw_kstrz(&w, "name", o->name);
    jw_kstr(&w, "method", gen->method);
    jw_kstr(&w, "path", gen->path);
    jw_kvalue(&w, "params", &params);
    jw_kvalue(&w, "query", &query);
    jw_kvalue(&w, "headers", &headers);
    jw_kstr(&w, "body", gen->body);
    jw_kint(&w, "deadline_ms", j->call.timeout_ms);
    jw_end_obj(&w);
    host_call(o->unit->host, &j->call, "route", host__inner(&text));
    buf_fini(&text);
    arena_fini(&a);
}

static void cancel(void *data, struct gen_route_call *gen)
{
    struct route_job *j = gen->target_data;
    host__cancel(data, &j->call);
    free(j);
}

const struct gen_route host__route_face = {.call = call, .cancel = cancel, .stats = host__stats};
