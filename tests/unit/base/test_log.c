#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/log.h"
#include "base/path.h"
#include "base/redact.h"
#include "base/time.h"
#include "base/utf8.h"
#include "unit/test.h"

static struct buf lines; // all of them, with newlines
static unsigned line_count;
static atomic_bool inside;

static void collect(void *arg, enum log_level level, enum log_component component, struct str line)
{
    CHECK(!atomic_exchange(&inside, true)); // one at a time
    CHECK(arg == &lines);
    CHECK(level <= LOG_DEBUG && component < LOG__COUNT);
    buf_adds(&lines, line);
    buf_addc(&lines, '\n');
    line_count++;
    sched_yield();
    errno = EIO;
    inside = false;
}

static void open_log(enum log_level level)
{
    buf_init(&lines, SIZE_MAX);
    log_open(level, collect, &lines);
}

static void close_log(void)
{
    log_open(LOG_WARN, NULL, NULL);
    redact_clear();
    buf_fini(&lines);
}

static void check_redacted(const char *in, const char *want)
{
    struct buf out;
    buf_init(&out, SIZE_MAX);
    log_redact(&out, str_of(in));
    CHECK_STR(buf_z(&out), want);
    buf_fini(&out);
}

TEST(a_line_has_time_level_component_and_text)
{
    int64_t before = time_wall_ms(), at;
    open_log(LOG_INFO);
    log_info(LOG_HTTP, "method=%s status=%d", "GET", 200);
    struct str rest = buf_str(&lines);
    CHECK(time_parse(str_cut(&rest, ' '), &at));
    CHECK(at >= before && at <= time_wall_ms());
    CHECK(str_eqz(rest, "info http method=GET status=200\n"));
    close_log();
}

TEST(lines_above_the_level_are_not_written)
{
    open_log(LOG_WARN);
    log_info(LOG_HUB, "no");
    log_debug(LOG_HUB, "no");
    CHECK_INT(line_count, 0);
    log_warn(LOG_HUB, "yes");
    log_error(LOG_HUB, "yes");
    CHECK_INT(line_count, 2);
    log_set_level(LOG_DEBUG);
    CHECK_INT(log_get_level(), LOG_DEBUG);
    log_debug(LOG_HUB, "yes");
    CHECK_INT(line_count, 3);
    close_log();
}

TEST(before_it_is_opened_the_log_warns_on_stderr)
{
    char path[300];
    struct buf b;
    snprintf(path, sizeof path, "%s/stderr", test_dir());
    int saved = dup(STDERR_FILENO), fd = open(path, O_WRONLY | O_CREAT, 0600);
    CHECK(saved >= 0 && fd >= 0 && dup2(fd, STDERR_FILENO) >= 0);
    log_info(LOG_HUB, "quiet");
    log_warn(LOG_HUB, "loud password=hunter22");
    CHECK(dup2(saved, STDERR_FILENO) >= 0);
    close(saved);
    close(fd);
    buf_init(&b, 1000);
    CHECK_INT(path_read(path, &b, NULL), 0);
    CHECK(str_ends(buf_str(&b), "Z warn hub loud password=[redacted]\n"));
    CHECK(strstr(buf_z(&b), "quiet") == NULL);
    buf_fini(&b);
}

TEST(logging_leaves_errno_alone)
{
    open_log(LOG_INFO);
    errno = ENOENT;
    log_info(LOG_HUB, "x");
    CHECK_INT(errno, ENOENT);
    close_log();
}

TEST(names_of_levels_come_back)
{
    enum log_level level;
    for (enum log_level i = LOG_ERROR; i <= LOG_DEBUG; i++) {
        CHECK(log_level_parse(str_of(log_level_name(i)), &level));
        CHECK_INT(level, i);
    }
    CHECK(!log_level_parse(STR("loud"), &level));
    CHECK(!log_level_parse(STR(""), &level));
    CHECK_STR(log_component_name(LOG_STORE), "store");
}

TEST(whatever_arrives_a_line_stays_one_line)
{
    check_redacted("a\nb\r\tc", "a\\nb\\r\\tc");
    check_redacted("\x1B[31mred\x7F", "\\u001b[31mred\\u007f");
    check_redacted("\a\v\b\f", "\\u0007\\u000b\\b\\f");
    check_redacted("\xC2\x9B"
                   "31m", // CSI as one character
                   "\\u009b31m");
    check_redacted("a\xE2\x80\xA8z", "a\\u2028z");
    check_redacted("\xFF\xC3", "\\xff\\xc3");
    check_redacted("\xC3\xA4 \xEF\xBF\xBD", "\xC3\xA4 \xEF\xBF\xBD");
    struct buf out;
    buf_init(&out, 100);
    log_redact(&out, STR("a\0b"));
    CHECK_STR(buf_z(&out), "a\\u0000b");
    buf_fini(&out);
}

