// Known secrets, hidden wherever they turn up.
//
//     a command prints $TOKEN ──> tool's output ──> journal, events, the next request to the model
//                                      └─ "[redacted TOKEN]" from here on
//
// A secret is looked for by its first two bytes: a bitmap over all pairs tells of almost every byte of a
// text that nothing begins there. Where something may, the secrets are compared; there are a handful.
// Secrets may overlap: a match moves the end of what is hidden, also from inside another.
//
// In JSON a secret looks different when it holds quotes, backslashes or control characters, and texts are
// often JSON themselves: what a tool answers, a file that a command shows. So each is known in three forms
// where they differ: as it is, as it is inside a string of JSON, and inside such a text that is a string
// of JSON again. In JSON only strings are looked at: a secret of digits must not take a number's place.
//
// A search shows a secret of several lines, such as a private key, line by line. So each line of it is a
// secret too, if it is long and without blanks, which ordinary text is not.
//
// A stream holds back exactly what may be the beginning of a secret: the longest end of the text that one
// begins with. So a line is not delayed because secrets exist.
//
// Invariants:
//   - `count` is 0 exactly while nothing is known; it is read without the lock, so that the usual case
//     costs nothing.
//   - only redact_clear() forgets a secret: one that got a new value may still be in use.

#include "base/redact.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>

#include "base/json.h"
#include "base/utf8.h"
#include "base/vec.h"

enum { SHORTEST = 8, SHORTEST_LINE = 16, NAME_MAX_BYTES = 64, KNOWN_MAX = 1024 };

enum form { IN_TEXT = 1, IN_JSON = 2 };

struct secret {
    char *p;
    size_t n;
    unsigned forms;
    char name[NAME_MAX_BYTES + 1];
};

static struct {
    pthread_rwlock_t lock;
    vec(struct secret) list;
    unsigned char pairs[65536 / 8]; // the first two bytes of each
    atomic_size_t count;
} known = {.lock = PTHREAD_RWLOCK_INITIALIZER};

// ---- knowing -------------------------------------------------------------------------------

static size_t pair_of(const char *p)
{
    return (size_t)(unsigned char)p[0] << 8 | (unsigned char)p[1];
}

static void add_form(struct str name, struct str value, unsigned forms)
{
    struct secret s = {.p = str_dup(value), .n = value.n, .forms = forms};
    size_t pair = pair_of(value.p);
    snprintf(s.name, sizeof s.name, "%s" STR_FMT, name.n != 0 ? " " : "",
             (int)utf8_cut(name.p, name.n, NAME_MAX_BYTES - 1), name.p);
    for (char *c = s.name; *c != '\0'; c++) { // it is written into strings of JSON as it is
        *c = (char)((unsigned char)*c < ' ' || *c == '"' || *c == '\\' ? '?' : *c);
    }
    vec_push(&known.list, s);
    known.pairs[pair / 8] |= (unsigned char)(1U << pair % 8);
}

/// Let `out` be `text` as it is inside the quotes of a JSON string.
static void escape(struct buf *out, struct str text)
{
    struct jw w = {.out = out};
    jw_str(&w, text);
    buf_drop(out, 1);
    out->n--;
}

/// Add a value that is not known yet, in all its forms; the caller has the lock.
static void add_forms(struct str name, struct str value)
{
    struct buf once = {.max = SIZE_MAX}, twice = {.max = SIZE_MAX};
    vec_foreach (s, &known.list) {
        if (str_eq((struct str){s->p, s->n}, value)) {
            return;
        }
    }
    escape(&once, value);
    escape(&twice, buf_str(&once));
    add_form(name, value, str_eq(buf_str(&once), value) ? IN_TEXT | IN_JSON : IN_TEXT);
    if (!str_eq(buf_str(&once), value)) {
        add_form(name, buf_str(&once), IN_TEXT | IN_JSON);
        add_form(name, buf_str(&twice), IN_JSON);
    }
    explicit_bzero(once.p, once.n);
    explicit_bzero(twice.p, twice.n);
    buf_fini(&once);
    buf_fini(&twice);
}

bool redact_add(struct str name, struct str value)
{
    if (value.n < SHORTEST) {
        return false;
    }
    pthread_rwlock_wrlock(&known.lock);
    if (known.list.n < KNOWN_MAX) {
        add_forms(name, value);
    }
    for (struct str rest = value; str_index(value, '\n') >= 0 && rest.n != 0;) {
        struct str line = str_trim(str_cut(&rest, '\n'));
        if (line.n >= SHORTEST_LINE && str_index(line, ' ') < 0 && known.list.n < KNOWN_MAX / 2) {
            add_forms(name, line); // the other half is for whole secrets
        }
    }
    atomic_store(&known.count, known.list.n);
    pthread_rwlock_unlock(&known.lock);
    return true;
}

void redact_clear(void)
{
    pthread_rwlock_wrlock(&known.lock);
    vec_foreach (s, &known.list) {
        explicit_bzero(s->p, s->n);
        free(s->p);
    }
    vec_fini(&known.list);
    memset(known.pairs, 0, sizeof known.pairs);
    atomic_store(&known.count, 0);
    pthread_rwlock_unlock(&known.lock);
}

// ---- looking -------------------------------------------------------------------------------

