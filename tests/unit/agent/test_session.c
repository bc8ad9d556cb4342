#include <errno.h>
#include <semaphore.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/agent_int.h"
#include "base/log.h"
#include "base/path.h"
#include "lib/fault.h"
#include "unit/agent/rig.h"

static char home[400], work[400];

static const char writes[] = "{\"text\":\"I write.\",\"tool_calls\":[{\"name\":\"write_file\","
                             "\"input\":{\"path\":\"made.txt\",\"content\":\"made\"}}]}\n"
                             "{\"text\":\"Done.\"}\n"
                             "{\"when\":\"again\",\"text\":\"Still here.\"}\n";

static void begin(struct rig *r)
{
    snprintf(home, sizeof home, "%s/home", test_dir());
    snprintf(work, sizeof work, "%s/work", test_dir());
    CHECK_INT(mkdir(home, 0700), 0);
    CHECK_INT(mkdir(work, 0700), 0);
    rig_open(r, home);
}

TEST(a_turn_with_a_tool_runs_and_is_there_after_a_restart)
{
    struct rig r;
    char id[32], path[500];
    begin(&r);
    CHECK(rig_new(&r, work, writes));
    snprintf(id, sizeof id, "%s", r.id);
    CHECK(rig_send(&r, id, "hello"));
    CHECK(strstr(buf_z(&r.text), "\"state\":\"completed\",\"text\":\"Done.\"") != NULL);
    snprintf(path, sizeof path, "%s/made.txt", work);
    CHECK_INT(access(path, F_OK), 0);
    rig_close(&r);
    rig_open(&r, home);
    CHECK(rig_resume(&r, id, work));
    CHECK(rig_send(&r, id, "again"));
    CHECK(strstr(buf_z(&r.text), "Still here.") != NULL);
    rig_close(&r);
}

static void set_policy(const char *text)
{
    char path[500];
    snprintf(path, sizeof path, "%s/system.toml", home);
    CHECK_INT(path_write_atomic(path, str_of(text), 0600, NULL), 0);
}

TEST(the_policy_of_the_machine_narrows_what_a_session_asks_for)
{
    struct rig r;
    char id[32];
    begin(&r);
    CHECK(rig_new(&r, work, writes));
    snprintf(id, sizeof id, "%s", r.id);
    struct session *s = rig_get(&r, id);
    static const char wide[] = "{\"sandbox\":\"danger-full-access\",\"network\":true,"
                               "\"permission\":\"auto\",\"writable\":[\"/usr\"]}";
    CHECK(rig_patch(&r, s, wide));
    CHECK_INT(s->sandbox, BOX_FULL_ACCESS);
    CHECK(s->network && s->writable.n == 1);
    rig_close(&r);
    set_policy("[policy.sandbox]\nmode = 'workspace-write'\nnetwork = false\nwritable = []\n"
               "[policy.session]\npermission = 'plan'\n");
    rig_open(&r, home);
    CHECK(rig_resume(&r, id, work));
    CHECK(rig_send(&r, id, "hello")); // the policy is newer than the session
    s = rig_get(&r, id);
    CHECK_INT(s->sandbox, BOX_WORKSPACE_WRITE);
    CHECK_INT(s->permission, PERMISSION_PLAN);
    CHECK(!s->network && s->writable.n == 0);
    CHECK(rig_patch(&r, s, wide));
    CHECK_INT(s->sandbox, BOX_WORKSPACE_WRITE);
    CHECK_INT(s->permission, PERMISSION_PLAN);
    CHECK(!s->network && s->writable.n == 0);
    CHECK(rig_patch(&r, s, "{\"sandbox\":\"read-only\",\"permission\":\"deny\"}"));
    CHECK_INT(s->sandbox, BOX_READ_ONLY); // less than the policy allows may be asked for
    CHECK_INT(s->permission, PERMISSION_DENY);
    rig_close(&r);
}

// ---- order --------------------------------------------------------------------------------------

/// The only call of the step under way; NULL: it has not come so far.
static const struct tool_call *call_of(const struct session *s)
{
    return s->turn != NULL && s->turn->site.calls.n == 1 ? s->turn->site.calls.p[0] : NULL;
}

static bool is_running(const void *arg)
{
    return ((const struct session *)arg)->turn != NULL;
}

static bool is_noted(const void *arg)
{
    const struct tool_call *u = call_of(arg);
    return u != NULL && u->noted && fault_syncs_held() != 0;
}

