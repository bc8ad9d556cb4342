#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/json.h"
#include "store/crc32c.h"
#include "store/journal.h"
#include "unit/store/util.h"

static char path[512];

static struct journal *open_ok(struct journal_mark from, struct journal_repair *r)
{
    struct journal *j;
    struct err e;
    snprintf(path, sizeof path, "%s/events.jsonl", test_dir());
    if (journal_open(&j, path, from, r, &e) < 0) {
        test_fail(__FILE__, __LINE__, "%s", e.msg);
    }
    return j;
}

static int append(struct journal *j, const char *type, const char *fields, size_t n)
{
    struct buf lines;
    struct err e;
    struct store_event ev = {str_of(type), str_of(fields)};
    buf_init(&lines, 256 << 20);
    int rc = 0;
    uint64_t seq = journal_end(j).seq;
    for (size_t i = 0; i < n && rc == 0; i++) {
        rc = journal_encode(&lines, seq + i, 1763182872345, &ev, &e);
    }
    if (rc == 0) {
        rc = journal_write(j, buf_str(&lines), n, &e);
    }
    buf_fini(&lines);
    return rc;
}

TEST(a_line_is_what_the_contract_says)
{
    struct journal *j = open_ok(JOURNAL_START, NULL);
    CHECK_INT(append(j, "turn.started", "\"turn\":\"t1\",\"n\":[1,2]", 1), 0);
    CHECK_INT(append(j, "turn.completed", "", 1), 0);
    journal_close(j);
    char *text = file_text(path, NULL);
    CHECK_STR(
        text,
        "{\"seq\":1,\"ts\":\"2025-11-15T05:01:12.345Z\",\"type\":\"turn.started\",\"turn\":\"t1\","
        "\"n\":[1,2],\"crc\":\"826c1ab7\"}\n"
        "{\"seq\":2,\"ts\":\"2025-11-15T05:01:12.345Z\",\"type\":\"turn.completed\",\"crc\":"
        "\"65d1c563\"}\n");
    free(text);
    struct stat st;
    CHECK_INT(stat(path, &st), 0);
    CHECK_INT(st.st_mode & 0777, 0600);
}

TEST(what_would_break_the_journal_is_refused_and_writes_nothing)
{
    static const struct {
        const char *type, *fields;
        int code;
    } rows[] = {
        {"a", "\"x\":", ERR_PARSE},
        {"a", "\"x\":1}", ERR_PARSE},
        {"a", "\"x\":1\n,\"y\":2", ERR_INVALID},
        {"a", "\"seq\":9", ERR_PARSE},
        {"a", "\"type\":\"b\"", ERR_PARSE},
        {"a", "\"ts\":0", ERR_PARSE},
        {"", "\"x\":1", ERR_INVALID},
        {"a", "\"x\":\"\xff\"", ERR_PARSE},
        {"a", "\"x\":1},{\"y\":2", ERR_PARSE},
    };
    struct journal *j = open_ok(JOURNAL_START, NULL);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        CHECK_INT(append(j, rows[i].type, rows[i].fields, 1), rows[i].code);
    }
    CHECK_INT(append(j, "a\"\n", "", 1), 0); // a type is a string like any other
    CHECK_INT(journal_end(j).seq, 2);
    journal_close(j);
    CHECK_INT(journal_text_check(path), 1);
}

