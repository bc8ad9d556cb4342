// What an editor and the hub send to `afloat acp`, line by line, with one session "s" open:
//
//     {...}            a line of the editor
//     <EVENT {...}     an event of the hub on the connection for tools (link.c)
//     !EVENT {...}     an event of the hub in the session's turn, or of its past where none runs
//
// No hub is there: the loop does not run before the end, so requests to it stay under way, and their streams can be fed.
// Checked: nothing is answered twice or kept, which the asserts of acp__end() and the leak check see.

#include <assert.h>
#include <fcntl.h>
#include <unistd.h>

#include "acp/acp_int.h"

static int no_hub(void *arg, struct err *e)
{
    (void)arg;
    return err_set(e, ERR_UNREACHABLE, "no hub");
}

/// `line` without its mark, as an event of a stream.
static void feed(struct sse_parser *p, struct str line)
{
    struct buf text = {.max = SIZE_MAX};
    struct str data = str_from(line, 1);
    struct str name = str_cut(&data, ' ');
    buf_addf(&text, "event: " STR_FMT "\ndata: " STR_FMT "\n\n", STR_ARG(name), STR_ARG(data));
    (void)!sse_feed(p, buf_str(&text), NULL);
    buf_fini(&text);
}

static void tell_past(struct acp_session *s, struct str line)
{
    struct arena a = {0};
    struct json *v;
    struct str data = str_from(line, 1);
    struct str name = str_cut(&data, ' ');
    if (json_parse(&v, &a, data, NULL, NULL) == 0) {
        acp__tell(s, name, v, true);
    }
    arena_fini(&a);
}

static void take_line(struct acp *a, struct str line)
{
    struct acp_session *s = acp__find(a, STR("s"));
    assert(s != NULL);
    if (str_starts(line, "<") && s->link != NULL) {
        feed(&s->link_sse, line);
    } else if (str_starts(line, "!") && s->stream != NULL) {
        feed(&s->sse, line);
    } else if (str_starts(line, "!")) {
        tell_past(s, line);
    } else if (!str_starts(line, "<")) {
        acp__take(a, line);
        acp__take(a, STR("\n"));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static char socket[] = "/proc/self/hub.sock"; // nobody can be there
    struct home home = {.socket = socket};
    struct acp_opts o = {.home = &home,
                         .version = "1",
                         .env = STR("{}"),
                         .in = -1,
                         .out = open("/dev/null", O_WRONLY | O_CLOEXEC),
                         .start = no_hub};
    struct acp a;
    if (o.out < 0 || acp__begin(&a, &o, NULL) < 0) {
        abort();
    }
    acp__session(&a, STR("s"), STR("/w"));
    for (struct str rest = {(const char *)data, n}; rest.n != 0 && !a.closed;) {
        take_line(&a, str_cut(&rest, '\n'));
    }
    acp__end(&a);
    assert(a.asks.n == 0);
    close(o.out);
    return 0;
}
