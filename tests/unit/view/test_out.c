#include <errno.h>
#include <signal.h>
#include <unistd.h>

#include "client/interrupt.h"
#include "unit/test.h"
#include "view/out.h"

// What `o` wrote to stdout, which is a pipe until end().
struct written {
    int stdout_was, reader;
    char text[4096];
};

static void begin(struct written *w)
{
    int ends[2];
    CHECK_INT(pipe(ends), 0);
    w->reader = ends[0];
    w->stdout_was = dup(STDOUT_FILENO);
    CHECK(dup2(ends[1], STDOUT_FILENO) == STDOUT_FILENO);
    close(ends[1]);
}

static void end(struct written *w)
{
    CHECK(dup2(w->stdout_was, STDOUT_FILENO) == STDOUT_FILENO); // closes the last writer
    close(w->stdout_was);
    ssize_t n = read(w->reader, w->text, sizeof w->text - 1);
    w->text[n > 0 ? n : 0] = '\0';
    close(w->reader);
}

TEST(rows_whose_drawing_was_interrupted_are_taken_off_after_they_were_drawn)
{
    struct written w;
    struct out o;
    begin(&w);
    out_init(&o, OUT_NEVER, false);
    out_begin(&o);
    out_frame(&o, STR("old\n"), 0, 0);
    CHECK_INT(interrupt_raise(), -EINTR);
    out_frame(&o, STR("unwritten\n"), 0, 0); // waits for out_resume()
    CHECK_INT(interrupt_take(), SIGINT);
    out_resume(&o);
    out_add(&o, STR("said\n"));
    out_frame(&o, STR("new\n"), 0, 0);
    out_end(&o);
    end(&w);
    const char *drawn = strstr(w.text, "unwritten"), *said = strstr(w.text, "said");
    CHECK(drawn != NULL && said != NULL && drawn < said);
    CHECK(drawn != NULL && strstr(drawn, "\r\033[Ksaid") != NULL);
    out_fini(&o);
}
