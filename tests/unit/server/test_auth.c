// Who may call, under which name, and from where.

#include <stdarg.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unit/server/rig.h"

// Ask over TCP with our own Host and the header lines of `fmt`.
static int ask(const char *line, char *body, size_t n, const char *fmt, ...) PRINTF_LIKE(4, 5);
static int ask(const char *line, char *body, size_t n, const char *fmt, ...)
{
    char request[2048], headers[1024];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(headers, sizeof headers, fmt, ap);
    va_end(ap);
    snprintf(request, sizeof request, "%s HTTP/1.1\r\nHost: %s\r\n%s\r\n", line, rig_host(),
             headers);
    return rig_ask_tcp(request, body, n);
}

#define BEARER "Authorization: Bearer " TOKEN "\r\n"

TEST(tcp_needs_the_token)
{
    static const struct {
        const char *line, *headers;
        int status;
    } table[] = {
        {"GET /logs", BEARER, 200},
        {"GET /logs", "authorization: bearer " TOKEN "\r\n", 200},
        {"GET /logs", "", 401},
        {"GET /logs", "Authorization: Bearer " TOKEN "x\r\n", 401},
        {"GET /logs", "Authorization: Bearer 0123\r\n", 401},
        {"GET /logs", "Authorization: Bearer \r\n", 401},
        {"GET /logs", "Authorization: Basic " TOKEN "\r\n", 401},
        {"GET /logs", "Authorization: " TOKEN "\r\n", 401},
        {"GET /logs?token=" TOKEN, "", 401},
        {"GET /logs?access_token=" TOKEN, "", 401},
        {"GET /logs", "Cookie: afloat=" TOKEN "\r\n", 401},
        {"GET /nowhere", "", 401}, // strangers do not learn what exists
        {"GET /nowhere", BEARER, 404},
        {"DELETE /logs", "", 401},
        {"GET /healthz", "", 200},
        {"OPTIONS /logs", "", 401},
        {"OPTIONS /logs", BEARER, 204},
        {"POST /token/rotate", BEARER, 403}, // over the socket only
        {"POST /open", BEARER, 403},
    };
    rig_open(NULL);
    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        int status = ask(table[i].line, NULL, 0, "%s", table[i].headers);
        if (status != table[i].status) {
            test_fail(__FILE__, __LINE__, "%s\n%s -> %d", table[i].line, table[i].headers, status);
        }
        rig_pass(1000); // stay within the allowance for failures
    }
    rig_close();
}

TEST(an_empty_token_opens_nothing)
{
    rig_open(NULL);
    server_set_token(rig.server, STR(""));
    CHECK_INT(ask("GET /logs", NULL, 0, "Authorization: Bearer \r\n"), 401);
    rig_close();
}

TEST(the_socket_needs_no_token)
{
    rig_open(NULL);
    CHECK_INT(rig_ask_unix("GET /logs HTTP/1.1\r\nHost: anything\r\n\r\n", NULL, 0), 200);
    CHECK_INT(rig_ask_unix("POST /open HTTP/1.1\r\nHost: anything\r\n\r\n", NULL, 0), 200);
    rig_close();
}

TEST(a_401_says_how_to_authenticate)
{
    struct answer a;
    char request[256];
    rig_open(NULL);
    int fd = rig_tcp();
    snprintf(request, sizeof request, "GET /logs HTTP/1.1\r\nHost: %s\r\n\r\n", rig_host());
    rig_put(fd, request);
    rig_read(fd, false, &a);
    CHECK_INT(a.head.status, 401);
    CHECK_SPAN(http1_get(&a.head, "www-authenticate"), "Bearer");
    CHECK_SPAN(http1_get(&a.head, "content-type"), "application/problem+json");
    answer_fini(&a);
    close(fd);
    rig_close();
}

// Redeem `code`; the cookie's value goes to `cookie` ("" when there is none).
static int redeem(const char *code, char cookie[64])
{
    struct answer a;
    char request[512];
    int fd = rig_tcp();
    snprintf(request, sizeof request, "GET /?code=%s HTTP/1.1\r\nHost: %s\r\n\r\n", code,
             rig_host());
    rig_put(fd, request);
    rig_read(fd, false, &a);
    struct str set = http1_get(&a.head, "set-cookie");
    cookie[0] = '\0';
    if (str_starts(set, "afloat=")) {
        struct str rest = str_from(set, 7);
        struct str value = str_cut(&rest, ';');
        snprintf(cookie, 64, STR_FMT, STR_ARG(value));
        CHECK_SPAN(rest, " Path=/; HttpOnly; SameSite=Strict");
        CHECK_SPAN(http1_get(&a.head, "location"), "/");
        CHECK_SPAN(http1_get(&a.head, "referrer-policy"), "no-referrer");
    }
    int status = a.head.status;
    answer_fini(&a);
    close(fd);
    return status;
}

