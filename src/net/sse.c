// Server-sent events: frames out, frames in.
//
// A line ends with CR LF, LF or CR, and a CR may be the last byte that has arrived; so a CR ends its
// line at once and a LF right after it is dropped, in this call or the next. Fields other than
// data, event, id and retry are ignored, and so are comments. An id with a NUL is ignored.
//
// Invariant: what is delivered does not depend on how the bytes were split into calls.

#include "net/sse.h"

#include <assert.h>

static bool has_break(struct str s)
{
    return str_index(s, '\n') >= 0 || str_index(s, '\r') >= 0;
}

static void write_field(struct buf *out, const char *name, struct str value)
{
    buf_addz(out, name);
    buf_adds(out, value);
    buf_addc(out, '\n');
}

static int take_line(struct sse_parser *p, struct str line, struct err *e)
{
    if (line.n == 0) { // the event is complete
        struct sse_event ev = {.event = p->event.n != 0 ? buf_str(&p->event) : STR("message"),
                               .data = buf_str(&p->data),
                               .id = buf_str(&p->id)};
        int rc = p->has_data ? p->cb(p->arg, &ev) : 0;
        buf_clear(&p->event);
        buf_clear(&p->data);
        p->has_data = false;
        return rc;
    }
    struct str name = str_cut(&line, ':'); // empty for a comment
    struct str value = line.n != 0 && line.p[0] == ' ' ? str_from(line, 1) : line;
    uint64_t ms;
    if (str_eqz(name, "data")) {
        buf_adds(&p->data, p->has_data ? STR("\n") : STR_NULL);
        buf_adds(&p->data, value);
        p->has_data = true;
    } else if (str_eqz(name, "event")) {
        buf_clear(&p->event);
        buf_adds(&p->event, value);
    } else if (str_eqz(name, "id") && str_index(value, '\0') < 0) {
        buf_clear(&p->id);
        buf_adds(&p->id, value);
    } else if (str_eqz(name, "retry") && str_to_u64(value, &ms)) {
        p->retry_ms = ms;
    }
    if (!buf_ok(&p->data) || !buf_ok(&p->event) || !buf_ok(&p->id)) {
        return err_set(e, ERR_TOO_LARGE, "an event is larger than %zu bytes", p->data.max);
    }
    return 0;
}

// The stream may begin with one byte order mark, which may arrive in pieces.
static void skip_bom(struct sse_parser *p, struct str *bytes)
{
    static const char mark[3] = "\xEF\xBB\xBF";
    while (p->bom < 3 && bytes->n != 0) {
        if (bytes->p[0] != mark[p->bom]) {
            buf_add(&p->line, mark, p->bom); // it was text after all
            p->bom = 3;
            return;
        }
        p->bom++;
        *bytes = str_from(*bytes, 1);
    }
}

static int end_line(struct sse_parser *p, struct str rest, struct err *e)
{
    if (p->line.n + rest.n > p->line.max) {
        return err_set(e, ERR_TOO_LARGE, "a line is longer than %zu bytes", p->line.max);
    }
    if (p->line.n == 0) {
        return take_line(p, rest, e);
    }
    buf_adds(&p->line, rest);
    int rc = take_line(p, buf_str(&p->line), e);
    buf_clear(&p->line);
    return rc;
}

static size_t line_length(struct str s)
{
    size_t n = 0;
    while (n < s.n && s.p[n] != '\n' && s.p[n] != '\r') {
        n++;
    }
    return n;
}

void sse_write(struct buf *out, struct str id, struct str event, struct str data)
{
    assert(!has_break(id) && !has_break(event));
    if (id.n != 0) {
        write_field(out, "id: ", id);
    }
    if (event.n != 0) {
        write_field(out, "event: ", event);
    }
    while (has_break(data)) {
        size_t n = line_length(data);
        write_field(out, "data: ", (struct str){data.p, n});
        bool pair = data.p[n] == '\r' && n + 1 < data.n && data.p[n + 1] == '\n';
        data = str_from(data, n + (pair ? 2 : 1));
    }
    write_field(out, "data: ", data);
    buf_addc(out, '\n');
}

void sse_write_comment(struct buf *out, const char *text)
{
    assert(!has_break(str_of(text)));
    write_field(out, ": ", str_of(text));
    buf_addc(out, '\n');
}

void sse_init(struct sse_parser *p, size_t max, sse_cb *cb, void *arg)
{
    *p = (struct sse_parser){.cb = cb, .arg = arg};
    buf_init(&p->line, max);
    buf_init(&p->event, max);
    buf_init(&p->data, max);
    buf_init(&p->id, max);
}

void sse_fini(struct sse_parser *p)
{
    buf_fini(&p->line);
    buf_fini(&p->event);
    buf_fini(&p->data);
    buf_fini(&p->id);
}

int sse_feed(struct sse_parser *p, struct str bytes, struct err *e)
{
    skip_bom(p, &bytes);
    while (bytes.n != 0) {
        if (p->after_cr && bytes.p[0] == '\n') {
            p->after_cr = false;
            bytes = str_from(bytes, 1);
            continue;
        }
        p->after_cr = false;
        size_t n = line_length(bytes);
        if (n == bytes.n) {
            buf_adds(&p->line, bytes);
            break;
        }
        p->after_cr = bytes.p[n] == '\r';
        int rc = end_line(p, (struct str){bytes.p, n}, e);
        if (rc != 0) {
            return rc;
        }
        bytes = str_from(bytes, n + 1);
    }
    if (!buf_ok(&p->line)) {
        return err_set(e, ERR_TOO_LARGE, "a line is longer than %zu bytes", p->line.max);
    }
    return 0;
}
