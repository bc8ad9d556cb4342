#include "net/ws.h"
#include "net/ws_client.h"
#include "net/wskey.h"
#include "unit/net/web.h"

static struct web web;
static struct ws_client *ws;
static int opens, ends;
static bool shaken; // the server has answered the handshake

static void on_open(void *arg)
{
    (void)arg;
    opens++;
}

static void on_message(void *arg, struct str bytes, bool binary)
{
    (void)arg;
    (void)bytes;
    (void)binary;
}

static void on_end(void *arg, int code, struct str reason, const char *message)
{
    (void)arg;
    (void)code;
    (void)reason;
    (void)message;
    ends++;
}

static const struct ws_client_cb callbacks = {
    .on_open = on_open, .on_message = on_message, .on_end = on_end};

static void shake_hands(struct web_conn *conn, const char *head)
{
    char text[200], accept[WSKEY_TEXT];
    const char *key = strstr(head, "Sec-WebSocket-Key: ");
    CHECK(key != NULL);
    wskey_accept((struct str){key + 19, 24}, accept);
    snprintf(text, sizeof text,
             "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
             "Sec-WebSocket-Accept: %s\r\n\r\n",
             accept);
    web_say(conn, text);
    shaken = true;
}

static void connect_to(struct web *to)
{
    char url[64];
    struct err e;
    snprintf(url, sizeof url, "ws://127.0.0.1:%d/", to->port);
    const struct ws_client_request q = {.url = url};
    CHECK_INT(ws_client_open(&ws, client, &l, &q, &callbacks, NULL, &e), 0);
}

static void begin(void)
{
    web_begin(NULL);
    web_open(&web, shake_hands);
    connect_to(&web);
}

static void finish(void)
{
    ws_client_free(ws);
    web_close(&web);
    web_end();
}

TEST(a_connection_opens_and_is_closed_in_good_order)
{
    begin();
    while (opens == 0) {
        loop_run_once(&l, true);
    }
    ws_client_close(ws, WS_NORMAL, STR(""));
    while (ends == 0) {
        loop_run_once(&l, true);
    }
    CHECK_INT(opens, 1);
    CHECK_INT(ends, 1);
    finish();
}

static void close_now(void *arg)
{
    (void)arg;
    ws_client_close(ws, WS_NORMAL, STR(""));
}

/// Close after the timers of a turn and before its poll, which reads the server's answer.
static void close_when_shaken(void *arg)
{
    loop_defer(&l, shaken ? close_now : close_when_shaken, arg);
}

TEST(a_close_before_the_answer_is_read_is_not_forgotten)
{
    begin();
    close_when_shaken(NULL);
    while (ends == 0 && opens == 0) {
        loop_run_once(&l, true);
    }
    CHECK_INT(opens, 0);
    CHECK_INT(ends, 1);
    finish();
}
