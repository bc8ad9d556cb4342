#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/base64.h"
#include "oauth/oauth_int.h"
#include "unit/loop.h"

static const char kept[] =
    "{\"access_token\":\"a\",\"refresh_token\":\"r\",\"token_endpoint\":\"https://t/\","
    "\"client_id\":\"c\",\"client_secret\":\"s\",\"resource\":\"https://m/\",\"basic\":true,"
    "\"expires_at\":7}";

TEST(a_token_is_kept_whole)
{
    struct oauth_token t;
    struct buf text = {.max = SIZE_MAX};
    CHECK_INT(oauth_token_read(&t, str_of(kept), NULL), 0);
    oauth_token_write(&t, &text);
    CHECK_STR(buf_z(&text), kept);
    oauth_token_fini(&t);
    buf_fini(&text);
    CHECK_INT(oauth_token_read(&t, STR("{\"access_token\":\"a\"}"), NULL), ERR_INVALID);
    oauth_token_fini(&t);
    CHECK_INT(oauth_token_read(&t, STR("nonsense"), NULL), ERR_INVALID);
    oauth_token_fini(&t);
}

TEST(an_answer_without_a_bearer_token_is_refused_and_an_old_refresh_token_stays)
{
    static const char *const bad[] = {"", "[]", "{}", "{\"access_token\":7}",
                                      "{\"access_token\":\"x\",\"token_type\":\"mac\"}"};
    struct oauth_token t;
    struct err e = {0};
    CHECK_INT(oauth_token_read(&t, str_of(kept), NULL), 0);
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        CHECK_INT(oauth__take(&t, 200, str_of(bad[i]), &e), ERR_DENIED);
    }
    CHECK_INT(oauth__take(&t, 400, STR("{\"error\":\"invalid_grant\"}"), &e), ERR_DENIED);
    CHECK(strstr(e.msg, "invalid_grant") != NULL);
    CHECK_INT(oauth__take(&t, 200, STR("{\"access_token\":\"new\",\"expires_in\":3600}"), &e), 0);
    CHECK_STR(t.access, "new");
    CHECK_STR(t.refresh, "r");
    CHECK(t.expires_at > 1700000000);
    oauth_token_fini(&t);
}

TEST(values_are_encoded_and_bytes_are_base64)
{
    struct buf out = {.max = SIZE_MAX};
    buf_addz(&out, "https://a/?");
    oauth__add(&out, "k", "a b&c=\xC3\xA4~");
    oauth__add(&out, "l", "");
    CHECK_STR(buf_z(&out), "https://a/?k=a%20b%26c%3D%C3%A4~&l=");
    buf_clear(&out);
    base64_encode_url(&out, STR("\xFB\xFF"
                                "a"));
    base64_encode(&out, STR("\xFB\xFF"));
    base64_encode_url(&out, STR("a"));
    CHECK_STR(buf_z(&out), "-_9h+/8=YQ");
    buf_fini(&out);
}

TEST(the_name_of_a_secret_has_only_what_names_may_have)
{
    char *name = oauth_secret_name("my server/1");
    CHECK_STR(name, "mcp.my_server_1");
    free(name);
}

TEST(documents_name_https_addresses_and_only_a_server_of_this_machine_its_services)
{
    static const char far[] = "https://mcp.example.com/mcp", near[] = "http://127.0.0.1:8080/mcp";
    static const char *const good[] = {"https://login.example.com", "https://a.example:444/x?y=1"};
    static const char *const own[] = {"http://127.0.0.1:9/token", "http://localhost/x",
                                      "http://[::1]:9/x", "https://LOCALHOST:9/x",
                                      "http://127.9.9.9/"};
    static const char *const bad[] = {"http://login.example.com/",
                                      "ftp://127.0.0.1/",
                                      "file:///etc/passwd",
                                      "javascript:alert(1)",
                                      "https://",
                                      "https:///x",
                                      "https://user@evil.example/",
                                      "http://127.0.0.1:80@evil.example/",
                                      "http://127.0.0.1.evil.example?@x",
                                      "https://a.example/ b",
                                      "https://a.example/\x1b]0;x\x07",
                                      "https://a.example/\r\nX: y",
                                      "https://a.example/\xc3\xa4",
                                      "--help",
                                      ""};
    for (size_t i = 0; i < ARRAY_LEN(good); i++) {
        CHECK(oauth__may_ask(far, good[i]));
        CHECK(oauth__may_ask(near, good[i]));
    }
    for (size_t i = 0; i < ARRAY_LEN(own); i++) {
        CHECK(!oauth__may_ask(far, own[i]));
        CHECK(oauth__may_ask(near, own[i]));
    }
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        CHECK(!oauth__may_ask(far, bad[i]));
        CHECK(!oauth__may_ask(near, bad[i]));
    }
}

