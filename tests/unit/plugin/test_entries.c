#include <sys/stat.h>
#include <unistd.h>

#include "base/path.h"
#include "config/config.h"
#include "plugin/entries.h"
#include "unit/test.h"

// Places are found in directories of the test's own, or written by hand where names matter.

static struct plugin_places places;
static struct plugin_entries entries;
static struct arena mem; // reachable until the test's process ends

static const char *at(const char *rel)
{
    return arena_printf(&mem, "%s/%s", test_dir(), rel);
}

static void write_file(const char *rel, const char *text)
{
    char *dir = str_dup(path_dir(str_of(at(rel))));
    CHECK_INT(path_mkdirs(dir, 0700, NULL), 0);
    free(dir);
    FILE *f = fopen(at(rel), "w");
    CHECK(f != NULL && fputs(text, f) >= 0 && fclose(f) == 0);
}

static int scan(const char *rel, enum plugin_layer layer, const char *project)
{
    struct plugin_root root = {
        .dir = arena_strdup(&mem, str_of(at(rel))),
        .layer = layer,
        .project = project != NULL ? arena_strdup(&mem, str_of(project)) : NULL,
        .slug = project != NULL ? arena_strdup(&mem, path_base(str_of(project))) : NULL};
    return places_scan(&places, &root, NULL);
}

/// A place written by hand.
static struct plugin_place *put(const char *path, enum plugin_layer layer, const char *project,
                                const char *name)
{
    struct plugin_place p = {.path = xstrdup(path),
                             .layer = layer,
                             .project = project != NULL ? xstrdup(project) : NULL,
                             .slug = project != NULL ? str_dup(path_base(str_of(project))) : NULL,
                             .source = "discovered",
                             .order = (int)places.list.n,
                             .hot = HOT_YES,
                             .enabled = true,
                             .name = name != NULL ? xstrdup(name) : NULL};
    vec_push(&places.list, p);
    return vec_last(&places.list);
}

static const struct json *json(const char *text)
{
    struct json *v;
    CHECK_INT(json_parse(&v, &mem, str_of(text), NULL, NULL), 0);
    return v;
}

static const char *text_of(const struct json *v)
{
    struct buf b;
    buf_init(&b, 4096);
    json_write(&b, v, 0);
    const char *text = arena_strdup(&mem, buf_str(&b));
    buf_fini(&b);
    return text;
}

/// The entries as "unit=path ..." in load order, "!CODE" behind what does not load, "-" what is off.
static const char *made(const char *choices)
{
    struct buf b;
    entries_make(&entries, &places, choices != NULL ? json(choices) : NULL);
    buf_init(&b, 4096);
    vec_foreach (e, &entries.list) {
        buf_addf(&b, "%s%s%s=%s", b.n != 0 ? " " : "", e->enabled ? "" : "-", e->unit,
                 e->place->path);
        if (e->fault != NULL) {
            buf_addf(&b, "!%s", gen_code_name(e->fault->code));
        }
    }
    const char *text = arena_strdup(&mem, buf_str(&b));
    buf_fini(&b);
    return text;
}

static void done(void)
{
    entries_fini(&entries);
    places_fini(&places);
}

/// The shadows of an entry as "path ...".
static const char *shadows(size_t i)
{
    const char *text = "";
    for (size_t k = 0; k < entries.list.p[i].shadows.n; k++) {
        text = arena_printf(&mem, "%s%s%s", text, k != 0 ? " " : "",
                            entries.list.p[i].shadows.p[k]->path);
    }
    return text;
}

// ---- scanning -------------------------------------------------------------------------------

TEST(a_root_takes_directories_and_files_alike_in_path_order)
{
    places = (struct plugin_places){0};
    write_file("plugins/b.lua", "");
    write_file("plugins/c/init.lua", "");
    write_file("plugins/a.py", "");
    write_file("plugins/d.mjs", "");
    CHECK_INT(scan("plugins", LAYER_USER, NULL), 0);
    CHECK_INT(places.list.n, 4);
    static const char *const expected[] = {"plugins/a.py", "plugins/b.lua", "plugins/c",
                                           "plugins/d.mjs"};
    for (size_t i = 0; i < 4; i++) {
        const struct plugin_place *p = &places.list.p[i];
        CHECK_STR(p->path, at(expected[i]));
        CHECK_INT(p->order, i);
        CHECK_INT(p->layer, LAYER_USER);
        CHECK_STR(p->source, "discovered");
        CHECK(p->enabled && !p->required && p->hot == HOT_YES);
        CHECK(p->name == NULL && p->options == NULL && p->said_path == NULL);
    }
    places_fini(&places);
}