static bool is_allowed(const void *arg)
{
    return call_of(arg)->allowed;
}

static bool exists(const char *name)
{
    char path[500];
    snprintf(path, sizeof path, "%s/%s", work, name);
    return access(path, F_OK) == 0;
}

TEST(a_tool_does_not_begin_before_its_call_is_on_the_disk)
{
    struct rig r;
    begin(&r);
    CHECK(rig_new(&r, work, writes));
    struct session *s = rig_get(&r, r.id);
    rig_begin(&r, s, "hello");
    rig_until(&r, is_running, s); // the message is accepted
    fault_hold_syncs(true);
    rig_until(&r, is_noted, s);
    rig_until(&r, is_allowed, s);   // else the look at its file is still under way
    for (int i = 0; i < 200; i++) { // whatever could begin it has its chance
        loop_run_once(&r.loop, false);
    }
    CHECK(call_of(s)->allowed && !call_of(s)->synced);
    CHECK(call_of(s)->job == NULL && lane_load(r.agent->tools) == 0);
    CHECK(!exists("made.txt"));
    fault_hold_syncs(false);
    rig_wait(&r, &r.answered);
    CHECK(strstr(buf_z(&r.text), "Done.") != NULL && exists("made.txt"));
    rig_close(&r);
}

static bool is_held(const void *arg)
{
    (void)arg;
    return fault_syncs_held() != 0;
}

static bool is_over(const void *arg)
{
    const struct tool_call *u = call_of(arg);
    return u != NULL && u->over && fault_syncs_held() != 0;
}

static bool has_begun(const void *arg)
{
    const struct tool_call *u = call_of(arg);
    return u != NULL && u->synced;
}

TEST(the_model_is_not_told_of_a_result_before_it_is_on_the_disk)
{
    struct rig r;
    begin(&r);
    CHECK(rig_new(&r, work, writes));
    struct session *s = rig_get(&r, r.id);
    rig_begin(&r, s, "hello");
    rig_until(&r, has_begun, s);
    fault_hold_syncs(true);
    rig_until(&r, is_over, s);
    for (int i = 0; i < 200; i++) { // whatever could ask the model has its chance
        loop_run_once(&r.loop, false);
    }
    CHECK(exists("made.txt"));
    CHECK_INT(s->requests, 1);
    CHECK_INT(s->turn->step, TURN_TOOLS);
    fault_hold_syncs(false);
    rig_wait(&r, &r.answered);
    CHECK(strstr(buf_z(&r.text), "Done.") != NULL);
    CHECK_INT(s->requests, 2);
    rig_close(&r);
}

static void on_ended_first(void *arg, struct session *s, const struct agent_no *no)
{
    (void)s;
    CHECK(no == NULL);
    *(bool *)arg = true;
}

// What was said last is borrowed from the conversation, which goes with the session.
TEST(who_waits_for_a_turn_that_ends_with_its_session_hears_what_was_said)
{
    struct rig r;
    bool ended = false;
    begin(&r);
    r.permission = "ask";
    CHECK(rig_new(&r, work, writes));
    CHECK(rig_send(&r, r.id, "hello"));
    struct session *s = rig_get(&r, r.id);
    r.answered = false;
    agent_wait(s, "t1", rig_outcome, &r);
    agent_session_end(s, true, on_ended_first, &ended);
    rig_wait(&r, &r.answered);
    CHECK(strstr(buf_z(&r.text), "\"state\":\"interrupted\"") != NULL);
    CHECK(strstr(buf_z(&r.text), "\"text\":\"I write.\"") != NULL);
    rig_wait(&r, &ended);
    rig_close(&r);
}

static void on_feed(void *arg)
{
    *(bool *)arg = true;
}

