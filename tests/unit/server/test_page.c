// The web page and its files: who gets them, in which coding, for how long, under which policy.

#include "rig.h"

#define BEARER "Authorization: Bearer " TOKEN "\r\n"

static const struct server_asset assets[] = {
    {"main-1.js", "text/javascript; charset=utf-8", "e1", {"plain", 5}, {"b", 1}, {"gz", 2}},
    {0},
};
static const struct server_page page = {"<script nonce=\"%NONCE%\"></script>|%NONCE%|", assets};

static void get(const char *path, const char *headers, struct answer *a)
{
    char request[512];
    int fd = rig_tcp();
    snprintf(request, sizeof request, "GET %s HTTP/1.1\r\nHost: %s\r\n%s\r\n", path, rig_host(),
             headers);
    rig_put(fd, request);
    rig_read(fd, false, a);
    close(fd);
}

TEST(the_page_has_a_new_nonce_each_time_and_a_policy_that_names_it)
{
    struct answer a;
    char nonces[2][64], want[128];
    rig.page = &page;
    rig_open(NULL);
    for (int i = 0; i < 2; i++) {
        get("/", BEARER, &a);
        CHECK_INT(a.head.status, 200);
        CHECK_SPAN(http1_get(&a.head, "cache-control"), "no-store");
        CHECK_INT(sscanf(buf_z(&a.body), "<script nonce=\"%63[^\"]\"", nonces[i]), 1);
        CHECK_INT(strlen(nonces[i]), 43);
        snprintf(want, sizeof want, "></script>|%s|", nonces[i]);
        CHECK(strstr(buf_z(&a.body), want) != NULL);
        char *policy = str_dup(http1_get(&a.head, "content-security-policy"));
        snprintf(want, sizeof want, "script-src 'self' 'nonce-%s'; style-src 'self' 'nonce-%s';",
                 nonces[i], nonces[i]);
        CHECK(strstr(policy, want) != NULL);
        CHECK(strncmp(policy, "default-src 'none';", 19) == 0);
        CHECK(strstr(policy, "unsafe") == NULL);
        free(policy);
        answer_fini(&a);
    }
    CHECK(strcmp(nonces[0], nonces[1]) != 0);
    rig_close();
    rig.page = NULL;
}

TEST(the_page_names_the_directory_to_begin_in_as_text)
{
    static const struct server_page with_dir = {"[%DIR%]", assets};
    struct answer a;
    rig.page = &with_dir;
    rig_open(NULL);
    get("/", BEARER, &a);
    CHECK_STR(buf_z(&a.body), "[]");
    answer_fini(&a);
    server_set_start_dir(rig.server, STR("/a\"<b>&%NONCE%"));
    get("/", BEARER, &a);
    CHECK_STR(buf_z(&a.body), "[/a&quot;&lt;b&gt;&amp;%NONCE%]");
    answer_fini(&a);
    rig_close();
    rig.page = NULL;
}

TEST(the_list_of_plugins_in_the_page_cannot_end_its_element)
{
    static const struct server_page with_fronts = {"[%FRONTS%]", assets};
    struct answer a;
    rig.page = &with_fronts;
    rig_open(NULL);
    get("/", BEARER, &a);
    CHECK_STR(buf_z(&a.body), "[<script type=\"application/json\" id=\"fronts\">"
                              "\"\\u003c/script>\\u003cb>\"</script>]");
    answer_fini(&a);
    rig_close();
    rig.page = NULL;
}

TEST(a_file_of_the_page_comes_in_the_best_coding_and_stays)
{
    static const struct {
        const char *accept, *body, *coding;
    } rows[] = {
        {"Accept-Encoding: gzip, deflate, br\r\n", "b", "br"},
        {"Accept-Encoding: gzip, br;q=0\r\n", "gz", "gzip"},
        {"Accept-Encoding: br;q=0.0, gzip;q=0\r\n", "plain", NULL},
        {"", "plain", NULL},
    };
    struct answer a;
    char headers[256];
    rig.page = &page;
    rig_open(NULL);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        snprintf(headers, sizeof headers, "%s%s", BEARER, rows[i].accept);
        get("/assets/main-1.js", headers, &a);
        CHECK_INT(a.head.status, 200);
        CHECK_STR(buf_z(&a.body), rows[i].body);
        CHECK(str_eq(http1_get(&a.head, "content-encoding"), str_of(rows[i].coding)));
        CHECK_SPAN(http1_get(&a.head, "cache-control"), "private, max-age=31536000, immutable");
        CHECK_SPAN(http1_get(&a.head, "content-type"), "text/javascript; charset=utf-8");
        char *etag = str_dup(http1_get(&a.head, "etag"));
        answer_fini(&a);
        snprintf(headers, sizeof headers, "%s%sIf-None-Match: %s\r\n", BEARER, rows[i].accept,
                 etag);
        get("/assets/main-1.js", headers, &a);
        CHECK_INT(a.head.status, 304);
        CHECK_INT(a.body.n, 0);
        answer_fini(&a);
        free(etag);
    }
    rig_close();
    rig.page = NULL;
}

TEST(files_of_the_page_are_for_the_authenticated_only)
{
    struct answer a;
    rig.page = &page;
    rig_open(NULL);
    get("/assets/main-1.js", "", &a);
    CHECK_INT(a.head.status, 401);
    answer_fini(&a);
    get("/assets/main-2.js", BEARER, &a);
    CHECK_INT(a.head.status, 404);
    answer_fini(&a);
    CHECK_INT(rig_ask_unix("POST /assets/main-1.js HTTP/1.1\r\nHost: x\r\n\r\n", NULL, 0), 405);
    rig_close();
    rig.page = NULL;
}

TEST(a_file_of_a_plugin_is_kept_only_under_the_address_that_names_its_version)
{
    static const struct {
        const char *path, *headers;
        int status;
        const char *cache;
    } asked[] = {
        {"/front/demo/2/a%20b/index.js?v=abcdefabcdef", BEARER, 200,
         "private, max-age=31536000, immutable"},
        {"/front/demo/2/a%20b/index.js?v=abcdefabcde", BEARER, 200, "private, no-cache"},
        {"/front/demo/2/a%20b/index.js", BEARER, 200, "private, no-cache"},
        {"/front/demo/3/a%20b/index.js", BEARER, 404, "no-store"},
        {"/front/demo/2/a%20b/%00", BEARER, 404, "no-store"},
        {"/front/demo/2/a%2", BEARER, 404, "no-store"},
        {"/front/demo/2/", BEARER, 404, "no-store"},
        {"/front/demo/2/a%20b/index.js", "", 401, "no-store"},
    };
    rig_open(NULL);
    for (size_t i = 0; i < ARRAY_LEN(asked); i++) {
        struct answer a;
        get(asked[i].path, asked[i].headers, &a);
        CHECK_INT(a.head.status, asked[i].status);
        CHECK_SPAN(http1_get(&a.head, "cache-control"), asked[i].cache);
        answer_fini(&a);
    }
    rig_close();
}
