// What the engine tells the hub's stream, as fields of a JSON object without its braces.
//
//     generation.committed  every new generation, also one of registrations
//     plugin.loaded, plugin.changed, plugin.unloaded   one for each change of a commit
//     plugin.error          a refusal or fault that is new; one that was reported is not sent again
//     plugin.needs          what cannot be swapped
//     tools.changed, prompts.changed, resources.changed   at most once for a commit, when what clients see
//                           of that list differs; kinds.def names the lists

#include "gen/gen_int.h"

struct message {
    struct buf buf;
    struct jw w;
};

static void message_init(struct message *m)
{
    buf_init(&m->buf, SIZE_MAX);
    jw_init(&m->w, &m->buf);
    jw_obj(&m->w);
}

static void message_send(struct message *m, struct gen_engine *e, const char *type)
{
    jw_end_obj(&m->w);
    struct str text = buf_str(&m->buf);
    if (e->event != NULL) {
        e->event(e->event_arg, type, (struct str){text.p + 1, text.n - 2});
    }
    buf_fini(&m->buf);
}

// ---- a commit -----------------------------------------------------------------------------

static const char *change_type(const struct gen_change *c)
{
    if (c->new == NULL) {
        return "plugin.unloaded";
    }
    return c->old != NULL ? "plugin.changed" : "plugin.loaded";
}

static void write_changes(struct jw *w, struct gen_run *run, const char *key, const char *type)
{
    jw_karr(w, key);
    vec_foreach (c, &run->stage.changes) {
        if (strcmp(change_type(c), type) == 0) {
            jw_strz(w, c->new != NULL ? c->new->name : c->old->name);
        }
    }
    jw_end_arr(w);
}

/// Tell which lists differ from `before`.
static void send_lists(struct gen_engine *e, const struct gen *now, const struct gen__marks *before)
{
    for (size_t kind = 0; kind < GEN__KINDS; kind++) {
        if (gen__list_events[kind] != NULL && now->marks.of[kind] != before->of[kind]) {
            struct message m;
            message_init(&m);
            jw_kint(&m.w, "generation", (int64_t)now->number);
            message_send(&m, e, gen__list_events[kind]);
        }
    }
}

static void send_need(struct gen_engine *e, const char *plugin, const struct gen_report_need *n)
{
    struct message m;
    message_init(&m);
    jw_kstrz(&m.w, "plugin", plugin);
    jw_kstrz(&m.w, "kind", gen_need_name(n->kind));
    jw_kstrz(&m.w, "reason", n->reason);
    message_send(&m, e, "plugin.needs");
}

/// `before` are the troubles before the run: only what is new is sent.
static void send_troubles(struct gen_engine *e, gen__troubles *before)
{
    vec_foreach (t, &e->troubles) {
        struct gen_trouble *old = gen__trouble_find(before, t->name);
        bool any = false;
        vec_foreach (d, &t->diags) {
            bool known = false;
            for (size_t i = 0; old != NULL && old->state == t->state && i < old->diags.n; i++) {
                known = known || gen_diag_equal(&old->diags.p[i], d);
            }
            if (!known) {
                any = true;
                gen__event_error(e, t->name, d);
            }
        }
        vec_foreach (n, &t->needs) {
            if (any) {
                send_need(e, t->name, n);
            }
        }
    }
}

// ---- the listener in C -----------------------------------------------------------------------

typedef vec(struct gen_unit *) unit_list;

static void tell_commit(struct gen_engine *e, struct gen_run *run)
{
    unit_list added = {0}, changed = {0}, removed = {0};
    vec_foreach (c, &run->stage.changes) {
        unit_list *to = c->new == NULL ? &removed : c->old == NULL ? &added : &changed;
        vec_push(to, c->new != NULL ? c->new : c->old);
    }
    e->committed(&(struct gen_committed){.generation = run->made->number,
                                         .trigger = run->req.trigger,
                                         .added = added.p,
                                         .changed = changed.p,
                                         .removed = removed.p,
                                         .n_added = added.n,
                                         .n_changed = changed.n,
                                         .n_removed = removed.n},
                 e->committed_arg);
    vec_fini(&added);
    vec_fini(&changed);
    vec_fini(&removed);
}

// ---- inside gen/ --------------------------------------------------------------------------

void gen__event_commit(struct gen_engine *e, struct gen_run *run)
{
    if (run->committed) {
        struct message m;
        message_init(&m);
        jw_kint(&m.w, "generation", (int64_t)run->made->number);
        jw_kint(&m.w, "previous", (int64_t)run->previous);
        jw_kstrz(&m.w, "trigger", run->req.trigger);
        write_changes(&m.w, run, "added", "plugin.loaded");
        write_changes(&m.w, run, "changed", "plugin.changed");
        write_changes(&m.w, run, "removed", "plugin.unloaded");
        message_send(&m, e, "generation.committed");
        vec_foreach (c, &run->stage.changes) {
            const struct gen_unit *u = c->new != NULL ? c->new : c->old;
            message_init(&m);
            jw_kstrz(&m.w, "plugin", u->name);
            jw_kint(&m.w, "revision", (int64_t)u->revision);
            jw_kint(&m.w, "generation", (int64_t)run->made->number);
            message_send(&m, e, change_type(c));
        }
        send_lists(e, run->made, &run->old->marks);
    }
    send_troubles(e, &run->stage.troubles);
    vec_foreach (n, &run->stage.needs) {
        send_need(e, n->plugin, n);
    }
    if (run->committed && e->committed != NULL) {
        tell_commit(e, run);
    }
}

void gen__event_amended(struct gen_engine *e)
{
    struct message m;
    uint64_t number = e->amend_number;
    message_init(&m);
    jw_kint(&m.w, "generation", (int64_t)number);
    jw_kint(&m.w, "previous", (int64_t)e->amend_previous);
    jw_kstrz(&m.w, "trigger", e->amend_trigger);
    message_send(&m, e, "generation.committed");
    send_lists(e, e->current, &e->amend_marks);
    if (e->committed != NULL) {
        e->committed(&(struct gen_committed){.generation = number, .trigger = e->amend_trigger},
                     e->committed_arg);
    }
}

void gen__event_error(struct gen_engine *e, const char *plugin, const struct gen_diag *d)
{
    struct message m;
    message_init(&m);
    jw_kstrz(&m.w, "plugin", plugin);
    if (d->hook != NULL) {
        jw_kstrz(&m.w, "hook", d->hook);
    }
    jw_kstrz(&m.w, "code", gen_code_name(d->code));
    if (d->source != NULL) {
        jw_kstrz(&m.w, "source", d->source);
    }
    jw_kstrz(&m.w, "path", d->path);
    jw_kint(&m.w, "line", d->line);
    jw_kstrz(&m.w, "message", d->message);
    if (d->traceback != NULL && d->traceback[0] != '\0') {
        jw_kstrz(&m.w, "traceback", d->traceback);
    }
    message_send(&m, e, "plugin.error");
}
