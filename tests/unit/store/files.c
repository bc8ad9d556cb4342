#include "unit/store/files.h"

#include "base/path.h"
#include "unit/test.h"

const char *at(const char *rel)
{
    static char text[4][4096];
    static unsigned turn;
    char *out = text[turn++ % 4];
    snprintf(out, sizeof text[0], "%s/%s", test_dir(), rel);
    return out;
}

void put(const char *rel, const char *text)
{
    char *dir = str_dup(path_dir(str_of(at(rel))));
    CHECK_INT(path_mkdirs(dir, 0700, NULL), 0);
    free(dir);
    FILE *f = fopen(at(rel), "w");
    CHECK(f != NULL);
    CHECK(fputs(text, f) >= 0);
    CHECK_INT(fclose(f), 0);
}
