#include "front/front_int.h"
#include "unit/test.h"

static struct arena a;

static void add(struct tree *t, const char *path)
{
    vec_push(&t->files, ((struct tree_file){.path = path, .bytes = STR("x")}));
}

/// The file, "" for what the page brings, or NULL.
static const char *means(const struct tree *t, const char *importer, const char *path)
{
    const char *out;
    enum front_found f = front__resolve(t, str_of(importer), str_of(path), &a, &out);
    CHECK(out != NULL && out[0] != '\0');
    return f == FOUND_FILE ? out : f == FOUND_EXTERNAL ? "" : NULL;
}

TEST(an_import_means_a_file_of_the_tree_or_a_module_of_the_page)
{
    struct tree t = {0};
    add(&t, "front/a.tsx"); // sorted, as tree_read() has them
    add(&t, "front/chart/index.ts");
    add(&t, "front/index.tsx");
    add(&t, "front/style.css");
    add(&t, "init.lua");
    add(&t, "shared/data.json");
    CHECK_STR(means(&t, "", "front/index.tsx"), "front/index.tsx");
    CHECK_STR(means(&t, "front/index.tsx", "./a"), "front/a.tsx");
    CHECK_STR(means(&t, "front/index.tsx", "./a.js"), "front/a.tsx");
    CHECK_STR(means(&t, "front/index.tsx", "./chart"), "front/chart/index.ts");
    CHECK_STR(means(&t, "front/chart/index.ts", ".././/a"), "front/a.tsx");
    CHECK_STR(means(&t, "front/index.tsx", "../shared/data.json"), "shared/data.json");
    CHECK_STR(means(&t, "front/style.css", "style.css"), "front/style.css");
    CHECK_STR(means(&t, "front/index.tsx", "react"), "");
    CHECK_STR(means(&t, "front/index.tsx", "afloat/jsx-runtime"), "");
    CHECK(means(&t, "front/index.tsx", "../../shared/data.json") == NULL);
    CHECK(means(&t, "front/index.tsx", "../../../../etc/passwd") == NULL);
    CHECK(means(&t, "front/index.tsx", "/front/a.tsx") == NULL);
    CHECK(means(&t, "front/index.tsx", "../init.lua") == NULL);
    CHECK(means(&t, "front/index.tsx", "lodash") == NULL);
    CHECK(means(&t, "front/index.tsx", "") == NULL);
    vec_fini(&t.files);
    arena_fini(&a);
}

TEST(the_hash_covers_what_a_page_could_get_and_nothing_else)
{
    char before[SHA256_HEX], after[SHA256_HEX];
    struct tree t = {0};
    add(&t, "front/index.tsx");
    add(&t, "init.lua");
    front_hash(&t, "front/index.tsx", before);
    t.files.p[1].bytes = STR("another server");
    front_hash(&t, "front/index.tsx", after);
    CHECK_STR(after, before);
    t.files.p[0].bytes = STR("another page");
    front_hash(&t, "front/index.tsx", after);
    CHECK(strcmp(after, before) != 0);
    CHECK(front_type(STR("init.lua")) == NULL && front_type(STR("a.tsx")) == NULL);
    vec_fini(&t.files);
}
