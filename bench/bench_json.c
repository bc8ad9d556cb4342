// How fast base/json parses and writes: a made transcript of about 1 MB, mostly prose in strings
// with the escapes that prose has, and one small message of the kind the hub exchanges all day.

#include <time.h>

#include "base/json.h"

enum { ROUNDS = 9 };

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int compare_doubles(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static void write_message(struct jw *w, unsigned i)
{
    static const char *const prose[] = {
        "I will look at the build file first and then at the two tests that fail on this branch. ",
        "The parser keeps a stack of \"open\" containers;\nnothing is copied until one closes.\n",
        "    if (rc < 0) {\n        return err_set(e, rc, \"cannot open '%s'\", path);\n    }\n",
        "Grüße aus Köln: die Prüfung läuft — alles grün, nur 3 Wörter fehlen noch. ",
    };
    jw_obj(w);
    jw_kint(w, "seq", i);
    jw_kstrz(w, "type", i % 3 == 0 ? "tool_result" : "message");
    jw_key(w, "id");
    jw_strf(w, "msg_%08x", i * 2654435761U);
    struct buf text;
    buf_init(&text, 1 << 16);
    for (unsigned k = 0; k < 8 + i % 7; k++) {
        buf_addz(&text, prose[(i + k * k) % 4]);
    }
    jw_kstr(w, "text", buf_str(&text));
    buf_fini(&text);
    jw_key(w, "seconds");
    jw_double(w, (double)i * 0.125 + 0.1);
    jw_kbool(w, "final", i % 5 == 0);
    jw_end_obj(w);
}

static void make_transcript(struct buf *out, size_t size)
{
    struct jw w;
    jw_init(&w, out);
    jw_arr(&w);
    for (unsigned i = 0; out->n < size; i++) {
        write_message(&w, i);
    }
    jw_end_arr(&w);
}

static struct json *parse(struct arena *a, struct str text)
{
    struct json *v;
    struct err e;
    if (json_parse(&v, a, text, NULL, &e) < 0) {
        fprintf(stderr, "bench_json: %s\n", e.msg);
        exit(1);
    }
    return v;
}

/// Median of some rounds, each of `times` parses (and writes), in seconds for one.
static void measure(const char *what, struct str text, unsigned times)
{
    double parsed[ROUNDS], written[ROUNDS];
    size_t used = 0;
    for (int r = 0; r < ROUNDS; r++) {
        struct arena a = {0};
        struct buf out;
        buf_init(&out, 1 << 24);
        double start = now();
        for (unsigned i = 0; i < times; i++) {
            arena_fini(&a);
            parse(&a, text);
        }
        parsed[r] = (now() - start) / times;
        used = a.used;
        struct json *v = parse(&a, text);
        start = now();
        for (unsigned i = 0; i < times; i++) {
            buf_clear(&out);
            json_write(&out, v, 0);
        }
        written[r] = (now() - start) / times;
        buf_fini(&out);
        arena_fini(&a);
    }
    qsort(parsed, ROUNDS, sizeof *parsed, compare_doubles);
    qsort(written, ROUNDS, sizeof *written, compare_doubles);
    double p = parsed[ROUNDS / 2], w = written[ROUNDS / 2], mb = (double)text.n / 1e6;
    printf("%-10s %8zu bytes  parse %9.2f us %6.0f MB/s  write %9.2f us %6.0f MB/s  arena %.2fx\n",
           what, text.n, p * 1e6, mb / p, w * 1e6, mb / w, (double)used / (double)text.n);
}

int main(void)
{
    struct buf text;
    buf_init(&text, 1 << 24);
    make_transcript(&text, 1000000);
    measure("transcript", buf_str(&text), 20);
    buf_fini(&text);

    struct str message =
        STR("{\"jsonrpc\":\"2.0\",\"id\":17,\"method\":\"turn/start\",\"params\":{\"threadId\":"
            "\"0197b2a4-5d1c-7e3f-9a77-1f2e3d4c5b6a\",\"input\":[{\"type\":\"text\",\"text\":"
            "\"please run the tests\\nand tell me what fails\"}],\"cwd\":\"/home/user/project\","
            "\"model\":null,\"effort\":\"medium\",\"limits\":{\"seconds\":600,\"tokens\":200000,"
            "\"cost\":1.25},\"flags\":[true,false,true]}}");
    measure("message", message, 20000);
    return 0;
}
