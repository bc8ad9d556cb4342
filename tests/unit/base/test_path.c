#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/path.h"
#include "lib/fault.h"
#include "unit/test.h"

#define CHECK_FREE(call, want)                                                                     \
    do {                                                                                           \
        char *check_text = (call);                                                                 \
        CHECK_STR(check_text, want);                                                               \
        free(check_text);                                                                          \
    } while (0)

static const char *in_dir(const char *name)
{
    static char room[4][512];
    static unsigned next;
    char *out = room[next++ % ARRAY_LEN(room)];
    snprintf(out, sizeof room[0], "%s/%s", test_dir(), name);
    return out;
}

static void check_file(const char *path, const char *want)
{
    struct buf b;
    buf_init(&b, 1 << 20);
    CHECK_INT(path_read(path, &b, NULL), 0);
    CHECK_STR(buf_z(&b), want);
    buf_fini(&b);
}

static unsigned count_entries(const char *path)
{
    DIR *d = opendir(path);
    unsigned n = 0;
    CHECK(d != NULL);
    for (struct dirent *entry; (entry = readdir(d)) != NULL;) {
        n += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    }
    closedir(d);
    return n;
}

static mode_t mode_of(const char *path)
{
    struct stat st;
    CHECK_INT(stat(path, &st), 0);
    return st.st_mode & 07777;
}

