// Which files run without anybody looking at them again.

#include "trust/guard.h"
#include "unit/trust/util.h"

static struct trust_guards guards;

static void read_guards(const char *place)
{
    const char *const places[] = {place, NULL};
    trust_guards_read(&guards, at("home"), place != NULL ? places : NULL);
}

static bool has(const char *rel)
{
    for (size_t i = 0; guards.paths.p[i] != NULL; i++) {
        if (strcmp(guards.paths.p[i], at(rel)) == 0) {
            return true;
        }
    }
    return false;
}

TEST(the_inputs_of_a_followed_place_are_guarded_also_those_that_are_missing)
{
    put("repo/.afloat/env.toml", "include = '../more.toml'\nscript = 'env.sh'\n"
                                 "dotenv = ['.env', 'conf/missing.env']\n");
    put("repo/more.toml", "dotenv = 'deep.env'\n");
    put("repo/env.sh", "");
    put("repo/flake.nix", "");
    put_link("repo/.afloat/plugins/x.lua", "../../src/x.lua");
    put_link("repo/.afloat/profiles/p/plugins/y", "../../../../src/y");
    read_guards(at("repo"));
    CHECK(has("repo/.afloat") && has("repo/.afloat/env.toml") && has("repo/more.toml"));
    CHECK(has("repo/env.sh") && has("repo/.env") && has("repo/conf/missing.env"));
    CHECK(has("repo/deep.env") && has("repo/flake.nix") && !has("repo/devenv.nix"));
    CHECK(has("repo/.afloat/plugins/x.lua") && has("repo/.afloat/profiles/p/plugins/y"));
    trust_guards_fini(&guards);
}

TEST(what_a_script_sources_is_guarded_by_its_text_and_by_what_it_did)
{
    put("repo/.afloat/env.toml", "script = 'env.sh'\n");
    put("repo/env.sh", "source lib/a.sh; for f in more/*.sh; do . \"$f\"; done\n");
    char *lines = xasprintf("%s\nnot absolute\n\n", at("repo/more/b.sh"));
    put("repo/.afloat/state/sourced", lines);
    read_guards(at("repo"));
    CHECK(has("repo/lib/a.sh") && has("repo/more/b.sh"));
    CHECK(!has("repo/not absolute"));
    trust_guards_fini(&guards);
    free(lines);
}

TEST(what_nix_evaluated_is_guarded)
{
    put("repo/flake.nix", "import ./a.nix (./mods + file)");
    char *line = xasprintf("%s\n", at("repo/mods/b.nix"));
    put("repo/.afloat/state/evaluated", line);
    read_guards(at("repo"));
    CHECK(has("repo/a.nix") && has("repo/mods/b.nix"));
    trust_guards_fini(&guards);
    free(line);
}

TEST(worktrees_of_a_followed_place_are_guarded)
{
    put_repo("repo");
    put_worktree("repo", "tree", "tree");
    put("tree/.afloat/env.toml", "script = 'env.sh'\n");
    put("tree/sub/.afloat/env.toml", "script = 'sub.sh'\n");
    read_guards(at("repo"));
    CHECK(has("tree/.afloat") && has("tree/env.sh"));
    trust_guards_fini(&guards);
    read_guards(at("repo/sub")); // a project below the top of its repository
    CHECK(has("tree/sub/.afloat") && has("tree/sub/sub.sh"));
    trust_guards_fini(&guards);
}

TEST(who_says_which_directories_are_worktrees_is_guarded_there_or_not)
{
    put_repo("repo");
    put_dir("repo/sub/.afloat");
    read_guards(at("repo/sub"));
    CHECK(has("repo/sub/.git/worktrees") && has("repo/.git"));
    CHECK(!has("repo/.git/worktrees"));
    trust_guards_fini(&guards);
}

TEST(links_in_the_home_of_afloat_are_guarded_and_nothing_else_of_it)
{
    put("home/plugins/plain.lua", "");
    put("home/lua/user/init.lua", "");
    put_link("home/plugins/linked.lua", "../../dev/linked.lua");
    put_link("home/lua/user/ui", "../../../dotfiles/ui");
    put_link("home/config.toml", "../dotfiles/config.toml");
    read_guards(NULL);
    CHECK(has("home/plugins/linked.lua") && has("home/lua/user/ui") && has("home/config.toml"));
    CHECK_INT(guards.paths.n, 4); // with its end
    trust_guards_fini(&guards);
}

TEST(links_in_circles_end)
{
    put_link("repo/.afloat/plugins/self", ".");
    put_link("repo/.afloat/plugins/up", "..");
    put_link("home/plugins/self", ".");
    read_guards(at("repo"));
    CHECK(has("repo/.afloat/plugins/self") && has("repo/.afloat/plugins/up"));
    trust_guards_fini(&guards);
}
