#include "base/buf.h"
#include "permit/cmdline.h"
#include "unit/test.h"

/// A line as the reader sees it: commands with `|` between words and `;` between commands, dynamic words
/// with `?`, assignments with `=`; then writes with `>`; then flags as letters.
static const char *seen(const char *line)
{
    static char out[4096];
    static const char letters[] = "BSCH";
    struct arena a = {0};
    struct cmdline l;
    struct buf b;
    buf_init(&b, sizeof out - 1);
    cmdline_parse(&l, &a, str_of(line));
    for (size_t i = 0; i < l.n_simples; i++) {
        const struct cmd_simple *c = &l.simples[i];
        buf_addz(&b, i != 0 ? "; " : "");
        for (size_t k = 0; k < c->n_assigns; k++) {
            buf_addf(&b, "%s=" STR_FMT, k != 0 ? "|" : "", STR_ARG(c->assigns[k].text));
        }
        for (size_t k = 0; k < c->n_words; k++) {
            buf_addf(&b, "%s" STR_FMT "%s", k + c->n_assigns != 0 ? "|" : "",
                     STR_ARG(c->words[k].text), c->words[k].dynamic ? "?" : "");
        }
    }
    for (size_t i = 0; i < l.n_writes; i++) {
        buf_addf(&b, " >" STR_FMT "%s", STR_ARG(l.writes[i].text), l.writes[i].dynamic ? "?" : "");
    }
    for (unsigned i = 0; i < 4; i++) {
        if ((l.flags & (1u << i)) != 0) {
            buf_addf(&b, "%s%c", (l.flags & ((1u << i) - 1)) == 0 ? " " : "", letters[i]);
        }
    }
    snprintf(out, sizeof out, "%s", buf_z(&b));
    buf_fini(&b);
    arena_fini(&a);
    return out;
}

TEST(words_have_their_quotes_removed)
{
    CHECK_STR(seen("git status"), "git|status");
    CHECK_STR(seen("  git   'a b'\t\"c d\" e\\ f "), "git|a b|c d|e f");
    CHECK_STR(seen("g\\it st'at'\"us\""), "git|status");
    CHECK_STR(seen("echo '$(rm x)' \"a\\\"b\" ''"), "echo|$(rm x)|a\"b|");
    CHECK_STR(seen("echo a#b # rm x"), "echo|a#b");
    CHECK_STR(seen("echo a\\\nb"), "echo|ab");
    CHECK_STR(seen(""), "");
}

TEST(operators_part_commands)
{
    CHECK_STR(seen("a; b && c || d | e & f\ng"), "a; b; c; d; e; f; g");
    CHECK_STR(seen("a|&b;;c"), "a; b; c");
    CHECK_STR(seen("a\n# b\nc"), "a; c");
}

TEST(what_the_shell_decides_is_dynamic)
{
    CHECK_STR(seen("echo $A ${B} *.c a? [x] ~/y {a,b} {1..3} {}"),
              "echo|$A?|${B}?|*.c?|a??|[x]?|~/y?|{a,b}?|{1..3}?|{}");
    CHECK_STR(seen("$X -rf /"), "$X?|-rf|/");
    CHECK_STR(seen("echo \"$A b\" $"), "echo|$A b?|$");
    CHECK_STR(seen("$'\\x72\\155' x"), "rm?|x");
}

TEST(substitutions_are_read_and_said)
{
    CHECK_STR(seen("echo $(rm x)"), "rm|x; echo|$(rm x)? S");
    CHECK_STR(seen("echo \"a $(rm \"$(ls)\") b\""), "ls; rm|$(ls)?; echo|a $(rm \"$(ls)\") b? S");
    CHECK_STR(seen("echo `rm \\`ls\\``"), "ls; rm|`ls`?; echo|`rm \\`ls\\``? S");
    CHECK_STR(seen("diff <(sort a) >(rm b)"), "sort|a; rm|b; diff|/dev/fd?|/dev/fd? S");
    CHECK_STR(seen("echo ${A:-$(rm x)}"), "rm|x; echo|${A:-$(rm x)}? S");
    CHECK_STR(seen("echo $((1 << 2)) && rm x"), "echo|$((1 << 2))?; rm|x S");
    CHECK_STR(seen("echo $((1 + $(rm x)))"), "rm|x; echo|$((1 + $(rm x)))? S");
}