TEST(a_registered_secret_is_shown_nowhere)
{
    CHECK(redact_add(STR_NULL, STR("hunter2hunter2")));
    check_redacted("x=hunter2hunter2", "x=[redacted]");
    check_redacted("<hunter2hunter2 hunter2hunter2>", "<[redacted] [redacted]>");
    check_redacted("<hunter2hunter2hunter2>", "<[redacted]>");
    check_redacted("/p/hunter2hunter2/q\n", "/p/[redacted]/q\\n");
    check_redacted("hunter2hunter", "hunter2hunter");
    redact_clear();
    check_redacted("x=hunter2hunter2", "x=hunter2hunter2");
}

TEST(of_two_secrets_that_overlap_neither_is_shown)
{
    CHECK(redact_add(STR_NULL, STR("abcdefghij")));
    CHECK(redact_add(STR_NULL, STR("abcdefgh")));
    CHECK(redact_add(STR_NULL, STR("ghijklmn")));
    CHECK(redact_add(STR_NULL, STR("ghijklmn")));
    check_redacted("(abcdefghijklmn)", "([redacted])");
    check_redacted("(abcdefghi)", "([redacted]i)");
    check_redacted("(abcdefghij)", "([redacted])");
    CHECK(redact_add(STR_NULL, STR("1abcdefgh2345678")));
    check_redacted("(1abcdefgh2345678)", "([redacted])");
    redact_clear();
}

TEST(a_secret_with_blanks_is_hidden_whole_behind_its_key)
{
    CHECK(redact_add(STR_NULL, STR("correct horse")));
    check_redacted("password=correct horse next=1", "password=[redacted] next=1");
    redact_clear();
}

TEST(a_secret_of_a_few_bytes_is_refused)
{
    CHECK(!redact_add(STR_NULL, STR("1234567")));
    CHECK(!redact_add(STR_NULL, STR_NULL));
    check_redacted("1234567", "1234567");
    CHECK(redact_add(STR_NULL, STR("12345678")));
    redact_clear();
}

