// <afloat/plugin.h>: plugins for Afloat in C. docs/guide/plugins-c.md shows how they look.
//
// A plugin is compiled by the hub when it is saved and runs in a process of its own. It says what it offers in one
// structure, AFLOAT_PLUGIN(...), and by functions that have the name of a hook point:
//
//     #include <afloat/plugin.h>
//
//     void on_final(struct afloat_call *c)
//     {
//         afloat_answer_text(c, "%s, and good night", afloat_text(c, "text"));
//     }
//
//     static void roll(struct afloat_call *c)
//     {
//         afloat_answer_text(c, "%lld", 1 + random() % afloat_int(c, "input.sides", 6));
//     }
//
//     AFLOAT_PLUGIN(.name = "dice", .tools = (const struct afloat_tool[]){
//         {.name = "roll", .description = "roll a die", .input = "{\"sides\": \"integer\"}", .run = roll}, {0}})
//
// Values are reached by path: "ctx.session_id", "ctx.state.n", "call.input.cmd", "result.output", "text", "input.sides",
// "req.params.day", "args.0". What a function returns lives until the call ends.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct afloat_call; // one call: its arguments, its answer
typedef void afloat_fn(struct afloat_call *c);

// Every list ends with an entry whose first member is NULL. Structures grow at their ends only.

struct afloat_hook {   // for options, or several functions of one point
    const char *point; // "on_tool_call"
    afloat_fn *run;
    const char *tool;    // a glob; NULL: every tool
    int priority;        // higher runs first
    unsigned timeout_ms; // 0: the usual
    bool block;          // a failure refuses, instead of going on
};
struct afloat_tool {
    const char *name, *description;
    const char *input;      // {"sides": "integer", "label": "string?"}; NULL: anything
    afloat_fn *run;         // "ctx", "input"
    const char *permission; // "ask", "deny"; NULL: by the settings
    bool override;          // takes the name of a built-in tool
};
struct afloat_command {
    const char *name, *description;
    afloat_fn *run; // "args", "ctx"
    bool is_long;   // known as PLUGIN:NAME alone, so that other plugins may have the name, too
};
struct afloat_route {
    const char *method, *path; // "GET", "/stats/:day"
    afloat_fn *run;            // "req": method path params query headers body
};
struct afloat_prompt {
    const char *id;
    const char *text; // NULL: `run` answers it
    afloat_fn *run;   // "ctx"
    int priority;
};
struct afloat_event {
    const char *name; // "turn.completed"; `*` at the end matches
    afloat_fn *run;   // "event"
};
struct afloat_flag {
    const char *name, *type, *value, *description; // `value` is its default, as JSON
    bool is_long;                                  // as of a command
};
struct afloat_provider {
    const char *name, *description;
    const char *const *models; // names, NULL at the end; NULL: any
    afloat_fn *run;            // "ctx", "request"; afloat_emit() says the answer
};
struct afloat_mcp_prompt {
    const char *name, *description;
    const char *arguments; // JSON: ["who", {"name": "tone", "required": true}]; NULL: none
    afloat_fn *run;        // "arguments", "ctx"
};
struct afloat_mcp_resource {
    const char *uri, *name, *description; // a `uri` with {variables} is a template
    const char *mime;
    afloat_fn *run; // "uri", "params", "ctx"
};
struct afloat_timer {
    const char *name;
    unsigned every_ms; // at least 10
    afloat_fn *run;    // while the plugin serves; one after another with its hooks
};
struct afloat_watch {
    const char *path; // of a directory: absolute, or from ~
    afloat_fn *
        run; // "event.path", "event.kind" (created, changed, deleted): for each file that really changed
    const char *pattern; // of file names; `*` stands for any run. NULL: all
    bool flat;           // not the directories below it
    bool poll;           // look every [watch] poll_ms, where native events do not come
};
struct afloat_test {
    const char *name;
    afloat_fn *run; // afloat_try(), afloat_fail()
};

struct afloat_plugin {
    uint32_t size; // of this structure, where the plugin was compiled
    const char *api, *name, *description;
    const struct afloat_hook *hooks;
    const struct afloat_tool *tools;
    const struct afloat_command *commands;
    const struct afloat_route *routes;
    const struct afloat_prompt *prompts;
    const struct afloat_event *events;
    const struct afloat_flag *flags;
    const struct afloat_test *tests;
    const struct afloat_provider *providers;
    const struct afloat_mcp_prompt *mcp_prompts;
    const struct afloat_mcp_resource *mcp_resources;
    const struct afloat_timer *timers;
    const struct afloat_watch *watches;
};

/// What the process offers. Set before any function of the plugin runs.
struct afloat_host {
    uint32_t size;
    const char *(*text)(struct afloat_call *c, const char *path);
    const char *(*json)(struct afloat_call *c, const char *path);
    long long (*integer)(struct afloat_call *c, const char *path, long long fallback);
    bool (*set)(struct afloat_call *c, const char *path, const char *json);
    bool (*set_text)(struct afloat_call *c, const char *path, const char *text);
    void (*answer_text)(struct afloat_call *c, const char *format, ...)
        __attribute__((format(printf, 2, 3)));
    void (*answer_json)(struct afloat_call *c, const char *format, ...)
        __attribute__((format(printf, 2, 3)));
    void (*fail)(struct afloat_call *c, const char *format, ...)
        __attribute__((format(printf, 2, 3)));
    void (*log)(const char *level, const char *format, ...) __attribute__((format(printf, 2, 3)));
    void (*progress)(struct afloat_call *c, const char *text);
    const char *(*ask)(struct afloat_call *c, const char *op, const char *params);
    const char *(*try_it)(struct afloat_call *c, const char *kind, const char *name,
                          const char *json);
    bool (*emit)(struct afloat_call *c, const char *json);
    bool (*emit_text)(struct afloat_call *c, const char *text);
    long long (*add)(const char *kind, const void *entry, size_t size);
    long long (*find)(const char *kind, const char *name);
    bool (*off)(long long id);
};
extern const struct afloat_host *afloat;

