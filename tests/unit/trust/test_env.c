#include <unistd.h>

#include "unit/trust/util.h"

/// The hash of the environment of "repo", in one of a few buffers.
static const char *hash(void)
{
    static char text[8][SHA256_HEX];
    static unsigned turn;
    char *out = text[turn++ % 8];
    struct tree t;
    struct err e = {0};
    if (trust_env_read(&t, at("repo"), &e) < 0) {
        test_fail(__FILE__, __LINE__, "%s", e.msg);
    }
    memcpy(out, t.hash, SHA256_HEX);
    tree_fini(&t);
    return out;
}

/// Write `file`, see that the hash is another, put it back, see that it is the old one.
static void check_counts(const char *file, const char *old)
{
    const char *before = hash();
    put(file, "# another text\n");
    CHECK(strcmp(hash(), before) != 0);
    if (old != NULL) {
        put(file, old);
    } else {
        CHECK_INT(unlink(at(file)), 0);
    }
    CHECK_STR(hash(), before);
}

static void check_no_matter(const char *file)
{
    const char *before = hash();
    put(file, "# another text\n");
    CHECK_STR(hash(), before);
    CHECK_INT(unlink(at(file)), 0);
}

TEST(all_that_env_toml_names_counts)
{
    put("repo/.afloat/env.toml", "include = ['common.toml', 'sub/more.toml']\n"
                                 "script = 'env.sh'\ndotenv = ['.env', 'missing.env']\n");
    put("repo/.afloat/common.toml", "include = 'deep.toml'\n");
    put("repo/.afloat/deep.toml", "script = 'deep.sh'\n");
    put("repo/.afloat/sub/more.toml", "include = ['../beside.toml']\ndotenv = ['more.env']\n");
    put("repo/.afloat/beside.toml", "");
    put("repo/env.sh", "export A=1\n");
    put("repo/deep.sh", "export B=1\n");
    put("repo/.env", "C=1\n");
    put("repo/more.env", "D=1\n");
    check_counts("repo/.afloat/common.toml", "include = 'deep.toml'\n");
    check_counts("repo/.afloat/deep.toml", "script = 'deep.sh'\n");
    check_counts("repo/.afloat/beside.toml", "");
    check_counts("repo/env.sh", "export A=1\n");
    check_counts("repo/deep.sh", "export B=1\n");
    check_counts("repo/.env", "C=1\n");
    check_counts("repo/more.env", "D=1\n");
    check_counts("repo/missing.env", NULL);
    check_no_matter("repo/other.sh");
    check_no_matter("repo/.afloat/plugins/x.lua");
}

TEST(the_files_read_are_handed_over_by_name)
{
    struct tree t;
    put("outer/x.env", "X=1\n");
    put("repo/.afloat/env.toml", "script = './a//env.sh'\ndotenv = ['../outer/x.env']\n");
    put("repo/a/env.sh", "export A=1\n");
    CHECK_INT(trust_env_read(&t, at("repo"), NULL), 0);
    CHECK_INT(t.files.n, 3);
    CHECK_SPAN(tree_find(&t, STR("a/env.sh"))->bytes, "export A=1\n");
    CHECK_SPAN(tree_find(&t, STR("../outer/x.env"))->bytes, "X=1\n");
    CHECK(tree_find(&t, STR(".afloat/env.toml")) != NULL);
    tree_fini(&t);
}

TEST(without_env_toml_the_providers_files_are_the_environment)
{
    struct tree t;
    put_dir("repo");
    CHECK_INT(trust_env_read(&t, at("repo"), NULL), ERR_NOT_FOUND);
    put("repo/.envrc", "export A=1\n");
    const char *alone = hash();
    put("repo/flake.nix", "{}\n");
    CHECK(strcmp(hash(), alone) != 0);
    CHECK_INT(unlink(at("repo/flake.nix")), 0);
    CHECK_STR(hash(), alone);
    check_no_matter("repo/flake.lock");
}