TEST(a_code_buys_a_cookie_once)
{
    char code[44], cookie[64], other[64];
    rig_open(NULL);
    server_make_code(rig.server, 60, code);
    CHECK_INT(strlen(code), 43);
    CHECK_INT(redeem(code, cookie), 303);
    CHECK_INT(strlen(cookie), 43);
    CHECK_INT(ask("GET /logs", NULL, 0, "Cookie: a=b; afloat=%s; c=d\r\n", cookie), 200);
    CHECK_INT(redeem(code, other), 401);
    CHECK_STR(other, "");
    CHECK_INT(ask("GET /logs", NULL, 0, "Cookie: afloat=%s\r\n", code), 401);
    rig_close();
}

TEST(a_wrong_or_old_code_buys_nothing)
{
    char code[44], cookie[64];
    rig_open(NULL);
    server_make_code(rig.server, 60, code);
    CHECK_INT(redeem("nonsense", cookie), 401);
    CHECK_INT(redeem("", cookie), 401);
    rig_pass(60 * 1000);
    CHECK_INT(redeem(code, cookie), 401);
    server_make_code(rig.server, 600, code);
    rig_pass(599 * 1000);
    CHECK_INT(redeem(code, cookie), 303);
    rig_close();
}

TEST(head_does_not_spend_a_code)
{
    char code[44], cookie[64], line[128];
    rig_open(NULL);
    server_make_code(rig.server, 60, code);
    snprintf(line, sizeof line, "HEAD /?code=%s HTTP/1.1\r\nHost: %s\r\n\r\n", code, rig_host());
    CHECK_INT(rig_ask_tcp(line, NULL, 0), 401);
    CHECK_INT(redeem(code, cookie), 303);
    rig_close();
}

TEST(a_new_token_ends_cookies_codes_and_streams)
{
    char code[44], cookie[64], request[256];
    struct server_limits l = server_default_limits;
    rig_open(&l);
    server_make_code(rig.server, 60, code);
    CHECK_INT(redeem(code, cookie), 303);
    server_make_code(rig.server, 60, code);
    int fd = rig_tcp();
    snprintf(request, sizeof request, "GET /events HTTP/1.1\r\nHost: %s\r\n" BEARER "\r\n",
             rig_host());
    rig_put(fd, request);
    rig_turn();
    CHECK_INT(rig.server->counts.streams, 1);
    server_set_token(rig.server, STR("another-token-another-token-another-token-x"));
    CHECK_INT(rig.server->counts.streams, 0);
    CHECK_INT(ask("GET /logs", NULL, 0, "Cookie: afloat=%s\r\n", cookie), 401);
    CHECK_INT(ask("GET /logs", NULL, 0, BEARER), 401);
    CHECK_INT(redeem(code, cookie), 401);
    close(fd);
    rig_close();
}

TEST(a_cookie_outlives_the_hub_but_not_its_token)
{
    char code[44], cookie[64], forged[64];
    rig_open(NULL);
    server_make_code(rig.server, 60, code);
    CHECK_INT(redeem(code, cookie), 303);
    rig_close();
    rig_open(NULL);
    CHECK_INT(ask("GET /logs", NULL, 0, "Cookie: afloat=%s\r\n", cookie), 200);
    for (size_t i = 0; i < 43; i += 6) {
        snprintf(forged, sizeof forged, "%s", cookie);
        forged[i] = forged[i] == 'A' ? 'B' : 'A';
        CHECK_INT(ask("GET /logs", NULL, 0, "Cookie: afloat=%s\r\n", forged), 401);
    }
    server_set_token(rig.server, STR("another"));
    CHECK_INT(ask("GET /logs", NULL, 0, "Cookie: afloat=%s\r\n", cookie), 401);
    rig_close();
}