TEST(the_order_of_a_directory_is_not_that_of_its_entries)
{
    places = (struct plugin_places){0};
    for (int i = 0; i < 26; i++) { // 7 and 26 have no common factor: every letter once
        write_file(arena_printf(&mem, "plugins/%c.lua", 'a' + i * 7 % 26), "");
    }
    CHECK_INT(scan("plugins", LAYER_USER, NULL), 0);
    CHECK_INT(places.list.n, 26);
    for (int i = 0; i < 26; i++) {
        CHECK_STR(places.list.p[i].path, at(arena_printf(&mem, "plugins/%c.lua", 'a' + i)));
    }
    places_fini(&places);
}

TEST(what_cannot_be_a_plugin_is_passed_over)
{
    static const char *const odd[] = {
        "README.md", ".hidden.lua", ".git/config",        "x.lua~",           ".x.lua.swp", "4913",
        "#x.lua#",   "notes",       "node_modules/a.lua", "__pycache__/a.py", "x.luac"};
    places = (struct plugin_places){0};
    for (size_t i = 0; i < ARRAY_LEN(odd); i++) {
        write_file(arena_printf(&mem, "plugins/%s", odd[i]), "");
    }
    CHECK_INT(mkfifo(at("plugins/pipe.lua"), 0600), 0);
    CHECK_INT(symlink("nowhere", at("plugins/dangling.lua")), 0);
    CHECK_INT(scan("plugins", LAYER_USER, NULL), 0);
    CHECK_INT(places.list.n, 0);
    places_fini(&places);
}

TEST(a_link_is_what_it_leads_to)
{
    places = (struct plugin_places){0};
    write_file("elsewhere/thing/init.lua", "");
    CHECK_INT(mkdir(at("plugins"), 0700), 0);
    CHECK_INT(symlink("../elsewhere/thing", at("plugins/thing")), 0);
    CHECK_INT(scan("plugins", LAYER_USER, NULL), 0);
    CHECK_INT(places.list.n, 1);
    CHECK_STR(places.list.p[0].path, at("plugins/thing"));
    places_fini(&places);
}

TEST(a_root_that_does_not_exist_holds_nothing_and_a_file_is_no_root)
{
    places = (struct plugin_places){0};
    CHECK_INT(scan("none", LAYER_USER, NULL), 0);
    CHECK_INT(places.list.n, 0);
    write_file("file", "");
    CHECK(scan("file", LAYER_USER, NULL) < 0);
    places_fini(&places);
}

TEST(two_roots_of_one_layer_are_counted_on)
{
    places = (struct plugin_places){0};
    write_file("plugins/x.lua", "");
    write_file("shared/a.lua", "");
    CHECK_INT(scan("plugins", LAYER_USER, NULL), 0);
    CHECK_INT(scan("shared", LAYER_USER, NULL), 0);
    CHECK_INT(places.list.p[1].order, 1);
    CHECK_INT(scan("shared", LAYER_REPO, "/r/app"), 0);
    CHECK_INT(places.list.p[2].order, 0);
    CHECK_STR(places.list.p[2].project, "/r/app");
    CHECK_STR(places.list.p[2].slug, "app");
    places_fini(&places);
}

// ---- configuration --------------------------------------------------------------------------

static struct config *load(const char *text, const char *project_text)
{
    struct home home = {.config = arena_strdup(&mem, str_of(at("config.toml")))};
    struct config_sources src = {.home = &home,
                                 .system_path = at("none.toml"),
                                 .project_dir = project_text != NULL ? at("repo") : NULL};
    struct config_diags diags;
    struct config *c;
    write_file("config.toml", text);
    if (project_text != NULL) {
        write_file("repo/.afloat/config.toml", project_text);
    }
    config_diags_init(&diags);
    CHECK_INT(config_load(&c, &src, &diags, NULL), 0);
    CHECK_INT(diags.n, 0);
    config_diags_fini(&diags);
    return c;
}

