// What request smuggling is made of, byte for byte, through a real connection. After an answer that
// lost the framing the connection must end; what was smuggled must never run.

#include <unistd.h>

#include "unit/server/rig.h"

#define INNER "GET /config HTTP/1.1\r\nHost: x\r\n\r\n" // runs CONFIG_SHOW when it gets through
#define POST  "POST /events HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
#define BODY  "{\"type\":\"user.a\"}"

static const struct {
    const char *bytes;
    int status;
} table[] = {
    // line ends and folding
    {"GET /healthz HTTP/1.1\nHost: x\n\n" INNER, 400},
    {"GET /healthz HTTP/1.1\r\nHost: x\n\r\n" INNER, 400},
    {"GET /healthz HTTP/1.1\r\nHost: x\r\nA: b\r\n c\r\n\r\n" INNER, 400},
    {"GET /healthz HTTP/1.1\r\nHost: x\r\nA: b\r\n\tc\r\n\r\n" INNER, 400},
    {"GET /healthz HTTP/1.1\r\nHost: x\r\nA:\r\n b\r\n\r\n" INNER, 400},
    {"GET /healthz HTTP/1.1\r\nHost:\r\n x\r\n\r\n" INNER, 400},
    {"GET /healthz HTTP/1.1\r\n Host: x\r\n\r\n" INNER, 400},
    {"GET /healthz HTTP/1.1\r\nHost: x\r\nA: b\rc: d\r\n\r\n" INNER, 400},
    {"GET /healthz HTTP/1.1\r\rHost: x\r\n\r\n" INNER, 400},
    // names and values
    {"GET /healthz HTTP/1.1\r\nHost : x\r\n\r\n" INNER, 400},
    {"GET /healthz HTTP/1.1\r\nHost: x\r\nA B: c\r\n\r\n" INNER, 400},
    {"GET /healthz HTTP/1.1\r\nHost: x\r\n: c\r\n\r\n" INNER, 400},
    {"GET /healthz HTTP/1.1\r\nHost: x\r\nA: b\x7f\r\n\r\n" INNER, 400},
    {"GET /healthz HTTP/1.1\r\nHost: x\r\nA: \x01\r\n\r\n" INNER, 400},
    // Host
    {"GET /healthz HTTP/1.1\r\n\r\n", 400},
    {"GET /healthz HTTP/1.0\r\n\r\n", 400},
    {"GET /healthz HTTP/1.1\r\nHost:\r\n\r\n", 400},
    {"GET /healthz HTTP/1.1\r\nHost: x\r\nHost: x\r\n\r\n", 400},
    {"GET /healthz HTTP/1.1\r\nHost: x\r\nhost: y\r\n\r\n", 400},
    {"GET /healthz HTTP/1.1\r\nHost: x y\r\n\r\n", 400},
    {"GET /healthz HTTP/1.1\r\nHost: x/y\r\n\r\n", 400},
    {"GET /healthz HTTP/1.1\r\nHost: u@x\r\n\r\n", 400},
    {"GET /healthz HTTP/1.1\r\nHost: x:99999\r\n\r\n", 400},
    {"GET /healthz HTTP/1.1\r\nHost: x:\r\n\r\n", 400},
    {"GET /healthz HTTP/1.1\r\nHost: [::1\r\n\r\n", 400},
    {"GET /healthz HTTP/1.1\r\nHost: x, y\r\n\r\n", 400},
    // the request line
    {"GET  /healthz HTTP/1.1\r\nHost: x\r\n\r\n", 400},
    {"GET /healthz  HTTP/1.1\r\nHost: x\r\n\r\n", 400},
    {"GET /healthz HTTP/1.1 \r\nHost: x\r\n\r\n", 400},
    {"GET /healthz\tHTTP/1.1\r\nHost: x\r\n\r\n", 400},
    {"GET healthz HTTP/1.1\r\nHost: x\r\n\r\n", 400},
    {"GET * HTTP/1.1\r\nHost: x\r\n\r\n", 400},
    {"GET /healthz#a HTTP/1.1\r\nHost: x\r\n\r\n", 400},
    {"GET http://y/healthz HTTP/1.1\r\nHost: x\r\n\r\n", 400},
    {"GET http://x@y/healthz HTTP/1.1\r\nHost: x\r\n\r\n", 400},
    {"GET ftp://x/healthz HTTP/1.1\r\nHost: x\r\n\r\n", 400},
    {"GET http://x/healthz HTTP/1.1\r\nHost: x\r\n\r\n", 200},
    {"GET http://X/healthz HTTP/1.1\r\nHost: x\r\n\r\n", 200},
    {"GET //healthz HTTP/1.1\r\nHost: x\r\n\r\n", 404},
    {"GET /healthz/ HTTP/1.1\r\nHost: x\r\n\r\n", 404},
    {"GET /x/../healthz HTTP/1.1\r\nHost: x\r\n\r\n", 404},
    {"GET /./healthz HTTP/1.1\r\nHost: x\r\n\r\n", 404},
    {"CONNECT x:80 HTTP/1.1\r\nHost: x\r\n\r\n", 400},
    {"GET /healthz HTTP/2.0\r\nHost: x\r\n\r\n", 400},
    {"GET /healthz HTTP/1.9\r\nHost: x\r\n\r\n", 400},
    {"GET /healthz\r\nHost: x\r\n\r\n", 400},
    {"GET /healthz RTSP/1.0\r\nHost: x\r\n\r\n", 400},
    {"get /healthz HTTP/1.1\r\nHost: x\r\n\r\n", 400},
    {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400},
    {"\x16\x03\x01\x02\x01", 400}, // a TLS hello
    // lengths
    {POST "Content-Length: 17\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" INNER, 400},
    {POST "Transfer-Encoding: chunked\r\nContent-Length: 17\r\n\r\n0\r\n\r\n" INNER, 400},
    {POST "Content-Length: 17\r\nContent-Length: 17\r\n\r\n" BODY INNER, 400},
    {POST "Content-Length: 17\r\nContent-Length: 0\r\n\r\n" BODY INNER, 400},
    {POST "Content-Length: 0\r\nContent-Length: 17\r\n\r\n" BODY INNER, 400},
    {POST "Content-Length: 17, 17\r\n\r\n" BODY INNER, 400},
    {POST "Content-Length: +17\r\n\r\n" BODY INNER, 400},
    {POST "Content-Length: -1\r\n\r\n" BODY INNER, 400},
    {POST "Content-Length: 0x11\r\n\r\n" BODY INNER, 400},
    {POST "Content-Length: 1 7\r\n\r\n" BODY INNER, 400},
    {POST "Content-Length: 17;\r\n\r\n" BODY INNER, 400},
    {POST "Content-Length:\r\n\r\n" BODY INNER, 400},
    {POST "Content-Length: 99999999999999999999999\r\n\r\n" BODY INNER, 400},
    // transfer codings
    {POST "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n" INNER, 400},
    {POST "Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n" INNER, 400},
    {POST "Transfer-Encoding: identity, chunked\r\n\r\n0\r\n\r\n" INNER, 400},
    {POST "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n" INNER, 400},
    {POST "Transfer-Encoding: identity\r\n\r\n" INNER, 400},
    {POST "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" INNER, 400},
    {POST "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n" INNER, 400},
    {POST "Transfer-Encoding:\x0b"
          "chunked\r\n\r\n0\r\n\r\n" INNER,
     400},
    {POST "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n" INNER, 400},
    {POST "Transfer-Encoding: \"chunked\"\r\n\r\n0\r\n\r\n" INNER, 400},
    {POST "Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n" INNER, 400},
    {"POST /events HTTP/1.0\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" INNER, 400},
    // chunks
    {POST "Transfer-Encoding: chunked\r\n\r\n0x11\r\n" BODY "\r\n0\r\n\r\n" INNER, 400},
    {POST "Transfer-Encoding: chunked\r\n\r\n11\n" BODY "\r\n0\r\n\r\n" INNER, 400},
    {POST "Transfer-Encoding: chunked\r\n\r\n11\r\n" BODY "0\r\n\r\n" INNER, 400},
    {POST "Transfer-Encoding: chunked\r\n\r\n11\r\n" BODY "\n0\r\n\r\n" INNER, 400},
    {POST "Transfer-Encoding: chunked\r\n\r\n-11\r\n" BODY "\r\n0\r\n\r\n" INNER, 400},
    {POST "Transfer-Encoding: chunked\r\n\r\n+11\r\n" BODY "\r\n0\r\n\r\n" INNER, 400},
    {POST "Transfer-Encoding: chunked\r\n\r\n11 \r\n" BODY "\r\n0\r\n\r\n" INNER, 400},
    {POST "Transfer-Encoding: chunked\r\n\r\n11111111111111111\r\n" BODY, 400},
    {POST "Transfer-Encoding: chunked\r\n\r\n\r\n" INNER, 400},
    // headers that may come once
    {"GET /healthz HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer a\r\nAuthorization: Bearer "
     "b\r\n\r\n",
     400},
    {"GET /healthz HTTP/1.1\r\nHost: x\r\nOrigin: http://a\r\nOrigin: http://b\r\n\r\n", 400},
    {POST "Content-Type: text/plain\r\nContent-Length: 17\r\n\r\n" BODY, 400},
    // and what is right
    {"GET /healthz HTTP/1.1\r\nHost: x\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n", 200},
    {"GET /healthz HTTP/1.1\r\nHost: [::1]:80\r\n\r\n", 200},
    {"\r\nGET /healthz HTTP/1.1\r\nHost: x\r\n\r\n", 200},
    {POST "Content-Length: 17\r\n\r\n" BODY, 201},
    {POST "Transfer-Encoding: Chunked\r\n\r\n11\r\n" BODY "\r\n0\r\n\r\n", 201},
};

