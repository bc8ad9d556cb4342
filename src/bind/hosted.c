// What plugins in separate processes may ask of the hub.
//
//     store.get set remove keys   durable values, the same document as a Lua plugin of that name has
//     config.get all              the settings, secrets blanked
//     flag.get                    the value of one of its flags, as chosen
//     secret.get                  one that its manifest names
//     event.emit                  an event of its own
//     mcp.updated                 a resource for MCP clients changed
//     anything else               an operation of proto/ops.def that is marked for Lua
//
// Each request is answered once. The [limits] of the settings apply as they do to Lua plugins.

#include "bind/hosted.h"

#include <unistd.h>

#include "api/op.h"
#include "base/path.h"
#include "bind/bind_int.h"
#include "hook/args.h"
#include "plugin/hosts.h"
#include "store/store.h"

struct hosted_plugins {
    struct bind *bind;
    struct hosts *hosts;
    char *program;
};

static void refuse(struct hosts_ask *a, int rc, const char *message)
{
    hosts_answer(a, rc, str_of(message));
}

static void answer_json(struct hosts_ask *a, const struct json *v)
{
    struct buf text = {.max = SIZE_MAX};
    json_write(&text, v, 0);
    hosts_answer(a, 0, buf_str(&text));
    buf_fini(&text);
}

/// A copy of a text parameter. NULL when it is missing or invalid; the request is answered then.
static char *text_param(struct hosts_ask *a, const char *name)
{
    const struct json *v = json_get(a->params, name);
    if (v == NULL || v->type != JSON_STR || v->s.n == 0 || v->s.n > 256) {
        char message[80];
        snprintf(message, sizeof message, "'%s' must be a text of 1 to 256 bytes", name);
        refuse(a, ERR_INVALID, message);
        return NULL;
    }
    return str_dup(v->s);
}

// ---- the store ----------------------------------------------------------------------------------

enum { VALUE_MAX = 1 << 20 };

static void on_set(void *arg, int status, const struct err *e)
{
    hosts_answer(arg, status, status < 0 ? str_of(e->msg) : STR("true"));
}

static void on_doc(void *arg, int status, struct str text, const struct err *e)
{
    struct hosts_ask *a = arg;
    struct arena arena = {0};
    struct json *doc = NULL;
    if (status < 0) {
        refuse(a, status, e->msg);
    } else if (text.n != 0 && json_parse(&doc, &arena, text, NULL, NULL) < 0) {
        refuse(a, ERR_INVALID, "the stored values cannot be read");
    } else if (str_eqz(a->op, "store.get")) {
        char *key = str_dup(json_str(json_get(a->params, "key"), ""));
        answer_json(a, json_get(doc, key));
        free(key);
    } else {
        struct buf out = {.max = SIZE_MAX};
        struct jw w = {.out = &out};
        jw_arr(&w);
        json_foreach_member (m, doc) {
            jw_str(&w, m->key);
        }
        jw_end_arr(&w);
        hosts_answer(a, 0, buf_str(&out));
        buf_fini(&out);
    }
    arena_fini(&arena);
}

static void ask_store(struct hosted_plugins *h, struct hosts_ask *a)
{
    bool sets = str_eqz(a->op, "store.set"), removes = str_eqz(a->op, "store.remove");
    bool keys = str_eqz(a->op, "store.keys");
    char *key = keys ? NULL : text_param(a, "key");
    struct buf name = {.max = SIZE_MAX}, value = {.max = VALUE_MAX};
    if (!keys && key == NULL) {
        return;
    }
    bind__store_doc(&name, a->space);
    json_write(&value, sets ? json_get(a->params, "value") : NULL, 0);
    if (!buf_ok(&value)) {
        refuse(a, ERR_TOO_LARGE, "a value is larger than 1 MiB");
    } else if (sets || removes) {
        store_doc_set(h->bind->o.hub->store, buf_str(&name), str_of(key),
                      removes ? STR_NULL : buf_str(&value), on_set, a);
    } else {
        store_doc_get(h->bind->o.hub->store, buf_str(&name), on_doc, a);
    }
    buf_fini(&name);
    buf_fini(&value);
    free(key);
}

