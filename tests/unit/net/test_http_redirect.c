// Redirects, what goes along with them, and proxies.

#include "unit/net/web.h"

static struct web web, other;
static const char *location; // where `answer_redirect` sends
static int redirect_status;
static int redirects; // so many, then 200

static void answer_redirect(struct web_conn *conn, const char *head)
{
    char text[512];
    if (conn->web->requests + (conn->web == &web ? other : web).requests > redirects) {
        web_ok(conn, head);
        return;
    }
    snprintf(text, sizeof text,
             "HTTP/1.1 %d Go\r\nLocation: %s\r\nX-Hop: 1\r\nContent-Length: 4\r\n\r\nGONE",
             redirect_status, location);
    web_say(conn, text);
}

static void begin(int status, const char *to, int times)
{
    web_begin(NULL);
    web_open(&web, answer_redirect);
    web_open(&other, answer_redirect);
    redirect_status = status;
    location = to;
    redirects = times;
}

static void finish(void)
{
    web_close(&web);
    web_close(&other);
    web_end();
}

static struct http_request ask(const char *method)
{
    static struct http_header secret[5];
    secret[0] = (struct http_header){STR("Authorization"), STR("Bearer abc")};
    secret[1] = (struct http_header){STR("Cookie"), STR("a=b")};
    secret[2] = (struct http_header){STR("X-Api-Key"), STR("abc")};
    secret[3] = (struct http_header){STR("Content-Type"), STR("text/x")};
    secret[4] = (struct http_header){STR("Accept"), STR("text/y")};
    struct http_request q = {.method = method,
                             .url = web_url(&web, "/start"),
                             .headers = secret,
                             .n_headers = ARRAY_LEN(secret),
                             .follow_redirects = true};
    if (strcmp(method, "POST") == 0) {
        q.body = STR("payload");
    }
    return q;
}

TEST(a_redirect_is_followed_and_nothing_of_it_is_shown)
{
    begin(302, "/next?x=1", 3);
    struct http_request q = ask("GET");
    struct fetch f = {0};
    fetch(&f, &q, &fetch_stream);
    CHECK_INT(f.rc, 0);
    CHECK_INT(f.status, 200);
    CHECK_STR(buf_z(&f.head), "Content-Length=5\n");
    CHECK_SPAN(buf_str(&f.body), "hello");
    CHECK(str_starts(buf_str(&web.head), "GET /next?x=1 HTTP/1.1\r\n"));
    CHECK_INT(web.requests, 4);
    CHECK_INT(web.accepts, 1);
    fetch_end(&f);
    finish();
}

TEST(what_a_redirect_brings_does_not_count_against_the_bound)
{
    begin(302, "/next", 1);
    struct http_request q = ask("GET");
    struct fetch f = {0};
    q.max_body = 5;
    fetch(&f, &q, &fetch_collect);
    CHECK_INT(f.rc, 0);
    CHECK_SPAN(buf_str(&f.body), "hello");
    fetch_end(&f);
    finish();
}

TEST(a_redirect_is_an_answer_like_others_unless_it_shall_be_followed)
{
    begin(302, "/next", 1);
    struct http_request q = ask("GET");
    struct fetch f = {0};
    q.follow_redirects = false;
    fetch(&f, &q, &fetch_collect);
    CHECK_INT(f.rc, 0);
    CHECK_INT(f.status, 302);
    CHECK_SPAN(buf_str(&f.body), "GONE");
    CHECK_INT(web.requests, 1);
    fetch_end(&f);
    finish();
}

TEST(a_redirect_to_another_host_is_the_answer_where_that_is_wanted)
{
    char elsewhere[128];
    begin(302, elsewhere, 1);
    snprintf(elsewhere, sizeof elsewhere, "http://localhost:%s",
             strrchr(web_url(&other, "/x"), ':') + 1);
    struct http_request q = ask("GET");
    struct fetch f = {0};
    q.same_host = true;
    fetch(&f, &q, &fetch_collect);
    CHECK_INT(f.rc, 0);
    CHECK_INT(f.status, 302);
    CHECK_INT(f.body.n, 0);
    CHECK_INT(other.requests, 0);
    fetch_end(&f);
    finish();
    begin(302, "/next", 1);
    q = ask("GET");
    q.same_host = true;
    f = (struct fetch){0};
    fetch(&f, &q, &fetch_collect);
    CHECK_INT(f.status, 200);
    fetch_end(&f);
    finish();
}

TEST(only_public_addresses_are_connected_to_where_that_is_wanted)
{
    begin(302, "/next", 0);
    struct http_request q = ask("GET");
    struct fetch f = {0};
    fetch(&f, &q, &fetch_collect); // leaves a connection that could be used again
    CHECK_INT(f.rc, 0);
    fetch_end(&f);
    q.public_only = true;
    f = (struct fetch){0};
    fetch(&f, &q, &fetch_collect);
    CHECK_INT(f.rc, ERR_DENIED);
    CHECK(strstr(f.e.msg, "its address 127.0.0.1 is of this machine") != NULL);
    CHECK_INT(web.requests, 1);
    fetch_end(&f);
    finish();
}

static void check_method(int status, const char *method, const char *first_line, bool body)
{
    begin(status, "/next", 1);
    struct http_request q = ask(method);
    struct fetch f = {0};
    fetch(&f, &q, &fetch_collect);
    CHECK_INT(f.rc, 0);
    CHECK(str_starts(buf_str(&web.head), first_line));
    CHECK_SPAN(buf_str(&web.last->body), body ? "payload" : "");
    CHECK_INT(web_header(buf_z(&web.head), "Content-Type: text/x"), body);
    CHECK(web_header(buf_z(&web.head), "Authorization: Bearer abc")); // the same origin
    CHECK(web_header(buf_z(&web.head), "X-Api-Key: abc"));
    fetch_end(&f);
    finish();
}

