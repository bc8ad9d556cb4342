// The library fs by itself: no Landlock, no filter stands behind it here.

#include "unit/host/far.h"

static char dir[300];

static void put(const char *name, const char *text)
{
    char path[400];
    snprintf(path, sizeof path, "%s/%s", test_dir(), name);
    FILE *f = fopen(path, "w");
    CHECK(f != NULL);
    fputs(text, f);
    fclose(f);
}

static const char *get(const char *name)
{
    static char text[1000];
    char path[400];
    snprintf(path, sizeof path, "%s/%s", test_dir(), name);
    FILE *f = fopen(path, "r");
    if (f == NULL) {
        return "(none)";
    }
    text[fread(text, 1, sizeof text - 1, f)] = '\0';
    fclose(f);
    return text;
}

static void begin(void)
{
    far_begin();
    snprintf(dir, sizeof dir, "%s/improvements", test_dir());
    put("secret", "s3cret");
}

/// Run `body`, which asserts, in a tool; nothing outside may have changed.
static void check_holds(const char *body)
{
    char *source = xasprintf("tool{name = 't', run = function() %s\nreturn 'held' end}", body);
    CHECK_SAYS(far_load(source), "\"type\":\"loaded\"");
    const char *said = far_say("{\"type\":\"tool\",\"id\":1,\"name\":\"t\",\"input\":{}}");
    while (said[0] == '\0') { // it gave others a turn
        said = far_turn();
    }
    CHECK_SAYS(said, "\"value\":\"held\"");
    free(source);
    CHECK_STR(get("secret"), "s3cret");
    CHECK(strstr(said, "s3cret") == NULL);
}

TEST(files_can_be_written_read_listed_and_removed)
{
    begin();
    check_holds("assert(fs.write('a.txt', 'one'))\n"
                "assert(fs.append('a.txt', ' two'))\n"
                "assert(fs.read('a.txt') == 'one two')\n"
                "assert(fs.exists('a.txt') and not fs.is_dir('a.txt'))\n"
                "assert(fs.mkdir('d/e/f') and fs.is_dir('d/e/f') and fs.mkdir('d/e'))\n"
                "assert(fs.copy('a.txt', 'd/b.txt') and fs.rename('d/b.txt', 'd/e/c.txt'))\n"
                "local s = fs.stat('d/e/c.txt')\n"
                "assert(s.type == 'file' and s.size == 7 and s.mtime > 0)\n"
                "assert(table.concat(fs.list('d/e'), ' ') == 'c.txt f')\n"
                "assert(table.concat(fs.list(), ' ') == 'a.txt d')\n"
                "assert(#fs.list('d/e/f') == 0)\n"
                "assert(fs.remove('d/e/c.txt') and fs.remove('d/e/f') and fs.remove('d/e'))\n"
                "assert(not fs.exists('d/e'))\n"
                "local v, e = fs.read('none')\n"
                "assert(v == nil and e:find('none'))\n"
                "assert(fs.remove('d/../a.txt'))");
    far_end();
}

TEST(a_file_is_no_directory_that_was_there_already)
{
    begin();
    check_holds(
        "assert(fs.write('a', 'x'))\n"
        "local v, e = fs.mkdir('a')\n"
        "assert(v == nil and e:find('Not a directory'), e)\n"
        "assert(fs.mkdir('a/b') == nil and fs.mkdir('d/') and fs.mkdir('d//e') and fs.mkdir('d'))");
    far_end();
}

TEST(no_path_leads_out)
{
    static const char
        code[] = // the system's own files are read at most: walls may be broken one day
        "local own = {'../secret', 'd/../../secret', '..', './../secret', '%s/../secret',\n"
        "  '/%s/../secret'}\n"
        "local bad = {'/etc/passwd', '/proc/self/mem', '//etc/passwd',\n"
        "  'd/../../../../../../etc/passwd', table.unpack(own)}\n"
        "fs.mkdir('d')\n"
        "fs.write('own', 'x')\n"
        "for _, p in ipairs(bad) do\n"
        "  assert(fs.read(p) == nil, p)\n"
        "  assert(not fs.exists(p), p)\n"
        "  assert(not fs.is_dir(p), p)\n"
        "  assert(fs.stat(p) == nil and fs.list(p) == nil, p)\n"
        "end\n"
        "for _, p in ipairs(own) do\n"
        "  assert(fs.write(p, 'x') == nil, p)\n"
        "  assert(fs.append(p, 'x') == nil, p)\n"
        "  assert(fs.remove(p) == nil, p)\n"
        "  assert(fs.rename(p, 'stolen') == nil and fs.rename('own', p) == nil, p)\n"
        "  assert(fs.copy(p, 'stolen') == nil and fs.copy('own', p) == nil, p)\n"
        "end\n"
        "assert(fs.mkdir('../made') == nil and fs.mkdir('%s/../made') == nil)\n"
        "assert(not fs.exists('stolen'))";
    char text[sizeof code + 1500];
    begin();
    snprintf(text, sizeof text, code, dir, dir, dir);
    check_holds(text);
    CHECK_STR(get("made"), "(none)");
    far_end();
}

