#include "unit/bind/rig.h"

static void answer(struct web_conn *conn, const char *head)
{
    if (strncmp(head, "POST", 4) == 0) {
        struct buf out;
        buf_init(&out, SIZE_MAX);
        const char *type = web_header(head, "Content-Type: application/json") ? "json" : "text";
        buf_addf(&out,
                 "HTTP/1.1 201 Made\r\nX-Kind: %s\r\nSet-Cookie: a\r\nSet-Cookie: b\r\n"
                 "Content-Length: %zu\r\n\r\n",
                 type, conn->body.n);
        buf_adds(&out, buf_str(&conn->body));
        web_say_bytes(conn, out.p, out.n);
        buf_fini(&out);
    } else {
        web_ok(conn, head);
    }
}

TEST(get_and_post_return_the_answer_in_a_handler)
{
    struct web w;
    rig_open();
    web_open(&w, answer);
    rig_run(rig_code("local r = http.get('%s') say(r.status, r.body, r.headers['content-length'])",
                     web_url(&w, "/")));
    CHECK(rig_said("200 hello 5"));
    rig_run(rig_code("local r = http.post('%s', {a = {1, 2}}) "
                     "say(r.status, r.body, r.headers['x-kind'], r.headers['set-cookie'])",
                     web_url(&w, "/")));
    CHECK(rig_said("201 {\"a\":[1,2]} json a, b"));
    rig_run(rig_code("local r = http.post('%s', 'plain') say(r.body, r.headers['x-kind'])",
                     web_url(&w, "/")));
    CHECK(rig_said("plain text"));
    web_close(&w);
    rig_close();
}

TEST(a_request_carries_its_method_headers_and_body)
{
    struct web w;
    rig_open();
    web_open(&w, answer);
    rig_load("a", rig_code("http.request({method = 'PUT', url = '%s', headers = {['X-A'] = 'b'}, "
                           "body = 'x', timeout_s = 5}, function(r) say(r.status) end)",
                           web_url(&w, "/p")));
    rig_wait("200");
    CHECK(strncmp(buf_z(&w.head), "PUT /p HTTP/1.1\r\n", 17) == 0);
    CHECK(web_header(buf_z(&w.head), "X-A: b"));
    web_close(&w);
    rig_close();
}

TEST(a_request_that_fails_gives_nil_and_why)
{
    struct web w;
    rig_open();
    web_open(&w, web_silent);
    rig_run(
        rig_code("local r, why = http.request{url = '%s', timeout_s = 0.02} "
                 "say(r, why:match('^http: ') ~= nil) say((http.get('ftp://x/'))) "
                 "say(select(2, pcall(http.get))) say(select(2, pcall(http.request, {uri = ''})))"
                 "say(select(2, pcall(http.post, 'http://x/', print)))",
                 web_url(&w, "/")));
    CHECK(rig_said("nil true"));
    CHECK(rig_said("nil"));
    CHECK(strstr(buf_z(&rig.said), "http.get: url must be a string, not nil") != NULL);
    CHECK(strstr(buf_z(&rig.said), "unknown option 'uri' (did you mean 'url'?)") != NULL);
    CHECK(strstr(buf_z(&rig.said), "http.post: body: value: a function cannot be sent") != NULL);
    web_close(&w);
    rig_close();
}

TEST(headers_are_checked_and_bounded)
{
    rig_open();
    rig_run("local s, big = ('x'):rep(100000), {} for i = 1, 20 do big['h' .. i] = s end "
            "say(pcall(http.request, {url = 'http://127.0.0.1:1/', headers = big})) "
            "say(pcall(websocket.connect, 'ws://127.0.0.1:1/', {headers = big})) "
            "say(pcall(websocket.connect, 'ws://127.0.0.1:1/', {headers = {a = 1}})) say('end')");
    CHECK(rig_said("false http.request: headers are larger than 1 MiB"));
    CHECK(rig_said("false websocket.connect: headers are larger than 1 MiB"));
    CHECK(rig_said("false websocket.connect: the value of a header must be a string, not number"));
    rig_close();
}

TEST(a_body_that_is_too_large_as_json_is_refused)
{
    rig_open();
    rig_run("say(pcall(http.post, 'http://127.0.0.1:1/', {a = ('\"'):rep(9000000)})) say('end')");
    CHECK(rig_said("false http.post: body is larger than 16 MiB as JSON"));
    rig_run(
        "local c = action_cable.connect{url = 'ws://127.0.0.1:1/'} "
        "say(pcall(action_cable.subscribe, c, 'A', {a = ('\"'):rep(9000000)}, print)) say('end')");
    CHECK(rig_said("false action_cable.subscribe: params is larger than 16 MiB as JSON"));
    rig_close();
}

TEST(a_request_with_a_type_of_its_own_gets_no_second_one)
{
    struct web w;
    rig_open();
    web_open(&w, answer);
    rig_run(rig_code("http.request{method = 'POST', url = '%s', body = {a = 1}, "
                     "headers = {['content-Type'] = 'application/vnd.api+json'}} say('end')",
                     web_url(&w, "/")));
    const char *first = strcasestr(buf_z(&w.head), "content-type:");
    CHECK(first != NULL && strcasestr(first + 1, "content-type:") == NULL);
    CHECK(web_header(buf_z(&w.head), "content-Type: application/vnd.api+json"));
    web_close(&w);
    rig_close();
}