TEST(an_event_above_the_limit_is_refused)
{
    struct journal *j = open_ok(JOURNAL_START, NULL);
    char *big = xmalloc(STORE_LINE_MAX + 10);
    memcpy(big, "\"x\":\"", 5);
    memset(big + 5, 'a', STORE_LINE_MAX);
    memcpy(big + STORE_LINE_MAX - 10, "\"", 2);
    CHECK_INT(append(j, "a", big, 1), ERR_TOO_LARGE);
    big[STORE_LINE_MAX - 10] = 'a';
    memcpy(big + STORE_LINE_MAX - 200, "\"", 2);
    CHECK_INT(append(j, "a", big, 1), 0);
    CHECK_INT(append(j, "b", "", 1), 0);
    journal_close(j);
    free(big);
    j = open_ok(JOURNAL_START, NULL); // and a line of that size is read again
    CHECK_INT(journal_end(j).seq, 3);
    struct buf out;
    size_t n;
    buf_init(&out, 2 * (size_t)STORE_LINE_MAX);
    CHECK_INT(journal_read(j, 0, 10, 1000, &out, &n, NULL), 0);
    CHECK_INT(n, 1);
    buf_clear(&out);
    CHECK_INT(journal_read(j, 1, 10, 1000, &out, &n, NULL), 0);
    CHECK_INT(n, 1);
    buf_fini(&out);
    journal_close(j);
}

#define L1 "{\"seq\":1,\"ts\":\"2026-11-15T05:01:12.345Z\",\"type\":\"a\"}\n"
#define L2 "{\"seq\":2,\"ts\":\"2026-11-15T05:01:12.345Z\",\"type\":\"b\"}\n"
#define L3 "{\"seq\":3,\"ts\":\"2026-11-15T05:01:12.345Z\",\"type\":\"c\"}\n"

TEST(a_torn_end_is_cut_kept_and_reported)
{
    static const char *const ends[] = {
        "{",
        "{\"seq\":3",
        "{\"seq\":3,\"ts\":\"2026-11-15T05:01:12.345Z\",\"type\":\"c\"}", // all but the newline
        "{\"seq\":3,\"type\":\n",
        "\n",
        "\n\n\n",
        "{\"seq\":2,\"type\":\"c\"}\n", // again
        "{\"seq\":3}\n",
        "[1]\n",
        "{\"seq\":\"3\",\"type\":\"c\"}\n",
        "{\"seq\":3,\"type\":\"c\"}{\n",
        "garbage\nmore\n{\"seq\":",
        "{\"seq\":3,\"type\":\"\xff\"}\n",
    };
    for (size_t i = 0; i < ARRAY_LEN(ends); i++) {
        struct journal_repair r;
        char text[512];
        snprintf(path, sizeof path, "%s/events.jsonl", test_dir());
        snprintf(text, sizeof text, L1 L2 "%s", ends[i]);
        file_write(path, text, strlen(text));
        struct journal *j = open_ok(JOURNAL_START, &r);
        if (r.bytes_cut != strlen(ends[i]) || r.last_seq != 2 || journal_end(j).seq != 3) {
            test_fail(__FILE__, __LINE__, "case %zu: cut %llu, last %llu", i,
                      (unsigned long long)r.bytes_cut, (unsigned long long)r.last_seq);
        }
        CHECK_INT(append(j, "c", "", 1), 0);
        journal_close(j);
        CHECK_INT(journal_text_check(path), 3);
        char kept[600];
        snprintf(kept, sizeof kept, "%s/%s", test_dir(), r.kept);
        char *torn = file_text(kept, NULL);
        CHECK_STR(torn, ends[i]);
        free(torn);
        CHECK_INT(unlink(kept), 0);
    }
}

TEST(zeros_at_the_end_are_cut)
{
    struct journal_repair r;
    char text[9000] = L1 L2;
    snprintf(path, sizeof path, "%s/events.jsonl", test_dir());
    file_write(path, text, sizeof text);
    struct journal *j = open_ok(JOURNAL_START, &r);
    CHECK_INT(r.last_seq, 2);
    CHECK_INT(r.bytes_cut, sizeof text - strlen(L1 L2));
    journal_close(j);
}