/// The longest secret that `text` begins with, or NULL.
static const struct secret *match(struct str text, enum form form)
{
    const struct secret *longest = NULL;
    if (text.n < SHORTEST || !(known.pairs[pair_of(text.p) / 8] >> pair_of(text.p) % 8 & 1)) {
        return NULL;
    }
    vec_foreach (s, &known.list) {
        if ((s->forms & form) != 0 && s->n <= text.n && (longest == NULL || s->n > longest->n) &&
            memcmp(s->p, text.p, s->n) == 0) {
            longest = s;
        }
    }
    return longest;
}

/// Part of a text that is hidden: one secret, or several that overlap.
struct region {
    const struct secret *first; // NULL: none is open
    size_t start, end;
};

/// Append the text between `*shown` and the region, then "[redacted NAME]" for the region.
static void close_region(struct buf *out, struct str text, size_t *shown, struct region *r)
{
    if (r->first != NULL) {
        assert(*shown <= r->start && r->end <= text.n);
        buf_add(out, text.p + *shown, r->start - *shown);
        buf_addf(out, "[redacted%s]", r->first->name);
        *shown = r->end;
        r->first = NULL;
    }
}

static void extend(struct region *r, const struct secret *s, size_t at)
{
    if (r->first == NULL) {
        *r = (struct region){s, at, at + s->n};
    }
    r->end = MAX(r->end, at + s->n);
}

/// Copy `text` up to `upto` without secrets; returns how far it came. A match that reaches beyond `upto`
/// is left for later, with all that it overlaps.
static size_t copy_text(struct buf *out, struct str text, size_t upto)
{
    struct region r = {0};
    size_t shown = 0;
    for (size_t i = 0; i < upto; i++) {
        const struct secret *s = match(str_from(text, i), IN_TEXT);
        if (s == NULL) {
            continue;
        }
        if (i >= r.end) {
            close_region(out, text, &shown, &r);
        }
        if (i + s->n > upto) {
            upto = r.first != NULL ? r.start : i;
            r.first = NULL;
        } else {
            extend(&r, s, i);
        }
    }
    close_region(out, text, &shown, &r);
    if (shown < upto) {
        buf_add(out, text.p + shown, upto - shown);
    }
    return MAX(shown, upto);
}

/// Where the longest end of `text` begins that some secret begins with, but is not all of.
static size_t open_end(struct str text)
{
    size_t start = text.n;
    vec_foreach (s, &known.list) {
        size_t i = text.n > s->n - 1 ? text.n - (s->n - 1) : 0;
        for (; (s->forms & IN_TEXT) != 0 && i < start; i++) {
            if (memcmp(text.p + i, s->p, text.n - i) == 0) {
                start = i;
            }
        }
    }
    return start;
}

void redact_text(struct buf *out, struct str text)
{
    if (atomic_load(&known.count) == 0) {
        buf_adds(out, text);
        return;
    }
    pthread_rwlock_rdlock(&known.lock);
    copy_text(out, text, text.n);
    pthread_rwlock_unlock(&known.lock);
}

void redact_member(struct jw *w, const char *key, struct str text)
{
    struct buf clean = {.max = SIZE_MAX};
    jw_key(w, key);
    if (text.p != NULL) {
        redact_text(&clean, text);
        jw_str(w, buf_str(&clean));
    } else {
        jw_null(w);
    }
    buf_fini(&clean);
}

bool redact_json_to(struct buf *out, struct str text)
{
    if (atomic_load(&known.count) == 0) {
        return false;
    }
    pthread_rwlock_rdlock(&known.lock);
    struct region r = {0};
    size_t shown = 0;
    bool inside = false;
    for (size_t i = 0; i < text.n; i++) {
        const struct secret *s = inside ? match(str_from(text, i), IN_JSON) : NULL;
        if (s != NULL && i >= r.end) {
            close_region(out, text, &shown, &r);
        }
        if (s != NULL) {
            extend(&r, s, i);
        }
        if (text.p[i] == '"') {
            inside = !inside;
        } else if (text.p[i] == '\\' && inside) { // no secret begins inside an escape
            i += i + 1 < text.n && text.p[i + 1] == 'u' ? 5 : 1;
        }
    }
    bool found = r.first != NULL || shown != 0;
    close_region(out, text, &shown, &r);
    if (found) {
        buf_adds(out, str_from(text, shown));
    }
    pthread_rwlock_unlock(&known.lock);
    return found;
}

void redact_json(struct buf *b)
{
    struct buf clean = {.max = b->max};
    if (redact_json_to(&clean, buf_str(b))) {
        buf_fini(b);
        *b = clean;
    } else {
        buf_fini(&clean);
    }
}

// ---- in pieces -----------------------------------------------------------------------------

void redact_stream_init(struct redact_stream *s)
{
    buf_init(&s->held, SIZE_MAX);
}

void redact_stream_fini(struct redact_stream *s)
{
    buf_fini(&s->held);
}

struct str redact_feed(struct redact_stream *s, struct buf *out, struct str piece)
{
    if (atomic_load(&known.count) == 0 && s->held.n == 0) {
        return piece;
    }
    buf_clear(out);
    buf_adds(&s->held, piece);
    struct str text = buf_str(&s->held);
    pthread_rwlock_rdlock(&known.lock);
    size_t done = copy_text(out, text, open_end(text));
    pthread_rwlock_unlock(&known.lock);
    buf_drop(&s->held, done);
    return buf_str(out);
}

void redact_flush(struct redact_stream *s, struct buf *out)
{
    redact_text(out, buf_str(&s->held));
    buf_fini(&s->held);
}
