#include <sys/stat.h>
#include <unistd.h>

#include "unit/trust/util.h"

static struct trust_scan scan(const char *root)
{
    struct trust_scan s;
    struct err e = {0};
    if (trust_scan(&s, at(root), &e) < 0) {
        test_fail(__FILE__, __LINE__, "%s", e.msg);
    }
    return s;
}

static const struct trust_item *item(const struct trust_scan *s, const char *path)
{
    vec_foreach (it, &s->items) {
        if (strcmp(it->path, path) == 0) {
            return it;
        }
    }
    return NULL;
}

TEST(every_kind_of_item_is_found)
{
    static const struct {
        const char *file, *path, *name;
        enum trust_kind kind;
    } want[] = {
        {".afloat/plugins/logger.lua", ".afloat/plugins/logger.lua", "logger", TRUST_PLUGIN},
        {".afloat/plugins/big/init.lua", ".afloat/plugins/big", "big", TRUST_PLUGIN},
        {".afloat/plugins/p.py", ".afloat/plugins/p.py", "p", TRUST_PLUGIN},
        {".afloat/shared/plugins/s.mjs", ".afloat/shared/plugins/s.mjs", "s", TRUST_PLUGIN},
        {".afloat/plugins/j.js", ".afloat/plugins/j.js", "j", TRUST_PLUGIN},
        {".afloat/plugins/t.ts", ".afloat/plugins/t.ts", "t", TRUST_PLUGIN},
        {".afloat/profiles/night/plugins/w.c", ".afloat/profiles/night/plugins/w.c", "w",
         TRUST_PLUGIN},
        {".afloat/env.toml", ".afloat/env.toml", "env", TRUST_ENV},
        {".afloat/config.toml", ".afloat/config.toml", "config", TRUST_CONFIG},
        {".afloat/skills/review.md", ".afloat/skills/review.md", "review", TRUST_SKILL},
        {".afloat/skills/deep/SKILL.md", ".afloat/skills/deep", "deep", TRUST_SKILL},
        {".afloat/bots/fixer/config.md", ".afloat/bots/fixer", "fixer", TRUST_BOT},
        {"AGENTS.md", "AGENTS.md", "AGENTS.md", TRUST_AGENTS},
    };
    char path[256];
    for (size_t i = 0; i < ARRAY_LEN(want); i++) {
        snprintf(path, sizeof path, "repo/%s", want[i].file);
        put(path, "");
    }
    put("repo/.afloat/plugins/README.md", "no plugin");
    put("repo/.afloat/plugins/.hidden.lua", "");
    put("repo/.afloat/plugins/logger.lua~", "");
    put("repo/.afloat/plugins/types.d.ts", "");
    put("repo/.afloat/plugins/node_modules/x/init.lua", "");
    struct trust_scan s = scan("repo");
    CHECK_INT(s.items.n, ARRAY_LEN(want));
    for (size_t i = 0; i < ARRAY_LEN(want); i++) {
        const struct trust_item *it = item(&s, want[i].path);
        CHECK(it != NULL);
        CHECK_STR(it->name, want[i].name);
        CHECK_INT(it->kind, want[i].kind);
        CHECK(it->error == NULL);
        CHECK_INT(strlen(it->tree.hash), 64);
    }
    trust_scan_fini(&s);
}

TEST(a_project_with_nothing_has_no_items)
{
    put_dir("repo/.git");
    struct trust_scan s = scan("repo");
    CHECK_INT(s.items.n, 0);
    trust_scan_fini(&s);
}

TEST(an_item_that_leads_out_of_the_project_is_listed_with_its_error)
{
    put("outside/x.lua", "secret");
    put_link("repo/.afloat/plugins/out.lua", "../../../outside/x.lua");
    put_link("repo/.afloat/plugins/outdir", "../../../outside");
    put("repo/.afloat/plugins/in/init.lua", "");
    put_link("repo/.afloat/plugins/in/steal", "../../../../outside/x.lua");
    put_link("repo/.afloat/plugins/alias.lua", "in/init.lua");
    put_link("repo/AGENTS.md", "../outside/x.lua");
    struct trust_scan s = scan("repo");
    CHECK_INT(s.items.n, 5);
    CHECK(strstr(item(&s, ".afloat/plugins/out.lua")->error, "leads outside the project") != NULL);
    CHECK(strstr(item(&s, ".afloat/plugins/outdir")->error, "leads out") != NULL);
    CHECK(strstr(item(&s, ".afloat/plugins/in")->error, "leads out of the plugin") != NULL);
    CHECK(strstr(item(&s, "AGENTS.md")->error, "leads outside the project") != NULL);
    CHECK(item(&s, ".afloat/plugins/alias.lua")->error == NULL);
    trust_scan_fini(&s);
}

TEST(a_directory_of_items_that_lies_elsewhere_holds_none)
{
    put("outside/plugins/x.lua", "");
    put_link("repo/.afloat", "../outside");
    struct trust_scan s = scan("repo");
    CHECK_INT(s.items.n, 0);
    trust_scan_fini(&s);
}

TEST(more_items_than_a_project_has_are_refused)
{
    struct trust_scan s;
    char path[128];
    for (int i = 0; i <= TRUST_ITEMS; i++) {
        snprintf(path, sizeof path, "repo/.afloat/plugins/p%d.lua", i);
        put(path, "");
    }
    CHECK_INT(trust_scan(&s, at("repo"), NULL), ERR_TOO_LARGE);
    trust_scan_fini(&s);
}

TEST(a_name_that_json_cannot_say_is_never_trusted)
{
    put("repo/.afloat/plugins/\xff.lua", "");
    struct trust_scan s = scan("repo");
    CHECK_INT(s.items.n, 1);
    CHECK_STR(s.items.p[0].error, "its name is not UTF-8");
    trust_scan_fini(&s);
}

TEST(a_fifo_in_the_place_of_an_item_does_not_hang_us)
{
    put_dir("repo/.afloat/plugins/p");
    CHECK_INT(mkfifo(at("repo/.afloat/plugins/f.lua"), 0600), 0);
    CHECK_INT(mkfifo(at("repo/.afloat/plugins/p/f"), 0600), 0);
    CHECK_INT(mkfifo(at("repo/.envrc"), 0600), 0);
    struct trust_scan s = scan("repo");
    CHECK_INT(s.items.n, 3);
    CHECK(item(&s, ".afloat/plugins/f.lua")->error != NULL);
    CHECK(item(&s, ".afloat/env.toml")->error != NULL);
    CHECK(item(&s, ".afloat/plugins/p")->error == NULL);
    CHECK_INT(item(&s, ".afloat/plugins/p")->tree.files.n, 0);
    trust_scan_fini(&s);
}