TEST(the_oldest_of_many_cookies_gives_way)
{
    char code[44], first[64], last[64];
    rig_open(NULL);
    server_make_code(rig.server, 60, code);
    CHECK_INT(redeem(code, first), 303);
    for (int i = 0; i < 32; i++) {
        server_make_code(rig.server, 60, code);
        CHECK_INT(redeem(code, last), 303);
    }
    CHECK_INT(ask("GET /logs", NULL, 0, "Cookie: afloat=%s\r\n", last), 200);
    CHECK_INT(ask("GET /logs", NULL, 0, "Cookie: afloat=%s\r\n", first), 401);
    rig_close();
}

TEST(a_change_by_cookie_needs_our_origin)
{
    char code[44], cookie[64];
    rig_open(NULL);
    server_make_code(rig.server, 60, code);
    CHECK_INT(redeem(code, cookie), 303);
    CHECK_INT(ask("POST /feature/a/enable", NULL, 0, "Cookie: afloat=%s\r\n", cookie), 403);
    CHECK_INT(rig.runs[OP_FEATURE_ENABLE], 0);
    CHECK_INT(ask("POST /feature/a/enable", NULL, 0, "Cookie: afloat=%s\r\nOrigin: http://%s\r\n",
                  cookie, rig_host()),
              200);
    CHECK_INT(ask("POST /feature/a/enable", NULL, 0, BEARER), 200);
    rig_close();
}

TEST(failures_are_limited_but_the_right_token_still_works)
{
    char body[512];
    rig_open(NULL);
    for (int i = 0; i < 10; i++) {
        CHECK_INT(ask("GET /logs", NULL, 0, "Authorization: Bearer wrong%d\r\n", i), 401);
    }
    CHECK_INT(ask("GET /logs", body, sizeof body, "Authorization: Bearer wrong\r\n"), 429);
    CHECK(strstr(body, "\"code\":\"RATE_LIMITED\"") != NULL);
    CHECK_INT(ask("GET /logs", NULL, 0, "%s", ""), 429);
    CHECK_INT(ask("GET /?code=guess", NULL, 0, "%s", ""), 429);
    CHECK_INT(ask("GET /logs", NULL, 0, BEARER), 200);
    rig_pass(1000);
    CHECK_INT(ask("GET /logs", NULL, 0, "%s", ""), 401);
    CHECK_INT(ask("GET /logs", NULL, 0, "%s", ""), 429);
    CHECK(rig.server->counts.auth_failures >= 13);
    rig_close();
}

TEST(foreign_names_do_not_use_up_the_attempts_of_an_address)
{
    rig_open(NULL);
    for (int i = 0; i < 15; i++) {
        CHECK_INT(ask("GET /healthz", NULL, 0, "Origin: http://evil.example\r\n"), 403);
    }
    CHECK_INT(ask("GET /logs", NULL, 0, "%s", ""), 401);
    rig_close();
}

TEST(a_429_says_when_to_come_back)
{
    struct answer a;
    char request[256];
    rig_open(NULL);
    int fd = rig_tcp();
    snprintf(request, sizeof request, "GET /logs HTTP/1.1\r\nHost: %s\r\n\r\n", rig_host());
    for (int i = 0; i < 10; i++) {
        CHECK_INT(rig_ask(fd, request, NULL, 0), 401);
    }
    rig_put(fd, request);
    rig_read(fd, false, &a);
    CHECK_INT(a.head.status, 429);
    CHECK_SPAN(http1_get(&a.head, "retry-after"), "1");
    answer_fini(&a);
    close(fd);
    rig_close();
}

TEST(many_failing_addresses_do_not_grow_memory_and_do_not_share)
{
    struct loop *l = &rig.loop;
    char peer[32];
    rig_open(NULL);
    struct auth *a = auth__new(l);
    for (unsigned i = 0; i < 10000; i++) {
        snprintf(peer, sizeof peer, "10.0.%u.%u", i / 256, i % 256);
        CHECK_INT(auth__failed(a, str_of(peer)), 0);
    }
    for (int i = 0; i < 10; i++) {
        CHECK_INT(auth__failed(a, STR("192.0.2.1")), 0);
    }
    CHECK_INT(auth__failed(a, STR("192.0.2.1")), 1);
    CHECK_INT(auth__failed(a, STR("192.0.2.2")), 0);
    auth__free(a);
    rig_close();
}