/// Read and kept without reading or writing what is not there, gigabytes of it.
TEST(holes_are_neither_read_nor_copied)
{
    static const uint64_t many = UINT64_C(6) << 30;
    struct journal_repair r;
    struct stat st;
    char kept[600];
    snprintf(path, sizeof path, "%s/events.jsonl", test_dir());
    file_write(path, L1 L2 "torn", strlen(L1 L2 "torn"));
    CHECK_INT(truncate(path, (off_t)many), 0);
    struct journal *j = open_ok(JOURNAL_START, &r);
    CHECK_INT(r.last_seq, 2);
    CHECK_INT(r.bytes_cut, many - strlen(L1 L2));
    CHECK(journal_bytes_read(j) < (UINT64_C(64) << 20));
    journal_close(j);
    snprintf(kept, sizeof kept, "%s/%s", test_dir(), r.kept);
    CHECK_INT(stat(kept, &st), 0);
    CHECK_INT(st.st_size, r.bytes_cut);
    CHECK(st.st_blocks < 1000);
    char torn[5] = "";
    FILE *f = fopen(kept, "re");
    CHECK(f != NULL && fread(torn, 1, 4, f) == 4);
    fclose(f);
    CHECK_STR(torn, "torn");
    CHECK_INT(unlink(kept), 0);

    file_write(path, L1, strlen(L1)); // lines behind a hole are found
    CHECK_INT(truncate(path, (off_t)many), 0);
    file_append(path, "\n" L3);
    j = open_ok(JOURNAL_START, &r);
    CHECK_INT(r.bytes_cut, 0);
    CHECK_INT(journal_end(j).seq, 4);
    CHECK_INT(journal_end(j).at, many + 1 + strlen(L3));
    CHECK(strstr(r.damage, "damaged at line 2") != NULL);
    CHECK(journal_bytes_read(j) < (UINT64_C(64) << 20));
    journal_close(j);
    CHECK_INT(unlink(path), 0);
}

TEST(a_whole_journal_is_left_alone)
{
    struct journal_repair r;
    snprintf(path, sizeof path, "%s/events.jsonl", test_dir());
    file_write(path, L1 L2 L3, strlen(L1 L2 L3));
    struct journal *j = open_ok(JOURNAL_START, &r);
    CHECK_INT(r.bytes_cut, 0);
    CHECK_INT(r.last_seq, 3);
    journal_close(j);
    CHECK_INT(file_count(path), 1);
}

static void read_all(struct journal *j, struct buf *out)
{
    size_t n;
    struct err e = {0};
    buf_init(out, 1 << 20);
    CHECK_INT(journal_read(j, 0, 1000, 1 << 20, out, &n, &e), 0);
    CHECK_INT(n, journal_end(j).seq - 1);
}

// What was read: one letter an event, '-' for one that is lost.
static void check_types(struct journal *j, const char *want)
{
    struct buf out;
    read_all(j, &out);
    struct str rest = buf_str(&out);
    for (uint64_t seq = 1; rest.n != 0; seq++) {
        struct str line = str_cut(&rest, '\n');
        struct arena a = {0};
        struct json *v;
        CHECK_INT(json_parse(&v, &a, line, NULL, NULL), 0);
        CHECK_INT(json_int(json_get(v, "seq"), 0), seq);
        CHECK(json_get(v, "crc") == NULL);
        bool lost = json_bool(json_get(v, "lost"), false);
        CHECK_INT(lost ? '-' : json_str(json_get(v, "type"), "?").p[0], *want++);
        arena_fini(&a);
    }
    CHECK_STR(want, "");
    buf_fini(&out);
}

