// One session as text, from its metadata and its journal.
//
//     events ── line by line ──> calls (tool.called, tool.completed) and what was said
//                                (message.completed; deltas where a message never completed)
//
// What a killed or interrupted session said is in its deltas only: they count until a completed message
// replaces them, and are shown when none does. Lines that are no events, a torn last one among them, are
// passed over. Pages are counted from the end, because the end of a session is what a bot looks for.

#include "bot/history_view.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/map.h"
#include "base/path.h"
#include "base/vec.h"
#include "bot/history.h"

enum { COMMAND_CHARS = 400, ERROR_CHARS = 60, META_BYTES = 16 << 20 };

static const char *const section_names[] = {
#define X(id, name) [HISTORY_##id] = (name),
    HISTORY_SECTIONS(X)
#undef X
};

bool history_section_parse(struct str name, enum history_section *out)
{
    ptrdiff_t i = str_lookup(name, section_names, ARRAY_LEN(section_names));
    *out = i >= 0 ? (enum history_section)i : *out;
    return i >= 0;
}

// ---- the events ---------------------------------------------------------------------------------

/// Texts are in the arena.
struct call {
    const char *command; // of a shell: what was typed; else tool and input
    const char *error;   // NULL: none
    bool is_shell, done, success;
    int64_t duration_ms;
};

struct replay {
    struct arena arena;
    struct history_row row; // its metadata
    vec(struct call) calls;
    struct map open; // call_id -> index + 1, as a pointer
    struct buf said;
    struct buf pieces; // of a message that has not completed
};

static void say(struct replay *r, struct str text)
{
    text = str_trim(text);
    if (text.n != 0) {
        buf_addz(&r->said, r->said.n != 0 ? "\n\n" : "");
        buf_adds(&r->said, text);
    }
    buf_clear(&r->pieces);
}

static struct str field(const struct json *ev, const char *name)
{
    return json_str(json_get(ev, name), "");
}

static void on_called(struct replay *r, const struct json *ev)
{
    struct call c = {.is_shell = str_eqz(field(ev, "tool"), "shell")};
    const struct json *input = json_get(ev, "input");
    struct buf line = {.max = SIZE_MAX}, json = {.max = SIZE_MAX};
    if (c.is_shell && field(input, "cmd").n != 0) {
        history_write_line(&line, field(input, "cmd"), COMMAND_CHARS);
    } else {
        json_write(&json, input, 0);
        buf_adds(&line, field(ev, "tool"));
        buf_addc(&line, ' ');
        history_write_line(&line, buf_str(&json), COMMAND_CHARS);
    }
    c.command = arena_strdup(&r->arena, buf_str(&line));
    buf_fini(&json);
    buf_fini(&line);
    vec_push(&r->calls, c);
    map_set(&r->open, field(ev, "call_id"), (void *)(uintptr_t)r->calls.n);
}

static void on_completed(struct replay *r, const struct json *ev)
{
    uintptr_t at = (uintptr_t)map_remove(&r->open, field(ev, "call_id"));
    if (at == 0) {
        return;
    }
    struct call *c = &r->calls.p[at - 1];
    c->done = true;
    c->success = json_bool(json_get(ev, "success"), false);
    c->duration_ms = json_int(json_get(ev, "duration_ms"), 0);
    c->error = field(ev, "error").n != 0 ? arena_strdup(&r->arena, field(ev, "error")) : NULL;
}

static void on_line(struct replay *r, struct str line)
{
    struct arena a = {0};
    struct json *ev = NULL;
    int rc = json_parse(&ev, &a, line, &(struct json_opts){.dup = JSON_DUP_LAST}, NULL);
    struct str type = rc == 0 ? field(ev, "type") : STR_NULL;
    if (str_eqz(type, "message.delta")) {
        buf_adds(&r->pieces, field(ev, "text"));
    } else if (str_eqz(type, "message.aborted")) {
        buf_clear(&r->pieces);
    } else if (str_eqz(type, "message.completed") && str_eqz(field(ev, "role"), "assistant")) {
        say(r, field(ev, "text"));
    } else if (str_eqz(type, "tool.called")) {
        on_called(r, ev);
    } else if (str_eqz(type, "tool.completed")) {
        on_completed(r, ev);
    }
    arena_fini(&a);
}

// ---- the files ----------------------------------------------------------------------------------

/// What a home has of the session; of the journal the last HISTORY_VIEW_BYTES, where the line that is cut is no event.
/// -ENOENT without metadata and journal.
static int read_files(const char *dir, struct buf *meta, struct buf *lines, struct err *e)
{
    char *about = path_join(dir, "metadata.json"), *path = path_join(dir, "events.jsonl");
    bool has_meta = path_read(about, meta, NULL) == 0;
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK), rc = fd < 0 ? -errno : 0;
    if (fd >= 0) {
        lseek(fd, -HISTORY_VIEW_BYTES, SEEK_END); // a shorter file is read from its start
        rc = path_read_fd(fd, lines, &st);
        close(fd);
    }
    if (rc < 0) {
        err_set(e, rc, "cannot read '%s': %s", path, err_text(rc));
    }
    free(path);
    free(about);
    return rc == -ENOENT && has_meta ? 0 : rc;
}

static void replay_fini(struct replay *r)
{
    vec_fini(&r->calls);
    map_fini(&r->open);
    buf_fini(&r->said);
    buf_fini(&r->pieces);
    arena_fini(&r->arena);
}