TEST(a_line_of_the_configuration_says_all_about_its_place)
{
    struct config *c =
        load("# first\n[[plugins]]\npath = \"plugins/./mine\"\nhot = \"manual\"\n"
             "enabled = false\nrequired = true\nprefer = [\"shell\"]\n"
             "[plugins.options]\nn = 1\n[[plugins]]\npath = \"/abs/x.lua\"\nhot = false\n",
             NULL);
    places = (struct plugin_places){0};
    places_configured(&places, c, NULL, NULL);
    config_free(c); // places have copies
    CHECK_INT(places.list.n, 2);
    const struct plugin_place *p = &places.list.p[0];
    CHECK_STR(p->path, at("plugins/mine"));
    CHECK_INT(p->layer, LAYER_CONFIG);
    CHECK_STR(p->source, "config");
    CHECK_INT(p->hot, HOT_MANUAL);
    CHECK(!p->enabled && p->required);
    CHECK_STR(text_of(p->options), "{\"n\":1}");
    CHECK_STR(text_of(p->prefer), "[\"shell\"]");
    CHECK_STR(p->said_path, at("config.toml"));
    CHECK_INT(p->said_line, 2);
    CHECK(p->name == NULL && p->project == NULL);
    CHECK_STR(p[1].path, "/abs/x.lua");
    CHECK_INT(p[1].hot, HOT_NO);
    CHECK_INT(p[1].order, 1);
    CHECK(p[1].enabled && !p[1].required && p[1].prefer == NULL && p[1].options == NULL);
    places_fini(&places);
}

TEST(a_shipped_plugin_is_found_by_name_and_a_bad_name_leads_nowhere)
{
    struct config *c =
        load("[[plugins]]\nname = \"ask-user\"\n[[plugins]]\nname = \"../../etc\"\n", NULL);
    places = (struct plugin_places){0};
    places_configured(&places, c, NULL, "/usr/share/p");
    CHECK_STR(places.list.p[0].path, "/usr/share/p/ask-user");
    CHECK_STR(places.list.p[0].name, "ask-user");
    CHECK_STR(places.list.p[1].path, "");
    CHECK_STR(made(NULL), "ask-user=/usr/share/p/ask-user ../../etc=!ENTRY_MISSING");
    const struct gen_diag *d = entries.list.p[1].fault;
    CHECK_STR(d->message, "there is no shipped plugin '../../etc'");
    CHECK_STR(d->path, at("config.toml"));
    CHECK_INT(d->line, 3);
    done();
    places = (struct plugin_places){0};
    places_configured(&places, c, NULL, NULL);
    CHECK_STR(places.list.p[0].path, "");
    places_fini(&places);
    config_free(c);
}

TEST(lines_of_a_projects_file_belong_to_the_project)
{
    struct config *c = load("[[plugins]]\npath = \"/p/mine\"\n", "[[plugins]]\npath = \"extra\"\n");
    places = (struct plugin_places){0};
    places_of_project(&places, c, "repo", NULL);
    CHECK_INT(places.list.n, 1);
    CHECK_INT(places.list.p[0].layer, LAYER_REPO);
    CHECK_STR(places.list.p[0].project, at("repo"));
    CHECK_STR(places.list.p[0].slug, "repo");
    CHECK_STR(places.list.p[0].path, at("repo/.afloat/extra"));
    places_fini(&places);
    config_free(c);
}

TEST(what_was_added_by_command_is_a_place_and_nonsense_is_none)
{
    struct config *c = load("[[plugins]]\npath = \"/p/said\"\nrequired = true\n", NULL);
    const struct json *choices =
        json("{\"plugin_entries\":[{\"path\":\"/p/a/../b\",\"hot\":false,\"options\":{\"k\":[1]}},"
             "{\"path\":\"relative\"},{\"path\":1},7,{\"path\":\"/p/x\\u0000y\"},"
             "{\"path\":\"/p/said\",\"hot\":\"manual\",\"options\":{\"z\":1}}]}");
    places = (struct plugin_places){0};
    places_configured(&places, c, choices, NULL);
    CHECK_INT(places.list.n, 2);
    const struct plugin_place *said = &places.list.p[0], *p = &places.list.p[1];
    CHECK_STR(p->path, "/p/b");
    CHECK_STR(p->source, "choice");
    CHECK_INT(p->layer, LAYER_CONFIG);
    CHECK_INT(p->order, 1);
    CHECK_INT(p->hot, HOT_NO);
    CHECK(p->enabled);
    CHECK_STR(text_of(p->options), "{\"k\":[1]}");
    CHECK_STR(said->source, "config"); // the same place: one plugin, and the choice wins
    CHECK(said->required && said->hot == HOT_MANUAL);
    CHECK_STR(text_of(said->options), "{\"z\":1}");
    places_configured(&places, c, json("{\"plugin_entries\":{\"path\":\"/x\"}}"), NULL);
    places_fini(&places);
    config_free(c);
}

// ---- judging --------------------------------------------------------------------------------

