// Drawing full screens, for `make bench`.
//
//     bench_cells ROUNDS
//
// Screens of 160 x 50 in which 30 % of the cells change from one to the next: scattered words, as when lists and
// numbers change, and a text that scrolls below a header. Prints one JSON object: microseconds per frame, drawing
// all cells and finding the bytes, and bytes per frame; and the bytes that ncurses writes for the same screens.

#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "term/cells.h"

#ifdef HAVE_NCURSES
#include <curses.h>
#endif

enum { HIGH = 50, WIDE = 160, FRAMES = 200 };

static char screens[2][FRAMES][HIGH][WIDE + 1]; // scattered, scrolling
static unsigned seed = 1;

static unsigned any(unsigned n)
{
    seed = seed * 1103515245 + 12345;
    return (seed >> 16) % n;
}

// Of this thread: other work on the machine does not count.
static uint64_t cpu_ns(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
    return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

static void fill(char *row, size_t from, size_t n)
{
    for (size_t i = from; i < from + n && i < WIDE; i++) {
        row[i] = any(6) == 0 ? ' ' : (char)('a' + any(26));
    }
}

static void make_scattered(void)
{
    for (int f = 0; f < FRAMES; f++) {
        memcpy(screens[0][f], screens[0][f > 0 ? f - 1 : 0], sizeof screens[0][f]);
        for (int row = 0; row < HIGH; row++) {
            fill(screens[0][f][row], 0, f == 0 ? WIDE : 0);
            for (int changed = 0; f > 0 && changed < WIDE * 3 / 10; changed += 8) {
                fill(screens[0][f][row], any(WIDE - 8), 8);
            }
        }
    }
}

static void make_scrolling(void)
{
    for (int f = 0; f < FRAMES; f++) {
        for (int row = 0; row < HIGH; row++) {
            seed = (unsigned)(row == 0 || row == HIGH - 1 ? row : row + f * 3) + 7;
            memset(screens[1][f][row], ' ', WIDE);
            fill(screens[1][f][row], 0, 40 + any(100));
        }
    }
}

static struct style style_of(int row)
{
    return row % 7 == 0 ? (struct style){.attrs = STYLE_BOLD}
                        : (struct style){.fg = STYLE_INDEX(row % 3)};
}

static void measure(int kind, int rounds, double *us, double *bytes)
{
    struct cells shown, next;
    struct buf out;
    size_t total = 0;
    uint64_t spent = 0;
    cells_init(&shown);
    cells_init(&next);
    cells_resize(&shown, HIGH, WIDE);
    cells_resize(&next, HIGH, WIDE);
    buf_init(&out, SIZE_MAX);
    for (int i = 0; i < rounds * FRAMES; i++) {
        uint64_t began = cpu_ns();
        cells_clear(&next);
        for (int row = 0; row < HIGH; row++) {
            cells_put(&next, (struct rect){0, 0, HIGH, WIDE}, row, 0,
                      (struct str){screens[kind][i % FRAMES][row], WIDE}, style_of(row));
        }
        buf_clear(&out);
        cells_diff(&shown, &next, false, COLOR_256, &out);
        cells_copy(&shown, &next);
        spent += i % FRAMES > 0 ? cpu_ns() - began : 0;
        total += i % FRAMES > 0 ? out.n : 0;
    }
    *us = (double)spent / 1000 / (rounds * (FRAMES - 1));
    *bytes = (double)total / (rounds * (FRAMES - 1));
    buf_fini(&out);
    cells_fini(&shown);
    cells_fini(&next);
}

#ifdef HAVE_NCURSES
static double ncurses_bytes(int kind)
{
    FILE *to = tmpfile(), *from = fopen("/dev/null", "r");
    long first = 0;
    setenv("LINES", "50", 1);
    setenv("COLUMNS", "160", 1);
    SCREEN *s = newterm("xterm-256color", to, from);
    if (s == NULL) {
        return -1;
    }
    start_color();
    use_default_colors();
    for (short i = 0; i < 3; i++) {
        init_pair((short)(i + 1), i, -1);
    }
    idlok(stdscr, TRUE);
    for (int f = 0; f < FRAMES; f++) {
        for (int row = 0; row < HIGH; row++) {
            attrset(row % 7 == 0 ? A_BOLD : COLOR_PAIR(row % 3 + 1));
            mvaddnstr(row, 0, screens[kind][f][row], WIDE);
        }
        refresh();
        fflush(to);
        first = f == 0 ? ftell(to) : first;
    }
    double bytes = (double)(ftell(to) - first) / (FRAMES - 1);
    endwin();
    delscreen(s);
    fclose(to);
    fclose(from);
    return bytes;
}
#else
static double ncurses_bytes(int kind)
{
    (void)kind;
    return -1;
}
#endif

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 5;
    double us[2], bytes[2];
    setlocale(LC_ALL, "C.UTF-8");
    make_scattered();
    make_scrolling();
    for (int kind = 0; kind < 2; kind++) {
        measure(kind, rounds, &us[kind], &bytes[kind]);
    }
    printf("{\"us\": %.1f, \"bytes\": %.0f, \"scroll_us\": %.1f, \"scroll_bytes\": %.0f, ", us[0],
           bytes[0], us[1], bytes[1]);
    printf("\"ncurses_bytes\": %.0f, \"ncurses_scroll_bytes\": %.0f}\n", ncurses_bytes(0),
           ncurses_bytes(1));
    return 0;
}