TEST(damage_in_front_of_good_lines_is_told_passed_over_and_left_as_it_is)
{
    static const struct {
        const char *text;
        unsigned line;
        const char *read;
        size_t torn;
    } cases[] = {
        {L1 "garbage\n" L3, 2, "a-c", 0},
        {L1 L3 "{\"seq\":4,\"type\":\"d\"}\n", 2, "a-cd", 0},
        {L1 L2 "{\"seq\":4,\"type\":\"d\"}\n", 3, "ab-d", 0}, // a hole
        {L1 L1 L2, 2, "ab", 0},
        {"\n" L1 L2, 1, "ab", 0},
        {L2, 1, "-b", 0},
        {L1 "{\"seq\":2,\"type\":\n" L3 "{\"seq\":4,", 2, "a-c", 9},
        {L1 "garb\nage\n\n" L3, 2, "a-c", 0},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct journal_repair r;
        char want[32];
        size_t whole = strlen(cases[i].text) - cases[i].torn;
        snprintf(path, sizeof path, "%s/events.jsonl", test_dir());
        file_write(path, cases[i].text, strlen(cases[i].text));
        struct journal *j = open_ok(JOURNAL_START, &r);
        snprintf(want, sizeof want, "at line %u ", cases[i].line);
        if (strstr(r.damage, want) == NULL) {
            test_fail(__FILE__, __LINE__, "case %zu: %s", i, r.damage);
        }
        CHECK_INT(r.bytes_cut, cases[i].torn);
        check_types(j, cases[i].read);
        CHECK_INT(append(j, "new", "", 1), 0); // it goes on
        journal_close(j);
        char *text = file_text(path, NULL);
        CHECK(strncmp(text, cases[i].text, whole) == 0);
        free(text);
    }
}

static void flip(const char *file, size_t bit)
{
    char byte;
    int fd = open(file, O_RDWR);
    CHECK(fd >= 0 && pread(fd, &byte, 1, (off_t)(bit / 8)) == 1);
    byte = (char)(byte ^ (1 << bit % 8));
    CHECK(pwrite(fd, &byte, 1, (off_t)(bit / 8)) == 1);
    close(fd);
}

// Every bit of the file, with a mark that lies behind it: nothing is looked at when it is opened.
TEST(a_flipped_bit_is_found_told_and_skipped)
{
    struct journal *j = open_ok(JOURNAL_START, NULL);
    CHECK_INT(append(j, "a", "\"text\":\"w\\u00f6rter \xc3\xb6\"", 1), 0);
    CHECK_INT(append(j, "b", "\"n\":1234567", 1), 0);
    CHECK_INT(append(j, "c", "", 1), 0);
    struct journal_mark end = journal_end(j), second = {0};
    journal_close(j);
    char *text = file_text(path, NULL);
    second.at = (uint64_t)(strchr(text, '\n') + 1 - text);
    uint64_t third = (uint64_t)(strchr(text + second.at, '\n') + 1 - text);
    free(text);
    for (size_t bit = 0; bit < (end.at - 1) * 8;
         bit++) { // without the last newline the end is torn
        size_t at = bit / 8;
        // a newline that is gone takes the line behind it along
        const char *want = at == second.at - 1 ? "--c"
                           : at == third - 1   ? "a--"
                           : at < second.at    ? "-bc"
                           : at < third        ? "a-c"
                                               : "ab-";
        char why[JOURNAL_WHY];
        flip(path, bit);
        j = open_ok(end, NULL);
        check_types(j, want);
        CHECK(journal_damage(j, why) && strstr(why, "damaged at line") != NULL);
        CHECK(!journal_damage(j, why)); // told once
        journal_close(j);
        flip(path, bit);
    }
}

TEST(pages_of_a_damaged_journal_have_no_holes)
{
    struct journal *j = open_ok(JOURNAL_START, NULL);
    for (int i = 0; i < 3000; i++) {
        CHECK_INT(append(j, "a", "\"text\":\"some words, some words, some words\"", 1), 0);
    }
    struct journal_mark end = journal_end(j);
    journal_close(j);
    srand(7);
    for (int i = 0; i < 40; i++) {
        flip(path, (size_t)rand() % (end.at * 8));
    }
    j = open_ok(end, NULL);
    for (int i = 0; i < 300; i++) {
        struct buf out;
        size_t n, limit = 1 + (size_t)rand() % 200;
        uint64_t after = (uint64_t)rand() % 3000;
        buf_init(&out, 4 << 20);
        CHECK_INT(journal_read(j, after, limit, SIZE_MAX / 2, &out, &n, NULL), 0);
        CHECK_INT(n, MIN(limit, 3000 - after));
        struct str rest = buf_str(&out);
        for (size_t k = 0; k < n; k++) {
            char want[40];
            snprintf(want, sizeof want, "{\"seq\":%llu,", (unsigned long long)(after + 1 + k));
            CHECK(str_starts(str_cut(&rest, '\n'), want));
        }
        CHECK_INT(rest.n, 0);
        buf_fini(&out);
    }
    journal_close(j);
}