TEST(method_and_body_survive_a_redirect_exactly_where_they_should)
{
    check_method(301, "POST", "GET /next ", false);
    check_method(302, "POST", "GET /next ", false);
    check_method(303, "POST", "GET /next ", false);
    check_method(307, "POST", "POST /next ", true);
    check_method(308, "POST", "POST /next ", true);
    check_method(303, "DELETE", "GET /next ", false);
    check_method(302, "DELETE", "DELETE /next ", false);
    check_method(303, "HEAD", "HEAD /next ", false);
}

static void check_stripped(const char *head)
{
    CHECK(strcasestr(head, "authorization") == NULL);
    CHECK(strcasestr(head, "cookie") == NULL);
    CHECK(strcasestr(head, "x-api-key") == NULL);
    CHECK(strstr(head, "abc") == NULL);
    CHECK(web_header(head, "Accept: text/y"));
    CHECK(web_header(head, "Content-Type: text/x"));
}

TEST(credentials_stay_behind_when_a_redirect_leaves_the_port_or_the_host)
{
    char to[128];
    static const char *const hosts[] = {"127.0.0.1", "other.test"};
    for (size_t i = 0; i < ARRAY_LEN(hosts); i++) {
        begin(307, to, 1);
        snprintf(to, sizeof to, "http://%s:%d/there", hosts[i], i == 0 ? other.port : web.port);
        struct http_request q = ask("POST");
        struct fetch f = {0};
        fetch(&f, &q, &fetch_collect);
        CHECK_INT(f.rc, 0);
        CHECK_INT(other.requests, i == 0 ? 1 : 0);
        check_stripped(buf_z(i == 0 ? &other.head : &web.head));
        fetch_end(&f);
        finish();
    }
}

static void answer_there_and_on(struct web_conn *conn, const char *head)
{
    char text[256];
    if (other.requests == 2) {
        web_ok(conn, head);
        return;
    }
    snprintf(text, sizeof text,
             "HTTP/1.1 307 Go\r\nLocation: http://127.0.0.1:%d/\r\nContent-Length: 0\r\n\r\n",
             other.port);
    web_say(conn, text);
}

TEST(credentials_do_not_come_back_with_a_second_redirect_on_the_other_host)
{
    begin(307, "", 0);
    web.answer = other.answer = answer_there_and_on;
    struct http_request q = ask("POST");
    struct fetch f = {0};
    fetch(&f, &q, &fetch_collect);
    CHECK_INT(f.rc, 0);
    CHECK_INT(other.requests, 2);
    check_stripped(buf_z(&other.head));
    fetch_end(&f);
    finish();
}

static void check_fails(int status, const char *to, int times, int rc, const char *says)
{
    begin(status, to, times);
    struct http_request q = ask("GET");
    struct fetch f = {0};
    fetch(&f, &q, &fetch_collect);
    CHECK_INT(f.rc, rc);
    CHECK_INT(f.heads, 0);
    if (strstr(f.e.msg, says) == NULL) {
        test_fail(__FILE__, __LINE__, "'%s' does not say '%s'", f.e.msg, says);
    }
    fetch_end(&f);
    finish();
}

TEST(ten_redirects_are_followed_and_not_eleven)
{
    begin(302, "/again", 10);
    struct http_request q = ask("GET");
    struct fetch f = {0};
    fetch(&f, &q, &fetch_collect);
    CHECK_INT(f.rc, 0);
    CHECK_INT(web.requests, 11);
    fetch_end(&f);
    finish();
    check_fails(302, "/again", 11, ERR_DENIED, "more than 10 redirects");
}

TEST(a_redirect_to_something_else_than_http_is_refused)
{
    check_fails(302, "file:///etc/passwd", 1, ERR_PARSE, "no http or https URL");
    check_fails(302, "ftp://127.0.0.1/", 1, ERR_PARSE, "no http or https URL");
    check_fails(302, "http://", 1, ERR_PARSE, "no http or https URL");
}

static void answer_flood(struct web_conn *conn, const char *head)
{
    static char bytes[1 << 20];
    (void)head;
    web_say(conn, "HTTP/1.1 302 Go\r\nLocation: /x\r\n\r\n");
    web_say_bytes(conn, bytes, sizeof bytes);
}

TEST(the_body_of_a_redirect_is_bounded)
{
    begin(302, "/x", 1);
    web.answer = answer_flood;
    struct http_request q = ask("GET");
    struct fetch f = {0};
    fetch(&f, &q, &fetch_collect);
    CHECK_INT(f.rc, ERR_TOO_LARGE);
    fetch_end(&f);
    finish();
}

// ---- proxies ---------------------------------------------------------------------------------

static void check_proxy(const char *field, bool used)
{
    struct http_request q = {.url = web_url(&web, "/direct"), .proxy = field};
    struct fetch f = {0};
    int before = other.requests;
    fetch(&f, &q, &fetch_collect);
    CHECK_INT(f.rc, 0);
    CHECK_INT(other.requests - before, used ? 1 : 0);
    if (used) {
        CHECK(str_starts(buf_str(&other.head), "GET http://127.0.0.1:"));
    }
    fetch_end(&f);
}

TEST(the_proxy_is_the_one_asked_for_or_that_of_the_environment)
{
    begin(302, "", 0);
    check_proxy(NULL, false);
    check_proxy(web_url(&other, ""), true);
    setenv("http_proxy", web_url(&other, ""), 1);
    check_proxy(NULL, true);
    check_proxy("", false);
    setenv("no_proxy", "127.0.0.1", 1);
    check_proxy(NULL, false);
    finish();
}
