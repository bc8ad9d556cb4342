#include <sys/stat.h>
#include <unistd.h>

#include "unit/bind/rig.h"

#define DIR "local d = '%s/' "

static void run(const char *code)
{
    char *whole = xasprintf(DIR "%s", test_dir(), code);
    rig_run(whole);
    free(whole);
}

TEST(what_is_written_is_read_back)
{
    rig_open();
    run("say(fs.write(d..'sub/x', 'a\\0\\255b')) say(#fs.read(d..'sub/x'), fs.read(d..'sub/x') == "
        "'a\\0\\255b') say(fs.append(d..'sub/x', 'c')) say(#fs.read(d..'sub/x'))");
    CHECK_STR(buf_z(&rig.said), "true\n4 true\ntrue\n5\nend\n");
    rig_close();
}

TEST(a_callback_gets_what_a_waiting_handler_would)
{
    rig_open();
    rig_write("x", "text");
    rig_load("a", rig_code(DIR "say(fs.read(d..'x', function(...) say('x', ...) end)) "
                               "fs.read(d..'y', function(v, why) say('y', v, #why > 0) end)",
                           test_dir()));
    rig_wait("x text");
    rig_wait("y nil true");
    CHECK(rig_said("true"));
    rig_close();
}

TEST(every_function_of_fs_has_a_good_and_a_bad_case)
{
    rig_open();
    run("say(fs.mkdir(d..'m/n'), fs.mkdir('/proc/x'))"
        "say(fs.exists(d..'m'), fs.exists(d..'q'), fs.is_dir(d..'m'), fs.is_dir(d..'q'))"
        "fs.write(d..'m/b', '1') fs.write(d..'m/a', '22')"
        "say(table.concat(fs.list(d..'m'), ' ')) say((fs.list(d..'q')))"
        "local st = fs.stat(d..'m/a') say(st.type, st.size, st.mode, st.mtime > 1e9)"
        "say(fs.stat(d..'m').type, (fs.stat(d..'q')))"
        "say(fs.rename(d..'m/a', d..'m/c'), (fs.rename(d..'m/a', d..'m/c')))"
        "say(fs.copy(d..'m/c', d..'m/d'), fs.read(d..'m/d'), (fs.copy(d..'q', d..'m/e')))"
        "say(fs.remove(d..'m/d'), (fs.remove(d..'m/d')), (fs.remove(d..'m')))"
        "say((fs.write('/proc/x/y', ''))) say((fs.append(d..'q/r', '')))");
    CHECK(strstr(buf_z(&rig.said), "true nil cannot ") != NULL);
    CHECK(strstr(buf_z(&rig.said),
                 "true false true false\na b n\nnil\nfile 2 420 true\ndirectory nil\n"
                 "true nil\ntrue 22 nil\ntrue nil nil\nnil\nnil\nend\n") != NULL);
    rig_close();
}

TEST(wrong_arguments_are_named)
{
    rig_open();
    run("for _, f in ipairs{ function() fs.read({}) end, function() fs.write(d..'x') end,"
        "function() fs.read('/a\\0b') end, function() fs.read(d, 7) end,"
        "function() fs.rename(d) end } do say(select(2, pcall(f))) end say(fs.read('x'))");
    CHECK(strstr(buf_z(&rig.said), "fs.read: path must be a string, not table") != NULL);
    CHECK(strstr(buf_z(&rig.said), "fs.write: the text must be a string, not nil") != NULL);
    CHECK(strstr(buf_z(&rig.said), "fs.read: path must not hold a NUL byte") != NULL);
    CHECK(strstr(buf_z(&rig.said), "fs.read: the handler must be a function, not number") != NULL);
    CHECK(strstr(buf_z(&rig.said), "fs.rename: the second path must be a string, not nil") != NULL);
    CHECK(strstr(buf_z(&rig.said), "nil fs.read: 'x' is not an absolute path") != NULL);
    rig_close();
}

TEST(a_file_that_loads_reads_small_files_at_once_and_cannot_write)
{
    rig_open();
    rig_write("x", "text");
    rig_load("a", rig_code(DIR "say(fs.read(d..'x'), fs.exists(d..'x'), fs.is_dir(d), "
                               "fs.stat(d..'x').size, fs.list(d)[1])",
                           test_dir()));
    CHECK(rig_said("text true true 4 home"));
    CHECK(strstr(rig_fault("a", rig_code(DIR "fs.write(d..'y', '')", test_dir())),
                 "cannot wait here") != NULL);
    CHECK(access(rig_path("y"), F_OK) != 0);
    CHECK_INT(truncate(rig_path("x"), 1024 * 1024 + 1), 0);
    rig_load("b", rig_code(DIR "say((fs.read(d..'x')))", test_dir()));
    CHECK(rig_said("nil"));
    rig_close();
}

TEST(writing_through_a_link_keeps_the_link_and_the_mode)
{
    struct stat st;
    rig_open();
    rig_write("real", "old");
    CHECK_INT(chmod(rig_path("real"), 0600), 0);
    CHECK_INT(symlink("real", rig_path("link")), 0);
    run("say(fs.write(d..'link', 'new'), fs.read(d..'real'))");
    CHECK(rig_said("true new"));
    CHECK_INT(lstat(rig_path("link"), &st), 0);
    CHECK(S_ISLNK(st.st_mode));
    CHECK_INT(stat(rig_path("real"), &st), 0);
    CHECK_INT(st.st_mode & 07777, 0600);
    rig_close();
}
