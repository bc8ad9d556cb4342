// Nothing that code does with the outside stops the loop.

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lua/fault.h"
#include "unit/bind/rig.h"

static struct timer heart;
static unsigned beats;

static void on_beat(void *arg)
{
    (void)arg;
    beats++;
    timer_start(&heart, 2);
}

static void wait_beats(unsigned n)
{
    unsigned until = beats + n;
    while (beats < until) {
        loop_run_once(&l, true);
    }
}

TEST(a_slow_program_a_slow_server_and_a_fifo_do_not_stop_the_loop)
{
    struct web w;
    rig_open();
    web_open(&w, web_silent);
    CHECK_INT(mkfifo(rig_path("fifo"), 0600), 0);
    timer_init(&heart, &l, on_beat, NULL);
    timer_start(&heart, 2);
    char *fifo = xstrdup(rig_path("fifo"));
    rig_load("a",
             rig_code("timer.after(0, function() say('exec', exec{cmd = 'cat', args = {'%s'}}"
                      ".stdout) end) timer.after(0, function() say('http', http.get('%s').body)"
                      " end) timer.after(0, function() say('fs', (fs.read('%s'))) end)"
                      "timer.after(0, function() say('os', os.execute('cat %s >/dev/null')) end)",
                      fifo, web_url(&w, "/"), fifo, fifo));
    rig_wait("fs nil");
    while (w.requests == 0) {
        loop_run_once(&l, true);
    }
    wait_beats(20); // the programs and the server keep silent, the heart beats
    CHECK_STR(buf_z(&rig.said), "fs nil\n");
    web_ok(w.last, "");
    rig_wait("http hello");
    int fd = open(fifo, O_WRONLY | O_NONBLOCK); // both programs read it
    while (fd < 0) {
        loop_run_once(&l, true);
        fd = open(fifo, O_WRONLY | O_NONBLOCK);
    }
    wait_beats(20);
    close(fd);
    while (strstr(buf_z(&rig.said), "exec ") == NULL || strstr(buf_z(&rig.said), "os ") == NULL) {
        loop_run_once(&l, true);
        fd = open(fifo, O_WRONLY | O_NONBLOCK); // for a program that opened it only now
        if (fd >= 0) {
            close(fd);
        }
    }
    rig_wait("exec ");
    rig_wait("os true exit 0");
    timer_stop(&heart);
    web_close(&w);
    free(fifo);
    rig_close();
}

TEST(a_loop_without_end_in_a_callback_is_a_diagnostic)
{
    static const char *const flags[] = {"limits.lua_ms=100", NULL};
    rig_open_with(flags, NULL);
    rig_load("a", "fs.read('/etc/passwd', function() say('read') while true do end end)"
                  "timer.after(0.05, function() say('alive') end)");
    rig_wait("read");
    rig_wait("alive");
    CHECK(rig_noted("a", DIAG_HOOK_TIMEOUT, ""));
    rig_close();
}

TEST(a_fault_is_one_event_however_often_it_happens)
{
    rig_open();
    rig_load("a", "n = 0 timer.every(0.001, function() n = n + 1 if n == 9 then say('end') end "
                  "error('oops') end)");
    rig_wait("end");
    const char *event = strstr(buf_z(&rig.stream), "plugin.error ");
    CHECK(event != NULL && strstr(event + 1, "plugin.error ") == NULL);
    CHECK(rig_noted("a", DIAG_HOOK_FAILED, "oops"));
    rig_close();
}

TEST(code_without_an_owner_can_register_nothing)
{
    rig_open();
    struct entry en = {0};
    entry_begin(&en, rig.vm);
    CHECK_INT(entry_push_chunk(&en, STR("timer.after(1, print)"), "@x"), 0);
    CHECK_INT(entry_run(&en, 0), ENTRY_FAILED);
    CHECK(strstr(en.fault->message, "cannot be called here: no module or plugin is running") !=
          NULL);
    entry_end(&en);
    rig_close();
}

TEST(requests_under_way_are_bounded)
{
    rig_open();
    rig_load("a",
             "say(select(2, pcall(function() for i = 1, 2000 do fs.exists('/', function() end) "
             "end end)))");
    CHECK(strstr(buf_z(&rig.said), "fs.exists: 1024 calls of this module are under way already"));
    rig_close();
}
