// The state of a session, and what it does now in one line; how it stands, face.c shows.
//
//     ⠹ running shell · 12 s · 3.1k in, 210 out · $0.0123 · Esc interrupts
//
// Everything in it comes from events, so that a client that attaches later shows the same. The time is
// the client's: it says how long this user has waited.

#include "view/gauge.h"

#include <assert.h>
#include <math.h>

#include "base/time.h"
#include "base/utf8.h"
#include "base/visible.h"
#include "term/text.h"

enum { BYTES_PER_TOKEN = 4, TICK_MS = 100 };

// Text from outside, on one line, as much as there is room for.
static void copy(char *out, size_t size, struct str text)
{
    assert(size > 0);
    struct buf safe = {.max = SIZE_MAX};
    visible_add(&safe, text, false);
    size_t n = safe.n < size ? safe.n : utf8_cut(safe.p, safe.n, size - 1);
    snprintf(out, size, "%.*s", (int)n, buf_z(&safe));
    buf_fini(&safe);
}

// ---- the branch ----------------------------------------------------------------------------

// The first line of a small file, without the line feed; false when it cannot be read.
static bool read_line(const char *path, char *out, size_t size)
{
    FILE *f = fopen(path, "re");
    bool got = f != NULL && fgets(out, (int)size, f) != NULL;
    if (f != NULL) {
        fclose(f);
    }
    out[got ? strcspn(out, "\n") : 0] = '\0';
    return got;
}

// The directory with HEAD, from the `.git` of a repository or of a linked worktree.
static bool find_git(const char *dir, char *out, size_t size)
{
    char at[PATH_MAX], line[PATH_MAX];
    snprintf(at, sizeof at, "%s", dir);
    for (bool more = at[0] == '/'; more;) {
        snprintf(out, size, "%.*s/.git/HEAD", (int)MIN(size / 2, sizeof at), at);
        if (read_line(out, line, sizeof line)) {
            return true;
        }
        snprintf(out, size, "%.*s/.git", (int)MIN(size / 2, sizeof at), at);
        if (read_line(out, line, sizeof line) && strncmp(line, "gitdir: ", 8) == 0) {
            snprintf(out, size, "%.*s/HEAD", (int)MIN(size / 2, sizeof line), line + 8);
            return true;
        }
        char *slash = strrchr(at, '/');
        more = slash != NULL && slash != at;
        *(slash != NULL ? slash : at) = '\0';
    }
    return false;
}

static void look_at_branch(struct gauge *f)
{
    char path[2 * PATH_MAX], line[512];
    f->branch[0] = '\0';
    if (find_git(f->dir, path, sizeof path) && read_line(path, line, sizeof line)) {
        bool named = strncmp(line, "ref: refs/heads/", 16) == 0;
        copy(f->branch, sizeof f->branch, named ? str_of(line + 16) : (struct str){line, 7});
    }
}

// ---- what comes ----------------------------------------------------------------------------

static void take_usage(struct gauge *f, const struct json *u)
{
    if (u != NULL) {
        f->input = json_int(json_get(u, "input"), -1);
        f->output = json_int(json_get(u, "output"), -1);
        f->cost = json_double(json_get(u, "cost_usd"), -1);
    }
}

static void take_context(struct gauge *f, const struct json *context)
{
    f->context = json_int(json_get(context, "used"), -1);
    f->window = json_int(json_get(context, "window"), -1);
}

static void on_usage(struct gauge *f, const struct json *ev)
{
    take_usage(f, json_get(ev, "usage"));
    take_context(f, json_get(ev, "context"));
    f->said = 0;
}

static void on_compacted(struct gauge *f, const struct json *ev)
{
    (void)ev;
    f->context = -1;
}

static void on_delta(struct gauge *f, const struct json *ev)
{
    struct str text = json_get_text(ev, "text");
    f->work = text.n != 0 ? GAUGE_WRITING : GAUGE_THINKING;
    f->said += text.n + json_get_text(ev, "reasoning").n;
}

/// A message of the user that cuts the answer off: the model begins another one.
static void on_message(struct gauge *f, const struct json *ev)
{
    if (f->work == GAUGE_WRITING && json_bool(json_get(ev, "steer"), false)) {
        f->work = GAUGE_THINKING;
        f->said = 0;
    }
}

static void on_call(struct gauge *f, const struct json *ev)
{
    f->running++;
    copy(f->what, sizeof f->what, json_get_text(ev, "tool"));
}

static void on_result(struct gauge *f, const struct json *ev)
{
    (void)ev;
    f->running -= f->running != 0;
}

