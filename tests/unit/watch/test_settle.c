// The waits, to the millisecond, on a clock that moves by hand.

#include <fcntl.h>
#include <unistd.h>

#include "faults.h"
#include "help.h"

static struct rig r;

static void open_on(const char *name, const char *text)
{
    snprintf(r.dir, sizeof r.dir, "%s", test_dir());
    rig_write(&r, name, text);
    rig_open_by_hand(&r, NULL);
    rig_expect(&r, name, WATCH_CREATED, text);
}

TEST(a_closed_file_waits_for_the_quiet_time_and_no_longer)
{
    open_on("a.lua", "1");
    rig_write(&r, "a.lua", "2");
    rig_tick(&r, 4);
    rig_write(&r, "b.lua", "3"); // the burst goes on
    rig_tick(&r, 4);
    rig_expect_nothing_else(&r);
    rig_tick(&r, 1);
    rig_expect(&r, "a.lua", WATCH_CHANGED, "2");
    rig_expect(&r, "b.lua", WATCH_CREATED, "3");
    CHECK_INT(r.batches, 1);
    rig_close(&r);
}

TEST(a_burst_without_end_is_cut_after_100_ms)
{
    open_on("a.lua", "1");
    int fd = open(rig_path(&r, "busy.lua"), O_WRONLY | O_CREAT, 0644);
    rig_write(&r, "a.lua", "2");
    for (unsigned i = 0; i < 24; i++) { // 96 ms
        CHECK_INT(write(fd, "x", 1), 1);
        rig_tick(&r, 4);
    }
    rig_expect_nothing_else(&r);
    CHECK_INT(write(fd, "x", 1), 1);
    rig_tick(&r, 4);
    rig_expect(&r, "a.lua", WATCH_CHANGED, "2");
    rig_expect_nothing_else(&r);
    close(fd);
    rig_close(&r);
}

TEST(a_file_saved_every_4_ms_comes_every_100_ms)
{
    char text[20];
    open_on("a.lua", "x");
    for (unsigned i = 1; i <= 75; i++) { // 300 ms
        snprintf(text, sizeof text, "%u", i);
        rig_write(&r, "a.lua", text);
        rig_tick(&r, 4);
    }
    CHECK(r.batches >= 2 && r.batches <= 3);
    rig_close(&r);
}

TEST(a_deleted_name_has_50_ms_to_come_back)
{
    open_on("a.lua", "1");
    CHECK_INT(unlink(rig_path(&r, "a.lua")), 0);
    rig_tick(&r, 49);
    rig_write(&r, "a.lua", "2");
    rig_tick(&r, 5);
    rig_expect(&r, "a.lua", WATCH_CHANGED, "2");
    CHECK_INT(unlink(rig_path(&r, "a.lua")), 0);
    rig_tick(&r, 49);
    rig_expect_nothing_else(&r);
    rig_tick(&r, 1);
    rig_expect(&r, "a.lua", WATCH_DELETED, NULL);
    rig_close(&r);
}

TEST(an_emptied_file_has_50_ms_to_be_filled)
{
    open_on("a.lua", "1");
    rig_write(&r, "a.lua", ""); // and closed
    rig_tick(&r, 5);
    rig_tick(&r, 44);
    rig_expect_nothing_else(&r);
    rig_write(&r, "a.lua", "2");
    rig_tick(&r, 5);
    rig_expect(&r, "a.lua", WATCH_CHANGED, "2");
    rig_write(&r, "a.lua", "");
    rig_tick(&r, 5);
    rig_tick(&r, 50);
    rig_expect(&r, "a.lua", WATCH_CHANGED, "");
    rig_close(&r);
}

TEST(without_leases_a_file_in_pieces_is_held_by_its_events)
{
    open_on("a.lua", "1");
    watch_no_leases(true);
    int fd = open(rig_path(&r, "a.lua"), O_WRONLY | O_TRUNC);
    for (unsigned i = 0; i < 10; i++) {
        CHECK_INT(write(fd, "x", 1), 1);
        rig_tick(&r, 49);
        rig_expect_nothing_else(&r);
    }
    close(fd);
    rig_tick(&r, 5);
    rig_expect(&r, "a.lua", WATCH_CHANGED, "xxxxxxxxxx");
    rig_close(&r);
}

TEST(a_writer_that_stays_open_is_read_after_500_ms_of_rest)
{
    open_on("a.lua", "1");
    int fd = open(rig_path(&r, "a.lua"), O_WRONLY | O_APPEND);
    CHECK_INT(write(fd, "2", 1), 1);
    for (unsigned i = 0; i < 10; i++) { // first seen after 50 ms
        rig_tick(&r, 50);
        rig_expect_nothing_else(&r);
    }
    rig_tick(&r, 50);
    rig_expect(&r, "a.lua", WATCH_CHANGED, "12");
    close(fd);
    rig_tick(&r, 5);
    rig_expect_nothing_else(&r);
    rig_close(&r);
}

static void write_late(void)
{
    rig_write(&r, "d/late.lua", "late");
}

TEST(what_happens_between_reading_and_seating_a_directory_is_not_lost)
{
    snprintf(r.dir, sizeof r.dir, "%s", test_dir());
    rig_open_by_hand(&r, NULL);
    watch_after_read(write_late); // when d was read and the loop does not know its number yet
    rig_mkdir(&r, "d");
    rig_tick(&r, 0);
    rig_tick(&r, 50);
    rig_expect(&r, "d/late.lua", WATCH_CREATED, "late");
    rig_close(&r);
}
