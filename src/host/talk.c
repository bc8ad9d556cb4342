// The far end's side of the host protocol: lines in, lines out.
//
// The hub is trusted as far as what it says goes; but a message that is not understood is answered
// with an error and nothing else, so that a newer hub can talk to an older host.

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/path.h"
#include "base/time.h"
#include "host/host_int.h"
#include "proto/host.h"

// ---- out -----------------------------------------------------------------------------------

void far__begin(struct far *f, struct jw *w, const char *type, int64_t id)
{
    jw_init(w, &f->out);
    jw_obj(w);
    jw_kstrz(w, "type", type);
    if (id != 0) {
        jw_kint(w, "id", id);
    }
}

void far__send(struct far *f, struct jw *w)
{
    jw_end_obj(w);
    buf_addc(&f->out, '\n');
    if (f->out.n >= FAR__OUT) {
        far__flush(f);
    }
}

void far__flush(struct far *f)
{
    uint64_t began = time_mono_ns();
    f->over = f->over || path_write_fd(f->fd, buf_str(&f->out)) < 0;
    buf_clear(&f->out);
    entry_excuse(f->vm,
                 time_mono_ns() - began); // the hub was slow to read, not the plugin to speak
}

void far__error(struct far *f, int64_t id, const struct fault *fault)
{
    struct jw w;
    far__begin(f, &w, "error", id);
    jw_kstrz(&w, "message", fault->message);
    jw_kstrz(&w, "code", fault_name(fault->code));
    if (fault->path != NULL) {
        jw_kstrz(&w, "path", fault->path);
        jw_kint(&w, "line", fault->line);
    }
    far__send(f, &w);
}

void far__error_text(struct far *f, int64_t id, const char *message)
{
    assert(message != NULL && id >= 0);
    struct jw w;
    far__begin(f, &w, "error", id);
    jw_kstrz(&w, "message", message);
    far__send(f, &w);
}

// ---- in ------------------------------------------------------------------------------------

/// The hub sends the text that it hashed as `source`; without it the file is read.
static void on_load(struct far *f, const struct json *m)
{
    const struct json *source = json_get(m, "source");
    struct buf text = {.max = HOST_LINE_MAX};
    struct jw w;
    int rc = 0;
    if (f->loaded) {
        far__error_text(f, 0, "loaded already");
        return;
    }
    if (source == NULL) { // it is in the one directory that we reach
        struct stat st;
        const char *name = path_base(str_of(f->path)).p; // the end of `path`, so it ends there
        int fd = path_open_beneath(f->root, name, O_RDONLY, 0, NULL);
        rc = fd >= 0 ? path_read_fd(fd, &text, &st) : fd;
        if (fd >= 0) {
            close(fd);
        }
    }
    if (rc < 0) {
        char *message = xasprintf("cannot read '%s': %s", f->path, err_text(rc));
        far__begin(f, &w, "failed", 0);
        jw_kstrz(&w, "message", message);
        jw_kstrz(&w, "path", f->path);
        jw_kint(&w, "line", 0);
        far__send(f, &w);
        free(message);
    } else {
        f->loaded = true;
        f->config = json_clone(&f->config_arena, json_get(m, "config"));
        f->data_dir = str_dup(json_str(json_get(m, "data_dir"), ""));
        far__load(f, source != NULL ? json_str(source, "") : buf_str(&text));
    }
    buf_fini(&text);
}

/// A member, null when it is not there.
static struct json value_of(const struct json *m, const char *key)
{
    const struct json *v = json_get(m, key);
    return v != NULL ? *v : (struct json){.type = JSON_NULL};
}

/// A handler's first argument is always there.
static const struct json *ctx_of(const struct json *m)
{
    static const struct json none = {.type = JSON_OBJ};
    const struct json *ctx = json_get(m, "ctx");
    return ctx != NULL ? ctx : &none;
}