static void on_aborted(struct gauge *f, const struct json *ev)
{
    const struct json *error = json_get(ev, "error");
    int64_t wait = json_int(json_get(ev, "retry_in_ms"), -1);
    f->said = 0;
    if (wait >= 0) {
        f->work = GAUGE_RETRYING;
        f->retry_ns = time_mono_ns() + (uint64_t)wait * 1000000;
        copy(f->what, sizeof f->what, json_get_text(error, "message"));
    }
}

static void on_started(struct gauge *f, const struct json *ev)
{
    (void)ev;
    if (f->work == GAUGE_IDLE) {
        gauge_begin(f);
    }
}

static void on_end(struct gauge *f, const struct json *ev)
{
    (void)ev;
    f->work = GAUGE_IDLE;
    f->running = 0;
    look_at_branch(f);
}

static void on_updated(struct gauge *f, const struct json *ev)
{
    struct str permission = json_get_text(ev, "permission");
    if (permission.n != 0) {
        copy(f->permission, sizeof f->permission, permission);
    }
}

static void on_env(struct gauge *f, const struct json *ev)
{
    copy(f->env, sizeof f->env, str_from(json_get_text(ev, "type"), 4)); // after "env."
}

/// What an event means: `take` reads it, then the work is `work`. GAUGE_RUNNING is that while tools run, else thinking;
/// GAUGE_IDLE leaves the work as it is.
static const struct {
    const char *type;
    void (*take)(struct gauge *f, const struct json *ev); // NULL: nothing to read
    enum gauge_work work;
} taken[] = {
    {"turn.started", on_started, GAUGE_IDLE},
    {"message.delta", on_delta, GAUGE_IDLE},
    {"message.completed", on_message, GAUGE_IDLE},
    {"message.aborted", on_aborted, GAUGE_IDLE},
    {"tool.called", on_call, GAUGE_RUNNING},
    {"tool.completed", on_result, GAUGE_RUNNING},
    {"permission.requested", NULL, GAUGE_WAITING},
    {"permission.decided", NULL, GAUGE_RUNNING},
    {"question.asked", NULL, GAUGE_WAITING},
    {"question.answered", NULL, GAUGE_RUNNING},
    {"usage.updated", on_usage, GAUGE_IDLE},
    {"session.compacting", NULL, GAUGE_COMPACTING},
    {"session.compacted", on_compacted, GAUGE_THINKING},
    {"session.updated", on_updated, GAUGE_IDLE},
    {"turn.completed", on_end, GAUGE_IDLE},
    {"turn.failed", on_end, GAUGE_IDLE},
    {"turn.interrupted", on_end, GAUGE_IDLE},
    {"session.ended", on_end, GAUGE_IDLE},
    {"env.building", on_env, GAUGE_IDLE},
    {"env.ready", on_env, GAUGE_IDLE},
    {"env.failed", on_env, GAUGE_IDLE},
    {"env.applied", on_env, GAUGE_IDLE},
};

void gauge_init(struct gauge *f)
{
    *f = (struct gauge){.input = -1, .output = -1, .context = -1, .window = -1, .cost = -1};
}

void gauge_row(struct gauge *f, const struct json *row)
{
    struct str provider = json_get_text(row, "provider"), model = json_get_text(row, "model");
    char name[256];
    snprintf(name, sizeof name, STR_FMT "/" STR_FMT, STR_ARG(provider), STR_ARG(model));
    copy(f->model, sizeof f->model, str_of(name));
    snprintf(f->dir, sizeof f->dir, STR_FMT, STR_ARG(json_get_text(row, "working_dir")));
    copy(f->permission, sizeof f->permission, json_get_text(row, "permission"));
    take_usage(f, json_get(row, "usage"));
    take_context(f, json_get(row, "context"));
    look_at_branch(f);
}

void gauge_event(struct gauge *f, struct str type, const struct json *ev)
{
    for (size_t i = 0; i < ARRAY_LEN(taken) && ev != NULL; i++) {
        if (!str_eqz(type, taken[i].type)) {
            continue;
        }
        if (taken[i].take != NULL) {
            taken[i].take(f, ev);
        }
        if (taken[i].work != GAUGE_IDLE) {
            bool idle = taken[i].work == GAUGE_RUNNING && f->running == 0;
            f->work = idle ? GAUGE_THINKING : taken[i].work;
        }
    }
}

void gauge_begin(struct gauge *f)
{
    f->work = GAUGE_THINKING;
    f->began_ns = time_mono_ns();
    f->turn_input = f->input;
    f->turn_output = f->output;
    f->running = 0;
    f->said = 0;
}

// ---- what is shown -------------------------------------------------------------------------