// ---- settings, flags, events ----------------------------------------------------------------------

static void ask_config(struct hosted_plugins *h, struct hosts_ask *a)
{
    struct arena arena = {0};
    char *key = str_dup(json_str(json_get(a->params, "key"), ""));
    const struct json *all = config_values(h->bind->o.hub->config->now, &arena);
    answer_json(a, key[0] != '\0' ? json_get(all, key) : all);
    arena_fini(&arena);
    free(key);
}

static void ask_flag(struct hosted_plugins *h, struct hosts_ask *a)
{
    char *name = text_param(a, "name");
    if (name != NULL) {
        char *key = xasprintf("flags.%s.%s", a->unit, name);
        struct bind *b = h->bind;
        answer_json(a, b->o.choice != NULL ? b->o.choice(b->o.choice_arg, str_of(key)) : NULL);
        free(key);
    }
    free(name);
}

static void ask_emit(struct hosted_plugins *h, struct hosts_ask *a)
{
    struct err e = {0};
    char *name = text_param(a, "type");
    if (name != NULL) {
        int rc = bind__emit(h->bind, name, json_get(a->params, "data"), &e);
        hosts_answer(a, rc, rc < 0 ? str_of(e.msg) : STR("true"));
    }
    free(name);
}

static void ask_mcp_updated(struct hosted_plugins *h, struct hosts_ask *a)
{
    char *uri = text_param(a, "uri");
    if (uri != NULL) {
        bind__mcp_updated(h->bind, str_of(uri));
        hosts_answer(a, 0, STR("true"));
    }
    free(uri);
}

// ---- secrets --------------------------------------------------------------------------------------

static void on_secret(void *arg, const char *value, const struct err *e)
{
    if (value == NULL) {
        refuse(arg, e->code, e->msg);
    } else {
        answer_json(arg, &(struct json){.type = JSON_STR, .s = str_of(value)});
    }
}

static void ask_secret(struct hosted_plugins *h, struct hosts_ask *a)
{
    char *name = text_param(a, "name");
    char *why = name != NULL ? bind__refuse_secret(a->code, name) : NULL;
    if (why != NULL) {
        refuse(a, ERR_DENIED, why);
    } else if (name != NULL) {
        bind__read_secret(h->bind, name, on_secret, a);
    }
    free(why);
    free(name);
}

// ---- operations -----------------------------------------------------------------------------------

struct hosted_request {
    struct op_call call;
    struct arena arena;
    struct hosts_ask *ask;
};

static void free_request(struct hosted_request *q)
{
    arena_fini(&q->arena);
    free(q);
}

static void on_answer(struct op_call *c, int status, const char *content_type, struct str body)
{
    struct hosted_request *q = container_of(c, struct hosted_request, call);
    (void)status;
    (void)content_type; // OP_TEXT is not for plugins
    hosts_answer(q->ask, 0, body);
    free_request(q);
}

static void on_fail(struct op_call *c, enum problem p, struct str detail, const char *hint)
{
    struct hosted_request *q = container_of(c, struct hosted_request, call);
    char *text = xasprintf("%s: " STR_FMT, problems[p].code, STR_ARG(detail));
    (void)hint; // for those who type commands or requests
    hosts_answer(q->ask, ERR_INVALID, str_of(text));
    free(text);
    free_request(q);
}

static const struct op_face op_face = {.answer = on_answer, .fail = on_fail};