TEST(two_hundred_failing_addresses_are_kept_apart)
{
    char peer[32];
    int limited = 0;
    rig_open(NULL);
    struct auth *a = auth__new(&rig.loop);
    for (int turn = 0; turn < 12; turn++) {
        limited = 0;
        for (int i = 0; i < 200; i++) {
            snprintf(peer, sizeof peer, "10.0.0.%d", i);
            limited += auth__failed(a, str_of(peer)) != 0;
        }
    }
    CHECK(limited > 128); // half of the table
    auth__free(a);
    rig_close();
}

TEST(only_our_names_are_served_over_tcp)
{
    static const char *const good[] = {"localhost:%s", "127.0.0.1:%s", "[::1]:%s",
                                       "afloat.localhost:%s", "LocalHost:%s"};
    static const char *const bad[] = {
        "evil.example:%s",    "localhost",         "localhost:1",       "127.0.0.1.evil.example:%s",
        "localhost.:%s",      "127.1:%s",          "2130706433:%s",     "0.0.0.0:%s",
        "[::ffff:7f00:1]:%s", "evil.localhost:%s", "localhost.evil:%s", "xlocalhost:%s",
        "0177.0.0.1:%s",      "127.0.0.2:%s",      "afloat.localhost",
    };
    char host[128], request[256], body[512];
    rig_open(NULL);
    const char *port = strrchr(rig_host(), ':') + 1;
    for (size_t i = 0; i < ARRAY_LEN(good) + ARRAY_LEN(bad); i++) {
        bool fine = i < ARRAY_LEN(good);
        struct buf text;
        buf_init(&text, sizeof host);
        struct str form = str_of(fine ? good[i] : bad[i - ARRAY_LEN(good)]);
        struct str before = str_cut(&form, '%');
        buf_adds(&text, before);
        buf_addz(&text, form.n != 0 ? port : "");
        snprintf(request, sizeof request, "GET /healthz HTTP/1.1\r\nHost: %s\r\n\r\n",
                 buf_z(&text));
        int status = rig_ask_tcp(request, body, sizeof body);
        if (status != (fine ? 200 : 403)) {
            test_fail(__FILE__, __LINE__, "'%s' gave %d", buf_z(&text), status);
        }
        if (!fine) {
            CHECK(strstr(body, "HOST_NOT_ALLOWED") != NULL &&
                  strstr(body, "allowed_hosts") != NULL);
            CHECK(strstr(body, buf_z(&text)) != NULL && strstr(body, rig_host()) != NULL);
        }
        buf_fini(&text);
    }
    rig_close();
}

TEST(more_names_and_a_public_address_can_be_allowed)
{
    static const char *const more[] = {"box.lan:4700", "proxy.lan"};
    rig_open(NULL);
    server_allow(rig.server, more, 2, "https://hub.example.com/", true);
    const struct hosts *h = &rig.server->hosts;
    CHECK(hosts__allows(h, STR("box.lan:4700")));
    CHECK(hosts__allows(h, STR("proxy.lan")));
    CHECK(hosts__allows(h, STR("hub.example.com")));
    CHECK(hosts__allows(h, str_of(rig_host())));
    CHECK(!hosts__allows(h, STR("box.lan")));
    CHECK(!hosts__allows(h, STR("proxy.lan:80")));
    CHECK(!hosts__allows(h, STR("a.hub.example.com")));
    CHECK(hosts__allows_origin(h, STR("https://hub.example.com")));
    CHECK(!hosts__allows_origin(h, STR("http://hub.example.com")));
    CHECK(hosts__allows_origin(h, STR("http://box.lan:4700")));
    CHECK(!hosts__allows_origin(h, STR("https://box.lan:4700")));
    CHECK(hosts__secure(h, STR("hub.example.com")));
    CHECK(!hosts__secure(h, str_of(rig_host())));
    server_allow(rig.server, NULL, 0, "", false);
    CHECK(!hosts__allows(h, STR("box.lan:4700")));
    server_allow(rig.server, NULL, 0, "https://hub.example.com/",
                 false); // counts behind a proxy only
    CHECK(!hosts__allows(h, STR("hub.example.com")));
    CHECK(!hosts__allows_origin(h, STR("https://hub.example.com")));
    rig_close();
}

