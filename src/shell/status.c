// The state of the environment in words.
//
//      building  a.toml, b.env +2                                    press Ctrl-Alt-R
//
// A file's name is the project's: it is made visible, and cut between characters.

#include "shell/status.h"

#include <assert.h>
#include <ctype.h>

#include "base/path.h"
#include "base/visible.h"
#include "term/text.h"

enum { NAMES_MAX = 3 };

static const struct {
    const char *name, *colour;
} states[] = {
#define X(id, name, colour) {name, colour},
    STATUS_STATES(X)
#undef X
};

bool status_mode_of(const char *name, enum status_mode *out)
{
    static const char *const names[] = {"prompt", "row", "none"};
    ptrdiff_t i = str_lookup(str_of(name), names, ARRAY_LEN(names));
    *out = i >= 0 ? (enum status_mode)i : *out;
    return i >= 0;
}

const char *status_state_name(enum status_state s)
{
    return states[s].name;
}

// ---- pieces --------------------------------------------------------------------------------

/// Append as much of `text` as fits into `*room` columns.
static void add_fitting(struct buf *out, struct str text, size_t *room)
{
    size_t width;
    buf_add(out, text.p, text_fit(text, *room, &width));
    *room -= width;
}

static void add_names(const struct status *s, struct buf *out)
{
    size_t n = MIN(s->n_changed, (size_t)NAMES_MAX);
    for (size_t i = 0; i < n; i++) {
        buf_addz(out, i == 0 ? "  " : ", ");
        visible_add(out, path_base(str_of(s->changed[i])), false);
    }
    if (s->n_changed > n) {
        buf_addf(out, " +%zu", s->n_changed - n);
    }
}

static void add_duration(uint64_t ms, struct buf *out)
{
    if (ms < 1000) {
        buf_addf(out, "%llu ms", (unsigned long long)ms);
    } else if (ms < 60000) {
        buf_addf(out, "%.1f s", (double)ms / 1000);
    } else {
        buf_addf(out, "%llu min %llu s", (unsigned long long)ms / 60000,
                 (unsigned long long)ms / 1000 % 60);
    }
}

static void add_left(const struct status *s, struct buf *out)
{
    assert(s->state < ARRAY_LEN(states));
    buf_addf(out, " %s", states[s->state].name);
    switch (s->state) {
    case STATUS_BUILDING: add_names(s, out); break;
    case STATUS_WATCHING:
        buf_addf(out, "  %zu file%s", s->n_inputs, s->n_inputs == 1 ? "" : "s");
        break;
    case STATUS_FAILED: buf_addz(out, "  'afloat env error' says why"); break;
    case STATUS_PAUSED: buf_addz(out, "  'afloat env resume' continues"); break;
    default: buf_addz(out, "  in "); add_duration(s->duration_ms, out);
    }
}

// ---- public --------------------------------------------------------------------------------

void status_render_line(const struct status *s, struct buf *out)
{
    buf_addf(out, "afloat: %s", states[s->state].name);
    add_names(s, out);
    if (s->state == STATUS_BUILDING) {
        status_render_hint(s->key, "reload", out);
    } else { // the shell has it: there is nothing to press
        buf_addz(out, "  in ");
        add_duration(s->duration_ms, out);
    }
}

void status_render_hint(const char *key, const char *what, struct buf *out)
{
    buf_addz(out, "  (press ");
    status_render_key(key, out);
    buf_addf(out, " to %s)", what);
}

void status_render(const struct status *s, size_t columns, struct buf *out)
{
    struct buf left = {.max = SIZE_MAX}, right = {.max = SIZE_MAX};
    size_t room = columns;
    add_left(s, &left);
    buf_addz(&right, "press ");
    status_render_key(s->key, &right);
    buf_addc(&right, ' ');
    buf_addf(out, "\033[%sm", s->plain ? "" : states[s->state].colour);
    add_fitting(out, buf_str(&left), &room);
    size_t wide = text_width(buf_str(&right));
    bool fits = room > wide;
    buf_addf(out, "%*s", (int)(fits ? room - wide : room), "");
    buf_adds(out, fits ? buf_str(&right) : STR_NULL);
    buf_addz(out, "\033[m");
    buf_fini(&left);
    buf_fini(&right);
}

void status_render_key(const char *key, struct buf *out)
{
    bool alt = strncmp(key, "\\e", 2) == 0;
    const char *rest = key + (alt ? 2 : 0);
    bool ctrl = strncmp(rest, "\\C-", 3) == 0;
    rest += ctrl ? 3 : 0;
    if ((!alt && !ctrl) || rest[0] == '\0' || rest[1] != '\0') {
        visible_add(out, str_of(key), false);
        return;
    }
    buf_addf(out, "%s%s%c", ctrl ? "Ctrl-" : "", alt ? "Alt-" : "",
             toupper((unsigned char)rest[0]));
}
