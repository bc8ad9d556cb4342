// One line of a journal: an event and its checksum.
//
//     {"seq":7,"ts":"2026-11-15T05:01:12.345Z","type":"tool.called",...,"crc":"8d3ab2f0"}
//     └──────────────────────── what the checksum covers ──────────────┘
//
// The checksum is the last member, so that a line is a whole JSON object for every other program, and
// has a fixed length, so that it is found without reading the line. When a disk flips a bit, the line is
// not taken for an event any more. Without a checksum a flipped letter inside a text would stay valid JSON,
// and would pass for what the model wrote.
//
// Lines of older versions have no checksum and are read as JSON, as are lines that another program
// wrote. A flipped bit must not turn a line with a checksum into one of those: what nearly looks like a
// checksum is a damaged one.
//
// A line whose checksum is right is as we wrote it, so it is not parsed again: its head is enough.

#include <ctype.h>

#include "base/json.h"
#include "base/time.h"
#include "store/crc32c.h"
#include "store/journal.h"

#define SEAL_HEAD ",\"crc\":\""
#define SEAL_TAIL "\"}"
enum {
    HEX = 8,
    HEAD = sizeof SEAL_HEAD - 1,
    TAIL = sizeof SEAL_TAIL - 1,
    SEAL = HEAD + HEX + TAIL
};

enum seal { SEAL_NONE, SEAL_GOOD, SEAL_BAD };

static unsigned differing(const char *a, const char *b, size_t n)
{
    unsigned differ = 0;
    for (size_t i = 0; i < n; i++) {
        differ += a[i] != b[i];
    }
    return differ;
}

static bool is_hex(const char *p)
{
    for (size_t i = 0; i < HEX; i++) {
        if (!isxdigit((unsigned char)p[i])) {
            return false;
        }
    }
    return true;
}

static void write_seal(char out[SEAL + 1], struct str covered)
{
    snprintf(out, SEAL + 1, SEAL_HEAD "%08x" SEAL_TAIL, crc32c(covered));
}

static enum seal seal_of(struct str line)
{
    char want[SEAL + 1];
    if (line.n < SEAL) {
        return SEAL_NONE;
    }
    const char *has = line.p + line.n - SEAL;
    unsigned differ = differing(has, SEAL_HEAD, HEAD) +
                      differing(has + HEAD + HEX, SEAL_TAIL, TAIL) + !is_hex(has + HEAD);
    if (differ > 1) {
        return SEAL_NONE;
    }
    write_seal(want, (struct str){line.p, line.n - SEAL});
    return memcmp(has, want, SEAL) == 0 ? SEAL_GOOD : SEAL_BAD;
}

/// The head of a line as journal_encode() writes it.
static bool read_head(struct journal_line *l)
{
    static const char key[] = "{\"seq\":";
    struct str rest = l->text;
    uint64_t seq = 0;
    if (!str_starts(rest, key)) {
        return false;
    }
    rest = str_from(rest, sizeof key - 1);
    for (; rest.n != 0 && isdigit((unsigned char)rest.p[0]); rest = str_from(rest, 1)) {
        seq = seq * 10 + (uint64_t)(rest.p[0] - '0');
    }
    l->seq = seq;
    if (seq == 0 || !str_starts(rest, ",\"ts\":\"")) {
        return false;
    }
    rest = str_from(rest, sizeof ",\"ts\":\"" - 1);
    return time_parse(str_cut(&rest, '"'), &l->ts);
}

static bool parse(struct journal_line *l, char why[JOURNAL_WHY])
{
    struct arena a = {0};
    struct json *v;
    struct err e;
    int64_t seq = 0;

    if (json_parse(&v, &a, l->text, NULL, &e) < 0) {
        snprintf(why, JOURNAL_WHY, "%.150s", e.msg);
    } else if (v->type != JSON_OBJ || json_str(json_get(v, "type"), NULL).n == 0) {
        snprintf(why, JOURNAL_WHY, "not an event");
    } else if ((seq = json_int(json_get(v, "seq"), 0)) <= 0) {
        snprintf(why, JOURNAL_WHY, "no 'seq'");
        seq = 0;
    } else if (!time_parse(json_str(json_get(v, "ts"), NULL), &l->ts)) {
        l->ts = 0;
    }
    arena_fini(&a);
    l->seq = (uint64_t)seq;
    return seq != 0;
}

bool journal_line_read(struct journal_line *l, char why[JOURNAL_WHY])
{
    enum seal seal = seal_of(l->text);
    l->seq = 0;
    l->ts = 0;
    if (seal == SEAL_BAD) {
        snprintf(why, JOURNAL_WHY, "its checksum is wrong");
        return false;
    }
    return (seal == SEAL_GOOD && read_head(l)) || parse(l, why);
}

void journal_line_show(struct buf *out, struct str line)
{
    bool sealed = seal_of(line) == SEAL_GOOD;
    buf_adds(out, (struct str){line.p, sealed ? line.n - SEAL : line.n});
    buf_addz(out, sealed ? "}\n" : "\n");
}

// ---- writing ------------------------------------------------------------------------------

/// The event without the brace at its end.
static void add_members(struct buf *out, uint64_t seq, int64_t ts, const struct store_event *ev)
{
    char time[TIME_TEXT];
    buf_addf(out, "{\"seq\":%llu,\"ts\":\"%s\",\"type\":", (unsigned long long)seq,
             time_format(ts, time));
    struct jw w = {.out = out};
    jw_str(&w, ev->type);
    if (ev->fields.n != 0) {
        buf_addc(out, ',');
        buf_adds(out, ev->fields);
    }
}

void journal_line_make(struct buf *out, uint64_t seq, int64_t ts, const struct store_event *ev)
{
    add_members(out, seq, ts, ev);
    buf_addz(out, "}\n");
}

static int check(struct str line, struct err *e)
{
    struct arena a = {0};
    struct json *v;
    if (line.n != 0 && memchr(line.p, '\n', line.n) != NULL) {
        return err_set(e, ERR_INVALID, "event has a line break");
    }
    int rc = json_parse(&v, &a, line, NULL, e);
    arena_fini(&a);
    return rc < 0 ? err_prefix(e, "event is not JSON") : 0;
}

int journal_encode(struct buf *out, uint64_t seq, int64_t ts, const struct store_event *ev,
                   struct err *e)
{
    char seal[SEAL + 1];
    size_t from = out->n;

    if (ev->type.n == 0 || ev->type.n > 256 || ev->fields.n >= STORE_LINE_MAX) {
        return err_set(e, ev->fields.n >= STORE_LINE_MAX ? ERR_TOO_LARGE : ERR_INVALID,
                       "event needs a type of 1-256 bytes and fields below %d", STORE_LINE_MAX);
    }
    add_members(out, seq, ts, ev);
    write_seal(seal, str_from(buf_str(out), from));
    buf_add(out, seal, SEAL);
    int rc = !buf_ok(out) || out->n - from >= STORE_LINE_MAX
                 ? err_set(e, ERR_TOO_LARGE, "event is above %d bytes", STORE_LINE_MAX)
                 : check(str_from(buf_str(out), from), e);
    if (rc < 0) {
        buf_cut(out, from);
    } else {
        buf_addc(out, '\n');
    }
    return rc;
}