TEST(nothing_smuggled_gets_through)
{
    rig_open(NULL);
    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        int status = rig_ask_unix(table[i].bytes, NULL, 0);
        if (status != table[i].status || rig.runs[OP_CONFIG_SHOW] != 0) {
            test_fail(__FILE__, __LINE__, "#%zu gave %d, not %d, and %zu more:\n%s", i, status,
                      table[i].status, rig.runs[OP_CONFIG_SHOW], table[i].bytes);
        }
    }
    rig_close();
}

TEST(the_same_holds_byte_by_byte)
{
    rig_open(NULL);
    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        struct answer a;
        int fd = rig_unix();
        for (const char *p = table[i].bytes; *p != '\0'; p++) {
            rig_send(fd, p, 1);
        }
        rig_read(fd, false, &a);
        if (a.head.status != table[i].status || rig.runs[OP_CONFIG_SHOW] != 0) {
            test_fail(__FILE__, __LINE__, "#%zu gave %d, not %d:\n%s", i, a.head.status,
                      table[i].status, table[i].bytes);
        }
        answer_fini(&a);
        close(fd);
    }
    rig_close();
}

TEST(a_lost_framing_ends_the_connection_after_a_problem)
{
    struct answer a;
    rig_open(NULL);
    int fd = rig_unix();
    rig_put(fd, "GET / HTTP/1.1\r\nHost: x\r\nA: b\r\n c\r\n\r\n" INNER INNER INNER);
    rig_read(fd, false, &a);
    CHECK_INT(a.head.status, 400);
    CHECK_SPAN(http1_get(&a.head, "connection"), "close");
    CHECK_SPAN(http1_get(&a.head, "content-type"), "application/problem+json");
    CHECK(strstr(buf_z(&a.body), "\"code\":\"INVALID_REQUEST\"") != NULL);
    CHECK(strstr(buf_z(&a.body), "folded") != NULL);
    answer_fini(&a);
    CHECK(rig_at_end(fd));
    close(fd);
    rig_close();
}

TEST(a_nul_in_a_head_is_refused)
{
    static const char bytes[] = "GET /healthz HTTP/1.1\r\nHost: x\r\nA: b\0c\r\n\r\n";
    struct answer a;
    rig_open(NULL);
    int fd = rig_unix();
    rig_send(fd, bytes, sizeof bytes - 1);
    rig_read(fd, false, &a);
    CHECK_INT(a.head.status, 400);
    answer_fini(&a);
    close(fd);
    rig_close();
}
