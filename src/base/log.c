// The process's one log: filter, format, redact, hand on.
//
//     log_write -> level? -> format -> redact -> cut at 8 KiB -> sink
//                                        |
//                 secrets we know (redact.c), then what looks like one (log_redact.c)
//
// Redaction sees the whole text, before anything is cut: half a secret is still a secret.
//
// Invariants:
//   - the sink runs under the lock, so lines do not mix and a sink is never called after the
//     log_open() that replaced it has returned.
//   - logging leaves errno unchanged, so a line may be logged before errno is read.

#include "base/log.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/log_int.h"
#include "base/redact.h"
#include "base/time.h"
#include "base/utf8.h"

enum { LONGEST_LINE = 8192, LONGEST_QUOTED = 200 };

static const char *const level_names[] = {
    [LOG_ERROR] = "error",
    [LOG_WARN] = "warn",
    [LOG_INFO] = "info",
    [LOG_DEBUG] = "debug",
};

static const char *const component_names[LOG__COUNT] = {
#define X(id, name) [LOG_##id] = name,
    LOG_COMPONENTS(X)
#undef X
};

static void to_stderr(void *arg, enum log_level level, enum log_component component,
                      struct str line)
{
    (void)arg;
    (void)level;
    (void)component;
    char *text = xasprintf(STR_FMT "\n", STR_ARG(line));
    ssize_t n = write(STDERR_FILENO, text, line.n + 1); // one call, so lines do not mix
    (void)n;                                            // there is nowhere else to report it
    free(text);
}

static struct {
    pthread_mutex_t lock;
    atomic_int level; // read without the lock
    log_sink *sink;
    void *arg;
} state = {.lock = PTHREAD_MUTEX_INITIALIZER, .level = LOG_WARN, .sink = to_stderr};

void log_open(enum log_level level, log_sink *sink, void *arg)
{
    pthread_mutex_lock(&state.lock);
    state.level = (int)level;
    state.sink = sink != NULL ? sink : to_stderr;
    state.arg = arg;
    pthread_mutex_unlock(&state.lock);
}

void log_set_level(enum log_level level)
{
    state.level = (int)level;
}

enum log_level log_get_level(void)
{
    return (enum log_level)state.level;
}

bool log_level_parse(struct str name, enum log_level *out)
{
    for (size_t i = 0; i < ARRAY_LEN(level_names); i++) {
        if (str_caseeqz(name, level_names[i])) {
            *out = (enum log_level)i;
            return true;
        }
    }
    return false;
}

const char *log_level_name(enum log_level level)
{
    assert((size_t)level < ARRAY_LEN(level_names));
    return level_names[level];
}

const char *log_component_name(enum log_component component)
{
    assert((size_t)component < LOG__COUNT);
    return component_names[component];
}

// ---- secrets -------------------------------------------------------------------------------

// Copy `text` into `out` without secrets, of either kind.
static void hide(struct buf *out, struct str text)
{
    struct buf known = {.max = SIZE_MAX};
    redact_text(&known, text);
    log__hide_patterns(out, buf_str(&known));
    buf_fini(&known);
}

// ---- escapes -------------------------------------------------------------------------------

// The first character of `text` as a line may show it; `*len` is what it took of `text`. Escapes
// are those of JSON, so that a JSON text stays one; only a byte that is no UTF-8 becomes \xNN.
static struct str escape(struct str text, char out[8], size_t *len)
{
    static const char letters[] = "abtnvfr"; // 7 to 13
    uint32_t cp;
    *len = utf8_decode(text, &cp);
    int n = 0;
    if (cp == 0xFFFD && *len == 1) {
        n = snprintf(out, 8, "\\x%02x", (unsigned char)text.p[0]);
    } else if (cp == '\b' || cp == '\t' || cp == '\n' || cp == '\f' || cp == '\r') {
        n = snprintf(out, 8, "\\%c", letters[cp - '\a']);
    } else if (cp < 0x20 || (cp >= 0x7F && cp < 0xA0) || cp == 0x2028 || cp == 0x2029) {
        n = snprintf(out, 8, "\\u%04x", (unsigned)(cp & 0xFFFF));
    }
    return n != 0 ? (struct str){out, (size_t)n} : (struct str){text.p, *len};
}

static void redact(struct buf *out, struct str text, bool lines)
{
    struct buf hidden = {.max = SIZE_MAX};
    hide(&hidden, text);
    for (struct str rest = buf_str(&hidden); rest.n != 0;) {
        char room[8];
        size_t len = 0; // bytes that need no escape
        while (len < rest.n &&
               ((rest.p[len] >= ' ' && rest.p[len] < 0x7F) || (lines && rest.p[len] == '\n'))) {
            len++;
        }
        buf_adds(out, len != 0 ? (struct str){rest.p, len} : escape(rest, room, &len));
        rest = str_from(rest, len);
    }
    buf_fini(&hidden);
}

void log_redact(struct buf *out, struct str line)
{
    redact(out, line, false);
}

void log_redact_lines(struct buf *out, struct str text)
{
    redact(out, text, true);
}

// ---- writing -------------------------------------------------------------------------------

void log_write(enum log_level level, enum log_component component, const char *fmt, ...)
{
    if ((int)level > state.level) {
        return;
    }
    int saved = errno;
    char *text, now[TIME_TEXT];
    va_list ap;
    va_start(ap, fmt);
    int n = vasprintf(&text, fmt, ap);
    va_end(ap);
    if (n < 0) {
        text = xstrdup("a line that cannot be formatted");
    }
    static const char mark[] = " [cut]";
    struct buf line = {.max = SIZE_MAX};
    buf_addf(&line, "%s %s %s ", time_format(time_wall_ms(), now), level_names[level],
             component_names[component]);
    log_redact(&line, str_of(text));
    if (line.n > LONGEST_LINE) {
        buf_cut(&line, utf8_cut(line.p, line.n, LONGEST_LINE - strlen(mark)));
        buf_addz(&line, mark);
    }
    pthread_mutex_lock(&state.lock);
    state.sink(state.arg, level, component, buf_str(&line));
    pthread_mutex_unlock(&state.lock);
    buf_fini(&line);
    free(text);
    errno = saved;
}

struct log_quoted log_quote(struct str value)
{
    struct log_quoted q;
    struct buf hidden = {.max = SIZE_MAX}, out = {.max = sizeof q.z - 1};
    hide(&hidden, value);
    struct str rest = buf_str(&hidden);
    bool quoted = rest.n == 0;
    for (size_t i = 0; i < rest.n && !quoted; i++) {
        unsigned char c = (unsigned char)rest.p[i];
        quoted = c <= ' ' || c >= 0x7F || c == '"' || c == '=' || c == '\\';
    }
    buf_addz(&out, quoted ? "\"" : "");
    while (rest.n != 0 && out.n < LONGEST_QUOTED) {
        char room[8];
        size_t len;
        struct str piece = escape(rest, room, &len);
        buf_addz(&out, piece.p[0] == '"' || (piece.p[0] == '\\' && piece.p == rest.p) ? "\\" : "");
        buf_adds(&out, piece);
        rest = str_from(rest, len);
    }
    buf_addz(&out, rest.n != 0 ? "..." : "");
    buf_addz(&out, quoted ? "\"" : "");
    assert(out.n < sizeof q.z);
    memcpy(q.z, buf_z(&out), out.n + 1);
    buf_fini(&hidden);
    buf_fini(&out);
    return q;
}