TEST(foreign_origins_are_refused_on_every_method_and_on_the_socket)
{
    static const struct {
        const char *headers;
        int status;
    } table[] = {
        {"Origin: http://evil.example\r\n", 403},
        {"Origin: null\r\n", 403},
        {"Origin: \r\n", 403},
        {"Origin: file://\r\n", 403},
        {"Origin: http://localhost:3000\r\n", 403},
        {"Origin: http://localhost\r\n", 403},
        {"Sec-Fetch-Site: cross-site\r\n", 403},
        {"Sec-Fetch-Site: same-site\r\nSec-Fetch-Mode: no-cors\r\n", 403},
        {"Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\n", 200},
        {"Sec-Fetch-Site: same-origin\r\n", 200},
        {"Sec-Fetch-Site: none\r\nSec-Fetch-Mode: navigate\r\n", 200},
        {"", 200},
    };
    char body[512], request[512];
    rig_open(NULL);
    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        CHECK_INT(ask("GET /healthz", body, sizeof body, "%s", table[i].headers), table[i].status);
        if (table[i].status == 403) {
            CHECK(strstr(body, "ORIGIN_NOT_ALLOWED") != NULL);
        }
        snprintf(request, sizeof request, "GET /healthz HTTP/1.1\r\nHost: x\r\n%s\r\n",
                 table[i].headers);
        CHECK_INT(rig_ask_unix(request, NULL, 0), table[i].status);
    }
    CHECK_INT(ask("POST /feature/a/enable", NULL, 0,
                  BEARER "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\n"),
              403);
    CHECK_INT(ask("OPTIONS /feature", NULL, 0, "Origin: http://evil.example\r\n"), 403);
    rig_close();
}

TEST(our_own_origin_is_echoed_and_no_other)
{
    struct answer a;
    char request[512], origin[64];
    rig_open(NULL);
    int fd = rig_tcp();
    snprintf(origin, sizeof origin, "http://%s", rig_host());
    snprintf(request, sizeof request, "OPTIONS /feature HTTP/1.1\r\nHost: %s\r\nOrigin: %s\r\n\r\n",
             rig_host(), origin);
    rig_put(fd, request);
    rig_read(fd, false, &a);
    CHECK_INT(a.head.status, 204);
    CHECK_SPAN(http1_get(&a.head, "access-control-allow-origin"), origin);
    CHECK_SPAN(http1_get(&a.head, "vary"), "Origin");
    CHECK(http1_get(&a.head, "access-control-allow-credentials").p == NULL);
    answer_fini(&a);
    close(fd);
    rig_close();
}

TEST(the_page_says_what_runs_and_how_to_get_in)
{
    char body[4096];
    struct answer a;
    char request[256];
    rig_open(NULL);
    CHECK_INT(ask("GET /", body, sizeof body, "%s", ""), 401);
    CHECK(strstr(body, "afloat open") != NULL);
    int fd = rig_tcp();
    snprintf(request, sizeof request, "GET / HTTP/1.1\r\nHost: %s\r\n" BEARER "\r\n", rig_host());
    rig_put(fd, request);
    rig_read(fd, false, &a);
    CHECK_INT(a.head.status, 200);
    CHECK(strstr(buf_z(&a.body), "1.2.3&lt;x&gt;") != NULL);
    CHECK(strstr(buf_z(&a.body), "generation <code>3<") != NULL);
    CHECK(str_starts(http1_get(&a.head, "content-security-policy"), "default-src 'none'"));
    CHECK_SPAN(http1_get(&a.head, "content-type"), "text/html; charset=utf-8");
    answer_fini(&a);
    close(fd);
    CHECK_INT(rig_ask_unix("POST / HTTP/1.1\r\nHost: x\r\n\r\n", NULL, 0), 405);
    rig_close();
}

TEST(listening_beyond_loopback_needs_a_proxy_and_an_address)
{
    struct err e;
    struct server *s;
    rig_open(NULL);
    struct server_opts opts = {.events = rig.events, .version = "1"};
    s = server_open(&rig.loop, &opts);
    CHECK_INT(server_listen_tcp(s, "0.0.0.0:0", true, &e), ERR_DENIED);
    CHECK(strstr(e.msg, "behind_proxy") != NULL && strstr(e.msg, "public_url") != NULL);
    CHECK_INT(server_listen_tcp(s, "[::]:0", true, &e), ERR_DENIED);
    server_allow(s, NULL, 0, "", true);
    CHECK_INT(server_listen_tcp(s, "0.0.0.0:0", true, &e), ERR_DENIED);
    server_allow(s, NULL, 0, "nonsense", true);
    CHECK_INT(server_listen_tcp(s, "0.0.0.0:0", true, &e), ERR_DENIED);
    server_allow(s, NULL, 0, "https://hub.example.com", false);
    CHECK_INT(server_listen_tcp(s, "0.0.0.0:0", true, &e), ERR_DENIED);
    server_allow(s, NULL, 0, "https://hub.example.com", true);
    CHECK_INT(server_listen_tcp(s, "0.0.0.0:0", true, &e), 0);
    CHECK_INT(server_listen_tcp(s, "127.0.0.1:0", true, &e), 0);
    CHECK(strncmp(server_tcp_address(s), "127.0.0.1:", 10) == 0);
    server_close(s, 0, NULL, NULL);
    rig_turn();
    rig_close();
}