TEST(a_full_disk_is_said_to_who_waits_and_who_reads_and_is_over_when_there_is_room)
{
    struct rig r;
    struct buf read;
    bool woken = false;
    begin(&r);
    CHECK(rig_new(&r, work, writes));
    struct session *s = rig_get(&r, r.id);
    rig_begin(&r, s, "hello");
    rig_until(&r, is_running, s);
    struct event_filter only = {.session = str_of(s->id),
                                .journal = true,
                                .shown = agent_session_shown(s),
                                .turn = STR("t1")};
    struct event_reader *f = event_reader_open(r.events, s->last_seq, &only, on_feed, &woken);
    fault_at(1, ENOSPC, true);
    rig_wait(&r, &r.answered);
    fault_off();
    CHECK(strstr(buf_z(&r.text), "\"state\":\"failed\"") != NULL);
    CHECK(strstr(buf_z(&r.text), "the disk is full: ") != NULL);
    buf_init(&read, SIZE_MAX);
    while (!event_reader_ended(f)) {
        rig_wait(&r, &woken);
        woken = false;
        for (struct str piece; (piece = event_reader_peek(f, 4096)).n != 0; event_reader_next(f)) {
            buf_adds(&read, piece);
        }
    }
    CHECK(strstr(buf_z(&read), "event: turn.failed\ndata: {") != NULL);
    CHECK(strstr(buf_z(&read), "the disk is full: ") != NULL);
    buf_fini(&read);
    event_reader_close(f);
    rig_begin(&r, s, "again");
    rig_wait(&r, &r.answered);
    CHECK(strstr(buf_z(&r.text), "\"state\":\"completed\"") != NULL);
    rig_close(&r);
}

struct watcher {
    struct event_reader *reader;
    char journal[600];
    unsigned seen;
};

/// Every event that can be read now is a line of the file already.
static void on_seen(void *arg)
{
    struct watcher *w = arg;
    for (struct str span; (span = event_reader_peek(w->reader, 4096)).n != 0;
         event_reader_next(w->reader)) {
        struct buf file;
        const char *at = span.p, *end = span.p + span.n;
        buf_init(&file, SIZE_MAX);
        CHECK_INT(path_read(w->journal, &file, NULL), 0);
        for (; (at = memmem(at, (size_t)(end - at), "id: ", 4)) != NULL; at += 4, w->seen++) {
            char line[64];
            snprintf(line, sizeof line, "{\"seq\":%llu,", strtoull(at + 4, NULL, 10));
            CHECK(strstr(buf_z(&file), line) != NULL);
        }
        buf_fini(&file);
    }
}

TEST(what_a_reader_sees_is_in_the_journal_before)
{
    struct rig r;
    struct watcher w = {0};
    begin(&r);
    CHECK(rig_new(&r, work, writes));
    struct session *s = rig_get(&r, r.id);
    snprintf(w.journal, sizeof w.journal, "%s/sessions/%s/events.jsonl", home, r.id);
    struct event_filter only = {
        .session = str_of(s->id), .journal = true, .shown = agent_session_shown(s)};
    w.reader = event_reader_open(r.events, s->last_seq, &only, on_seen, &w);
    CHECK(rig_send(&r, r.id, "hello"));
    CHECK(w.seen > 5);
    event_reader_close(w.reader);
    rig_close(&r);
}

TEST(an_interrupt_while_a_result_is_being_synced_ends_the_turn)
{
    struct rig r;
    begin(&r);
    CHECK(rig_new(&r, work, writes));
    struct session *s = rig_get(&r, r.id);
    rig_begin(&r, s, "hello");
    rig_until(&r, has_begun, s);
    fault_hold_syncs(true);
    rig_until(&r, is_over, s);
    agent_interrupt(s);
    for (int i = 0; i < 50; i++) {
        loop_run_once(&r.loop, false);
    }
    fault_hold_syncs(false);
    rig_wait(&r, &r.answered);
    CHECK(strstr(buf_z(&r.text), "\"state\":\"interrupted\"") != NULL);
    CHECK_INT(s->requests, 1);
    rig_close(&r);
}

static bool is_queued(const void *arg)
{
    return ((const struct session *)arg)->queue.n == 1;
}

TEST(an_interrupt_before_the_turn_begins_ends_it)
{
    struct rig r;
    begin(&r);
    CHECK(rig_new(&r, work, writes));
    struct session *s = rig_get(&r, r.id);
    fault_hold_syncs(true);
    rig_begin(&r, s, "hello");
    rig_until(&r, is_queued, s);
    CHECK(s->state == SESSION_RUNNING && s->turn == NULL);
    agent_interrupt(s);
    for (int i = 0; i < 50; i++) {
        loop_run_once(&r.loop, false);
    }
    fault_hold_syncs(false);
    rig_wait(&r, &r.answered);
    CHECK(strstr(buf_z(&r.text), "\"state\":\"interrupted\"") != NULL);
    CHECK_INT(s->requests, 0);
    CHECK(s->state == SESSION_IDLE);
    rig_close(&r);
}