TEST(a_provider_that_is_chosen_leaves_the_others_out)
{
    put("repo/.afloat/env.toml", "provider = 'direnv'\n");
    put("repo/.envrc", "");
    check_counts("repo/.envrc", "");
    check_no_matter("repo/devenv.nix");
    put("repo/.afloat/env.toml", "provider = 'auto'\n");
    check_counts("repo/devenv.nix", NULL);
    put("repo/.afloat/env.toml", "provider = 'toml'\n");
    check_no_matter("repo/devenv.nix");
    put("repo/.afloat/env.toml", "provider = 'unheard-of'\n");
    check_counts("repo/devenv.nix", NULL);
}

TEST(a_provider_chosen_by_an_included_file_does_not_hide_the_others)
{
    put("repo/.afloat/env.toml", "include = ['c.toml']\n");
    put("repo/.afloat/c.toml", "provider = 'toml'\n");
    put("repo/.envrc", "");
    check_counts("repo/.envrc", "");
}

TEST(includes_in_a_circle_end)
{
    put("repo/.afloat/env.toml", "include = ['a.toml']\n");
    put("repo/.afloat/a.toml", "include = ['env.toml', 'a.toml', './a.toml']\nscript = 'x.sh'\n");
    put("repo/x.sh", "");
    check_counts("repo/x.sh", "");
}

TEST(a_file_named_as_dotenv_first_is_still_followed_as_an_include)
{
    put("repo/.afloat/env.toml", "include = ['a.toml', 'b.toml']\n");
    put("repo/.afloat/a.toml", "dotenv = ['.afloat/b.toml']\n");
    put("repo/.afloat/b.toml", "script = 'late.sh'\n");
    put("repo/late.sh", "");
    check_counts("repo/late.sh", "");
}

TEST(a_file_that_does_not_parse_counts_by_its_bytes)
{
    put("repo/.afloat/env.toml", "this is = = not toml\n");
    check_counts("repo/.afloat/env.toml", "this is = = not toml\n");
}

TEST(more_files_than_an_environment_has_are_refused)
{
    struct tree t;
    struct buf b;
    buf_init(&b, SIZE_MAX);
    buf_addz(&b, "dotenv = [");
    for (int i = 0; i < 300; i++) {
        buf_addf(&b, "'f%d',", i);
    }
    buf_addz(&b, "]\n");
    put("repo/.afloat/env.toml", buf_z(&b));
    CHECK_INT(trust_env_read(&t, at("repo"), NULL), ERR_TOO_LARGE);
    put("repo/.afloat/env.toml", "dotenv = ['/dev/zero']\n");
    CHECK(trust_env_read(&t, at("repo"), NULL) < 0);
    put("repo/.afloat/env.toml", "dotenv = ['']\n");
    CHECK_INT(trust_env_read(&t, at("repo"), NULL), ERR_INVALID);
    put("repo/.afloat/env.toml", "dotenv = ['.']\n");
    CHECK(trust_env_read(&t, at("repo"), NULL) < 0);
    buf_fini(&b);
}

TEST(moving_a_byte_from_one_file_to_the_next_is_a_change)
{
    put("repo/.afloat/env.toml", "dotenv = ['a', 'b']\n");
    put("repo/a", "xy");
    put("repo/b", "z");
    const char *one = hash();
    put("repo/a", "x");
    put("repo/b", "yz");
    CHECK(strcmp(hash(), one) != 0);
}

TEST(what_scripts_source_and_nix_files_import_counts)
{
    put("repo/.afloat/env.toml", "script = 'env.sh'\ndotenv = ['.env']\n");
    put("repo/env.sh", "source lib/a.sh; . lib/later.sh; source lib\n");
    put("repo/lib/a.sh", ". ./lib/b.sh\n");
    put("repo/lib/b.sh", "source env.sh\n"); // a circle ends
    put("repo/.env", "source = x\nsource other.sh\n");
    put("repo/flake.nix", "import ./shell.nix");
    put("repo/shell.nix", "import ./mods");
    put("repo/mods/default.nix", "{ }");
    check_counts("repo/lib/b.sh", "source env.sh\n");
    check_counts("repo/lib/later.sh", NULL);
    check_counts("repo/shell.nix", "import ./mods");
    check_counts("repo/mods/default.nix", "{ }");
    check_no_matter("repo/other.sh"); // a dotenv file is no script
}