TEST(a_token_is_for_one_origin_and_what_is_below_its_path)
{
    static const struct {
        const char *resource, *url;
        bool is;
    } rows[] = {{"https://a.example/mcp", "https://a.example/mcp", true},
                {"https://a.example", "https://a.example/mcp", true},
                {"https://a.example/", "https://a.example", true},
                {"https://a.example/mcp/", "https://a.example/mcp?x=1", true},
                {"https://a.example/m", "https://a.example/mcp", false},
                {"https://a.exampl", "https://a.example/mcp", false},
                {"https://a.example:4", "https://a.example:44/mcp", false},
                {"http://a.example", "https://a.example/mcp", false},
                {"https://", "https://a.example/mcp", false},
                {"https", "https://a.example/mcp", false},
                {"", "https://a.example/mcp", false},
                {"https://a.example/mcp/x", "https://a.example/mcp", false}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        CHECK_INT(oauth_is_for(rows[i].resource, rows[i].url), rows[i].is);
    }
}

struct rig {
    struct loop loop;
    struct oauth_callback *callback;
    struct err why; // what the page is told; code 0: the login worked
    int backs;
    char code[20];
};

static void on_back(void *arg, const char *code, const char *issuer, const struct err *e)
{
    struct rig *r = arg;
    (void)issuer;
    (void)e;
    r->backs++;
    snprintf(r->code, sizeof r->code, "%s", code != NULL ? code : "");
    oauth__callback_close(r->callback, r->why.code != 0 ? &r->why : NULL);
}

static void visit(struct rig *r, int port, const char *request, const char *want)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    char answer[300] = "";
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    inet_pton(AF_INET, "127.0.0.1", &at.sin_addr);
    CHECK_INT(connect(fd, (struct sockaddr *)&at, sizeof at), 0);
    CHECK_INT(write(fd, request, strlen(request)), (ssize_t)strlen(request));
    while (recv(fd, answer, sizeof answer - 1, MSG_DONTWAIT) <= 0) {
        loop_run_once(&r->loop, false);
    }
    CHECK(strstr(answer, want) != NULL);
    close(fd);
}

TEST(visitors_who_say_nothing_keep_nobody_waiting)
{
    struct rig r = {0};
    int fds[100];
    CHECK_INT(loop_init(&r.loop, NULL, NULL), 0);
    CHECK_INT(oauth__callback_open(&r.callback, &r.loop, "secret-state", on_back, &r, NULL), 0);
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)oauth__callback_port(r.callback))};
    inet_pton(AF_INET, "127.0.0.1", &at.sin_addr);
    for (size_t i = 0; i < ARRAY_LEN(fds); i++) {
        fds[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        CHECK_INT(connect(fds[i], (struct sockaddr *)&at, sizeof at), 0);
        loop_run_once(&r.loop, false);
    }
    visit(&r, oauth__callback_port(r.callback),
          "GET /callback?code=a&state=secret-state HTTP/1.1\r\n\r\n", " 200 ");
    CHECK_INT(r.backs, 1);
    test_loop_settle(&r.loop);
    CHECK_INT(loop_close(&r.loop, NULL), 0); // although they are still connected
    for (size_t i = 0; i < ARRAY_LEN(fds); i++) {
        close(fds[i]);
    }
}

TEST(only_the_browser_that_brings_our_state_back_is_believed)
{
    struct rig r = {0};
    CHECK_INT(loop_init(&r.loop, NULL, NULL), 0);
    CHECK_INT(oauth__callback_open(&r.callback, &r.loop, "secret-state", on_back, &r, NULL), 0);
    int port = oauth__callback_port(r.callback);
    visit(&r, port, "GET /callback?code=x&state=wrong HTTP/1.1\r\n\r\n", " 400 ");
    visit(&r, port, "GET /callback?code=x HTTP/1.1\r\n\r\n", " 400 ");
    visit(&r, port, "GET /other?code=x&state=secret-state HTTP/1.1\r\n\r\n", " 400 ");
    visit(&r, port, "nonsense\r\n\r\n", " 400 ");
    CHECK_INT(r.backs, 0);
    visit(&r, port, "GET /callback?code=a%20b&state=secret-state HTTP/1.1\r\n\r\n",
          "\r\n\r\nLogged in");
    CHECK_INT(r.backs, 1);
    CHECK_STR(r.code, "a b");
    test_loop_settle(&r.loop);
    CHECK_INT(loop_close(&r.loop, NULL), 0);
}

TEST(the_page_says_why_a_login_failed)
{
    struct rig r = {0};
    err_set(&r.why, ERR_DENIED, "the server gave no token");
    CHECK_INT(loop_init(&r.loop, NULL, NULL), 0);
    CHECK_INT(oauth__callback_open(&r.callback, &r.loop, "secret-state", on_back, &r, NULL), 0);
    visit(&r, oauth__callback_port(r.callback),
          "GET /callback?code=a&state=secret-state HTTP/1.1\r\n\r\n",
          "\r\n\r\nNot logged in: the server gave no token.");
    CHECK_INT(r.backs, 1);
    test_loop_settle(&r.loop);
    CHECK_INT(loop_close(&r.loop, NULL), 0);
}