static void on_hook(struct far *f, const struct json *m)
{
    int64_t id = json_int(json_get(m, "id"), 0), at = json_int(json_get(m, "handler"), -1);
    int64_t ms = json_int(json_get(m, "deadline_ms"), 0);
    const struct far__handler *h =
        at >= 0 && (uint64_t)at < f->handlers.n ? &f->handlers.p[at] : NULL;
    vec_foreach (it, &f->handlers) { // without a number the first of the point is meant
        if (at < 0 && h == NULL && it->kind == FAR__HOOK && !it->off &&
            str_eqz(json_str(json_get(m, "point"), ""), it->name)) {
            h = it;
        }
    }
    if (h == NULL || h->kind != FAR__HOOK || h->off) {
        far__error_text(f, id, "no such handler");
        return;
    }
    far__run(f, &(struct far__run){
                    .fn = h->fn,
                    .id = id,
                    .ctx = ctx_of(m),
                    .args = json_get(m, "args"),
                    .budget_ms = ms > 0 && ms < VM_BUDGET_MS ? (uint32_t)ms : 0,
                    .answers = h->answers,
                });
}

static void on_tool(struct far *f, const struct json *m)
{
    int64_t id = json_int(json_get(m, "id"), 0);
    struct str name = json_str(json_get(m, "name"), "");
    struct json input = value_of(m, "input");
    const struct json args = {.type = JSON_ARR, .n = 1, .items = &input};
    vec_foreach (h, &f->handlers) {
        if (h->kind == FAR__TOOL && str_eqz(name, h->name)) {
            far__run(f, &(struct far__run){.fn = h->fn,
                                           .id = id,
                                           .ctx = ctx_of(m),
                                           .args = &args,
                                           .answers = true,
                                           .tool = true});
            return;
        }
    }
    far__error_text(f, id, "no such tool");
}

static void on_event(struct far *f, const struct json *m)
{
    struct str name = json_str(json_get(m, "name"), "");
    struct json items[] = {value_of(m, "data"), {.type = JSON_STR, .s = name}};
    const struct json args = {.type = JSON_ARR, .n = ARRAY_LEN(items), .items = items};
    if (str_eqz(name, "plugin_start")) {
        far__start_timers(f);
        return;
    }
    for (size_t i = 0; i < f->handlers.n && !f->leaving; i++) { // a handler may add others
        const struct far__handler h = f->handlers.p[i];
        if (h.kind == FAR__EVENT && !h.off && str_glob(str_of(h.name), name)) {
            far__run(f, &(struct far__run){.fn = h.fn, .args = &args});
        }
    }
}

static void on_cancel(struct far *f, const struct json *m)
{
    far__cancel(f, json_int(json_get(m, "id"), 0));
}

/// Nothing begins by itself any more. It is not the end: open ids are served, others too.
static void on_shutdown(struct far *f, const struct json *m)
{
    struct jw w;
    f->leaving = true;
    far__begin(f, &w, "result", json_int(json_get(m, "id"), 0));
    far__send(f, &w);
}

static void on_result(struct far *f, const struct json *m)
{
    static const struct json none = {.type = JSON_NULL};
    const struct json *value = json_get(m, "value");
    far__answered(f, json_int(json_get(m, "id"), 0), value != NULL ? value : &none, STR_NULL);
}

static void on_error(struct far *f, const struct json *m)
{
    int64_t id = json_int(json_get(m, "id"), 0);
    if (id != 0) { // without one it answers nothing
        far__answered(f, id, NULL, json_str(json_get(m, "message"), "refused"));
    }
}

static const struct {
    const char *type;
    void (*fn)(struct far *f, const struct json *m);
} handlers[] = {
    {"hook", on_hook},     {"tool", on_tool},         {"event", on_event},   {"load", on_load},
    {"cancel", on_cancel}, {"shutdown", on_shutdown}, {"result", on_result}, {"error", on_error},
};

void far__line(struct far *f, struct str line)
{
    struct arena a = {0};
    struct json *m;
    struct err e = {0};
    if (json_parse(&m, &a, line, NULL, &e) < 0) {
        far__error_text(f, 0, e.msg);
        arena_fini(&a);
        return;
    }
    struct str type = json_str(json_get(m, "type"), "");
    size_t i = 0;
    while (i < ARRAY_LEN(handlers) && !str_eqz(type, handlers[i].type)) {
        i++;
    }
    if (i < ARRAY_LEN(handlers)) {
        handlers[i].fn(f, m);
    } else {
        far__error_text(f, json_int(json_get(m, "id"), 0), "unknown message");
    }
    arena_fini(&a);
}
