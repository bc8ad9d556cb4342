// `afloat hooks`: hooks by command. `import` turns those of Claude Code's settings into lines of config.toml.
//
//     {"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "...", "timeout": 30}]}]}}
//       ──> [[command_hooks]] event, matcher, command, timeout_s
//
// The lines go to stdout: the configuration is the user's to write. What has no counterpart is told on stderr.

#include "base/json.h"
#include "base/toml.h"
#include "cli/call.h"

enum { FILE_MAX = 4 << 20 };

static const char *const events[] = {"PreToolUse",   "PostToolUse", "UserPromptSubmit",
                                     "SessionStart", "SessionEnd",  "Stop",
                                     "PreCompact",   "Notification"};

static void add_member(struct cli *c, const char *key, struct str value)
{
    struct buf text = {.max = SIZE_MAX};
    toml_add_str(&text, value);
    out_addf(&c->out, "%s = ", key);
    out_add(&c->out, buf_str(&text));
    out_add(&c->out, STR("\n"));
    buf_fini(&text);
}

/// One hook of an event's entry; true when it was taken over.
static bool add_hook(struct cli *c, struct str event, const struct json *matcher,
                     const struct json *hook)
{
    struct str type = json_str(json_get(hook, "type"), "command");
    struct str command = json_get_text(hook, "command");
    int64_t timeout = json_int(json_get(hook, "timeout"), 0);
    if (!str_eqz(type, "command") || command.n == 0) {
        out_note(&c->out, "left out: a hook of " STR_FMT " of type '" STR_FMT "'", STR_ARG(event),
                 STR_ARG(type));
        return false;
    }
    out_add(&c->out, STR("[[command_hooks]]\n"));
    add_member(c, "event", event);
    if (json_str(matcher, "").n != 0) {
        add_member(c, "matcher", json_str(matcher, ""));
    }
    add_member(c, "command", command);
    if (timeout > 0) {
        out_addf(&c->out, "timeout_s = %lld\n", (long long)MIN(timeout, 600));
    }
    out_add(&c->out, STR("\n"));
    return true;
}

static size_t add_event(struct cli *c, struct str event, const struct json *entries)
{
    size_t n = 0;
    if (str_lookup(event, events, ARRAY_LEN(events)) < 0) {
        out_note(&c->out, "left out: there is no event '" STR_FMT "' here", STR_ARG(event));
        return 0;
    }
    json_foreach_item (entry, entries) {
        json_foreach_item (hook, json_get(entry, "hooks")) {
            n += add_hook(c, event, json_get(entry, "matcher"), hook);
        }
    }
    return n;
}

int cmd_hooks_import(struct cli *c)
{
    const char *path = args_word(&c->args, 0);
    struct arena a = {0};
    struct buf text = {.max = FILE_MAX};
    struct json *settings = NULL;
    struct err e = {0};
    size_t n = 0;
    int rc = 0, code = call_read_text(c, path, &text);
    if (code == EXIT_OK && json_parse(&settings, &a, buf_str(&text), NULL, &e) < 0) {
        rc = err_prefix(&e, "'%s'", path);
    }
    json_foreach_member (m, code == EXIT_OK && rc == 0 ? json_get(settings, "hooks") : NULL) {
        n += add_event(c, m->key, &m->value);
    }
    if (code == EXIT_OK && rc == 0 && n == 0) {
        rc = err_set(&e, ERR_NOT_FOUND, "'%s' has no hooks that can be taken over", path);
    }
    if (n != 0) {
        out_note(
            &c->out,
            "%zu hooks; append these lines to %s/config.toml. A hook that fails lets calls pass: "
            "`on_failure = \"block\"` denies them",
            n, c->home.dir);
    }
    buf_fini(&text);
    arena_fini(&a);
    return rc == 0 ? code : cli__fail(c, &e);
}
