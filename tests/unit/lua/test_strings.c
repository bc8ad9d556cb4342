// Bounded string and table functions: the same answers as Lua's own.

#include "unit/lua/run.h"
#include "unit/lua/stock.h"

static unsigned seed = 12345;

static unsigned roll(unsigned n)
{
    seed = seed * 1103515245 + 12345;
    return (seed >> 16) % n;
}

/// A random text of up to `max` pieces, as a Lua string literal.
static void random_text(char *out, const char *const *pieces, unsigned n_pieces, unsigned max)
{
    *out = '\0';
    strcat(out, "'");
    for (unsigned i = roll(max + 1); i > 0; i--) {
        strcat(out, pieces[roll(n_pieces)]);
    }
    strcat(out, "'");
}

#define PICK(out, pieces, max) random_text(out, pieces, sizeof pieces / sizeof pieces[0], max)

static const char *const subject_pieces[] = {"a",   "b", "ab", "A", "1",     " ", "(", ")", "\\0",
                                             "\\n", "[", "]",  "%", "\\255", "x", "-", "aa"};
static const char *const pattern_pieces[] = {
    "a",  "b",  ".",  "%a", "%d", "%s", "%w",  "%x",  "%p",   "%l",   "%u",   "%c",     "%g",  "%A",
    "%W", "%z", "*",  "+",  "-",  "?",  "(",   ")",   "()",   "[",    "]",    "[ab]",   "^",   "$",
    "%",  "%%", "%1", "%2", "%0", "[^", "%b",  "%f",  "x",    "[%a",  "%b()", "%f[%w]", "\\0", "-]",
    "[]", "1",  "%(", "%)", ".-", ".*", "(.)", "a-z", "[a-]", "[%]]", "(a*)", "%bab"};
static const char *const repl_pieces[] = {"x", "%0", "%1", "%2", "%%", "%", "yy", "", "%9", "\\0"};

TEST(find_and_match_answer_as_lua_does)
{
    struct stock *s = stock_open();
    char subject[256], pattern[256], source[1024];
    for (int i = 0; i < 12000; i++) {
        PICK(subject, subject_pieces, 12);
        PICK(pattern, pattern_pieces, 7);
        int init = (int)roll(12) - 4;
        const char *name = i % 2 == 0 ? "find" : "match";
        snprintf(source, sizeof source, "string.%s(%s, %s, %d)", name, subject, pattern, init);
        stock_compare(s, source);
    }
    stock_close(s);
}

TEST(a_range_up_to_an_escape_ends_a_set_as_in_lua)
{
    struct stock *s = stock_open();
    stock_compare(
        s, "string.find('a]b', '[[-%%]')"); // the second '%' escapes the ']' that ends the set
    stock_compare(s, "string.find('a%b', '[ -%%]')");
    stock_compare(s, "string.gsub('a]b%c', '[^[-%%]', '_')");
    stock_close(s);
}

TEST(gmatch_answers_as_lua_does)
{
    struct stock *s = stock_open();
    char subject[256], pattern[256], source[1024];
    for (int i = 0; i < 4000; i++) {
        PICK(subject, subject_pieces, 12);
        PICK(pattern, pattern_pieces, 6);
        snprintf(source, sizeof source,
                 "(function() local r = {} for a, b in string.gmatch(%s, %s, %d) do "
                 "r[#r + 1] = tostring(a) .. '/' .. tostring(b) end return table.concat(r, ',') "
                 "end)()",
                 subject, pattern, (int)roll(8) - 3);
        stock_compare(s, source);
    }
    stock_close(s);
}

TEST(gsub_answers_as_lua_does)
{
    struct stock *s = stock_open();
    char subject[256], pattern[256], repl[128], source[1024];
    static const char *const others[] = {"{a = 'T', b = false, ab = 3}",
                                         "function(x) if x == 'a' then return 'F' end end",
                                         "function(x, y) return y end", "12", "{a = {}}"};
    for (int i = 0; i < 8000; i++) {
        PICK(subject, subject_pieces, 12);
        PICK(pattern, pattern_pieces, 6);
        PICK(repl, repl_pieces, 4);
        const char *with = i % 3 == 0 ? others[roll(5)] : repl;
        snprintf(source, sizeof source,
                 i % 5 == 0 ? "string.gsub(%s, %s, %s, 2)" : "string.gsub(%s, %s, %s)", subject,
                 pattern, with);
        stock_compare(s, source);
    }
    stock_close(s);
}

