// Fuzz the journal's reader and its repair: the input is a file that another process left behind.
//
// Whatever it holds: it opens, and what is damaged is named by its line. Once open it takes events, every
// number is read, as JSON, and it is whole when it is opened again. After fsck has mended a damaged one
// nothing is damaged any more. No byte is lost: what is cut or replaced lies beside it.

#include <sys/stat.h>
#include <unistd.h>

#include "base/json.h"
#include "base/path.h"
#include "store/fsck.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char home[64], path[128];

static void demand(bool holds, const char *what)
{
    if (!holds) {
        fprintf(stderr, "fuzz_journal: %s\n", what);
        abort();
    }
}

static void make_home(const uint8_t *data, size_t size)
{
    struct err e;
    snprintf(home, sizeof home, "/dev/shm/fuzz-journal-%d", (int)getpid());
    snprintf(path, sizeof path, "%s/sessions/s", home);
    demand(path_mkdirs(path, 0700, &e) == 0, "cannot make a directory");
    snprintf(path, sizeof path, "%s/sessions/s/events.jsonl", home);
    FILE *f = fopen(path, "w");
    demand(f != NULL && fwrite(data, 1, size, f) == size && fclose(f) == 0, "cannot write");
}

static void mend(void)
{
    struct buf report;
    struct fsck_counts counts;
    struct err e;
    buf_init(&report, FSCK_REPORT_MAX);
    demand(fsck_with_index(NULL, home, true, &report, &counts, &e) == 0, "fsck fails");
    demand(counts.found > 0 && counts.repaired == counts.found, "fsck leaves something");
    buf_fini(&report);
}

static uint64_t lines_behind(struct journal *j, uint64_t after)
{
    struct buf out;
    struct err e;
    size_t n;
    buf_init(&out, 2 * (size_t)STORE_LINE_MAX);
    int rc = journal_read(j, after, SIZE_MAX, STORE_LINE_MAX, &out, &n, &e);
    demand(rc == 0, "what was found good cannot be read");
    struct str rest = buf_str(&out);
    while (rest.n != 0) {
        struct arena a = {0};
        struct json *v;
        demand(json_parse(&v, &a, str_cut(&rest, '\n'), NULL, &e) == 0, "not JSON");
        demand((uint64_t)json_int(json_get(v, "seq"), 0) == ++after, "a hole");
        arena_fini(&a);
    }
    buf_fini(&out);
    return n;
}

static void use(struct journal *j)
{
    struct buf line;
    struct err e;
    struct store_event ev = {STR("a"), STR("\"x\":1")};
    struct journal_repair r;
    uint64_t next = journal_end(j).seq;

    demand(lines_behind(j, 0) == next - 1, "another number of lines");
    demand(lines_behind(j, next / 2) == next - 1 - next / 2, "another number of lines behind");
    buf_init(&line, STORE_LINE_MAX);
    demand(journal_encode(&line, next, 0, &ev, &e) == 0, "cannot encode");
    demand(journal_write(j, buf_str(&line), 1, &e) == 0, "cannot append");
    buf_fini(&line);
    journal_close(j);
    demand(journal_open(&j, path, JOURNAL_START, &r, &e) == 0, "cannot open again");
    demand(r.bytes_cut == 0 && journal_end(j).seq == next + 1, "not whole when opened again");
    journal_close(j);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct journal *j;
    struct journal_repair r = {0};
    struct stat st;
    struct err e;

    make_home(data, size);
    demand(journal_open(&j, path, JOURNAL_START, &r, &e) == 0, "cannot be opened");
    demand(r.bytes_cut + journal_end(j).at == size, "bytes are missing");
    demand(stat(path, &st) == 0 && (uint64_t)st.st_size == journal_end(j).at, "not cut");
    use(j);
    if (r.damage[0] != '\0') {
        demand(strstr(r.damage, "at line ") != NULL, "no line number");
        mend();
        demand(journal_open(&j, path, JOURNAL_START, &r, &e) == 0, "mended and cannot be opened");
        demand(r.damage[0] == '\0' && r.bytes_cut == 0, "mended and still damaged");
        use(j);
    }
    demand(path_remove_tree(home, &e) == 0, "cannot clean up");
    return 0;
}
