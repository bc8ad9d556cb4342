#include <unistd.h>

#include "config/secrets.h"
#include "mcp/spec.h"
#include "unit/test.h"

static struct mcp_spec *spec_of(const char *json, const char *project)
{
    struct arena a = {0};
    struct json *v;
    CHECK_INT(json_parse(&v, &a, str_of(json), NULL, NULL), 0);
    struct mcp_spec *s = mcp_spec_new(
        "db", project != NULL ? &(struct mcp_place){.project = project} : NULL, v, STR_NULL);
    arena_fini(&a);
    return s;
}

static void check_error(const char *json, const char *project, const char *want)
{
    struct mcp_spec *s = spec_of(json, project);
    CHECK(s->error != NULL && strstr(s->error, want) != NULL);
    mcp_spec_free(s);
}

TEST(a_server_has_a_program_or_an_address)
{
    check_error("{}", NULL, "neither 'command' nor 'url'");
    check_error("{\"command\":\"a\",\"url\":\"http://b\"}", NULL, "both 'command' and 'url'");
    check_error("{\"url\":\"ftp://b\"}", NULL, "must begin with https://");
    check_error("{\"url\":\"https://user@b\"}", NULL, "no user name");
    check_error("{\"url\":\"https:///a\"}", NULL, "must begin with https://");
    struct mcp_spec *at = spec_of("{\"url\":\"https://b/@scope/name?c=d@e\"}", NULL);
    CHECK(at->error == NULL); // no user name, but part of the path
    mcp_spec_free(at);
    check_error("{\"command\":\"a\",\"args\":\"b\"}", NULL, "'args' must be a list");
    check_error("{\"command\":\"a\",\"env\":{\"A=B\":\"c\"}}", NULL, "'env' must be a table");
    check_error("{\"url\":\"http://b\",\"headers\":{\"A\":\"b\\nC: d\"}}", NULL, "one line");
    check_error("{\"command\":\"a\",\"cwd\":\"b\"}", NULL, "absolute path");
    check_error("{\"command\":\"a\",\"timeout_s\":0}", NULL, "'timeout_s'");
    check_error("[]", NULL, "must be a table");
    struct mcp_spec *s = spec_of("{\"command\":\"a\",\"args\":[\"b\"],\"tools\":\"*\"}", NULL);
    CHECK(s->error == NULL && s->sandbox && s->enabled && s->tools == NULL && s->cwd == NULL);
    CHECK_INT(s->timeout_ms, 30000);
    CHECK_STR(s->args[0], "b");
    mcp_spec_free(s);
}

TEST(a_projects_server_is_always_sandboxed_and_gets_no_secrets)
{
    struct mcp_spec *s = spec_of("{\"command\":\"a\",\"sandbox\":false,\"cwd\":\"sub\"}", "/repo");
    CHECK(s->error == NULL && s->sandbox);
    CHECK_STR(s->cwd, "/repo/sub");
    mcp_spec_free(s);
    check_error("{\"url\":\"https://b\",\"headers\":{\"A\":\"${secret:X}\"}}", "/repo",
                "none of your secrets");
    check_error("{\"command\":\"b\",\"env\":{\"A\":\"${secret:X}\"}}", "/repo",
                "none of your secrets");
}

TEST(the_hash_says_whether_a_server_is_the_same)
{
    struct mcp_spec *a = spec_of("{\"command\":\"a\"}", NULL),
                    *b = spec_of("{\"command\":\"a\"}", NULL);
    struct mcp_spec *c = spec_of("{\"command\":\"b\"}", NULL),
                    *d = spec_of("{\"command\":\"a\"}", "/p");
    CHECK_STR(a->hash, b->hash);
    CHECK(strcmp(a->hash, c->hash) != 0 && strcmp(a->hash, d->hash) != 0);
    mcp_spec_free(a);
    mcp_spec_free(b);
    mcp_spec_free(c);
    mcp_spec_free(d);
}

TEST(names_are_what_every_provider_takes)
{
    struct arena a = {0};
    struct str s = mcp_name(&a, "git hub", STR("List.Issues/1"));
    CHECK(str_eqz(s, "git_hub__List_Issues_1"));
    char tool[100];
    memset(tool, 'x', sizeof tool);
    struct str one = mcp_name(&a, "s", (struct str){tool, 99});
    struct str two = mcp_name(&a, "s", (struct str){tool, 98});
    CHECK_INT(one.n, 64);
    CHECK(!str_eq(one, two));
    arena_fini(&a);
}

TEST(secrets_are_filled_in_by_name)
{
    char *out = NULL, path[] = "/tmp/mcp-secrets-XXXXXX", file[64];
    struct err e = {0};
    CHECK(mkdtemp(path) != NULL);
    snprintf(file, sizeof file, "%s/s.json", path);
    CHECK_INT(secrets_set(file, "A", STR("one"), &e), 0);
    CHECK_INT(mcp_fill_secrets(file, "Bearer ${secret:A}, ${secret:A}${x}", &out, &e), 0);
    CHECK_STR(out, "Bearer one, one${x}");
    free(out);
    CHECK_INT(mcp_fill_secrets(file, "${secret:B}", &out, &e), ERR_NOT_FOUND);
    CHECK(out == NULL && strstr(e.msg, "afloat secret set B") != NULL);
    CHECK_INT(mcp_fill_secrets(file, "${secret:A", &out, &e), 0);
    CHECK_STR(out, "${secret:A");
    free(out);
    unlink(file);
    snprintf(file, sizeof file, "%s/s.json.lock", path);
    unlink(file);
    rmdir(path);
}