/// The caller ends `r` in any case.
static int replay_read(struct replay *r, struct shelf *sh, const char *dir, struct err *e)
{
    struct buf meta = {.max = META_BYTES}, lines = {.max = SIZE_MAX};
    struct err why = {0};
    *r =
        (struct replay){.said = {.max = HISTORY_VIEW_BYTES}, .pieces = {.max = HISTORY_VIEW_BYTES}};
    int rc = sh != NULL ? shelf_session(sh, dir, HISTORY_VIEW_BYTES, &meta, &lines, &why)
                        : read_files(dir, &meta, &lines, &why);
    struct store_row row = {.id = arena_str(&r->arena, path_base(str_of(dir))),
                            .meta = arena_str(&r->arena, buf_str(&meta))};
    r->row = history_row_of(&row, &r->arena);
    struct str rest = buf_str(&lines);
    while (rc == 0 && rest.n != 0) {
        on_line(r, str_cut(&rest, '\n'));
    }
    say(r, buf_str(&r->pieces));
    buf_fini(&lines);
    buf_fini(&meta);
    return rc == -ENOENT ? err_set(e, ERR_NOT_FOUND, "there is no session in '%s'", dir)
           : rc < 0      ? err_set(e, rc, "%s", why.msg)
                         : 0;
}

// ---- as text ------------------------------------------------------------------------------------

static void write_fact(struct buf *out, const char *name, struct str text)
{
    if (text.n != 0) {
        buf_addf(out, "- %s: ", name);
        history_write_line(out, text, COMMAND_CHARS);
        buf_addc(out, '\n');
    }
}

static void write_header(struct buf *out, const struct replay *replay)
{
    const struct history_row *r = &replay->row;
    buf_addf(out, "# Session %llu (" STR_FMT ")\n\n", (unsigned long long)r->number,
             STR_ARG(r->id));
    write_fact(out, "Model", r->model);
    write_fact(out, "Prompt", r->prompt);
    write_fact(out, "Summary", r->summary);
    write_fact(out, "Action", r->action);
    write_fact(out, "Ended", r->end_reason);
    write_fact(out, "Branch", r->branch);
    buf_addf(out, "- Duration: %llds, commands: %zu\n", (long long)r->duration_secs,
             replay->calls.n);
}

static void write_commands(struct buf *out, const struct replay *r)
{
    buf_addz(out, "\n## Commands\n");
    vec_foreach (c, &r->calls) {
        buf_addf(out, "%s%s [", c->is_shell ? "$ " : "", c->command);
        if (c->done && !c->success && c->error != NULL) {
            history_write_line(out, str_of(c->error), ERROR_CHARS);
        } else {
            buf_addz(out, !c->done ? "not finished" : c->success ? "ok" : "failed");
        }
        buf_addf(out, "] (%lldms)\n", (long long)c->duration_ms);
    }
}

/// The lines [first, last) of `text`, counted from 0.
static struct str lines_of(struct str text, uint64_t first, uint64_t last)
{
    size_t from = text.n, at = 0;
    for (uint64_t line = 0; at < text.n && line < last; line++) {
        from = line == first ? at : from;
        ptrdiff_t end = str_index(str_from(text, at), '\n');
        at = end < 0 ? text.n : at + (size_t)end + 1;
    }
    return (struct str){text.p + MIN(from, at), at - MIN(from, at)};
}

static void write_page(struct buf *out, struct str text, const struct history_wish *w)
{
    uint64_t n = str_lines(text), limit = w->limit != 0 ? w->limit : n;
    uint64_t last = n - MIN(w->offset, n), first = last - MIN(limit, last);
    buf_adds(out, lines_of(text, first, last));
    if (first == 0 && last == n) {
        return;
    }
    if (out->n != 0 && out->p[out->n - 1] != '\n') {
        buf_addc(out, '\n');
    }
    buf_addf(out, "[lines %llu-%llu of %llu]", (unsigned long long)MIN(first + 1, last),
             (unsigned long long)last, (unsigned long long)n);
    if (first != 0) {
        buf_addf(out, " Earlier content: offset=%llu", (unsigned long long)(n - first));
    }
    buf_addc(out, '\n');
}

static void write_members(struct jw *w, const struct replay *r)
{
    jw_karr(w, "commands");
    vec_foreach (c, &r->calls) {
        jw_obj(w);
        jw_kstrz(w, "command", c->command);
        jw_kbool(w, "done", c->done);
        jw_kbool(w, "success", c->success);
        jw_kstrz(w, "error", c->error);
        jw_kint(w, "duration_ms", c->duration_ms);
        jw_end_obj(w);
    }
    jw_end_arr(w);
    jw_kstr(w, "response", buf_str(&r->said));
}

int history_view(struct buf *out, struct jw *members, struct shelf *sh, const char *dir,
                 const struct history_wish *w, struct err *e)
{
    struct replay r;
    struct buf text = {.max = SIZE_MAX};
    int rc = replay_read(&r, sh, dir, e);
    if (rc == 0) {
        write_header(&text, &r);
        if (w->section != HISTORY_RESPONSE) {
            write_commands(&text, &r);
        }
        if (w->section != HISTORY_COMMANDS) {
            buf_addz(&text, "\n## Full Response\n");
            buf_adds(&text, buf_str(&r.said));
            buf_addc(&text, '\n');
        }
        write_page(out, buf_str(&text), w);
    }
    if (rc == 0 && members != NULL) {
        write_members(members, &r);
    }
    buf_fini(&text);
    replay_fini(&r);
    return rc;
}
