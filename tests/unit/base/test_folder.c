#include <sys/stat.h>

#include "base/folder.h"
#include "base/path.h"
#include "base/random.h"
#include "unit/test.h"

TEST(a_folder_has_every_name_once_but_no_dots)
{
    char *dir = path_join(test_dir(), "d"), *sub = path_join(dir, "sub");
    char *hidden = path_join(dir, ".hidden");
    unsigned seen = 0, dirs = 0, dots = 0;
    CHECK_INT(path_mkdirs(sub, 0700, NULL), 0);
    CHECK_INT(path_write_new(hidden, STR("x"), 0600, NULL), 0);
    struct folder f = folder_open(dir);
    while (folder_next(&f)) {
        seen++;
        dirs += f.type == DT_DIR && strcmp(f.name, "sub") == 0;
        dots += strcmp(f.name, ".hidden") == 0;
    }
    CHECK_INT(seen, 2);
    CHECK_INT(dirs, 1);
    CHECK_INT(dots, 1);
    CHECK(f.stream == NULL && !folder_next(&f));
    free(hidden);
    free(sub);
    free(dir);
}

TEST(a_folder_that_is_left_early_or_is_not_there_leaks_nothing)
{
    char *missing = path_join(test_dir(), "missing");
    struct folder f = folder_open("/proc/self");
    CHECK(folder_next(&f));
    folder_close(&f);
    folder_close(&f);
    f = folder_open(missing);
    CHECK(f.stream == NULL && !folder_next(&f));
    free(missing);
}

TEST(random_digits_fill_their_room_and_differ)
{
    char a[33], b[33], one[3];
    random_hex(a, sizeof a);
    random_hex(b, sizeof b);
    random_hex(one, sizeof one);
    CHECK_INT(strlen(a), 32);
    CHECK_INT(strspn(a, "0123456789abcdef"), 32);
    CHECK(strcmp(a, b) != 0);
    CHECK_INT(strlen(one), 2);
}
