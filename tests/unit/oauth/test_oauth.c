#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

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
    oauth__base64((const uint8_t *)"\xFB\xFF"
                                   "a",
                  3, true, &out);
    oauth__base64((const uint8_t *)"\xFB\xFF", 2, false, &out);
    oauth__base64((const uint8_t *)"a", 1, true, &out);
    CHECK_STR(buf_z(&out), "-_9h+/8=YQ");
    buf_fini(&out);
}

TEST(the_name_of_a_secret_has_only_what_names_may_have)
{
    char *name = oauth_secret_name("my server/1");
    CHECK_STR(name, "mcp.my_server_1");
    free(name);
}

struct rig {
    struct loop loop;
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
    loop_stop(&r->loop);
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

TEST(only_the_browser_that_brings_our_state_back_is_believed)
{
    struct rig r = {0};
    struct oauth_callback *c;
    CHECK_INT(loop_init(&r.loop, NULL, NULL), 0);
    CHECK_INT(oauth__callback_open(&c, &r.loop, "secret-state", on_back, &r, NULL), 0);
    int port = oauth__callback_port(c);
    visit(&r, port, "GET /callback?code=x&state=wrong HTTP/1.1\r\n\r\n", " 400 ");
    visit(&r, port, "GET /callback?code=x HTTP/1.1\r\n\r\n", " 400 ");
    visit(&r, port, "GET /other?code=x&state=secret-state HTTP/1.1\r\n\r\n", " 400 ");
    visit(&r, port, "nonsense\r\n\r\n", " 400 ");
    CHECK_INT(r.backs, 0);
    visit(&r, port, "GET /callback?code=a%20b&state=secret-state HTTP/1.1\r\n\r\n", " 200 ");
    CHECK_INT(r.backs, 1);
    CHECK_STR(r.code, "a b");
    oauth__callback_close(c);
    test_loop_settle(&r.loop);
    CHECK_INT(loop_close(&r.loop, NULL), 0);
}