TEST(commands_inside_compounds_are_found)
{
    CHECK_STR(seen("if a; then b; else c; fi"), "a; b; c C");
    CHECK_STR(seen("for x in 1 2; do rm $x; done"), "for|x|in|1|2; rm|$x? C");
    CHECK_STR(seen("while ! a; do b; done"), "a; b C");
    CHECK_STR(seen("case $x in a) rm y;; esac"), "case|$x?|in|a; rm|y C");
    CHECK_STR(seen("f() { rm x; }; f"), "f; rm|x; f C");
    CHECK_STR(seen("function f { rm x; }"), "rm|x C");
    CHECK_STR(seen("(cd /; rm x)"), "cd|/; rm|x C");
    CHECK_STR(seen("time -p rm x"), "rm|x C");
    CHECK_STR(seen("((1<<2))\nrm x\n2"), "rm|x; 2 SC");
}

TEST(assignments_stand_before_the_command)
{
    CHECK_STR(seen("A=1 B='x y' git A=2"), "=A=1|=B=x y|git|A=2");
    CHECK_STR(seen("A+=1 B[2]=3 x"), "=A+=1|=B[2]=3|x");
    CHECK_STR(seen("1A=2 x"), "1A=2|x");
    CHECK_STR(seen("'A=1' x"), "A=1|x");
    CHECK_STR(seen("\"A\"=1 x"), "A=1|x");
    CHECK_STR(seen("A\\=1 x"), "A=1|x");
    CHECK_STR(seen("$'A=1' x"), "A=1?|x");
    CHECK_STR(seen("`y`A=1 x"), "y; `y`A=1?|x S");
    CHECK_STR(seen("A['x y']=1 B=\"2\"'3' x"), "=A[x y]=1|=B=23|x");
}

TEST(redirections_that_write_are_listed)
{
    CHECK_STR(seen("a > b 2>&1 < c >> d"), "a >b >d");
    CHECK_STR(seen("a 2>/dev/null >&2 &>e >|f"), "a >/dev/null >e >f");
    CHECK_STR(seen("a >&file <>g 3>h"), "a >file >g >h");
    CHECK_STR(seen("a > $X >~/y"), "a >$X? >~/y?");
    CHECK_STR(seen(">x"), " >x");
    CHECK_STR(seen("a >&- 2>&-"), "a");
}

TEST(here_documents_are_text_unless_a_shell_reads_them)
{
    CHECK_STR(seen("cat <<E\nrm x\nE\nls"), "cat; ls H");
    CHECK_STR(seen("bash <<E\nrm x\nE\nls"), "bash; rm|x; ls H");
    CHECK_STR(seen("cat <<E | sh\nrm x\nE"), "cat; sh; rm|x H");
    CHECK_STR(seen("cat <<E\na $(rm x)\nE"), "cat; rm|x SH");
    CHECK_STR(seen("cat <<'E'\na $(rm x)\nE\nls"), "cat; ls H");
    CHECK_STR(seen("cat <<-E\n\ta\n\tE\nls"), "cat; ls H");
    CHECK_STR(seen("bash <<< 'rm x'"), "bash; rm|x H");
    CHECK_STR(seen("cat <<E\nrm x"), "cat; rm|x BH");
}

TEST(what_cannot_be_read_is_broken)
{
    CHECK_STR(seen("echo 'a"), "echo|a B");
    CHECK_STR(seen("echo \"a"), "echo|a B");
    CHECK_STR(seen("echo $(rm x"), "rm|x; echo|$(rm x? BS");
    CHECK_STR(seen("echo `rm x"), "rm|x; echo|`rm x? BS");
}

TEST(a_backslash_and_newline_are_removed_before_the_text_is_read)
{
    CHECK_STR(seen("echo \"$\\\n(rm x)\""), "rm|x; echo|$\\\n(rm x)? S");
    CHECK_STR(seen("echo $\\\n'\\x72' $\\\n{A\\\n}"), "echo|r?|$\\\n{A\\\n}?");
    CHECK_STR(seen("cat <<E\n$\\\n(rm x)\nE"), "cat; rm|x SH");
    CHECK_STR(seen("cat <\\\n<\\\n-E\n\tE\nrm x"), "cat; rm|x H");
    CHECK_STR(seen("a >\\\n> b 2\\\n>&\\\n1 &\\\n> c"), "a >b >c");
    CHECK_STR(seen("diff <\\\n(rm x)"), "rm|x; diff|/dev/fd? S");
    CHECK_STR(seen("if a; el\\\nse rm x; fi"), "a; rm|x C");
    CHECK_STR(seen("A\\\n=1 rm"), "=A=1|rm");
    CHECK_STR(seen("a # b\\\nrm x"), "a; rm|x");
    CHECK_STR(seen("a 'b\\\nc' \\\\\nrm x"), "a|b\\\nc|\\; rm|x");
}