TEST(a_symlink_inside_leads_nowhere)
{
    char link[400];
    begin();
    snprintf(link, sizeof link, "%s/link", dir);
    CHECK_INT(symlink("../secret", link), 0);
    snprintf(link, sizeof link, "%s/abs", dir);
    CHECK_INT(symlink(test_dir(), link), 0);
    snprintf(link, sizeof link, "%s/up", dir);
    CHECK_INT(symlink("..", link), 0);
    check_holds(
        "for _, p in ipairs{'link', 'abs/secret', 'up/secret', 'up'} do\n"
        "  assert(fs.read(p) == nil and not fs.exists(p) and fs.list(p) == nil, p)\n"
        "  assert(fs.copy(p, 'stolen') == nil, p)\n"
        "end\n"
        "assert(fs.append('link', 'x') == nil)\n"
        "assert(fs.write('up/secret', 'x') == nil)\n"
        "assert(fs.write('up/new', 'x') == nil)\n" // a new leaf below a linked directory
        "assert(fs.mkdir('up/newdir') == nil)\n"
        "assert(fs.remove('up/secret') == nil)\n"
        "assert(fs.rename('up/secret', 'stolen') == nil)\n"
        "assert(fs.write('link', 'mine') and fs.read('link') == 'mine')"); // replaced, not followed
    CHECK_STR(get("new"), "(none)");
    CHECK_STR(get("newdir"), "(none)");
    far_end();
}

TEST(improvements_themselves_cannot_be_changed)
{
    begin();
    put("improvements/other.lua", "return 1");
    check_holds(
        "assert(fs.read('other.lua') == 'return 1')\n"
        "fs.mkdir('d') fs.write('t.txt', 'x')\n"
        "for _, p in ipairs{'other.lua', 'new.lua', './new.lua', 'd/../new.lua', 'x.lua'} do\n"
        "  local ok, e = fs.write(p, 'evil')\n"
        "  assert(ok == nil and e:find('denied'), p)\n"
        "  assert(fs.append(p, 'evil') == nil and fs.remove(p) == nil, p)\n"
        "  assert(fs.rename('t.txt', p) == nil and fs.copy('t.txt', p) == nil, p)\n"
        "  assert(fs.rename(p, 't2.txt') == nil, p)\n"
        "end\n"
        "assert(fs.write('d/data.lua', 'return {}'))"); // deeper down it is a file like others
    CHECK_STR(get("improvements/other.lua"), "return 1");
    CHECK_STR(get("improvements/new.lua"), "(none)");
    far_end();
}

TEST(what_is_no_file_is_not_read)
{
    char pipe[400];
    begin();
    snprintf(pipe, sizeof pipe, "%s/pipe", dir);
    CHECK_INT(mkfifo(pipe, 0600), 0);
    check_holds("assert(fs.read('pipe') == nil)\n"
                "assert(fs.append('pipe', 'x') == nil)\n"
                "assert(fs.read('.') == nil)\n"
                "assert(fs.stat('pipe').type == 'other')");
    far_end();
}

TEST(a_path_with_a_nul_is_refused)
{
    begin();
    check_holds("assert(not pcall(fs.read, 'a\\0b'))\n"
                "assert(not pcall(fs.write, 'a\\0.lua', 'x'))\n"
                "assert(fs.write('', 'x') == nil and fs.write('.', 'x') == nil)\n"
                "assert(fs.mkdir('') == nil and fs.remove('..') == nil)");
    far_end();
}

TEST(the_disk_cannot_be_filled)
{
    begin();
    check_holds("local chunk = string.rep('x', 4 * 1024 * 1024)\n"
                "local n, ok = 0, true\n"
                "while ok and n < 100 do ok = fs.write('big', chunk) n = n + 1 timer.sleep(0) end\n"
                "assert(n == 16, n)"); // 15 times 4 MiB: the name takes some too
    far_end();
}

TEST(the_disk_cannot_be_filled_with_names)
{
    static const char *const ways[] = {"fs.write('f' .. n, '')", "fs.append('a' .. n, '')",
                                       "fs.mkdir('d' .. n)"};
    for (size_t i = 0; i < ARRAY_LEN(ways); i++) {
        begin();
        char *code =
            xasprintf("local chunk = string.rep('x', 4 * 1024 * 1024)\n"
                      "for _ = 1, 15 do fs.write('big', chunk) timer.sleep(0) end\n"
                      "fs.write('big', chunk:sub(100 * 1024))\n"
                      "local n, ok = 0, true\n"
                      "while ok and n < 100 do n = n + 1 ok = %s end\n"
                      "assert(n == 24 or n == 25, n)", // 100 KiB hold that many names less one
                      ways[i]);
        check_holds(code);
        free(code);
        far_end();
    }
}