/// Defines the plugin: once, in one of its files.
#define AFLOAT_PLUGIN(...)                                                                         \
    const struct afloat_host *afloat;                                                              \
    const struct afloat_plugin afloat_plugin = {                                                   \
        .size = sizeof(struct afloat_plugin), .api = "1.0", __VA_ARGS__};

/// The text at a path; NULL when there is none. A number or object is given as JSON.
#define afloat_text(c, path) afloat->text(c, path)
/// The value at a path as JSON; "null" when there is none.
#define afloat_json(c, path)          afloat->json(c, path)
#define afloat_int(c, path, fallback) afloat->integer(c, path, fallback)
/// Put a JSON value, or a text, at a path. Changes of ctx.state and ctx.memory count; a hook that changed its last argument
/// ("call", "result", "request", ...) and gives no answer answers with it.
#define afloat_set(c, path, json)       afloat->set(c, path, json)
#define afloat_set_text(c, path, value) afloat->set_text(c, path, value)
/// The answer, as printf makes it: a text, or JSON. on_permission: "allow", "ask", "deny", or JSON ["deny", "why"].
#define afloat_answer_text(c, ...) afloat->answer_text(c, __VA_ARGS__)
#define afloat_answer_json(c, ...) afloat->answer_json(c, __VA_ARGS__)
/// The call fails with this message, as printf makes it.
#define afloat_fail(c, ...) afloat->fail(c, __VA_ARGS__)
/// `level`: "debug" "info" "warn" "error".
#define afloat_log(level, ...)   afloat->log(level, __VA_ARGS__)
#define afloat_progress(c, text) afloat->progress(c, text)
/// Run an operation of the hub with JSON parameters (NULL: none), and wait for its JSON answer; NULL when it failed, which is
/// logged. Also "state.get", "state.set", "store.get", "store.set", "flag.get", "event.emit", "secret.get", "config.get".
#define afloat_ask(c, op, params) afloat->ask(c, op, params)
/// In the function of a provider: say a piece of the answer, a text or JSON ({"reasoning": ...}, {"tool_call": {...}},
/// {"usage": {...}}, {"error": {...}}). False: the reader is gone, so return.
#define afloat_emit(c, json)      afloat->emit(c, json)
#define afloat_emit_text(c, text) afloat->emit_text(c, text)
/// Register one more while the plugin runs: afloat_add_tool(.name = "roll", .run = roll). The texts are not copied: they stay until it
/// is taken back. What one function adds and takes back is one new generation. Returns its id; 0: it cannot be registered, which is
/// logged.
#define AFLOAT_ADD(kind, type, ...)                                                                \
    afloat->add(kind, &(const struct type){__VA_ARGS__}, sizeof(struct type))
#define afloat_add_hook(...)         AFLOAT_ADD("hook", afloat_hook, __VA_ARGS__)
#define afloat_add_tool(...)         AFLOAT_ADD("tool", afloat_tool, __VA_ARGS__)
#define afloat_add_command(...)      AFLOAT_ADD("command", afloat_command, __VA_ARGS__)
#define afloat_add_route(...)        AFLOAT_ADD("route", afloat_route, __VA_ARGS__)
#define afloat_add_prompt(...)       AFLOAT_ADD("prompt", afloat_prompt, __VA_ARGS__)
#define afloat_add_event(...)        AFLOAT_ADD("event", afloat_event, __VA_ARGS__)
#define afloat_add_flag(...)         AFLOAT_ADD("flag", afloat_flag, __VA_ARGS__)
#define afloat_add_provider(...)     AFLOAT_ADD("provider", afloat_provider, __VA_ARGS__)
#define afloat_add_mcp_prompt(...)   AFLOAT_ADD("mcp_prompt", afloat_mcp_prompt, __VA_ARGS__)
#define afloat_add_mcp_resource(...) AFLOAT_ADD("mcp_resource", afloat_mcp_resource, __VA_ARGS__)
#define afloat_add_timer(...)        AFLOAT_ADD("timer", afloat_timer, __VA_ARGS__)
#define afloat_add_watch(...)        AFLOAT_ADD("watch", afloat_watch, __VA_ARGS__)
/// The id of what the plugin registered, by its kind ("tool", "hook", ...) and name: of a hook its point, of a route "GET /path", of a
/// watch its path as given. 0: there is none.
#define afloat_find(kind, name) afloat->find(kind, name)
/// Take back what has this id. False: it is taken back already, or this version of the plugin was replaced.
#define afloat_off(id) afloat->off(id)
/// In a test: call a tool, command or hook with JSON arguments; its answer as JSON. NULL: it failed, or there is none.
#define afloat_try(c, kind, name, json) afloat->try_it(c, kind, name, json)

#ifdef __cplusplus
}
#endif
