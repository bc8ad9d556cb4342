// kill -9 at any point of a conversation, again and again: every call in flight ends with an error, the
// file is quarantined, and nothing is left behind. make soak does it more often.

#include <signal.h>
#include <unistd.h>

#include "plugin/host_proc.h"
#include "unit/plugin/rig.h"

enum { IN_FLIGHT = 6 };

static struct rig r;
static unsigned seed = 1;

static unsigned draw(unsigned below)
{
    seed = seed * 1103515245 + 12345;
    return (seed >> 16) % below;
}

static const struct json nothing = {.type = JSON_OBJ};

struct flight {
    struct gen_call call;
    struct gen *gen;
    int dones, status;
};

static void on_landed(struct gen_call *call, int status, const struct json *output,
                      const struct err *e)
{
    struct flight *f = call->arg;
    (void)output;
    CHECK((status < 0) == (e != NULL));
    f->dones++;
    f->status = status;
}

static void take_off(struct flight *f, const char *tool)
{
    f->gen = gen_pin(gen_current(r.engine));
    struct gen_item *it = gen_item_find(f->gen, GEN_TOOL, str_of(tool));
    CHECK(it != NULL);
    f->call =
        (struct gen_call){.input = &nothing, .timeout_ms = 30000, .done = on_landed, .arg = f};
    ((const struct gen_target *)gen_item_face(it))->call(gen_item_data(it), &f->call);
}

/// Half of the calls would be answered at once, half never.
static void converse_and_kill(void)
{
    struct flight flights[IN_FLIGHT] = {0};
    int pid = rig_pid(&r, "x");
    CHECK(pid != 0);
    for (int i = 0; i < IN_FLIGHT; i++) {
        take_off(&flights[i], i % 2 == 0 ? "quick" : "never");
    }
    for (unsigned turns = draw(12); turns > 0; turns--) {
        loop_run_once(&r.loop, false);
        usleep(draw(300)); // only moves the moment of the blow; nothing waits on it
    }
    kill(pid, SIGKILL);
    for (int i = 0; i < IN_FLIGHT; i++) {
        RIG_WAIT(&r, flights[i].dones == 1);
        CHECK(i % 2 == 0 || flights[i].status == UV_EPIPE);
        gen_unpin(flights[i].gen);
    }
    RIG_WAIT(&r,
             rig_unit(&r, "x") == NULL && rig_diag(&r, "x") != NULL && !gen_is_running(r.engine));
    CHECK_INT(rig_diag(&r, "x")->code, DIAG_HOST_CRASHED);
}

static void save_version(int i)
{
    char text[300];
    snprintf(text, sizeof text,
             "-- %d\n"
             "tool{name='quick', run=function() return 1 end}\n"
             "tool{name='never', run=function() timer.sleep(1000) end}",
             i);
    rig_save(&r, "x.lua", str_of(text));
}

TEST(a_host_killed_in_the_middle_of_a_conversation_leaves_nothing_open)
{
    int loops = test_loops(20);
    rig_begin(&r);
    for (int i = 0; i < loops; i++) {
        save_version(i);
        RIG_WAIT(&r, rig_unit(&r, "x") != NULL && !gen_is_running(r.engine));
        converse_and_kill();
    }
    rig_end(&r);
}

TEST(a_host_killed_while_it_loads_is_quarantined_and_the_old_one_serves)
{
    int victim = 0;
    rig_begin(&r);
    rig_save(&r, "x.lua", STR("tool{name='quick', run=function() return 1 end}"));
    rig_wait_revision(&r, "x", 1);
    int old = rig_pid(&r, "x"), old_supervisor = host_proc_pid(rig_host(&r, "x"));
    rig_save(&r, "x.lua", STR("while true do end"));
    RIG_WAIT(&r, (victim = rig_child(rig_child(getpid(), old_supervisor), 0)) != 0);
    kill(victim, SIGKILL);
    RIG_WAIT(&r, rig_diag(&r, "x") != NULL && !gen_is_running(r.engine));
    CHECK_INT(rig_diag(&r, "x")->code, DIAG_HOST_CRASHED);
    CHECK_INT(rig_pid(&r, "x"), old);
    CHECK_INT(rig_tool(&r, "quick", "{}", 10000, NULL), 0);
    rig_end(&r);
}
