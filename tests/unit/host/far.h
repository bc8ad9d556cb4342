#pragma once

// The far end without a process: a test plays the hub, line by line. There is no Landlock and no
// filter here, so what holds does so by itself.

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/host_int.h"
#include "unit/test.h"

static struct far far;

/// A far end for DIR/x.lua, where DIR is `test_dir()/improvements`.
static inline void far_begin(void)
{
    char dir[300], path[320];
    snprintf(dir, sizeof dir, "%s/improvements", test_dir());
    mkdir(dir, 0700);
    snprintf(path, sizeof path, "%s/x.lua", dir);
    int root = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    CHECK(root >= 0);
    far__init(&far, path, root, -1);
}

static inline void far_end(void)
{
    close(far.root);
    far__fini(&far);
}

/// All that it said since the last time, as text. Valid until the next.
static inline const char *far_heard(void)
{
    static char text[256 * 1024];
    snprintf(text, sizeof text, "%s", buf_z(&far.out));
    buf_clear(&far.out);
    return text;
}

/// Wait until something is due, run it and return what was said.
static inline const char *far_turn(void)
{
    poll(NULL, 0, far__next_ms(&far));
    far__fire_due(&far);
    return far_heard();
}

/// Say one line and return the answer.
static inline const char *far_say(const char *line)
{
    far__line(&far, str_of(line));
    return far_heard();
}

/// Load this source.
static inline const char *far_load(const char *source)
{
    struct buf line;
    struct jw w;
    buf_init(&line, SIZE_MAX);
    jw_init(&w, &line);
    jw_obj(&w);
    jw_kstrz(&w, "type", "load");
    jw_kstrz(&w, "data_dir", "/home");
    jw_key(&w, "config");
    jw_raw(&w, STR("{\"model.name\":\"m1\",\"a.b\":7,\"list\":[]}"));
    jw_kstrz(&w, "unheard_of", "is ignored");
    jw_kstrz(&w, "source", source);
    jw_end_obj(&w);
    far__line(&far, buf_str(&line));
    buf_fini(&line);
    return far_heard();
}

#define CHECK_SAYS(text, part)                                                                     \
    do {                                                                                           \
        const char *check_text = (text);                                                           \
        if (strstr(check_text, part) == NULL) {                                                    \
            test_fail(__FILE__, __LINE__, "\"%s\" does not hold \"%s\"", check_text, part);        \
        }                                                                                          \
    } while (0)
