#include "base/utf8.h"
#include "unit/test.h"

// Well-formed byte sequences as Unicode's table 3-7 lists them: an opinion of its own to hold the
// code against.
static const struct {
    unsigned char lead_low, lead_high, second_low, second_high;
    size_t len;
} forms[] = {
    {0x00, 0x7F, 0x00, 0x00, 1}, {0xC2, 0xDF, 0x80, 0xBF, 2}, {0xE0, 0xE0, 0xA0, 0xBF, 3},
    {0xE1, 0xEC, 0x80, 0xBF, 3}, {0xED, 0xED, 0x80, 0x9F, 3}, {0xEE, 0xEF, 0x80, 0xBF, 3},
    {0xF0, 0xF0, 0x90, 0xBF, 4}, {0xF1, 0xF3, 0x80, 0xBF, 4}, {0xF4, 0xF4, 0x80, 0x8F, 4},
};

static bool listed(const unsigned char *p, size_t n)
{
    for (size_t i = 0; i < ARRAY_LEN(forms); i++) {
        if (p[0] >= forms[i].lead_low && p[0] <= forms[i].lead_high && n == forms[i].len) {
            bool good = n == 1 || (p[1] >= forms[i].second_low && p[1] <= forms[i].second_high);
            for (size_t k = 2; k < n; k++) {
                good = good && p[k] >= 0x80 && p[k] <= 0xBF;
            }
            return good;
        }
    }
    return false;
}

static void check_sequence(const unsigned char *p, size_t n)
{
    uint32_t cp;
    struct str s = {(const char *)p, n};
    bool whole = utf8_decode(s, &cp) == n && (n > 1 || cp != 0xFFFD);
    if (whole != listed(p, n)) {
        test_fail(__FILE__, __LINE__, "%02x %02x %02x %02x of %zu: %d", p[0], p[1], p[2], p[3], n,
                  whole);
    }
}

TEST(every_sequence_of_up_to_three_bytes_is_judged_as_unicode_lists_it)
{
    for (unsigned i = 0; i < 0x1000000; i++) {
        unsigned char p[4] = {(unsigned char)(i >> 16), (unsigned char)(i >> 8), (unsigned char)i,
                              0};
        if (p[0] < 0x80 && (p[1] | p[2]) != 0) {
            continue; // ASCII first: the rest is judged on its own
        }
        check_sequence(p, 3);
        if (p[2] == 0) {
            check_sequence(p, 2);
        }
        if ((p[1] | p[2]) == 0) {
            check_sequence(p, 1);
        }
    }
}

TEST(every_four_byte_start_is_judged_as_unicode_lists_it)
{
    static const unsigned char ends[] = {0x00, 0x7F, 0x80, 0xA5, 0xBF, 0xC0, 0xFF};
    for (unsigned i = 0xE000; i < 0x10000; i++) {
        for (size_t k = 0; k < ARRAY_LEN(ends) * ARRAY_LEN(ends); k++) {
            unsigned char p[4] = {(unsigned char)(i >> 8), (unsigned char)i,
                                  ends[k % ARRAY_LEN(ends)], ends[k / ARRAY_LEN(ends)]};
            check_sequence(p, 4);
        }
    }
}

TEST(every_scalar_value_comes_back_from_its_bytes)
{
    for (uint32_t cp = 0; cp <= 0x10FFFF; cp++) {
        char out[4];
        uint32_t back;
        if (cp == 0xD800) {
            cp = 0xE000;
        }
        size_t n = utf8_encode(cp, out);
        CHECK(utf8_valid((struct str){out, n}));
        CHECK_INT(utf8_decode((struct str){out, n}, &back), n);
        CHECK_INT(back, cp);
    }
}

