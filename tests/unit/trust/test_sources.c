#include "base/buf.h"
#include "trust/sources.h"
#include "unit/test.h"

static struct buf found;

static void on_source(const char *path, void *arg)
{
    (void)arg;
    buf_addf(&found, "%s ", path);
}

/// What `text`, of the file `name`, reads, with a space after each.
static const char *sources(const char *name, const char *text)
{
    static char out[1024];
    buf_init(&found, SIZE_MAX);
    trust_sources(name, str_of(text), on_source, NULL);
    snprintf(out, sizeof out, "%s", buf_z(&found));
    buf_fini(&found);
    return out;
}

TEST(what_a_script_sources_is_found)
{
    static const char *const rows[][2] = {
        {"source lib.sh", "lib.sh "},
        {". ./lib.sh\nexport A=1\n  source sub/b.sh", "lib.sh sub/b.sh "},
        {"[ -f x.sh ] && . x.sh; if true; then source 'a b.sh'; fi", "x.sh a b.sh "},
        {"source \"$PWD/lib.sh\" arg; source ${AFLOAT_PROJECT}/c.sh", "lib.sh c.sh "},
        {"source \"${BASH_SOURCE%/*}/d.sh\"", "sub/d.sh "},
        {"source \"$(dirname \"${BASH_SOURCE[0]}\")/d.sh\"", "sub/d.sh "},
        {"source /opt/x/y.sh", "/opt/x/y.sh "},
        {"builtin source e.sh", "e.sh "},
        {"source \"$dir/x.sh\"; source $(which x); . <(echo); source ~/own.sh; . *.sh", ""},
        {"resource a.sh; ./run.sh . ; echo .\nsource\nb", ""},
        {"", ""},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        if (strcmp(sources("sub/env.sh", rows[i][0]), rows[i][1]) != 0) {
            test_fail(__FILE__, __LINE__, "%s: %s", rows[i][0], sources("sub/env.sh", rows[i][0]));
        }
    }
    CHECK_STR(sources("mise.toml", "source lib.sh"), "");
}

TEST(what_a_nix_file_imports_is_found_beside_it)
{
    CHECK_STR(sources("flake.nix", "import ./shell.nix // import ./nix/modules;"),
              "shell.nix nix/modules nix/modules/default.nix ");
    CHECK_STR(
        sources("nix/a.nix", "readFile ./hook; import (self + \"/b.nix\"); \"${self}/c/d.sh\""),
        "nix/hook nix/hook/default.nix b.nix c/d.sh ");
    CHECK_STR(sources("nix/a.nix", "import (./. + \"/b.nix\"); \"${./.}/c.nix\"; \"/bin/x.sh\""),
              "nix/b.nix nix/c.nix ");
    CHECK_STR(sources("nix/shell.nix", "[ ../a.nix ./b.nix ]"), "a.nix nix/b.nix ");
    CHECK_STR(sources("flake.nix", "src = ./.; x = a/./b; y = \"..\"; z = ../.;"), "");
    CHECK_STR(sources("devenv.yaml", "imports:\n  - ./backend\n  - ./x/devenv.nix\n"),
              "backend backend/devenv.nix x/devenv.nix ");
}

TEST(any_text_is_looked_through)
{
    static const char odd[] = "source \"un\nsource $(\n. '\n((((";
    for (size_t n = 0; n < sizeof odd; n++) {
        buf_init(&found, SIZE_MAX);
        trust_sources("env.sh", (struct str){odd, n}, on_source, NULL);
        trust_sources("x.nix", (struct str){"../../x", MIN(n, (size_t)7)}, on_source, NULL);
        CHECK(buf_ok(&found));
        buf_fini(&found);
    }
}
