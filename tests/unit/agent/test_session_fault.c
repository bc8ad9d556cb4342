#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/path.h"
#include "lib/fault.h"
#include "unit/agent/rig.h"

// Every wrapped call of a session's life fails once, one after the other, on a disk that recovers and on
// one that does not. Each time everybody is answered, once; what was said to have happened is there after
// a restart; a tool that ran was allowed to; and the session can be used when the disk is well again.

static char home[400], work[400];

static const char scenario[] = "{\"text\":\"I write.\",\"tool_calls\":[{\"name\":\"write_file\","
                               "\"input\":{\"path\":\"made.txt\",\"content\":\"made\"}}]}\n"
                               "{\"text\":\"Done.\"}\n"
                               "{\"text\":\"More.\"}\n"
                               "{\"text\":\"And more.\"}\n";

static void quiet(void *arg, enum log_level level, enum log_component c, struct str line)
{
    (void)arg;
    (void)level;
    (void)c;
    (void)line;
}

struct outcome {
    bool made, sent, completed, asked_to_end, ended;
    char id[32];
};

static bool completed(struct rig *r)
{
    return strstr(buf_z(&r->text), "\"state\":\"completed\"") != NULL;
}

static bool waiting(struct rig *r)
{
    return strstr(buf_z(&r->text), "\"state\":\"waiting\"") != NULL;
}

static bool exists(const char *name)
{
    char path[500];
    snprintf(path, sizeof path, "%s/%s", work, name);
    return access(path, F_OK) == 0;
}

// ---- what is there afterwards -------------------------------------------------------------------

/// The journal of the session as one text.
static char *journal(const char *id)
{
    char path[600];
    struct buf out;
    buf_init(&out, SIZE_MAX);
    snprintf(path, sizeof path, "%s/sessions/%s/events.jsonl", home, id);
    CHECK_INT(path_read(path, &out, NULL), 0);
    return buf_take(&out, NULL);
}

/// What a journal holds of the turn in `scenario` that completed.
static const char *const whole[] = {
    "\"type\":\"turn.started\"",   "\"role\":\"assistant\",\"text\":\"I write.\"",
    "\"type\":\"tool.completed\"", "\"role\":\"assistant\",\"text\":\"Done.\"",
    "\"type\":\"turn.completed\"",
};

static void check_journal(const struct outcome *o)
{
    char *text = journal(o->id);
    CHECK(!o->sent || strstr(text, "\"text\":\"hello\"") != NULL);
    CHECK(!exists("made.txt") || strstr(text, "\"type\":\"tool.called\"") != NULL);
    for (size_t i = 0; o->completed && i < ARRAY_LEN(whole); i++) {
        if (strstr(text, whole[i]) == NULL) {
            test_fail(__FILE__, __LINE__, "the turn completed without %s in\n%s", whole[i], text);
        }
    }
    free(text);
}

/// A hub on a disk that is well again: the session takes a message.
static void check_after(const struct outcome *o)
{
    struct rig r;
    rig_open(&r, home);
    if (o->made && rig_resume(&r, o->id, work)) {
        CHECK(rig_send(&r, o->id, "and now"));
        CHECK(completed(&r) || waiting(&r)); // what it begins with was not done the first time
    } else if (o->made) { // an end that was said to have failed may have happened
        CHECK(o->asked_to_end && r.problem == PROBLEM_SESSION_ENDED);
    }
    rig_close(&r);
    if (o->made) {
        check_journal(o);
    }
}

// ---- the lives ----------------------------------------------------------------------------------

static void live_first(struct rig *r, struct outcome *o)
{
    o->made = rig_new(r, work, NULL);
    snprintf(o->id, sizeof o->id, "%s", r->id);
    if (o->made) {
        o->sent = rig_send(r, o->id, "hello");
        if (o->sent && waiting(r)) {
            CHECK(rig_allow(r, o->id));
        }
        o->completed = o->sent && completed(r);
    }
}

static void live_again(struct rig *r, struct outcome *o)
{
    rig_resume(r, o->id, work);
    o->sent = rig_send(r, o->id, "hello");
    o->completed = o->sent && completed(r);
    o->asked_to_end = true;
    o->ended = rig_end(r, o->id, false);
}

static void prepare(void)
{
    char path[500];
    CHECK_INT(mkdir(home, 0700), 0);
    CHECK_INT(mkdir(work, 0700), 0);
    snprintf(path, sizeof path, "%s/scenario", work);
    CHECK_INT(path_write_atomic(path, str_of(scenario), 0600, NULL), 0);
}

/// Fail call n of a session that is made and runs a turn; how many were hit.
static unsigned long try_made(const char *permission, unsigned long n, int error, bool forever)
{
    struct rig r;
    struct outcome o = {0};
    prepare();
    rig_open(&r, home);
    r.permission = permission;
    fault_at(n, error, forever);
    live_first(&r, &o);
    unsigned long hits = fault_hits();
    fault_off();
    CHECK(hits != 0 || o.completed);
    CHECK(rig_list(&r));
    CHECK(forever || o.made || strstr(buf_z(&r.text), "\"sessions\":[]") != NULL);
    rig_close(&r);
    check_after(&o);
    return hits;
}

static unsigned long try_first(unsigned long n, int error, bool forever)
{
    return try_made("auto", n, error, forever);
}

static unsigned long try_asked(unsigned long n, int error, bool forever)
{
    return try_made("ask", n, error, forever);
}

static void remove_all(void)
{
    CHECK_INT(path_remove_tree(home, NULL), 0);
    CHECK_INT(path_remove_tree(work, NULL), 0);
}

static void run(const char *name, unsigned long (*attempt)(unsigned long, int, bool), int error,
                bool forever)
{
    unsigned points = 0;
    snprintf(home, sizeof home, "%s/home", test_dir());
    snprintf(work, sizeof work, "%s/work", test_dir());
    log_open(LOG_ERROR, quiet, NULL);
    for (unsigned long n = 1, hits = 1; hits != 0; n++) {
        hits = attempt(n, error, forever);
        points += hits != 0;
        remove_all();
    }
    fprintf(stderr, "%s: %u points failed\n", name, points);
    CHECK(points > 0);
}

TEST(one_failed_call_while_a_session_is_made_and_runs)
{
    run("first turn, EIO at call n", try_first, EIO, false);
}

TEST(a_full_disk_while_a_session_is_made_and_runs)
{
    run("first turn, ENOSPC from call n on", try_first, ENOSPC, true);
}

TEST(one_failed_call_while_a_person_is_asked)
{
    run("asked, EIO at call n", try_asked, EIO, false);
}

/// The same of a session that comes back from the disk, runs a turn and ends.
static unsigned long try_again(unsigned long n, int error, bool forever)
{
    struct rig r;
    struct outcome o = {0};
    prepare();
    rig_open(&r, home);
    CHECK(rig_new(&r, work, NULL));
    snprintf(o.id, sizeof o.id, "%s", r.id);
    CHECK(rig_send(&r, o.id, "first"));
    CHECK(completed(&r));
    rig_close(&r);
    rig_open(&r, home);
    fault_at(n, error, forever);
    live_again(&r, &o);
    unsigned long hits = fault_hits();
    fault_off();
    CHECK(hits != 0 || (o.completed && o.ended));
    rig_close(&r);
    o.made = true;
    check_after(&o);
    return hits;
}

TEST(one_failed_call_while_a_session_is_loaded_and_ends)
{
    run("loaded, EIO at call n", try_again, EIO, false);
}

TEST(a_full_disk_while_a_session_is_loaded_and_ends)
{
    run("loaded, ENOSPC from call n on", try_again, ENOSPC, true);
}