TEST(a_journal_from_before_checksums_is_read_and_goes_on)
{
    snprintf(path, sizeof path, "%s/events.jsonl", test_dir());
    file_write(path, L1 L2, strlen(L1 L2));
    struct journal_repair r;
    struct journal *j = open_ok(JOURNAL_START, &r);
    CHECK_STR(r.damage, "");
    CHECK_INT(append(j, "c", "", 1), 0);
    check_types(j, "abc");
    journal_close(j);
    CHECK_INT(journal_text_check(path), 3);
    char *text = file_text(path, NULL);
    CHECK(strstr(text, "\"type\":\"c\",\"crc\":\"") != NULL);
    free(text);
}

TEST(the_checksum_is_crc32c)
{
    static const size_t lengths[] = {0, 1, 7, 8, 9, 64, 1000};
    char bytes[1000];
    CHECK_INT(crc32c(STR("123456789")), 0xe3069283);
    for (size_t i = 0; i < sizeof bytes; i++) {
        bytes[i] = (char)(i * 7 + i / 13);
    }
    for (size_t i = 0; i < ARRAY_LEN(lengths); i++) {
        struct str s = {bytes, lengths[i]};
        CHECK_INT(crc32c(s), crc32c_by_table(s));
    }
}

static void fill(struct journal *j, size_t n)
{
    for (size_t i = 0; i < n; i += 100) {
        CHECK_INT(
            append(j, "message.delta", "\"text\":\"some words, some words, some words\"", 100), 0);
    }
}

TEST(lines_that_moved_in_an_open_journal_do_not_end_the_reader)
{
    struct journal *j = open_ok(JOURNAL_START, NULL);
    size_t size, n;
    fill(j, 4000);
    char *text = file_text(path, &size);
    memmove(text + 10, text + 20, size - 20); // the first line lost ten bytes, and all others moved
    memset(text + size - 10, ' ', 10);
    int fd = open(path, O_WRONLY); // in place, as some editors save
    CHECK(pwrite(fd, text, size, 0) == (ssize_t)size);
    close(fd);
    free(text);
    struct buf out = {.max = SIZE_MAX};
    CHECK_INT(journal_read(j, 0, SIZE_MAX, SIZE_MAX / 2, &out, &n, NULL), 0);
    CHECK_INT(n, 4000);
    buf_fini(&out);
    journal_close(j);
}

TEST(opening_from_a_mark_reads_only_what_lies_behind_it)
{
    struct journal *j = open_ok(JOURNAL_START, NULL);
    fill(j, 20000);
    struct journal_mark mark = journal_end(j);
    fill(j, 100);
    uint64_t tail = journal_end(j).at - mark.at;
    journal_close(j);
    j = open_ok(mark, NULL);
    CHECK_INT(journal_bytes_read(j), tail);
    CHECK_INT(journal_end(j).seq, 20101);
    journal_close(j);
    j = open_ok(JOURNAL_START, NULL);
    CHECK_INT(journal_bytes_read(j), mark.at + tail);
    journal_close(j);
}

TEST(a_mark_that_does_not_fit_is_not_believed)
{
    struct journal *j = open_ok(JOURNAL_START, NULL);
    fill(j, 1000);
    struct journal_mark end = journal_end(j);
    journal_close(j);
    const struct journal_mark marks[] = {
        {500, 17}, {1, 5}, {5, 0}, {end.seq, end.at + 100}, {0, 0}, {400, end.at - 1}, {7, 0}};
    for (size_t i = 0; i < ARRAY_LEN(marks); i++) {
        struct journal_repair r;
        j = open_ok(marks[i], &r);
        CHECK_INT(r.bytes_cut, 0);
        CHECK_INT(journal_end(j).seq, 1001);
        journal_close(j);
    }
}

