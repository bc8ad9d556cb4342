#include "unit/trust/util.h"

#include <sys/stat.h>
#include <unistd.h>

#include "base/path.h"

const char *at(const char *rel)
{
    static char text[4][4096];
    static unsigned turn;
    char *out = text[turn++ % 4];
    snprintf(out, sizeof text[0], "%s/%s", test_dir(), rel);
    return out;
}

void put_dir(const char *rel)
{
    CHECK_INT(path_mkdirs(at(rel), 0700, NULL), 0);
}

void put(const char *rel, const char *text)
{
    char *dir = str_dup(path_dir(str_of(rel)));
    put_dir(dir);
    free(dir);
    FILE *f = fopen(at(rel), "w");
    CHECK(f != NULL);
    CHECK(fputs(text, f) >= 0);
    CHECK_INT(fclose(f), 0);
}

void put_link(const char *rel, const char *target)
{
    char *dir = str_dup(path_dir(str_of(rel)));
    put_dir(dir);
    free(dir);
    CHECK_INT(symlink(target, at(rel)), 0);
}

struct buf get(const char *rel)
{
    struct buf b;
    buf_init(&b, 1 << 20);
    CHECK_INT(path_read(at(rel), &b, NULL), 0);
    return b;
}

void put_repo(const char *name)
{
    char path[512];
    snprintf(path, sizeof path, "%s/.git/HEAD", name);
    put(path, "ref: refs/heads/main\n");
}

void put_worktree(const char *name, const char *tree, const char *id)
{
    char path[512], text[8192];
    snprintf(path, sizeof path, "%s/.git/worktrees/%s/commondir", name, id);
    put(path, "../..\n");
    snprintf(path, sizeof path, "%s/.git/worktrees/%s/gitdir", name, id);
    snprintf(text, sizeof text, "%s/%s/.git\n", test_dir(), tree);
    put(path, text);
    snprintf(path, sizeof path, "%s/.git", tree);
    snprintf(text, sizeof text, "gitdir: %s/%s/.git/worktrees/%s\n", test_dir(), name, id);
    put(path, text);
}

struct trust_place place(const char *rel)
{
    struct trust_place p;
    struct err e = {0};
    if (trust_place_of(&p, at("home"), at(rel), &e) < 0) {
        test_fail(__FILE__, __LINE__, "%s", e.msg);
    }
    return p;
}