TEST(a_later_layer_replaces_an_earlier_one_and_lists_it)
{
    places = (struct plugin_places){0};
    put("/s/x", LAYER_SHIPPED, NULL, "x");
    put("/u/x", LAYER_USER, NULL, "x");
    put("/u/y", LAYER_USER, NULL, "y");
    put("/pr/x", LAYER_USER_PROFILE, NULL, "x");
    CHECK_STR(made(NULL), "y=/u/y x=/pr/x");
    CHECK_STR(shadows(1), "/s/x /u/x");
    CHECK_STR(shadows(0), "");
    done();
}

TEST(lines_of_the_configuration_come_first_and_projects_last)
{
    places = (struct plugin_places){0};
    put("/r/.afloat/plugins/e", LAYER_REPO_PROFILE, "/r", "e");
    put("/r/.afloat/plugins/d", LAYER_REPO, "/r", "d");
    put("/pr/c", LAYER_USER_PROFILE, NULL, "c");
    put("/u/b", LAYER_USER, NULL, "b");
    put("/s/a", LAYER_SHIPPED, NULL, "a");
    put("/c/z", LAYER_CONFIG, NULL, "z");
    CHECK_STR(made(NULL), "z=/c/z a=/s/a b=/u/b c=/pr/c d=/r/.afloat/plugins/d "
                          "e=/r/.afloat/plugins/e");
    done();
}

TEST(a_name_twice_in_one_layer_is_a_conflict_that_names_both_places)
{
    places = (struct plugin_places){0};
    put("/u/a", LAYER_USER, NULL, "x");
    put("/u/b", LAYER_USER, NULL, "x");
    put("/u/c", LAYER_USER, NULL, "x");
    CHECK_STR(made(NULL), "x=/u/a x@duplicate=/u/b!NAME_DUPLICATE "
                          "x@duplicate-2=/u/c!NAME_DUPLICATE");
    const struct gen_diag *d = entries.list.p[1].fault;
    CHECK_STR(d->message, "plugin 'x' is there twice: '/u/a' loads, '/u/b' does not");
    CHECK_STR(d->path, "/u/b");
    CHECK_STR(d->plugin, "x@duplicate");
    CHECK_STR(shadows(0), "");
    done();
}

TEST(a_conflict_of_two_lines_names_the_lines)
{
    struct config *c = load("[[plugins]]\npath = \"/p/a\"\n[[plugins]]\npath = \"/p/b\"\n", NULL);
    places = (struct plugin_places){0};
    places_configured(&places, c, NULL, NULL);
    config_free(c);
    places.list.p[0].name = xstrdup("x");
    places.list.p[1].name = xstrdup("x");
    CHECK_STR(made(NULL), "x=/p/a x@duplicate=/p/b!NAME_DUPLICATE");
    const struct gen_diag *d = entries.list.p[1].fault;
    CHECK_STR(d->path, at("config.toml"));
    CHECK_INT(d->line, 3);
    CHECK_STR(d->source, "config");
    CHECK_STR(d->message, arena_printf(&mem,
                                       "plugin 'x' is there twice: '/p/a' (%s:1) loads, '/p/b' "
                                       "(%s:3) does not",
                                       at("config.toml"), at("config.toml")));
    done();
}

TEST(a_line_for_a_plugin_that_is_discovered_too_is_one_plugin)
{
    places = (struct plugin_places){0};
    put("/u/x", LAYER_USER, NULL, "x");
    put("/u/x", LAYER_CONFIG, NULL, "x")->options = NULL;
    CHECK_STR(made(NULL), "x=/u/x");
    CHECK_INT(entries.list.p[0].place->layer, LAYER_CONFIG);
    CHECK_STR(shadows(0), "");
    done();
}

TEST(a_configured_place_with_nothing_in_it_is_no_fallback)
{
    struct config *c = load("\n[[plugins]]\npath = \"/gone/x.lua\"\n", NULL);
    places = (struct plugin_places){0};
    places_configured(&places, c, NULL, NULL);
    config_free(c);
    put("/u/x", LAYER_USER, NULL, "x");
    CHECK_STR(made(NULL), "x=/gone/x.lua!ENTRY_MISSING");
    const struct gen_diag *d = entries.list.p[0].fault;
    CHECK_STR(d->message, "there is nothing at '/gone/x.lua'");
    CHECK_STR(d->path, at("config.toml"));
    CHECK_INT(d->line, 2);
    CHECK_STR(shadows(0), "/u/x");
    done();
}