TEST(a_listener_stays_until_the_next_one_listens)
{
    struct err e;
    char first[64];
    rig_open(NULL);
    struct server_opts opts = {.events = rig.events, .version = "1"};
    struct server *s = server_open(&rig.loop, &opts);
    CHECK_INT(server_listen_tcp(s, "127.0.0.1:0", true, &e), 0);
    snprintf(first, sizeof first, "%s", server_tcp_address(s));
    CHECK_INT(server_listen_tcp(s, rig_host(), true, &e), UV_EADDRINUSE);
    CHECK_STR(server_tcp_address(s), first);
    CHECK_INT(server_listen_tcp(s, "[::1]:0", true, &e), 0);
    CHECK(strncmp(server_tcp_address(s), "[::1]:", 6) == 0);
    CHECK_INT(server_listen_tcp(s, first, true, &e), 0); // its port is free again

    // one that has the port itself makes room for another address with it
    server_allow(s, NULL, 0, "https://hub.example.com", true);
    char wide[64];
    snprintf(wide, sizeof wide, "0.0.0.0%s", strrchr(first, ':'));
    CHECK_INT(server_listen_tcp(s, wide, true, &e), 0);
    CHECK_STR(server_tcp_address(s), wide);
    CHECK_INT(server_listen_tcp(s, wide, false, &e), 0); // the same again is no other port
    CHECK_STR(server_tcp_address(s), wide);
    server_close(s, 0, NULL, NULL);
    rig_turn();
    rig_close();
}

TEST(a_listener_that_cannot_come_back_is_gone)
{
    struct err e;
    char first[64], wide[64];
    rig_open(NULL);
    struct server_opts opts = {.events = rig.events, .version = "1"};
    struct server *s = server_open(&rig.loop, &opts);
    server_allow(s, NULL, 0, "https://hub.example.com", true);
    CHECK_INT(server_listen_tcp(s, "127.0.0.1:0", true, &e), 0);
    snprintf(first, sizeof first, "%s", server_tcp_address(s));
    snprintf(wide, sizeof wide, "0.0.0.0%s", strrchr(first, ':'));
    rig.taken = 3; // the new one beside the old one, then alone; then the old one again
    CHECK_INT(server_listen_tcp(s, wide, true, &e), UV_EADDRINUSE);
    CHECK_STR(server_tcp_address(s), "");
    CHECK_INT(server_listen_tcp(s, first, true, &e), 0);
    CHECK_STR(server_tcp_address(s), first);
    server_close(s, 0, NULL, NULL);
    rig_turn();
    rig_close();
}

TEST(addresses_that_are_none_are_refused)
{
    static const char *const bad[] = {
        "",       "127.0.0.1", "127.0.0.1:",   "127.0.0.1:65536", "x:1", "127.0.0.1:-1",
        "::1:80", "[::1]",     "127.0.0.1:80x"};
    struct err e;
    struct server *s;
    rig_open(NULL);
    struct server_opts opts = {.events = rig.events, .version = "1"};
    s = server_open(&rig.loop, &opts);
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        CHECK_INT(server_listen_tcp(s, bad[i], true, &e), ERR_INVALID);
    }
    server_close(s, 0, NULL, NULL);
    rig_turn();
    rig_close();
}

TEST(a_taken_port_is_an_error_or_another_is_used)
{
    struct err e;
    struct server *s;
    rig_open(NULL);
    struct server_opts opts = {.events = rig.events, .version = "1"};
    s = server_open(&rig.loop, &opts);
    CHECK_INT(server_listen_tcp(s, rig_host(), true, &e), UV_EADDRINUSE);
    CHECK_INT(server_listen_tcp(s, rig_host(), false, &e), 0);
    CHECK(strcmp(server_tcp_address(s), rig_host()) != 0);
    server_close(s, 0, NULL, NULL);
    rig_turn();
    rig_close();
}