static void add_count(struct buf *out, int64_t n)
{
    if (n < 1000) {
        buf_addf(out, "%lld", (long long)n);
    } else if (n < 1000000) {
        buf_addf(out, "%.1fk", (double)n / 1000);
    } else {
        buf_addf(out, "%.1fM", (double)n / 1000000);
    }
}

static void add_seconds(struct buf *out, uint64_t s)
{
    if (s < 60) {
        buf_addf(out, "%llu s", (unsigned long long)s);
    } else {
        buf_addf(out, "%llu min %llu s", (unsigned long long)s / 60, (unsigned long long)s % 60);
    }
}

static void add_dot(struct buf *out)
{
    buf_addz(out, out->n != 0 ? " · " : "");
}

static void add_cost(const struct gauge *f, struct buf *out)
{
    if (f->cost > 0 && isfinite(f->cost)) {
        add_dot(out);
        buf_addf(out, f->cost < 1 ? "$%.4f" : "$%.2f", f->cost);
    }
}

static void add_work(const struct gauge *f, struct buf *out, uint64_t now, struct str what)
{
    static const char *const names[] = {[GAUGE_IDLE] = "",
                                        [GAUGE_THINKING] = "thinking",
                                        [GAUGE_WRITING] = "writing",
                                        [GAUGE_RUNNING] = "running ",
                                        [GAUGE_RETRYING] = "",
                                        [GAUGE_COMPACTING] = "summarising the conversation",
                                        [GAUGE_WAITING] = "waiting for your answer",
                                        [GAUGE_STOPPING] = "stopping"};
    buf_addz(out, names[f->work]);
    if (f->work == GAUGE_RUNNING) {
        buf_adds(out, what);
        if (f->running > 1) {
            buf_addf(out, " and %u more", f->running - 1);
        }
    } else if (f->work == GAUGE_RETRYING) {
        uint64_t left = f->retry_ns > now ? (f->retry_ns - now + 999999999) / 1000000000 : 0;
        buf_adds(out, what.n != 0 ? what : STR("the request failed"));
        buf_addz(out, ": ");
        buf_addz(out, left != 0 ? "trying again in " : "trying again");
        if (left != 0) {
            add_seconds(out, left);
        }
    }
}

// Tokens of this turn; what is being written is estimated until the provider has counted it.
static void add_tokens(const struct gauge *f, struct buf *out)
{
    int64_t in = f->input - f->turn_input, written = f->output - f->turn_output;
    int64_t more = (int64_t)(f->said / BYTES_PER_TOKEN);
    if (f->input >= 0 && f->turn_input >= 0 && in > 0) {
        add_dot(out);
        add_count(out, in);
        buf_addz(out, " in");
    }
    written = f->output >= 0 && f->turn_output >= 0 ? written : 0;
    if (written + more > 0) {
        add_dot(out);
        buf_addz(out, more != 0 ? "~" : "");
        add_count(out, written + more);
        buf_addz(out, " out");
    }
}

void gauge_work_line(const struct gauge *f, struct buf *out, size_t cols, enum color_depth color)
{
    assert(f->work <= GAUGE_STOPPING);
    static const char *const frames[] = {"⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"};
    uint64_t now = time_mono_ns(), past = now - f->began_ns;
    struct buf line = {.max = SIZE_MAX}, rest = {.max = SIZE_MAX}, what = {.max = SIZE_MAX};
    if (f->work == GAUGE_IDLE) {
        return;
    }
    add_seconds(&rest, past / 1000000000);
    if (f->work != GAUGE_RETRYING) { // the reason needs the room
        add_tokens(f, &rest);
        add_cost(f, &rest);
    }
    buf_addz(&rest, " · Esc interrupts");
    // A long reason or name is cut, not what comes after it.
    add_work(f, &line, now, STR("x"));
    size_t fixed = text_width(buf_str(&line)) - 1 + 3 + text_width(buf_str(&rest)) + 2;
    text_add_cut(&what, str_of(f->what), MAX(cols - MIN(cols, fixed), 12));
    buf_clear(&line);
    add_work(f, &line, now, buf_str(&what));
    buf_addf(&line, " · %s", buf_z(&rest));
    buf_addf(out, "%s%s%s ", color_on(color, COLOR_ACCENT),
             frames[past / (TICK_MS * 1000000ull) % ARRAY_LEN(frames)], color_off(color));
    buf_addz(out, color_on(color, f->work == GAUGE_RETRYING ? COLOR_WARN : COLOR_DIM));
    text_add_cut(out, buf_str(&line), cols - MIN(cols, 2));
    buf_addf(out, "%s\n", color_off(color));
    buf_fini(&line);
    buf_fini(&rest);
    buf_fini(&what);
}