TEST(a_path_below_a_directory_is_told_from_one_beside_it)
{
    static const char *const rows[][3] = {
        {"/p", "/p/a/b", "a/b"}, {"/p", "/p", ""},     {"/p", "/pa", NULL},
        {"/p/q", "/p", NULL},    {"/", "/a/b", "a/b"}, {"a", "a/b", "b"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        const char *below = path_below(rows[i][0], rows[i][1]);
        if (rows[i][2] == NULL) {
            CHECK(below == NULL);
        } else {
            CHECK_STR(below, rows[i][2]);
        }
    }
}

TEST(joining_puts_one_slash_between)
{
    CHECK_FREE(path_join("/a", "b"), "/a/b");
    CHECK_FREE(path_join("/a/", "b"), "/a/b");
    CHECK_FREE(path_join("/", "b"), "/b");
    CHECK_FREE(path_join("", "b"), "b");
    CHECK_FREE(path_join("/a", "/b"), "/b");
}

TEST(base_and_dir_take_a_path_apart)
{
    static const char *const rows[][3] = {
        {"/a/b", "b", "/a"}, {"/a/b//", "b", "/a"}, {"a//b", "b", "a"}, {"/a", "a", "/"},
        {"a", "a", "."},     {"/", "/", "/"},       {"//", "/", "/"},   {"", "", "."},
        {"a/", "a", "."},    {"//a", "a", "/"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        CHECK_SPAN(path_base(str_of(rows[i][0])), rows[i][1]);
        CHECK_SPAN(path_dir(str_of(rows[i][0])), rows[i][2]);
    }
}

TEST(only_a_lone_tilde_means_home)
{
    setenv("HOME", "/home/me", 1);
    CHECK_FREE(path_expand_home("~"), "/home/me");
    CHECK_FREE(path_expand_home("~/a/~"), "/home/me/a/~");
    CHECK_FREE(path_expand_home("~you/a"), "~you/a");
    CHECK_FREE(path_expand_home("/a/~"), "/a/~");
    unsetenv("HOME");
    char *home = path_expand_home("~/x");
    CHECK(home[0] == '/' || home[0] == '~');
    free(home);
}

TEST(the_home_directory_is_folded_only_as_a_whole)
{
    CHECK_FREE(path_fold_home("/home/me", "/home/me"), "~");
    CHECK_FREE(path_fold_home("/home/me/a", "/home/me"), "~/a");
    CHECK_FREE(path_fold_home("/home/meadow", "/home/me"), "/home/meadow");
    CHECK_FREE(path_fold_home("/srv/a", "/"), "/srv/a");
    CHECK_FREE(path_fold_home("/srv/a", NULL), "/srv/a");
}

TEST(cleaning_is_lexical)
{
    static const char *const rows[][2] = {
        {"", "."},           {".", "."},
        {"/", "/"},          {"/..", "/"},
        {"a/..", "."},       {"a/../..", ".."},
        {"../a", "../a"},    {"../../a/..", "../.."},
        {"//a//b/", "/a/b"}, {"/a/./b/../c", "/a/c"},
        {"/../../a", "/a"},  {"...", "..."},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        CHECK_FREE(path_clean(rows[i][0]), rows[i][1]);
    }
}

TEST(directories_are_made_with_their_mode_whatever_the_umask)
{
    umask(0777);
    CHECK_INT(path_mkdirs(in_dir("a//b/c/"), 0750, NULL), 0);
    umask(022);
    CHECK_INT(mode_of(in_dir("a")), 0750);
    CHECK_INT(mode_of(in_dir("a/b")), 0750);
    CHECK_INT(mode_of(in_dir("a/b/c")), 0750);
}

TEST(an_existing_directory_keeps_its_mode)
{
    CHECK_INT(mkdir(in_dir("a"), 0700), 0);
    CHECK_INT(path_mkdirs(in_dir("a"), 0755, NULL), 0);
    CHECK_INT(mode_of(in_dir("a")), 0700);
}

TEST(a_file_in_the_way_of_a_directory_is_an_error)
{
    struct err e;
    CHECK_INT(path_write_atomic(in_dir("f"), STR("x"), 0600, NULL), 0);
    CHECK_INT(path_mkdirs(in_dir("f"), 0700, &e), -ENOTDIR);
    CHECK(strstr(e.msg, "cannot create directory '") == e.msg);
    CHECK_INT(path_mkdirs(in_dir("f/g"), 0700, NULL), -ENOTDIR);
    CHECK_INT(path_mkdirs("", 0700, NULL), -ENOENT);
}

TEST(a_tree_deeper_than_a_path_is_deleted_and_its_links_are_not_followed)
{
    char name[201];
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    CHECK_INT(path_mkdirs(in_dir("tree"), 0700, NULL), 0);
    CHECK_INT(path_mkdirs(in_dir("beside"), 0700, NULL), 0);
    CHECK_INT(path_write_new(in_dir("beside/f"), STR("x"), 0600, NULL), 0);
    CHECK_INT(symlink(in_dir("beside"), in_dir("tree/link")), 0);
    CHECK_INT(chdir(in_dir("tree")), 0);
    for (int i = 0; i < 40; i++) { // twice PATH_MAX
        CHECK_INT(mkdir(name, 0700), 0);
        CHECK_INT(chdir(name), 0);
    }
    CHECK_INT(chdir("/"), 0);
    CHECK_INT(path_remove_tree(in_dir("tree"), NULL), 0);
    CHECK(!path_exists(in_dir("tree")) && path_exists(in_dir("beside/f")));
    CHECK_INT(path_remove_tree(in_dir("beside/f"), NULL), 0); // a file
    CHECK_INT(path_remove_tree(in_dir("beside/f"), NULL), 0); // nothing
    CHECK(!path_exists(in_dir("beside/f")));
}

TEST(a_file_that_cannot_be_deleted_says_why)
{
    struct err e;
    if (geteuid() == 0) {
        test_skip("root may delete everything");
    }
    CHECK_INT(path_mkdirs(in_dir("shut"), 0700, NULL), 0);
    CHECK_INT(path_write_new(in_dir("shut/f"), STR("x"), 0600, NULL), 0);
    CHECK_INT(chmod(in_dir("shut"), 0500), 0);
    CHECK_INT(path_remove_tree(in_dir("shut/f"), &e), -EACCES);
    CHECK(strstr(e.msg, "shut/f': Permission denied") != NULL);
    CHECK_INT(chmod(in_dir("shut"), 0700), 0);
}

TEST(a_file_that_may_not_be_deleted_is_not_called_no_directory)
{
    struct err e = {0};
    int flags = FS_IMMUTABLE_FL, none = 0;
    CHECK_INT(path_mkdirs(in_dir("kept"), 0700, NULL), 0);
    CHECK_INT(path_write_new(in_dir("kept/f"), STR("x"), 0600, NULL), 0);
    int fd = open(in_dir("kept/f"), O_RDONLY | O_CLOEXEC);
    if (ioctl(fd, FS_IOC_SETFLAGS, &flags) != 0) {
        close(fd);
        test_skip("only root, on some file systems, makes files immutable");
    }
    int rc = path_remove_tree(in_dir("kept"), &e);
    CHECK_INT(ioctl(fd, FS_IOC_SETFLAGS, &none), 0);
    close(fd);
    CHECK_INT(rc, -EPERM);
    CHECK(strstr(e.msg, "kept': Operation not permitted") != NULL);
}

TEST(a_file_is_read_up_to_the_maximum_and_not_beyond)
{
    struct buf b;
    CHECK_INT(path_write_atomic(in_dir("f"), STR("12345678"), 0600, NULL), 0);
    buf_init(&b, 10);
    buf_addz(&b, "ab");
    CHECK_INT(path_read(in_dir("f"), &b, NULL), 0);
    CHECK_STR(buf_z(&b), "ab12345678");
    buf_fini(&b);
    buf_init(&b, 9);
    buf_addz(&b, "ab");
    CHECK_INT(path_read(in_dir("f"), &b, NULL), ERR_TOO_LARGE);
    CHECK_STR(buf_z(&b), "ab");
    CHECK(buf_ok(&b));
    buf_fini(&b);
}

TEST(a_file_that_claims_to_be_empty_is_read_whole)
{
    struct buf b;
    buf_init(&b, 1 << 20);
    CHECK_INT(path_read("/proc/self/status", &b, NULL), 0);
    CHECK(b.n > 100);
    buf_fini(&b);
}

TEST(what_is_not_a_file_is_not_read)
{
    struct buf b;
    buf_init(&b, 100);
    CHECK_INT(mkfifo(in_dir("fifo"), 0600), 0);
    CHECK_INT(path_read(in_dir("fifo"), &b, NULL), ERR_UNSUPPORTED); // and does not hang
    CHECK_INT(path_read(test_dir(), &b, NULL), -EISDIR);
    CHECK_INT(path_read(in_dir("none"), &b, NULL), -ENOENT);
    CHECK_INT(b.n, 0);
    buf_fini(&b);
}

TEST(a_failing_read_leaves_the_buffer_as_it_was)
{
    struct buf b;
    unsigned long failed = 0;
    CHECK_INT(path_write_atomic(in_dir("f"), STR("new"), 0600, NULL), 0);
    buf_init(&b, 100);
    buf_addz(&b, "old");
    for (unsigned long n = 1;; n++) {
        fault_at(n, EIO, false);
        int rc = path_read(in_dir("f"), &b, NULL);
        fault_off();
        if (fault_hits() == 0) {
            CHECK_INT(rc, 0);
            break;
        }
        CHECK_INT(rc, -EIO);
        CHECK_STR(buf_z(&b), "old");
        failed++;
    }
    CHECK(failed >= 2); // the bytes, the end
    CHECK_STR(buf_z(&b), "oldnew");
    buf_fini(&b);
}

TEST(a_written_file_has_its_mode_and_no_company)
{
    umask(0777);
    CHECK_INT(path_write_atomic(in_dir("f"), STR("first"), 0640, NULL), 0);
    umask(022);
    CHECK_INT(mode_of(in_dir("f")), 0640);
    CHECK_INT(path_write_atomic(in_dir("f"), STR_NULL, 0600, NULL), 0);
    CHECK_INT(mode_of(in_dir("f")), 0600);
    check_file(in_dir("f"), "");
    CHECK_INT(count_entries(test_dir()), 1);
}

TEST(a_file_written_through_another_directory_has_one_name_where_it_goes)
{
    char events[4096];
    CHECK_INT(mkdir(in_dir("d"), 0700), 0);
    int fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    CHECK(inotify_add_watch(fd, in_dir("d"), IN_ALL_EVENTS & ~(IN_OPEN | IN_CLOSE_NOWRITE)) >= 0);
    CHECK_INT(path_write_through(test_dir(), in_dir("d/f"), STR("x"), 0600, NULL), 0);
    check_file(in_dir("d/f"), "x");
    CHECK_INT(count_entries(test_dir()), 1);
    ssize_t n = read(fd, events, sizeof events);
    const struct inotify_event *first = (const void *)events;
    CHECK(n > 0 && first->mask == IN_MOVED_TO && strcmp(first->name, "f") == 0);
    CHECK_INT(path_write_through(in_dir("none"), in_dir("d/f"), STR("y"), 0600, NULL), -ENOENT);
    check_file(in_dir("d/f"), "x");
    close(fd);
}

TEST(a_name_in_the_current_directory_can_be_written)
{
    CHECK_INT(chdir(test_dir()), 0);
    CHECK_INT(path_write_atomic("f", STR("x"), 0600, NULL), 0);
    check_file(in_dir("f"), "x");
}

TEST(what_cannot_be_written_says_so)
{
    struct err e;
    CHECK_INT(path_write_atomic(in_dir("none/f"), STR("x"), 0600, &e), -ENOENT);
    CHECK(strstr(e.msg, "cannot write '") == e.msg);
    CHECK_INT(mkdir(in_dir("d"), 0700), 0);
    CHECK_INT(path_write_atomic(in_dir("d"), STR("x"), 0600, NULL), -EISDIR);
    CHECK_INT(path_write_atomic(in_dir("d/"), STR("x"), 0600, NULL), -EISDIR);
    CHECK_INT(path_write_atomic("", STR("x"), 0600, NULL), -EISDIR);
    CHECK_INT(count_entries(test_dir()), 1);
    CHECK_INT(count_entries(in_dir("d")), 0);
}

TEST(a_symlink_is_replaced_not_written_through)
{
    struct stat st;
    CHECK_INT(path_write_atomic(in_dir("target"), STR("old"), 0600, NULL), 0);
    CHECK_INT(symlink("target", in_dir("link")), 0);
    CHECK_INT(path_write_atomic(in_dir("link"), STR("new"), 0600, NULL), 0);
    CHECK_INT(lstat(in_dir("link"), &st), 0);
    CHECK(S_ISREG(st.st_mode));
    check_file(in_dir("target"), "old");
}

TEST(a_new_file_is_never_put_in_place_of_another)
{
    struct err e;
    CHECK_INT(path_write_new(in_dir("f"), STR("first"), 0640, NULL), 0);
    CHECK_INT(mode_of(in_dir("f")), 0640);
    CHECK_INT(path_write_new(in_dir("f"), STR("second"), 0600, &e), ERR_CONFLICT);
    CHECK(strstr(e.msg, "exists already") != NULL);
    check_file(in_dir("f"), "first");
    CHECK_INT(symlink("nowhere", in_dir("link")), 0);
    CHECK_INT(path_write_new(in_dir("link"), STR("x"), 0600, NULL), ERR_CONFLICT);
    CHECK_INT(count_entries(test_dir()), 2);
}

TEST(a_new_file_is_whole_or_not_there)
{
    unsigned long failed = 0;
    for (unsigned long n = 1;; n++, failed++) {
        fault_at(n, ENOSPC, false);
        int rc = path_write_new(in_dir("f"), STR("new"), 0600, NULL);
        fault_off();
        if (fault_hits() == 0) {
            CHECK_INT(rc, 0);
            break;
        }
        CHECK_INT(rc, -ENOSPC);
        if (count_entries(test_dir()) != 0) { // the last sync: of the directory
            check_file(in_dir("f"), "new");
            CHECK_INT(unlink(in_dir("f")), 0);
        }
    }
    fprintf(stderr, "%lu points failed\n", failed);
    CHECK(failed >= 4);
}

// How many calls that can be made to fail a write takes. The last is the sync of the directory.
static unsigned long count_calls(void)
{
    fault_at(1000, EIO, false);
    CHECK_INT(path_write_atomic(in_dir("f"), STR("old content"), 0600, NULL), 0);
    fault_off();
    // write, fsync, renameat, fsync; before them two opens, unseen where they are open64()
    CHECK(fault_calls() == 4 || fault_calls() == 6);
    return fault_calls();
}

// Fail each call in turn; with `forever` everything behind it fails too, as on a full disk.
static unsigned long write_with_faults(bool forever)
{
    const char *path = in_dir("f");
    unsigned long last = count_calls();
    for (unsigned long n = 1; n <= last; n++) {
        CHECK_INT(path_write_atomic(path, STR("old content"), 0600, NULL), 0);
        fault_at(n, ENOSPC, forever);
        CHECK_INT(path_write_atomic(path, STR("new"), 0600, NULL), -ENOSPC);
        fault_off();
        CHECK(fault_hits() > 0);
        check_file(path, n < last ? "old content" : "new");
        CHECK_INT(count_entries(test_dir()), 1);
    }
    return last;
}

TEST(a_write_that_fails_anywhere_leaves_one_whole_file)
{
    unsigned long failed = write_with_faults(false) + write_with_faults(true);
    fprintf(stderr, "%lu points failed\n", failed);
    CHECK(failed > 0);
}

TEST(a_write_that_fails_leaves_nothing_where_nothing_was)
{
    unsigned long last = count_calls();
    for (unsigned long n = 1; n < last; n++) {
        unlink(in_dir("f"));
        fault_at(n, EIO, false);
        CHECK_INT(path_write_atomic(in_dir("f"), STR("new"), 0600, NULL), -EIO);
        fault_off();
        CHECK_INT(fault_hits(), 1);
        CHECK_INT(count_entries(test_dir()), 0);
    }
}

TEST(an_interrupted_write_goes_on)
{
    unsigned succeeded = 0;
    for (unsigned long n = 1, last = count_calls(); n <= last; n++) {
        fault_at(n, EINTR, false);
        succeeded += path_write_atomic(in_dir("f"), STR("new"), 0600, NULL) == 0;
        fault_off();
        CHECK_INT(fault_hits(), 1);
    }
    CHECK_INT(succeeded, 1); // that of write(); the others do not wait, and say so
    check_file(in_dir("f"), "new");
}

TEST(a_program_is_found_in_the_first_absolute_directory_that_has_it)
{
    struct err e;
    char dirs[600];
    CHECK_INT(path_write_atomic(in_dir("tool"), STR("#!"), 0700, &e), 0);
    CHECK_INT(path_write_atomic(in_dir("text"), STR("#!"), 0600, &e), 0);
    snprintf(dirs, sizeof dirs, ".::/nowhere:%s:/", test_dir());
    char *found = path_find_program(str_of(dirs), "tool");
    CHECK_STR(found, in_dir("tool"));
    free(found);
    CHECK(geteuid() == 0 || path_find_program(str_of(dirs), "text") == NULL);
    CHECK(path_find_program(STR(".::"), "tool") == NULL);
    CHECK(path_find_program(STR_NULL, "tool") == NULL);
}

TEST(a_directory_is_not_taken_for_a_program)
{
    CHECK_INT(path_mkdirs(in_dir("tool"), 0700, NULL), 0);
    CHECK_INT(path_mkdirs(in_dir("tools"), 0700, NULL), 0);
    CHECK_INT(path_write_atomic(in_dir("tools/tool"), STR("#!"), 0700, NULL), 0);
    CHECK(path_find_program(str_of(test_dir()), "tool") == NULL);
    char *dirs = xasprintf("%s:%s", test_dir(), in_dir("tools"));
    char *found = path_find_program(str_of(dirs), "tool");
    CHECK_STR(found, in_dir("tools/tool"));
    free(found);
    free(dirs);
}

TEST(a_small_file_is_read_into_a_small_buffer)
{
    struct buf out;
    struct err e = {0};
    char path[600];
    snprintf(path, sizeof path, "%s/small", test_dir());
    CHECK_INT(path_write_atomic(path, STR("a few words"), 0600, &e), 0);
    buf_init(&out, SIZE_MAX);
    CHECK_INT(path_read(path, &out, &e), 0);
    CHECK_STR(buf_z(&out), "a few words");
    CHECK(out.cap < 4096);
    buf_fini(&out);
}