static void on_decided(void *arg, const struct agent_no *no)
{
    CHECK(no == NULL);
    *(bool *)arg = true;
}

static bool is_accepted(const void *arg)
{
    const struct session *s = arg;
    return s->queue.n == 1 && s->queue.p[0].accepted;
}

static void on_ended(void *arg, struct session *s, const struct agent_no *no)
{
    (void)s;
    CHECK(no == NULL);
    *(bool *)arg = true;
}

TEST(a_decision_is_not_remembered_before_it_is_on_the_disk)
{
    struct rig r;
    struct agent_decision d = {.allow = true, .remember = PERMIT_TOOL, .reason = STR("")};
    bool decided = false;
    begin(&r);
    r.permission = "ask";
    CHECK(rig_new(&r, work, writes));
    CHECK(rig_send(&r, r.id, "hello"));
    CHECK(strstr(buf_z(&r.text), "\"state\":\"waiting\"") != NULL);
    struct session *s = rig_get(&r, r.id);
    fault_hold_syncs(true);
    agent_decide(s, STR("p1"), &d, on_decided, &decided);
    rig_until(&r, is_held, NULL);
    const struct rules *rules = book_rules(s->turn->site.rules);
    CHECK_INT(rules->n, 0);
    fault_hold_syncs(false);
    rig_wait(&r, &decided);
    CHECK_INT(rules->n, 1);
    CHECK_STR(rules->p[0].tool, "write_file");
    CHECK_STR(rules->p[0].session, r.id);
    rig_close(&r);
}

TEST(who_waits_for_a_dropped_message_is_told_when_the_journal_says_so)
{
    struct rig r;
    bool ended = false;
    begin(&r);
    r.permission = "ask";
    CHECK(rig_new(&r, work, writes));
    CHECK(rig_send(&r, r.id, "hello"));
    struct session *s = rig_get(&r, r.id);
    rig_begin(&r, s, "queued");
    rig_until(&r, is_accepted, s);
    fault_hold_syncs(true);
    agent_session_end(s, false, on_ended, &ended);
    rig_until(&r, is_held, NULL);
    CHECK(!r.answered);
    fault_hold_syncs(false);
    rig_wait(&r, &r.answered);
    CHECK(strstr(buf_z(&r.text), "\"state\":\"interrupted\"") != NULL);
    CHECK(strstr(buf_z(&r.text), "\"usage\":{") != NULL &&
          strstr(buf_z(&r.text), "\"tool_calls\":[]"));
    rig_wait(&r, &ended);
    rig_close(&r);
}

static void on_sent(void *arg, const struct agent_sent *sent, const struct agent_no *no)
{
    (void)no;
    CHECK(sent != NULL);
    *(bool *)arg = true;
}

static bool is_asking(const void *arg)
{
    const struct turn *t = ((const struct session *)arg)->turn;
    return t != NULL && t->step == TURN_MODEL;
}

static bool is_closing_held(const void *arg)
{
    const struct turn *t = ((const struct session *)arg)->turn;
    return t != NULL && t->step == TURN_CLOSE && fault_syncs_held() != 0;
}

static bool are_two_queued(const void *arg)
{
    return ((const struct session *)arg)->queue.n == 2;
}

TEST(no_queued_turn_begins_when_the_session_ends_while_another_message_is_written)
{
    struct rig r;
    bool ended = false, first = false, sent = false;
    begin(&r);
    CHECK(rig_new(&r, work, "{\"delay_ms\":600000}\n"));
    struct session *s = rig_get(&r, r.id);
    agent_send(s, &(struct agent_message){.text = STR("hello")}, on_sent, &first);
    rig_until(&r, is_asking, s);
    rig_begin(&r, s, "queued");
    rig_until(&r, is_accepted, s);
    fault_hold_syncs(true);
    agent_interrupt(s);
    rig_until(&r, is_closing_held, s); // the last event of the turn is on its way to the disk
    agent_send(s, &(struct agent_message){.text = STR("just sent")}, on_sent, &sent);
    rig_until(&r, are_two_queued, s);
    agent_session_end(s, false, on_ended, &ended);
    CHECK(s->queue.p[0].accepted && !s->queue.p[1].accepted);
    fault_hold_syncs(false);
    rig_wait(&r, &ended);
    CHECK(sent);
    CHECK_INT(s->requests, 1);
    rig_wait(&r, &r.answered);
    CHECK(strstr(buf_z(&r.text), "\"state\":\"interrupted\"") != NULL);
    rig_close(&r);
}