TEST(a_here_document_ends_where_bash_ends_it)
{
    CHECK_STR(seen("cat <<EF\nE\\\nF\nrm x\n"), "cat; rm|x H"); // the lines are joined
    CHECK_STR(seen("cat <<'EF'\nE\\\nF\nrm x\nEF"), "cat H");
    CHECK_STR(seen("cat <<E\n\\$( ' $(rm x) ' )\nE"), "cat; rm|x SH");
    CHECK_STR(seen("cat <<E\n${A:-'$(rm x)'}\nE"), "cat; rm|x BSH");
    CHECK_STR(seen("bash <<E\n\\`rm x\\`\nE"), "bash; rm|x; `rm x`? SH");
    CHECK_STR(seen("bash <<E\necho '$(rm x)'\nE"), "bash; rm|x; echo|$(rm x) BSH");
    CHECK_STR(seen("echo $(cat <<E\n)\nE\n); rm x"), "cat; echo|$(cat <<E\n)\nE\n)?; rm|x SH");
}

TEST(a_substitution_ends_where_its_grammar_ends_it)
{
    CHECK_STR(seen("echo $(true # )\n rm x # '\n)"),
              "true; rm|x; echo|$(true # )\n rm x # '\n)? S");
    CHECK_STR(seen("echo $(echo \"$(echo \")\"; rm x)\")"),
              "echo|); rm|x; echo|$(echo \")\"; rm x)?; echo|$(echo \"$(echo \")\"; rm x)\")? S");
    CHECK_STR(seen("echo $( (rm x) ); y"), "rm|x; echo|$( (rm x) )?; y SC");
    CHECK_STR(seen("echo ${A:-{}; rm x; }"), "echo|${A:-{}?; rm|x SC");
    CHECK_STR(seen("echo `echo \\#; rm x`"), "echo|#; rm|x; echo|`echo \\#; rm x`? S");
}

TEST(tests_and_lists_are_no_commands)
{
    CHECK_STR(seen("[[ a < b && ! -f $X ]] && rm x"), "[[|a|b|!|-f|$X?|]]; rm|x C");
    CHECK_STR(seen("[[ a =~ (<<E) ]]\nrm x\nE"), "[[|a|=~|E|]]; rm|x; E C");
    CHECK_STR(seen("[[ $(rm x) ]]"), "rm|x; [[|$(rm x)?|]] SC");
    CHECK_STR(seen("[ -f x ] && y"), "[|-f|x|]; y");
    CHECK_STR(seen("A=(1 $(rm x) # y\n) git"), "rm|x; =A=(1 $(rm x) # y\n)|git SC");
    CHECK_STR(seen("for i do rm x; done"), "for|i; rm|x C");
    CHECK_STR(seen("coproc X for i do rm x; done"), "X; for|i; rm|x C");
    CHECK_STR(seen("{fd}>f rm x 12>g {a[1]}<h {a,b}"), "rm|x|{a,b}? >f >g");
}

TEST(deep_nesting_ends)
{
    struct buf b;
    struct arena a = {0};
    struct cmdline l;
    static const char *const openers[] = {"$(", "((", "${", "<(", "<<a ", "\"$(", "A=(B=(", "$["};
    for (size_t k = 0; k < ARRAY_LEN(openers); k++) {
        buf_init(&b, SIZE_MAX);
        while (b.n < 60000) {
            buf_addz(&b, openers[k]);
        }
        cmdline_parse(&l, &a, buf_str(&b));
        CHECK((l.flags & CMD_BROKEN) != 0);
        arena_fini(&a);
        buf_fini(&b);
    }
}

/// How many commands are found in `n` times `opener`, then `middle`.
static size_t count_found(const char *opener, size_t n, const char *middle, unsigned *flags)
{
    struct buf b = {.max = SIZE_MAX};
    struct arena a = {0};
    struct cmdline l;
    for (size_t i = 0; i < n; i++) {
        buf_addz(&b, opener);
    }
    buf_addz(&b, middle);
    cmdline_parse(&l, &a, buf_str(&b));
    *flags = l.flags;
    size_t found = l.n_simples;
    CHECK(a.used < (size_t)32 << 20);
    arena_fini(&a);
    buf_fini(&b);
    return found;
}

TEST(nothing_in_a_line_is_read_again_and_again)
{
    unsigned flags;
    CHECK(count_found("coproc coproc $(", 12, "rm x", &flags) < 100);
    CHECK(count_found("$((", 14, "rm x", &flags) < 1000);
    CHECK(count_found("sh <<E\n$(", 15, "rm x", &flags) <
          4000); // a shell's text is read in two ways
    CHECK((flags & CMD_BROKEN) != 0);
    CHECK(count_found("a<<b\nb\n", 9000, "", &flags) == 9000);
    CHECK(count_found("cat<<b\n$()$()$()\nb\n", 3000, "", &flags) == 3000);
    CHECK_INT(flags, CMD_HEREDOC | CMD_SUBSTITUTES);
}