TEST(what_stands_where_secrets_stand_is_hidden)
{
    static const char *const rows[][2] = {
        {"Authorization: Bearer abc.DEF-1", "Authorization: Bearer [redacted]"},
        {"authorization:Basic dXNlcjpwYXNz x", "authorization:Basic [redacted] x"},
        {"Proxy-Authorization: abc", "Proxy-Authorization: [redacted]"},
        {"sent bearer abc123, ok", "sent bearer [redacted] ok"},
        {"BEARER  abc", "BEARER  [redacted]"},
        {"token=abc", "token=[redacted]"},
        {"TOKEN=abc x=1", "TOKEN=[redacted] x=1"},
        {"access_token=abc&x=1", "access_token=[redacted]&x=1"},
        {"a=1 api_key=abc b=2", "a=1 api_key=[redacted] b=2"},
        {"OPENAI_API_KEY=abc", "OPENAI_API_KEY=[redacted]"},
        {"apikey=abc", "apikey=[redacted]"},
        {"x-api-key: abc", "x-api-key: [redacted]"},
        {"client_secret=abc", "client_secret=[redacted]"},
        {"password=a,b;c'd", "password=[redacted]"},
        {"password='a b' c", "password='[redacted]' c"},
        {"password=\"a \\\" b\" c", "password=\"[redacted]\" c"},
        {"GET /?code=abc&state=1", "GET /?code=[redacted]&state=1"},
        {"http://h:1/?code=abc", "http://h:1/?code=[redacted]"},
        {"--token=abc --x", "--token=[redacted] --x"},
        {"token = \"abc\"", "token = \"[redacted]\""},
        {"Cookie: a=b; c=d", "Cookie: [redacted]"},
        {"key sk-abcdefgh12345 used", "key [redacted] used"},
        {"(sk-ant-api03-A_b-c)", "([redacted])"},
        {"my_sk-abcdefgh12345", "my_[redacted]"},
        {"token=a token=b", "token=[redacted] token=[redacted]"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        check_redacted(rows[i][0], rows[i][1]);
        check_redacted(rows[i][1], rows[i][1]); // once more changes nothing
    }
    check_redacted("Cookie: a=b; c=d\r\nHost: h", "Cookie: [redacted]\\r\\nHost: h");
}

TEST(secrets_in_json_are_hidden_and_it_stays_json)
{
    static const char *const rows[][2] = {
        {"{\"token\":\"abc\",\"n\":1}", "{\"token\":\"[redacted]\",\"n\":1}"},
        {"{\"api_key\" : \"abc\"}", "{\"api_key\" : \"[redacted]\"}"},
        {"{\"token\":\"a\\\"b\\\\\",\"n\":1}", "{\"token\":\"[redacted]\",\"n\":1}"},
        {"{\"authorization\":\"Bearer abc\"}", "{\"authorization\":\"Bearer [redacted]\"}"},
        {"{\"url\":\"/?token=abc\",\"n\":1}", "{\"url\":\"/?token=[redacted]\",\"n\":1}"},
        {"{\"t\":\"token=abc\\\\\"}", "{\"t\":\"token=[redacted]\"}"},
        {"{\"t\":\"say \\\"token=abc\\\" x\"}", "{\"t\":\"say \\\"token=[redacted]\\\" x\"}"},
        {"\"{\\\"token\\\":\\\"abc\\\",\\\"n\\\":1}\"",
         "\"{\\\"token\\\":\\\"[redacted]\\\",\\\"n\\\":1}\""},
        {"{\"t\":\"pw='a b\",\"n\":1}", "{\"t\":\"pw='a b\",\"n\":1}"},
        {"{\"t\":\"password='a b\",\"n\":1}", "{\"t\":\"password='[redacted]\",\"n\":1}"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        check_redacted(rows[i][0], rows[i][1]);
        check_redacted(rows[i][1], rows[i][1]);
    }
}

TEST(what_only_resembles_a_secret_is_shown)
{
    static const char *const rows[] = {
        "token= next=1",
        "tokens=5 max_tokens=7",
        "unexpected token: foo",
        "{\"token\":5,\"secret\":null,\"tokens\":\"many\"}",
        "{\"code\":\"LOAD_FAILED\"}",
        "exit_code=1 status_code=200",
        "key=value monkey=1",
        "bearer",
        "the \"bearer\" word",
        "risk-assessment-of-things task-1234567890",
        "sk-short",
        "token",
        "token=",
        "token=\"\"",
        "password: required",
        "",
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        check_redacted(rows[i], rows[i]);
    }
}

TEST(half_a_key_at_the_end_of_the_text_is_no_harm)
{
    static const char text[] = "{\\\"token\\\" : \\\"ab\\\\\" authorization: Bearer x sk-abcdefgh1";
    for (size_t n = 0; n < sizeof text; n++) {
        char *copy = xstrndup(text, n); // so that a read behind the end is seen
        struct buf out;
        buf_init(&out, SIZE_MAX);
        log_redact(&out, (struct str){copy, n});
        CHECK(buf_ok(&out));
        buf_fini(&out);
        free(copy);
    }
}

TEST(redaction_is_linear)
{
    enum { N = 1 << 20 };
    static const char *const pieces[] = {"token", "\\", "\"", "sk-", "bearer ", "-key:", "=", " "};
    char *text = xmalloc(N + 16);
    for (size_t i = 0; i < ARRAY_LEN(pieces); i++) {
        size_t n = 0, len = strlen(pieces[i]);
        for (; n < N; n += len) {
            memcpy(text + n, pieces[i], len);
        }
        struct buf out;
        buf_init(&out, SIZE_MAX);
        uint64_t start = test_cpu_ns();
        log_redact(&out, (struct str){text, n});
        CHECK(test_cpu_ns() - start < 5000000000u); // squared it takes minutes
        buf_fini(&out);
    }
    free(text);
}

TEST(a_long_line_is_cut_between_characters_and_says_so)
{
    char *text = xmalloc(9001);
    open_log(LOG_INFO);
    for (size_t shift = 0; shift < 3; shift++) {
        memset(text, 'a', shift);
        for (size_t i = 0; i + 3 + shift <= 9000; i += 3) {
            memcpy(text + shift + i, "\xE4\xB8\xAD", 4);
        }
        buf_clear(&lines);
        log_info(LOG_HUB, "%s", text);
        CHECK(lines.n <= 8193 && lines.n > 8188);
        CHECK(str_ends(buf_str(&lines), " [cut]\n"));
        CHECK(utf8_valid(buf_str(&lines)));
    }
    free(text);
    close_log();
}

TEST(a_line_that_just_fits_is_not_cut)
{
    open_log(LOG_INFO);
    log_info(LOG_HUB, "x");
    int room = 8192 - (int)(lines.n - 2); // without "x" and the newline
    buf_clear(&lines);
    log_info(LOG_HUB, "%0*d", room, 7);
    CHECK_INT(lines.n, 8193);
    CHECK(str_ends(buf_str(&lines), "07\n"));
    buf_clear(&lines);
    log_info(LOG_HUB, "%0*d", room + 1, 7);
    CHECK(str_ends(buf_str(&lines), "0 [cut]\n"));
    close_log();
}

TEST(a_secret_at_the_place_of_the_cut_does_not_show_its_first_half)
{
    CHECK(redact_add(STR_NULL, STR("hunter2hunter2")));
    open_log(LOG_INFO);
    for (int pad = 8130; pad < 8170; pad++) {
        buf_clear(&lines);
        log_info(LOG_HUB, "%0*d%s%0*d", pad, 0, "hunter2hunter2", 200, 0);
        CHECK(strstr(buf_z(&lines), "hunt") == NULL);
    }
    close_log();
}

TEST(a_value_is_quoted_when_it_must_be)
{
    static const char *const rows[][2] = {
        {"plain", "plain"},
        {"/a/b.c?d", "/a/b.c?d"},
        {"", "\"\""},
        {"two words", "\"two words\""},
        {"a=b", "\"a=b\""},
        {"say \"hi\"", "\"say \\\"hi\\\"\""},
        {"back\\slash", "\"back\\\\slash\""},
        {"line\nbreak", "\"line\\nbreak\""},
        {"\x1B[0m", "\"\\u001b[0m\""},
        {"\xFF", "\"\\xff\""},
        {"\xC2\x9B", "\"\\u009b\""},
        {"\xC3\xA4", "\"\xC3\xA4\""},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        CHECK_STR(LOGQ(str_of(rows[i][0])).z, rows[i][1]);
    }
    CHECK_STR(LOGQ(STR("a\0b")).z, "\"a\\u0000b\"");
    CHECK_STR(LOGQ(STR_NULL).z, "\"\"");
}

TEST(a_long_value_is_cut_between_characters)
{
    char text[1000];
    for (size_t n = 190; n < sizeof text; n++) {
        memset(text, '\n', n);
        struct log_quoted q = LOGQ(((struct str){text, n}));
        CHECK(strlen(q.z) <= 210);
        CHECK(str_ends(str_of(q.z), "\\n...\""));
    }
    for (size_t i = 0; i < 300; i += 3) {
        memcpy(text + i, "\xE4\xB8\xAD", 3);
    }
    CHECK(utf8_valid(str_of(LOGQ(((struct str){text, 300})).z)));
    memset(text, '"', 200);
    struct log_quoted q = LOGQ(((struct str){text, 200}));
    CHECK(str_ends(str_of(q.z), "\\\"...\""));
}

TEST(a_secret_at_the_cut_of_a_value_does_not_show_its_first_half)
{
    char text[400];
    CHECK(redact_add(STR_NULL, STR("hunter2hunter2")));
    for (size_t pad = 170; pad < 210; pad++) {
        memset(text, 'a', sizeof text);
        memcpy(text + pad, "hunter2hunter2", 14);
        CHECK(strstr(LOGQ(((struct str){text, sizeof text})).z, "hunt") == NULL);
    }
    redact_clear();
}

enum { THREADS = 4, LINES = 500 };

static void *write_lines(void *arg)
{
    for (int i = 0; i < LINES; i++) {
        log_info(LOG_LOOP, "thread=%s token=abc end", (const char *)arg);
        redact_add(STR_NULL, STR("hunter2hunter2"));
    }
    return NULL;
}

TEST(lines_of_many_threads_do_not_mix)
{
    static char names[THREADS][2] = {"0", "1", "2", "3"};
    pthread_t threads[THREADS];
    open_log(LOG_INFO);
    for (size_t i = 0; i < THREADS; i++) {
        CHECK_INT(pthread_create(&threads[i], NULL, write_lines, names[i]), 0);
    }
    for (size_t i = 0; i < THREADS; i++) {
        CHECK_INT(pthread_join(threads[i], NULL), 0);
    }
    CHECK_INT(line_count, THREADS * LINES);
    for (struct str rest = buf_str(&lines); rest.n != 0;) {
        struct str line = str_cut(&rest, '\n');
        CHECK_INT(line.n,
                  strlen("2026-11-15T05:01:12.345Z info loop thread=0 token=[redacted] end"));
        CHECK(str_ends(line, " token=[redacted] end"));
    }
    close_log();
}