static void quiet(void *arg, enum log_level level, enum log_component c, struct str line)
{
    (void)arg;
    (void)level;
    (void)c;
    (void)line;
}

static bool is_settled(const void *arg)
{
    return ((const struct session *)arg)->notes.head == NULL;
}

TEST(a_call_that_was_lost_while_it_waited_for_permission_fails_and_the_turn_goes_on)
{
    struct rig r;
    begin(&r);
    log_open(LOG_ERROR, quiet, NULL);
    CHECK(rig_new(&r, work, writes));
    struct session *s = rig_get(&r, r.id);
    rig_begin(&r, s, "hello");
    rig_until(&r, is_running, s);
    fault_hold_syncs(true);
    rig_until(&r, is_noted, s);
    rig_until(&r, is_allowed, s); // else the look at its file is still under way
    struct tool_call *u = s->turn->site.calls.p[0];
    u->allowed = false; // a plugin still thinks about it
    fault_at(1, EIO, true);
    fault_hold_syncs(false);
    rig_until(&r, is_settled, s);
    fault_off();
    CHECK(!u->synced && !u->over);
    tool_call__resolve(u); // it has nothing against it
    rig_wait(&r, &r.answered);
    CHECK(strstr(buf_z(&r.text), "\"success\":false") != NULL && !exists("made.txt"));
    rig_close(&r);
}

// ---- where it works -----------------------------------------------------------------------------

TEST(a_directory_that_goes_is_left_unless_a_turn_runs)
{
    struct rig r;
    begin(&r);
    CHECK(rig_new(&r, work, writes));
    struct session *s = rig_get(&r, r.id);
    CHECK(s->real_dir != NULL);
    agent_vacate(r.agent, str_of(r.id));
    CHECK_INT(r.vacated, 1);
    CHECK(s->real_dir == NULL);
    rig_begin(&r, s, "go"); // finds it again
    agent_vacate(r.agent, str_of(r.id));
    CHECK_INT(r.vacated, 1);
    rig_wait(&r, &r.answered);
    CHECK(s->real_dir != NULL);
    agent_vacate(r.agent, STR("nobody"));
    CHECK_INT(r.vacated, 1);
    CHECK_INT(r.changed, 0);
    CHECK(rig_patch(&r, s, "{\"working_dir\":\"/\"}"));
    CHECK_INT(r.changed, 1);
    rig_close(&r);
}

TEST(the_directory_does_not_change_under_a_message_that_enters_it)
{
    struct rig r;
    char id[32];
    bool sent = false;
    begin(&r);
    CHECK(rig_new(&r, work, writes));
    snprintf(id, sizeof id, "%s", r.id);
    rig_close(&r);
    rig_open(&r, home);
    CHECK(rig_resume(&r, id, work));
    struct session *s = rig_get(&r, id);
    agent_send(s, &(struct agent_message){.text = STR("hello")}, on_sent,
               &sent); // its plugins are being looked for
    CHECK(!rig_patch(&r, s, "{\"working_dir\":\"/\"}"));
    CHECK_INT(r.problem, PROBLEM_TURN_RUNNING);
    rig_wait(&r, &sent);
    CHECK_STR(agent__session_place(s), work);
    rig_close(&r);
}

TEST(a_change_that_cannot_be_saved_leaves_a_turn_where_it_works)
{
    struct rig r;
    begin(&r);
    log_open(LOG_ERROR, quiet, NULL);
    r.permission = "ask";
    CHECK(rig_new(&r, work, writes));
    CHECK(rig_send(&r, r.id, "hello"));
    struct session *s = rig_get(&r, r.id);
    fault_at(1, EIO, true);
    CHECK(!rig_patch(&r, s, "{\"title\":\"new\"}"));
    fault_off();
    CHECK_INT(r.problem, PROBLEM_STORE_FAILED);
    CHECK(s->turn != NULL && s->title == NULL);
    CHECK(str_eqz(s->turn->ctx.working_dir, work)); // its hooks read that
    rig_close(&r);
}

// ---- made and ended -----------------------------------------------------------------------------

static void on_refused(void *arg, struct session *s, const struct agent_no *no)
{
    CHECK(s == NULL);
    *(struct agent_no *)arg = *no;
}

static bool has_detail(const void *arg)
{
    return ((const struct agent_no *)arg)->detail[0] != '\0';
}