static void read_and_check(struct journal *j, uint64_t after, size_t limit, size_t max)
{
    struct buf out;
    size_t n;
    struct err e;
    buf_init(&out, 64 << 20);
    if (journal_read(j, after, limit, max, &out, &n, &e) < 0) {
        test_fail(__FILE__, __LINE__, "after %llu: %s", (unsigned long long)after, e.msg);
    }
    uint64_t last = journal_end(j).seq - 1;
    CHECK(n <= limit);
    CHECK(n == limit || out.n >= max || after + n == last || after >= last);
    struct str rest = buf_str(&out);
    for (size_t i = 0; i < n; i++) {
        char want[40];
        snprintf(want, sizeof want, "{\"seq\":%llu,", (unsigned long long)(after + 1 + i));
        CHECK(str_starts(str_cut(&rest, '\n'), want));
    }
    CHECK_INT(rest.n, 0);
    buf_fini(&out);
}

TEST(any_page_is_read_right)
{
    struct journal *j = open_ok(JOURNAL_START, NULL);
    fill(j, 10000);
    srand(5);
    for (int i = 0; i < 500; i++) {
        read_and_check(j, (uint64_t)rand() % 10005, (size_t)rand() % 300,
                       1 + (size_t)rand() % 100000);
        if (i % 100 == 99) {
            journal_close(j);
            j = open_ok(JOURNAL_START, NULL);
        }
    }
    read_and_check(j, 0, 1, 1);
    read_and_check(j, UINT64_MAX, 10, 1);
    journal_close(j);
}

TEST(the_tail_of_a_large_journal_costs_a_few_chunks)
{
    struct journal *j = open_ok(JOURNAL_START, NULL);
    fill(j, 40000);
    struct journal_mark end = journal_end(j);
    CHECK(end.at > 4 << 20);
    journal_close(j);
    j = open_ok(end, NULL);
    read_and_check(j, end.seq - 21, 20, 1 << 20);
    CHECK(journal_bytes_read(j) <= 3 * 64 * 1024);
    journal_close(j);
}

TEST(paging_through_all_of_it_is_linear)
{
    struct journal *j = open_ok(JOURNAL_START, NULL);
    fill(j, 40000);
    struct journal_mark end = journal_end(j);
    journal_close(j);
    j = open_ok(end, NULL); // no marks but the end's
    for (uint64_t after = 0; after < 40000; after += 200) {
        read_and_check(j, after, 200, 1 << 20);
    }
    CHECK(journal_bytes_read(j) < 6 * end.at);
    journal_close(j);
}

TEST(a_line_changed_under_an_open_journal_is_noticed)
{
    struct journal *j = open_ok(JOURNAL_START, NULL);
    CHECK_INT(append(j, "a", "", 3), 0);
    char *text = file_text(path, NULL);
    memcpy(strstr(text, "\"seq\":2"), "\"seq\":7", 7);
    FILE *f = fopen(path, "r+");
    CHECK(f != NULL);
    fputs(text, f);
    fclose(f);
    free(text);
    char why[JOURNAL_WHY];
    check_types(j, "a-a");
    CHECK(journal_damage(j, why) && strstr(why, "line 2") != NULL);
    journal_close(j);
}

TEST(a_journal_that_is_no_file_is_refused)
{
    struct journal *j;
    snprintf(path, sizeof path, "%s/link", test_dir());
    CHECK_INT(symlink("/etc/passwd", path), 0);
    CHECK(journal_open(&j, path, JOURNAL_START, NULL, NULL) < 0);
    snprintf(path, sizeof path, "%s/fifo", test_dir());
    CHECK_INT(mkfifo(path, 0600), 0);
    CHECK_INT(journal_open(&j, path, JOURNAL_START, NULL, NULL), ERR_UNSUPPORTED);
}