TEST(a_bad_byte_is_found_wherever_it_stands)
{
    char room[80];
    for (size_t start = 0; start < 16; start++) {
        for (size_t n = 1; n <= 64; n++) {
            for (size_t bad = 0; bad < n; bad++) {
                memset(room, 'a', sizeof room);
                room[start + bad] = (char)0xFF;
                CHECK_INT(utf8_valid_prefix((struct str){room + start, n}), bad);
            }
            memset(room, 'a', sizeof room);
            CHECK(utf8_valid((struct str){room + start, n}));
        }
    }
}

TEST(a_character_cut_off_by_the_end_is_not_valid)
{
    CHECK_INT(utf8_valid_prefix(STR("aaaaaaaaaaaaaaaab\xE4\xB8")), 17);
    CHECK_INT(utf8_valid_prefix(STR("ab\xF0\x9F\x98")), 2);
    CHECK(utf8_valid(STR_NULL));
    CHECK(utf8_valid(STR("mixed \xC3\xA4 and \xF0\x9F\x98\x80 and more than sixteen bytes")));
}

TEST(decoding_nothing_takes_nothing)
{
    uint32_t cp;
    CHECK_INT(utf8_decode(STR_NULL, &cp), 0);
    CHECK_INT(utf8_decode(STR("\xED\xA0\x80"), &cp), 1);
    CHECK_INT(cp, 0xFFFD);
}

TEST(a_cut_never_splits_a_character)
{
    const char *text = "a\xC3\xA4\xE4\xB8\xAD\xF0\x9F\x98\x80z"; // borders 1 3 6 10 11
    static const size_t want[] = {0, 1, 1, 3, 3, 3, 6, 6, 6, 6, 10, 11, 11};
    for (size_t max = 0; max < ARRAY_LEN(want); max++) {
        CHECK_INT(utf8_cut(text, 11, max), want[max]);
    }
}

TEST(a_cut_takes_what_an_earlier_cut_left_unfinished)
{
    CHECK_INT(utf8_cut("ab\xF0\x9F\x98", 5, 5), 2);
    CHECK_INT(utf8_cut("ab\xF0\x9F\x98", 5, 100), 2);
    CHECK_INT(utf8_cut("ab\x80\x80\x80\x80", 6, 6), 6); // no character, nothing to spare
    CHECK_INT(utf8_cut("\x80\x80", 2, 2), 2);
    CHECK_INT(utf8_cut("", 0, 10), 0);
}

TEST(widths_are_those_of_a_terminal)
{
    static const struct {
        uint32_t cp;
        int width;
    } rows[] = {{'a', 1},      {'~', 1},     {0x00, 0},    {0x1B, 0},    {0x7F, 0},    {0x9B, 0},
                {0xA0, 1},     {0xAD, 1},    {0x0378, 1},  {0xE9, 1},    {0x0301, 0},  {0x0488, 0},
                {0x1100, 2},   {0x115F, 2},  {0x1160, 0},  {0x11FF, 0},  {0x1200, 1},  {0x200B, 0},
                {0x200D, 0},   {0x2028, 0},  {0x2500, 1},  {0x3000, 2},  {0x302A, 0},  {0x4E2D, 2},
                {0xAC00, 2},   {0xFE0F, 0},  {0xFEFF, 0},  {0xFF21, 2},  {0xFFFD, 1},  {0x1F600, 2},
                {0x20000, 2},  {0x2FFFD, 2}, {0x3FFFD, 2}, {0xE0020, 0}, {0xE0100, 0}, {0xF0000, 1},
                {0x10FFFF, 1}, {0x110000, 1}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        if (utf8_char_width(rows[i].cp) != rows[i].width) {
            test_fail(__FILE__, __LINE__, "U+%04X is %d wide", (unsigned)rows[i].cp,
                      utf8_char_width(rows[i].cp));
        }
    }
    CHECK_INT(utf8_width(STR("ab")), 2);
    CHECK_INT(utf8_width(STR("e\xCC\x81\xE4\xB8\xAD\xFF")), 4);
    CHECK_INT(utf8_width(STR_NULL), 0);
}
