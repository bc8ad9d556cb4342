// Operations of the hub as tools: afloat_plugin_list is plugin.list.
//
// Offered are those that the table opens to Lua in the hub (OP_LUA) and that [mcp_server] operations names. Decisions
// on trust and permission, secrets and the token have no such mark, so no setting can offer them; parameters that only
// a user may set are left out as they are for plugins.

#include "api/op.h"
#include "config/config.h"
#include "mcpserver/mcp_int.h"

static const char PREFIX[] = "afloat_";

static bool is_offered(const struct mcpserver *s, const struct op *op)
{
    const char *const *allowed = config_strings(s->o.config->now, "mcp_server.operations");
    bool marked =
        (op->flags & OP_LUA) != 0 && (op->flags & (OP_SOCKET | OP_STREAMS | OP_OPEN)) == 0;
    for (; marked && *allowed != NULL; allowed++) {
        if (str_glob(str_of(*allowed), str_of(op->name))) {
            return true;
        }
    }
    return false;
}

static void write_schema(struct jw *w, const struct op *op)
{
    struct op_param p;
    jw_kobj(w, "inputSchema");
    jw_kstrz(w, "type", "object");
    jw_kobj(w, "properties");
    for (struct str rest = str_of(op->params); op_next_param(op, &rest, &p);) {
        if (!p.of_person) {
            jw_key_str(w, p.name);
            op_write_type(w, p.type, op_param_help(op, p.name));
        }
    }
    jw_end_obj(w);
    jw_karr(w, "required");
    for (struct str rest = str_of(op->params); op_next_param(op, &rest, &p);) {
        if (!p.optional && !p.of_person) {
            jw_str(w, p.name);
        }
    }
    jw_end_arr(w);
    jw_kbool(w, "additionalProperties", false);
    jw_end_obj(w);
}

void mcp_operations__list(struct mcpserver *s, struct jw *w)
{
    for (size_t i = 0; i < OP__COUNT; i++) {
        const struct op *op = &ops[i];
        if (!is_offered(s, op)) {
            continue;
        }
        char name[64];
        snprintf(name, sizeof name, "%s%s", PREFIX, op->name);
        for (char *p = name; *p != '\0'; p++) {
            *p = (char)(*p == '.' ? '_' : *p);
        }
        jw_obj(w);
        jw_kstrz(w, "name", name);
        jw_kstrz(w, "description", op->help);
        write_schema(w, op);
        jw_kobj(w, "annotations");
        jw_kbool(w, "readOnlyHint", (op->flags & OP_MUTATES) == 0);
        jw_kbool(w, "destructiveHint", (op->flags & OP_DESTROYS) != 0);
        jw_end_obj(w);
        jw_end_obj(w);
    }
}

// ---- running one ------------------------------------------------------------------------------------

static void answer(struct mcp_call *c, struct str text, bool failed)
{
    if (c->post != NULL) {
        mcp_call__answer_text(c, text, failed);
    }
    mcp_call__idle(c);
}

static void on_answer(struct op_call *op, int status, const char *type, struct str body)
{
    (void)type;
    answer(container_of(op, struct mcp_call, op), body, status >= 400);
}

static void on_fail(struct op_call *op, enum problem p, struct str detail, const char *hint)
{
    struct mcp_call *c = container_of(op, struct mcp_call, op);
    struct buf text = {.max = SIZE_MAX};
    buf_addf(&text, "%s: " STR_FMT "%s%s", problems[p].code, STR_ARG(detail),
             hint != NULL ? "; " : "", hint != NULL ? hint : "");
    answer(c, buf_str(&text), true);
    buf_fini(&text);
}

static const struct op_face face = {.answer = on_answer, .fail = on_fail};

/// The operation of the tool `name`; OP__COUNT: none that is offered.
static size_t find(const struct mcpserver *s, struct str name)
{
    for (size_t i = 0; i < OP__COUNT && str_starts(name, PREFIX); i++) {
        struct str rest = str_from(name, sizeof PREFIX - 1);
        const char *op = ops[i].name;
        bool same = strlen(op) == rest.n;
        for (size_t k = 0; same && k < rest.n; k++) {
            same = rest.p[k] == (op[k] == '.' ? '_' : op[k]);
        }
        if (same && is_offered(s, &ops[i])) {
            return i;
        }
    }
    return OP__COUNT;
}

bool mcp_operations__run(struct mcp_call *c, struct str name)
{
    static const struct json none = {.type = JSON_OBJ};
    size_t id = find(c->server, name);
    const struct json *arguments = json_get(c->params, "arguments");
    struct op_fault fault;
    if (id == OP__COUNT) {
        return false;
    }
    c->op = (struct op_call){.id = (enum op_id)id,
                             .params = arguments != NULL ? arguments : &none,
                             .arena = &c->arena,
                             .last_event_id = UINT64_MAX,
                             .face = &face};
    c->busy = true;
    if (op_check_params(c->op.id, OP_BY_PLUGIN, c->op.params, &fault)) {
        op_run(c->server->o.api, &c->op);
    } else {
        on_fail(&c->op, fault.problem, str_of(fault.detail),
                fault.hint[0] != '\0' ? fault.hint : NULL);
    }
    return true;
}