TEST(who_names_an_unknown_plugin_for_a_new_session_is_told_what_lists_them)
{
    struct rig r;
    struct arena a = {0};
    struct json *params;
    struct agent_no no = {0};
    begin(&r);
    CHECK_INT(json_parse(&params, &a, STR("{\"plugins\":[\"nope\"]}"), NULL, NULL), 0);
    agent_session_new(r.agent, params, NULL, on_refused, &no);
    rig_until(&r, has_detail, &no);
    CHECK_STR(no.detail, "there is no plugin 'nope'");
    CHECK_STR(no.hint, "`afloat plugins` lists them");
    arena_fini(&a);
    rig_close(&r);
}

static void on_purged(void *arg, struct session *s, const struct agent_no *no)
{
    CHECK(s != NULL && no == NULL);
    *(bool *)arg = true;
}

static void on_ended_then_purge(void *arg, struct session *s, const struct agent_no *no)
{
    CHECK(s != NULL && no == NULL);
    agent_session_end(s, true, on_purged, arg);
}

TEST(a_session_that_is_purged_when_it_has_ended_answers_both_times)
{
    struct rig r;
    bool purged = false;
    begin(&r);
    CHECK(rig_new(&r, work, writes));
    agent_session_end(rig_get(&r, r.id), false, on_ended_then_purge, &purged);
    rig_wait(&r, &purged);
    CHECK(rig_get(&r, r.id) == NULL);
    rig_close(&r);
}

TEST(an_agent_that_has_stopped_begins_nothing)
{
    struct rig r;
    begin(&r);
    rig_stop(&r);
    CHECK(agent_has_stopped(r.agent));
    agent_learn_secrets(r.agent); // secrets.json may change while the last connections are open
    CHECK(!rig_new(&r, work, writes));
    CHECK_INT(r.problem, PROBLEM_STOPPING);
    rig_close(&r);
}

static void on_points(void *arg, const struct rewind_listed *list, size_t n,
                      const struct agent_no *no)
{
    CHECK(list == NULL && n == 0 && no != NULL);
    *(enum problem *)arg = no->problem;
}

static void on_back(void *arg, const struct rewind_result *result, const struct agent_no *no)
{
    CHECK(result == NULL && no != NULL);
    *(enum problem *)arg = no->problem;
}

TEST(a_session_that_is_being_purged_begins_no_rewind)
{
    struct rig r;
    bool purged = false;
    enum problem listed = PROBLEM__COUNT, back = PROBLEM__COUNT;
    begin(&r);
    CHECK(rig_new(&r, work, writes));
    CHECK(rig_send(&r, r.id, "hello"));
    struct session *s = rig_get(&r, r.id);
    agent_session_end(s, true, on_purged, &purged);
    CHECK(s->closing); // it waits for the store alone
    agent_checkpoints(s, on_points, &listed);
    agent_rewind(s, &(struct agent_rewind){.files = true}, on_back, &back);
    CHECK_INT(listed, PROBLEM_NOT_FOUND);
    CHECK_INT(back, PROBLEM_NOT_FOUND);
    rig_wait(&r, &purged);
    rig_close(&r);
}

static sem_t gate;

static void wait_at_gate(void *arg) // on the lane that takes messages in
{
    (void)arg;
    sem_wait(&gate);
}

static void ignore(void *arg)
{
    (void)arg;
}

static void on_pruned(void *arg, const struct agent_pruned *list, size_t n,
                      const struct agent_no *no)
{
    (void)list;
    CHECK(no == NULL);
    CHECK_INT(n, 0);
    *(bool *)arg = true;
}

TEST(a_session_that_gets_a_message_while_old_ones_are_deleted_stays)
{
    struct rig r;
    bool sent = false, pruned = false;
    begin(&r);
    CHECK(rig_new(&r, work, writes));
    CHECK_INT(sem_init(&gate, 0, 0), 0);
    work_submit(r.agent->requests, 0, wait_at_gate, ignore, NULL);
    agent_send(rig_get(&r, r.id), &(struct agent_message){.text = STR("hello")}, on_sent, &sent);
    agent_session_prune(r.agent, INT64_MAX, false, on_pruned, &pruned);
    rig_wait(&r, &pruned);
    sem_post(&gate);
    rig_wait(&r, &sent);
    CHECK(rig_get(&r, r.id) != NULL);
    rig_close(&r);
    sem_destroy(&gate);
}
