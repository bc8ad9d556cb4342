// HTTPS against `openssl s_server`, with a certification authority made for the test.

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unit/net/web.h"

static pid_t server;
static int port;
static char ca[512];

static void run(const char *command)
{
    char line[2048];
    snprintf(line, sizeof line, "cd '%s' && { %s; } >log 2>&1", test_dir(), command);
    CHECK_INT(system(line), 0);
}

static void write_file(const char *name, const char *text)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", test_dir(), name);
    FILE *f = fopen(path, "w");
    CHECK(f != NULL);
    fputs(text, f);
    CHECK_INT(fclose(f), 0);
}

static void make_certificates(void)
{
    run("openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 "
        "-subj /CN=throw-away -keyout ca.key -out ca.pem");
    run("openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 "
        "-subj /CN=here -addext subjectAltName=IP:127.0.0.1 -CA ca.pem -CAkey ca.key "
        "-keyout key.pem -out cert.pem");
    snprintf(ca, sizeof ca, "%s/ca.pem", test_dir());
}

/// It prints "ACCEPT 127.0.0.1:PORT" when it listens.
static void start_server(void)
{
    int out[2];
    char line[256];
    CHECK_INT(pipe(out), 0);
    server = fork();
    if (server == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(out[1], 1);
        dup2(open("/dev/null", O_WRONLY), 2);
        close(out[0]);
        close(out[1]);
        if (chdir(test_dir()) == 0) {
            execlp("openssl", "openssl", "s_server", "-accept", "127.0.0.1:0", "-cert", "cert.pem",
                   "-key", "key.pem", "-HTTP", (char *)NULL);
        }
        _exit(127);
    }
    close(out[1]);
    FILE *f = fdopen(out[0], "r");
    while (port == 0 && fgets(line, sizeof line, f) != NULL) {
        sscanf(line, "ACCEPT 127.0.0.1:%d", &port);
    }
    fclose(f);
    CHECK(port != 0);
}

static void begin(void)
{
    if (system("command -v openssl >/dev/null 2>&1") != 0) {
        test_skip("the program openssl is not installed");
    }
    make_certificates();
    write_file("page", "HTTP/1.0 200 OK\r\nContent-Length: 6\r\n\r\nsecret");
    write_file("down",
               "HTTP/1.0 302 Go\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n");
    start_server();
    web_begin(NULL);
}

static void finish(void)
{
    kill(server, SIGKILL);
    waitpid(server, NULL, 0);
    web_end();
}

static const char *url(const char *host, const char *path)
{
    static char out[128];
    snprintf(out, sizeof out, "https://%s:%d%s", host, port, path);
    return out;
}

static void check_fails(const struct http_request *q, int rc, const char *says)
{
    struct fetch f = {0};
    fetch(&f, q, &fetch_collect);
    CHECK_INT(f.rc, rc);
    CHECK_INT(f.heads, 0);
    if (strstr(f.e.msg, says) == NULL) {
        test_fail(__FILE__, __LINE__, "'%s' does not say '%s'", f.e.msg, says);
    }
    fetch_end(&f);
}

TEST(https_works_with_the_right_ca_file)
{
    begin();
    struct http_request q = {.url = url("127.0.0.1", "/page"), .ca_file = ca};
    struct fetch f = {0};
    fetch(&f, &q, &fetch_collect);
    CHECK_STR(f.e.msg, "");
    CHECK_INT(f.rc, 0);
    CHECK_SPAN(buf_str(&f.body), "secret");
    fetch_end(&f);
    finish();
}

static void say_get(struct http_call *call, void *arg)
{
    struct fetch *f = arg;
    f->heads++;
    CHECK_INT(http_client_write(call, STR("GET /page HTTP/1.0\r\n\r\n")), 0);
}

TEST(a_tunnel_carries_bytes_both_ways_over_tls)
{
    begin();
    struct http_request q = {.url = url("127.0.0.1", "/ignored"), .ca_file = ca, .tunnel = true};
    struct http_cb cb = fetch_stream;
    struct fetch f = {0};
    cb.on_ready = say_get;
    fetch(&f, &q, &cb);
    CHECK_STR(f.e.msg, "");
    CHECK_INT(f.rc, 0);
    CHECK_INT(f.heads, 1);
    CHECK(strstr(buf_z(&f.body), "200 OK") != NULL && strstr(buf_z(&f.body), "secret") != NULL);
    fetch_end(&f);
    f = (struct fetch){0};
    q.ca_file = NULL;
    fetch(&f, &q, &cb);
    CHECK_INT(f.rc, ERR_DENIED);
    fetch_end(&f);
    finish();
}

TEST(a_certificate_of_an_unknown_authority_is_refused)
{
    begin();
    struct http_request q = {.url = url("127.0.0.1", "/page")};
    check_fails(&q, ERR_DENIED, "the certificate is not trusted");
    finish();
}

TEST(a_certificate_for_another_name_is_refused)
{
    begin();
    struct http_request q = {.url = url("other.test", "/page"), .ca_file = ca};
    check_fails(&q, ERR_DENIED, "the certificate is not trusted");
    finish();
}

TEST(a_ca_file_that_is_missing_or_no_pem_is_refused)
{
    begin();
    struct http_request q = {.url = url("127.0.0.1", "/page"), .ca_file = "/nonexistent/ca.pem"};
    check_fails(&q, ERR_INVALID, "the file of trusted certificates cannot be read");
    finish();
}

TEST(a_redirect_from_https_to_http_is_refused)
{
    begin();
    struct http_request q = {
        .url = url("127.0.0.1", "/down"), .ca_file = ca, .follow_redirects = true};
    check_fails(&q, ERR_DENIED, "a redirect from https to http is not followed");
    finish();
}

static void answer_up(struct web_conn *conn, const char *head)
{
    char text[256];
    (void)head;
    snprintf(text, sizeof text, "HTTP/1.1 302 Go\r\nLocation: %s\r\nContent-Length: 0\r\n\r\n",
             url("127.0.0.1", "/down"));
    web_say(conn, text);
}

TEST(it_is_refused_as_well_when_the_first_hop_came_from_http)
{
    begin();
    struct web web;
    web_open(&web, answer_up);
    struct http_request q = {.url = web_url(&web, "/"), .ca_file = ca, .follow_redirects = true};
    check_fails(&q, ERR_DENIED, "a redirect from https to http is not followed");
    web_close(&web);
    finish();
}

TEST(a_server_without_tls_is_a_tls_failure)
{
    web_begin(NULL);
    struct web web;
    web_open(&web, web_silent);
    char text[64];
    snprintf(text, sizeof text, "https://127.0.0.1:%d/", web.port);
    struct http_request q = {.url = text};
    web.greeting = "220 mail.example ready\r\n";
    check_fails(&q, UV_EPROTO, "TLS failed");
    CHECK_INT(web.requests, 0); // nothing was sent in the clear
    web_close(&web);
    web_end();
}