TEST(a_bad_name_is_listed_and_does_not_load)
{
    places = (struct plugin_places){0};
    put("/u/My Plugin", LAYER_USER, NULL, "My Plugin");
    CHECK_STR(made(NULL), "My Plugin=/u/My Plugin!NAME_INVALID");
    CHECK_STR(entries.list.p[0].fault->path, "/u/My Plugin");
    CHECK_STR(entries.list.p[0].fault->message, "'My Plugin' cannot be the name of a plugin");
    done();
}

// ---- projects -------------------------------------------------------------------------------

TEST(projects_do_not_see_each_other_and_each_has_its_winner)
{
    places = (struct plugin_places){0};
    put("/u/x", LAYER_USER, NULL, "x");
    put("/s/x", LAYER_SHIPPED, NULL, "x");
    put("/r/a/p/x", LAYER_REPO, "/r/a", "x");
    put("/r/a/prof/x", LAYER_REPO_PROFILE, "/r/a", "x");
    put("/r/b/p/x", LAYER_REPO, "/r/b", "x");
    CHECK_STR(made(NULL), "x@user=/u/x x=/r/a/prof/x x@b=/r/b/p/x");
    CHECK_STR(shadows(0), "/s/x");
    CHECK_STR(shadows(1), "/s/x /u/x /r/a/p/x");
    CHECK_STR(shadows(2), "/s/x /u/x");
    done();
}

TEST(the_first_open_project_has_the_plain_name)
{
    places = (struct plugin_places){0};
    put("/r/b/p/x", LAYER_REPO, "/r/b", "x");
    put("/r/a/p/x", LAYER_REPO, "/r/a", "x");
    CHECK_STR(made(NULL), "x=/r/b/p/x x@a=/r/a/p/x");
    done();
}

TEST(projects_with_one_slug_still_have_units_of_their_own)
{
    places = (struct plugin_places){0};
    put("/u/x", LAYER_USER, NULL, "x");
    put("/1/user/x", LAYER_REPO, "/1/user", "x");
    put("/2/user/x", LAYER_REPO, "/2/user", "x");
    CHECK_STR(made(NULL), "x@user=/u/x x=/1/user/x x@user-2=/2/user/x");
    done();
}

TEST(a_name_twice_in_one_projects_layer_is_a_conflict_there_only)
{
    places = (struct plugin_places){0};
    put("/r/a/1", LAYER_REPO, "/r/a", "x");
    put("/r/a/2", LAYER_REPO, "/r/a", "x");
    put("/r/b/1", LAYER_REPO, "/r/b", "x");
    CHECK_STR(made(NULL), "x=/r/a/1 x@duplicate=/r/a/2!NAME_DUPLICATE x@b=/r/b/1");
    done();
}

// ---- choices --------------------------------------------------------------------------------

TEST(a_choice_wins_over_the_configuration_but_not_over_required)
{
    places = (struct plugin_places){0};
    put("/u/a", LAYER_USER, NULL, "a");
    put("/u/b", LAYER_USER, NULL, "b")->enabled = false;
    struct plugin_place *c = put("/u/c", LAYER_USER, NULL, "c");
    c->required = true;
    c->enabled = false;
    CHECK_STR(made(NULL), "a=/u/a -b=/u/b c=/u/c");
    entries_fini(&entries);
    CHECK_STR(made("{\"plugins.a.enabled\":false,\"plugins.b.enabled\":true,"
                   "\"plugins.c.enabled\":false}"),
              "-a=/u/a b=/u/b c=/u/c");
    entries_fini(&entries);
    CHECK_STR(made("{\"plugins.a.enabled\":\"no\"}"), "a=/u/a -b=/u/b c=/u/c");
    done();
}

TEST(a_choice_for_a_unit_wins_over_that_for_its_name)
{
    places = (struct plugin_places){0};
    put("/u/x", LAYER_USER, NULL, "x");
    put("/r/a/x", LAYER_REPO, "/r/a", "x");
    CHECK_STR(made("{\"plugins.x.enabled\":false}"), "-x@user=/u/x -x=/r/a/x");
    entries_fini(&entries);
    CHECK_STR(made("{\"plugins.x.enabled\":false,\"plugins.x@user.enabled\":true}"),
              "x@user=/u/x -x=/r/a/x");
    done();
}

TEST(layers_have_the_names_that_rows_show)
{
    static const char *const names[] = {"shipped", "user", "user-profile",
                                        "config",  "repo", "repo-profile"};
    for (int i = 0; i < LAYER__COUNT; i++) {
        CHECK_STR(plugin_layer_name((enum plugin_layer)i), names[i]);
    }
}