static void ask_op(struct hosted_plugins *h, struct hosts_ask *a)
{
    static const struct json nothing = {.type = JSON_OBJ};
    enum op_id id = (enum op_id)0;
    while (id < OP__COUNT && (!str_eqz(a->op, ops[id].name) || (ops[id].flags & OP_LUA) == 0)) {
        id++;
    }
    const struct json *params = a->params != NULL ? a->params : &nothing;
    struct op_fault fault = {0};
    if (id == OP__COUNT) {
        refuse(a, ERR_NOT_FOUND, "there is no such operation for plugins");
    } else if (h->bind->run_op == NULL) {
        refuse(a, ERR_CONFLICT, "the hub is starting or stopping; try again later");
    } else if (!op_check_params(id, OP_BY_PLUGIN, params, &fault)) {
        refuse(a, ERR_INVALID, fault.detail);
    } else {
        struct hosted_request *q = xcalloc(1, sizeof *q);
        q->ask = a;
        q->call = (struct op_call){.id = id,
                                   .params = params,
                                   .arena = &q->arena,
                                   .last_event_id = UINT64_MAX,
                                   .face = &op_face};
        h->bind->run_op(h->bind->api, &q->call);
    }
}

static void on_ask(void *arg, struct hosts_ask *a)
{
    static const struct {
        const char *op;
        void (*fn)(struct hosted_plugins *h, struct hosts_ask *a);
    } own[] = {
        {"store.get", ask_store},   {"store.set", ask_store},   {"store.remove", ask_store},
        {"store.keys", ask_store},  {"config.get", ask_config}, {"flag.get", ask_flag},
        {"secret.get", ask_secret}, {"event.emit", ask_emit},   {"mcp.updated", ask_mcp_updated}};
    for (size_t i = 0; i < ARRAY_LEN(own); i++) {
        if (str_eqz(a->op, own[i].op)) {
            own[i].fn(arg, a);
            return;
        }
    }
    ask_op(arg, a);
}

// ---- what they say --------------------------------------------------------------------------------

static void on_log(void *arg, const char *unit, enum log_level level, struct str text)
{
    struct hosted_plugins *h = arg;
    log_write(level, LOG_HUB, "plugin=%s text=%s", unit, LOGQ(text).z);
    bind_log_add(h->bind, str_of(unit), level, text);
}

static int on_watch(void *arg, struct watch **out, struct watch_opts *o, watch_cb *cb, void *cb_arg,
                    struct err *e)
{
    struct hosted_plugins *h = arg;
    return watch_open(out, h->bind->o.watcher, o, cb, cb_arg, e);
}

static void on_died(void *arg)
{
    struct hosted_plugins *h = arg;
    if (!h->bind->stopped) {
        gen_request(h->bind->o.engine, &(struct gen_request){.trigger = "host"}, NULL, NULL);
    }
}

// ---- life -----------------------------------------------------------------------------------------

struct hosted_plugins *hosted_open(struct bind *b, struct err *e)
{
    struct hosted_plugins *h = xcalloc(1, sizeof *h);
    h->bind = b;
    if ((h->program = path_own_program(e)) == NULL) {
        free(h);
        return NULL;
    }
    char *cache = path_join(b->o.hub->home->state, "hosts");
    const struct hosts_opts opts = {
        .loop = b->o.hub->loop,
        .program = h->program,
        .cache = cache,
        .hook_ms = &b->limits.hook_ms,
        .tool_ms = &b->limits.tool_ms,
        .start_ms = &b->limits.start_ms,
        .memory_mb = &b->limits.host_mb,
        .ask = on_ask,
        .log = on_log,
        .watch = on_watch,
        .died = on_died,
        .arg = h,
    };
    h->hosts = hosts_open(&opts);
    free(cache);
    return h;
}

void hosted_close(struct hosted_plugins *h)
{
    if (h != NULL) {
        hosts_close(h->hosts);
        free(h->program);
        free(h);
    }
}

const struct plugin_runner *hosted_runner(const struct hosted_plugins *h, enum plugin_lang lang)
{
    return h != NULL ? hosts_runner(h->hosts, lang) : NULL;
}

void hosted_event(struct hosted_plugins *h, struct str name, struct str data)
{
    if (h != NULL) {
        hosts_event(h->hosts, name, data);
    }
}

bool hosted_listen(const struct hosted_plugins *h)
{
    return h != NULL && hosts_listen(h->hosts);
}