TEST(the_socket_file_is_private_and_known_as_ours)
{
    struct stat st;
    struct err e;
    struct server *s;
    rig_open(NULL);
    CHECK_INT(stat(rig.socket, &st), 0);
    CHECK_INT(st.st_mode & 0777, 0600);
    CHECK(server_socket_in_place(rig.server));
    struct server_opts opts = {.events = rig.events, .version = "1"};
    s = server_open(&rig.loop, &opts);
    CHECK_INT(server_listen_unix(s, rig.socket, &e), 0); // a stale file is replaced
    CHECK(!server_socket_in_place(rig.server));
    server_close(s, 0, NULL, NULL);
    rig_turn();
    CHECK(access(rig.socket, F_OK) < 0);
    FILE *f = fopen(rig.socket, "w");
    CHECK(f != NULL);
    fclose(f);
    s = server_open(&rig.loop, &opts);
    CHECK_INT(server_listen_unix(s, rig.socket, &e), UV_EEXIST); // what is no socket stays
    server_close(s, 0, NULL, NULL);
    rig_turn();
    rig_close();
    CHECK_INT(access(rig.socket, F_OK), 0);
}

TEST(a_lost_socket_file_can_be_made_again)
{
    struct err e;
    rig_open(NULL);
    int before = rig_unix();
    CHECK_INT(unlink(rig.socket), 0);
    CHECK(!server_socket_in_place(rig.server));
    CHECK_INT(server_listen_unix(rig.server, rig.socket, &e), 0);
    CHECK(server_socket_in_place(rig.server));
    CHECK_INT(rig_ask_unix("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n", NULL, 0), 200);
    CHECK_INT(rig_ask(before, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n", NULL, 0), 200);
    close(before);
    rig_close();
    CHECK(access(rig.socket, F_OK) < 0);
}

TEST(a_socket_path_of_any_length_works)
{
    char dir[512], path[600];
    struct err e;
    struct server *s;
    rig_open(NULL);
    snprintf(dir, sizeof dir, "%s/", test_dir());
    for (int i = 0; i < 3; i++) {
        size_t n = strlen(dir);
        memset(dir + n, 'a' + i, 60);
        dir[n + 60] = '\0';
        CHECK_INT(mkdir(dir, 0700), 0);
        strncat(dir, "/", sizeof dir - strlen(dir) - 1);
    }
    snprintf(path, sizeof path, "%shub.sock", dir);
    CHECK(strlen(path) > 150);
    struct server_opts opts = {.events = rig.events, .version = "1"};
    s = server_open(&rig.loop, &opts);
    CHECK_INT(server_listen_unix(s, path, &e), 0);
    CHECK(server_socket_in_place(s));
    CHECK_INT(chdir(dir), 0);
    snprintf(rig.socket, sizeof rig.socket, "hub.sock");
    CHECK_INT(rig_ask_unix("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n", NULL, 0), 200);
    server_close(s, 0, NULL, NULL);
    rig_turn();
    CHECK_INT(chdir("/"), 0);
    CHECK(access(path, F_OK) < 0);
    rig_close();
}

static int visit_as_nobody(void)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    char bytes[64] = "";
    memcpy(a.sun_path, rig.socket, MIN(strlen(rig.socket), sizeof a.sun_path - 1));
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    if (setuid(65534) < 0 || connect(fd, (const void *)&a, sizeof a) < 0) {
        return 2;
    }
    return read(fd, bytes, sizeof bytes - 1) > 0 && strstr(bytes, " 403 ") != NULL ? 0 : 1;
}

TEST(another_user_is_turned_away_from_the_socket)
{
    if (geteuid() != 0) {
        test_skip("needs root to become somebody else");
    }
    rig_open(NULL);
    CHECK_INT(chmod(test_dir(), 0777), 0);
    CHECK_INT(chmod(rig.socket, 0777), 0);
    pid_t pid = fork();
    if (pid == 0) {
        _exit(visit_as_nobody());
    }
    int status = 0;
    while (waitpid(pid, &status, WNOHANG) == 0) {
        rig_turn();
    }
    CHECK_INT(WEXITSTATUS(status), 0);
    CHECK_INT(rig.server->counts.refused, 1);
    rig_close();
}