TEST(format_and_rep_answer_as_lua_does)
{
    static const char *const formats[] = {
        "%d",      "%5d",   "%-5d|", "%05d",  "%+d",   "%i",  "%u", "%c",    "%x",
        "%X",      "%#x",   "%o",    "%e",    "%.3f",  "%g",  "%a", "%s",    "%5s",
        "%-5s|",   "%.2s",  "%q",    "%5q",   "%%",    "%",   "%y", "%123d", "text",
        "%10.4s|", "%.20s", "%p",    "%.99f", "%5.1f", "\\0", "%i"};
    static const char *const values[] = {
        "1",    "-7",       "3.5",     "'text'",          "'a\\0b'", "'\\n\"\\\\\\r1'",
        "nil",  "true",     "1 << 62", "math.huge",       "0/0",     "2^53",
        "'10'", "'\\1272'", "-0.0",    "math.mininteger", "1e100"};
    struct stock *s = stock_open();
    char format[256], source[1024];
    for (int i = 0; i < 8000; i++) {
        PICK(format, formats, 3);
        snprintf(source, sizeof source, "string.format(%s, %s, %s, %s)", format, values[roll(17)],
                 values[roll(17)], values[roll(17)]);
        if (strstr(format, "%p") == NULL) { // ours shows no addresses
            stock_compare(s, source);
        }
    }
    for (int n = -2; n < 40; n++) {
        snprintf(source, sizeof source,
                 "('ab'):rep(%d), ('x'):rep(%d, '--'), (''):rep(%d, ','), (''):rep(%d)", n, n, n,
                 n);
        stock_compare(s, source);
    }
    stock_close(s);
}

TEST(format_quotes_what_load_reads_back)
{
    struct vm *vm = run_vm(VM_SANDBOX);
    CHECK_LUA(vm,
              "local s = {} for i = 0, 255 do s[#s + 1] = string.char(i) .. '7' end\n"
              "s = table.concat(s)\n"
              "return tostring(load('return ' .. ('%q'):format(s))() == s)",
              "true");
    vm_close(vm);
}

TEST(methods_of_strings_are_the_bounded_ones)
{
    struct vm *vm = run_vm(VM_SANDBOX);
    CHECK_LUA(vm, "return tostring(('x').find == string.find and ('x').rep == string.rep)", "true");
    vm_close(vm);
}

TEST(table_functions_answer_as_lua_does)
{
    static const char *const sources[] = {
        "(function() local t = {1, 2, 3} table.insert(t, 4) table.insert(t, 1, 0) return "
        "table.concat(t, ',') end)()",
        "table.insert({1}, 5, 1)",
        "table.insert({1}, 0, 1)",
        "table.insert({1})",
        "table.insert({}, 1, 2, 3)",
        "table.insert(1, 2)",
        "(function() local t = {1, 2, 3} return table.remove(t, 1), table.remove(t), "
        "table.concat(t) end)()",
        "table.remove({})",
        "table.remove({}, 0)",
        "table.remove({1, 2}, 3)",
        "table.remove({1, 2}, 4)",
        "table.remove({[0] = 'z'}, 0)",
        "table.concat({1, 2.5, 'x'}, '-')",
        "table.concat({1, {}, 3})",
        "table.concat({1, 2, 3}, ',', 2, 3)",
        "table.concat({}, ',', 1, 0)",
        "table.concat({1, 2}, ',', 2, 5)",
        "table.concat(setmetatable({}, {__index = function(_, k) return k end}), ',', 1, 4)",
        "table.concat({[math.maxinteger] = 'm'}, ',', math.maxinteger, math.maxinteger)",
        "table.unpack({1, nil, 3}, 1, 3)",
        "table.unpack({1, 2}, 2)",
        "table.unpack({}, 1, 1e7)",
        "table.unpack({}, math.mininteger, math.maxinteger)",
        "select('#', table.unpack({}, math.maxinteger, math.maxinteger))",
        "table.concat(table.move({1, 2, 3}, 1, 3, 2), ',')",
        "table.concat(table.move({1, 2, 3}, 2, 3, 1), ',')",
        "table.concat(table.move({1, 2, 3}, 1, 3, 1, {}), ',')",
        "table.move({}, math.mininteger, math.maxinteger, 1)",
        "table.move({1}, 1, 2, math.maxinteger)",
        "table.move({1, 2, 3}, 2, 1, 5)[1]",
        "table.sort({1, 'x'})",
        "table.sort({1, 2}, 3)",
        "table.pack(1, nil).n",
    };
    struct stock *s = stock_open();
    for (size_t i = 0; i < sizeof sources / sizeof sources[0]; i++) {
        stock_compare(s, sources[i]);
    }
    stock_close(s);
}

TEST(sort_orders_like_lua_does)
{
    struct stock *s = stock_open();
    char source[1024];
    for (int i = 0; i < 400; i++) {
        char list[512] = "";
        for (unsigned n = roll(40); n > 0; n--) {
            snprintf(list + strlen(list), sizeof list - strlen(list), "%u,", roll(20));
        }
        static const char *const by[] = {"", ", function(a, b) return a > b end"};
        snprintf(source, sizeof source,
                 "(function() local t = {%s} table.sort(t%s) return table.concat(t, ' ') end)()",
                 list, by[i % 2]);
        stock_compare(s, source);
    }
    stock_close(s);
}
