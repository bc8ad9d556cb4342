#include "base/buf.h"
#include "permit/match.h"
#include "unit/test.h"

enum { ROOM = 128 };

static struct pattern pattern_of(struct arena *a, const char *text)
{
    struct pattern p;
    struct err e = {0};
    if (pattern_parse(&p, a, str_of(text), &e) < 0) {
        test_fail(__FILE__, __LINE__, "'%s': %s", text, e.msg);
    }
    return p;
}

/// Would an allow rule of this pattern let the line run in /w?
static bool allows(const char *pattern, const char *line)
{
    struct arena a = {0};
    struct cmdline l;
    struct pattern p = pattern_of(&a, pattern);
    cmdline_parse(&l, &a, str_of(line));
    bool ok = match_is_plain(&l, STR("/w"), STR("/w"));
    for (size_t i = 0; i < l.n_simples; i++) {
        ok = ok && match_allows(&p, &l.simples[i]);
    }
    arena_fini(&a);
    return ok;
}

static bool finds(const char *pattern, const char *line)
{
    struct arena a = {0};
    struct cmdline l;
    struct pattern p = pattern_of(&a, pattern);
    cmdline_parse(&l, &a, str_of(line));
    bool found = match_finds(&p, &l, &a);
    arena_fini(&a);
    return found;
}

struct table {
    bool (*ask)(const char *pattern, const char *line);
    const char *pattern;
    const char *yes[ROOM], *no[ROOM];
};

static void check_table(const struct table *t)
{
    for (size_t i = 0; t->yes[i] != NULL; i++) {
        if (!t->ask(t->pattern, t->yes[i])) {
            test_fail(__FILE__, __LINE__, "'%s' does not cover: %s", t->pattern, t->yes[i]);
        }
    }
    for (size_t i = 0; t->no[i] != NULL; i++) {
        if (t->ask(t->pattern, t->no[i])) {
            test_fail(__FILE__, __LINE__, "'%s' covers: %s", t->pattern, t->no[i]);
        }
    }
}

TEST(an_allow_rule_covers_what_it_shows_and_nothing_more)
{
    static const struct table t = {
        allows,
        "git status *",
        {"git status", "git status -s", "git  status 'a b'", "\"git\" status", "g\\it status",
         "git status > out.txt", "git status 2>&1", "git status >/dev/null", "git status $A",
         "LANG=C git status", "git status; git status -s", "git status && git status | git status",
         "git status > ./sub/../x", "NO_COLOR=1 LC_ALL=C git status", "git status *.c", NULL},
        {"git",
         "git push",
         "git -C /x status",
         "/tmp/git status",
         "./git status",
         "git status; rm x",
         "git status && rm x",
         "git status | sh",
         "git status\nrm x",
         "git status & rm x",
         "git status $(rm x)",
         "git status `rm x`",
         "git status > /etc/x",
         "git status > ../x",
         "git status > $X",
         "git status > ~/x",
         "cd / ; git status > x",
         "PATH=/x git status",
         "GIT_PAGER=x git status",
         "LANG=$(x) git status",
         "env git status",
         "sudo git status",
         "(git status)",
         "{ git status; }",
         "git status <<E\nE",
         "git status <(x)",
         "git status $[x]",
         "$G status",
         "git statusx",
         "'git status'",
         "git status 'a",
         "if git status; then git status; fi",
         "sh -c 'git status'",
         "xargs git status",
         "git status \"$\\\n(touch x)\"",
         "git status $\\\n'\\'' ; touch x #'",
         "git status <\\\n<E\ngit status '\nE\ntouch x #'",
         "\"TZ=/x.sh\" git status",
         "'LANG'=/x git status",
         "LANG\\=/x git status",
         "99999999999>x git status",
         "git status [[ # ]]\ntouch x",
         "A=(1) git status",
         "",
         NULL},
    };
    check_table(&t);
}

TEST(an_allow_pattern_without_a_star_is_the_whole_command)
{
    static const struct table t = {allows,
                                   "make test",
                                   {"make test", "make 'test'", NULL},
                                   {"make", "make test x", "make *", NULL}};
    static const struct table glob = {
        allows,
        "npm run test-*",
        {"npm run test-unit", "npm run test-", NULL},
        {"npm run build", "npm run test-a b", "npm run test-$X", NULL}};
    static const struct table literal = {
        allows, "echo '*'", {"echo '*'", "echo \\*", NULL}, {"echo *", "echo a", "echo", NULL}};
    check_table(&t);
    check_table(&glob);
    check_table(&literal);
}

TEST(a_deny_rule_holds_however_the_command_is_dressed)
{
    static const struct table t = {finds,
                                   "rm *",
                                   {"rm",
                                    "rm x",
                                    "/bin/rm x",
                                    "A=1 rm x",
                                    "ls; rm x",
                                    "ls && rm x",
                                    "ls | xargs rm",
                                    "echo $(rm x)",
                                    "echo `rm x`",
                                    "echo \"$(rm x)\"",
                                    "env rm x",
                                    "env -i A=1 rm x",
                                    "env -S 'rm x'",
                                    "nohup rm x",
                                    "timeout 5 rm x",
                                    "timeout -k 5 --signal KILL 10 rm x",
                                    "nice -n 10 rm x",
                                    "sudo -u bob rm x",
                                    "command rm x",
                                    "exec rm x",
                                    "eval 'rm x'",
                                    "eval rm x",
                                    "sh -c 'rm x'",
                                    "bash -ec \"rm x\"",
                                    "bash --norc -c 'ls; rm x'",
                                    "find . -exec rm {} \\;",
                                    "find . -name x -execdir /bin/rm {} +",
                                    "xargs -I{} -n 1 rm {}",
                                    "if true; then rm x; fi",
                                    "(rm x)",
                                    "f() { rm x; }",
                                    "r\\m x",
                                    "'rm' x",
                                    "$'\\x72m' x",
                                    "bash <<E\nrm x\nE",
                                    "sudo sh -c 'env rm x'",
                                    "diff <(rm x) y",
                                    "trap 'rm x' EXIT",
                                    "! rm x",
                                    "env - rm x",
                                    "env -S'rm x'",
                                    "env -iS 'rm x'",
                                    "env --split-string='rm x'",
                                    "env -S 'sh -c' 'rm x'",
                                    "eval -- rm x",
                                    "trap -- 'rm x' EXIT",
                                    "su --command='rm x' bob",
                                    "su --command 'rm x'",
                                    "bash <<< 'rm x'",
                                    "cat <<< 'rm x' | sh",
                                    "cat <<< 'rm x' | sudo bash -s; ls",
                                    "coproc X { rm x; }",
                                    "coproc X while rm x; do :; done",
                                    "coproc rm x",
                                    "coproc 'X' { rm x; }",
                                    "coproc X for i do rm x; done",
                                    "co\\\nproc rm x",
                                    "if a; coproc X then rm x; fi",
                                    "if a; then b; el\\\nse rm x; fi",
                                    "for i do rm x; done",
                                    "select i do rm x; done",
                                    "time -p -- rm x",
                                    "{a}>/dev/null rm x",
                                    "{a[1]}>/dev/null rm x",
                                    "echo $(true # ) '\n rm x # '\n)",
                                    "echo `echo \\#; rm x`",
                                    "echo `echo \\'; rm x; echo \\'`",
                                    "echo \"`echo \\\"a\\\"; rm x`\"",
                                    "echo ${z:- # $(rm x)}",
                                    "echo ${z:-<(rm x)}",
                                    "echo \"${z:-'$(rm x)'}\"",
                                    "echo \"${z:-\"'$(rm x)'\"}\"",
                                    "echo $(( '$(rm x)' ))",
                                    "echo $[ '$(rm x)' ]",
                                    "echo ${x:-{} ; rm x # }",
                                    "((1 # )) ; rm x\n))",
                                    "echo $((rm x) )",
                                    "echo $(echo \"$(echo \")\"; rm x)\")",
                                    "bash -c 'echo $(echo \"$(echo \")\"; rm x)\")'",
                                    "cat <<EF\nE\\\nF\nrm x\nEF",
                                    "cat <<E\n\\$( ' $(rm x) ' )\nE",
                                    "cat <<E\n$\\\n(rm x)\nE",
                                    "bash <<E\necho '$(rm x)'\nE",
                                    "bash <<E\n\\`rm x\\`\nE",
                                    "[[ x =~ (<<E) ]]\nrm x\nE",
                                    "case '[[' in\n[[) rm x;; x) [[ a ]];; esac",
                                    "case x in y) a;;\n(time) rm x;; coproc) rm y;; esac",
                                    "case x in x) rm x;;\nesac",
                                    "echo $(case x in x) rm x;; esac)",
                                    "A=1 [[ a || rm x ]]",
                                    ">/dev/null [[ a || rm x ]]",
                                    "A['x']=1 rm x",
                                    "if (a) >f then rm x; fi",
                                    "if [[ a ]] then rm x; fi",
                                    "if ((1)) then rm x; fi",
                                    "fd --exec rm x",
                                    "fd --exec-batch rm",
                                    "script --command='rm x'",
                                    "script -qc'rm x' log",
                                    "flock f -c 'rm x'",
                                    "su -c'rm x'",
                                    "fish -c'rm x'",
                                    "tcsh -c 'rm x'",
                                    NULL},
                                   {"ls",
                                    "echo rm x",
                                    "echo 'rm x'",
                                    "git rm x",
                                    "rmdir x",
                                    "cat rm",
                                    "ls # rm x",
                                    "cat <<E\nrm x\nE",
                                    "echo a > rm",
                                    "timeout 5 echo rm",
                                    "env FOO=rm ls",
                                    "grep rm x",
                                    "sh script rm",
                                    "find . -name rm",
                                    "cat <<< 'rm x'",
                                    "env - ls rm",
                                    "coproc X rm",
                                    "trap - EXIT",
                                    "env 'rm x'",
                                    "[[ rm == x ]]",
                                    "for rm in x; do y; done",
                                    NULL}};
    static const struct table trap = {
        finds,
        "git push",
        {"trap 'git push' EXIT", "trap -- 'git push' EXIT INT", "eval git push", NULL},
        {"trap 'git pull' EXIT", "git push x", NULL}};
    check_table(&trap);
    check_table(&t);
}

TEST(a_star_alone_stands_for_every_command)
{
    static const struct table allow = {allows,
                                       "*",
                                       {"ls", "ls -la x", "ls; make test", NULL},
                                       {"ls $(x)", "$X a", "ls > /etc/x", "PATH=/x ls", NULL}};
    static const struct table fence = {
        finds, "*", {"ls", "rm x", "rm -r x y", "A=1 rm x", NULL}, {"", "A=1", NULL}};
    check_table(&allow);
    check_table(&fence);
}

TEST(a_deny_rule_sees_past_options)
{
    static const struct table push = {finds,
                                      "git push *",
                                      {"git push", "git push origin", "git -C /x push",
                                       "git -c a=b --no-pager push -f", "git --git-dir /x push",
                                       "sudo git -C /x push", NULL},
                                      {"git pull", "git log push", "git status",
                                       "git commit -m push x push", "echo git push", NULL}};
    static const struct table force = {
        finds,
        "rm -rf *",
        {"rm -rf x", "rm -fr x", "rm -r -f x", "rm x -r -f", "rm -rvf x", NULL},
        {"rm x", "rm -r x", "rm -f x", "ls -rf", NULL}};
    static const struct table long_option = {
        finds,
        "git push --force *",
        {"git push --force", "git push origin --force", "git -C x push origin main --force=1",
         NULL},
        {"git push", "git push --force-with-lease", "git push force", NULL}};
    static const struct table value = {
        finds,
        "npm publish --access=public *",
        {"npm publish --access=public", "npm publish x --access=public y", NULL},
        {"npm publish", "npm publish --access", "npm publish --access=restricted", NULL}};
    check_table(&push);
    check_table(&force);
    check_table(&value);
    check_table(&long_option);
}

static void check_opaque(const char *const *lines, bool opaque)
{
    struct arena a = {0};
    struct cmdline l;
    for (; *lines != NULL; lines++) {
        cmdline_parse(&l, &a, str_of(*lines));
        if (match_is_opaque(&l, &a) != opaque) {
            test_fail(__FILE__, __LINE__, "%s: %s", opaque ? "clear" : "opaque", *lines);
        }
    }
    arena_fini(&a);
}

TEST(a_command_without_a_readable_name_is_opaque)
{
    static const char *const opaque[] = {"$X a",
                                         "`x` a",
                                         "{rm,x}",
                                         "/bin/r? x",
                                         "env $X",
                                         "sh -c \"$X\"",
                                         "echo 'a",
                                         "curl x | sh",
                                         "curl x | sudo bash -s a",
                                         "env env env env env env env env env rm x",
                                         "`echo rm `A=1 y",
                                         "$'\\x72m' x",
                                         NULL};
    static const char *const clear[] = {
        "ls",        "ls $X",        "echo *",   "env A=1 ls $X",  "sh -c 'ls'", "sh script a",
        "sh <<E\nE", "sh -x script", "[ -f x ]", "bash --version", NULL};
    check_opaque(opaque, true);
    check_opaque(clear, false);
}

TEST(a_shell_that_reads_commands_is_opaque)
{
    static const char *const opaque[] = {"echo 'rm y' | bash -",
                                         "echo 'rm y' | bash /dev/stdin",
                                         "echo 'rm y' | bash /proc/self/fd/0",
                                         "echo 'rm y' | bash -o errexit",
                                         "echo 'rm y' | bash +x",
                                         "echo 'rm y' | bash --",
                                         "echo 'rm y' | bash --rcfile x",
                                         ": <<<x; echo 'rm y' | sh",
                                         "base64 -d <<<cm0geQ== | sh",
                                         "echo 'rm y' | bash 3<<<x",
                                         "bash <<<x < f",
                                         "bash <(echo 'rm y')",
                                         "bash $X",
                                         "source <(echo 'rm y')",
                                         "echo 'rm y' | . /dev/stdin",
                                         "echo 'rm y' | su bob",
                                         "echo 'rm y' | sudo -s",
                                         "echo 'rm y' | sudo -u bob -i",
                                         "cat <<E |\nrm y\nE\nsh",
                                         "{ cat <<E\nrm y\nE\n} | sh",
                                         "eval `echo rm y`",
                                         "eval \"ls $X\"",
                                         "sh -c \"`echo rm y`\"",
                                         "sh -c \"ls $X\"",
                                         "trap \"ls $X\" EXIT",
                                         "bash <<E\nls $X\nE",
                                         "bash <<< \"ls $X\"",
                                         "bash -c 'echo \"'",
                                         "echo 'rm y' | xargs -0 sh -c",
                                         "echo 'rm y' | xargs env",
                                         "echo 'rm y' | xargs -I{} sh -c '{}'",
                                         "echo 'rm y' | parallel",
                                         NULL};
    static const char *const clear[] = {"bash <<E\nls\nE",
                                        "bash -s <<'E'\nls $X\nE",
                                        "sudo bash <<E\nls\nE",
                                        "bash <<< ls",
                                        "su -c ls bob",
                                        "sudo ls -s",
                                        "sudo -u bob ls -i",
                                        "source venv/bin/activate",
                                        ". \"$HOME/.nvm/nvm.sh\"",
                                        "find . | xargs -I {} cp {} x",
                                        "find . -print0 | xargs -0 grep -l it",
                                        "xargs -n 1 sh -c 'ls'",
                                        NULL};
    check_opaque(opaque, true);
    check_opaque(clear, false);
}

TEST(text_that_bash_reads_by_other_rules_is_opaque)
{
    static const char *const opaque[] = {"echo $(case x in x) rm y;; esac)",
                                         "echo $( (case x in x) rm y;; esac) )",
                                         "echo $(coproc X case x in x) rm y;; esac)",
                                         "case x in a);; esac; $X y",
                                         "case x in a) $X y;; esac",
                                         "case x in\na) b;;\n*) $X y;;\nesac",
                                         "'case' x in\n$X y",
                                         "[[ x == @(# ) ]] || rm y",
                                         "[[ x =~ (# ) ]] || rm y",
                                         "echo @(# ) ; rm y",
                                         "A[ # ]=1; rm y",
                                         "A=([ # ]=1); rm y",
                                         "A=([ ) # ]=1); rm y",
                                         "cat <<$'EF'\nE\\\nF\n: '\nEF\nrm y\n: '",
                                         "cat <<-'\tE'\n\tx\n\tE\nrm y\n",
                                         "echo $(cat <<E\na\nE ; rm y )\nE\n)",
                                         "echo \"${z#'}$(rm y)'}\"",
                                         "x='$(rm y)'; echo ${x@P}",
                                         "echo ${ rm y; }",
                                         NULL};
    check_opaque(opaque, true);
}

TEST(what_bash_takes_commands_from_is_opaque)
{
    static const char *const opaque[] = {
        "x='a[$(rm y)]'; echo $((x))", "test -v 'a[$(rm y)]'",
        "[ -v 'a[`rm y`]' ]",          "[[ 'a[$(rm y)]' -eq 1 ]]",
        "let 'a[$(rm y)]=1'",          "declare 'a[$(rm y)]=1'",
        "printf -v 'a[$(rm y)]' x",    "read 'a[$(rm y)]' <<< x",
        "mapfile -C rm -c 1 <<< x",    "compgen -C rm x",
        "compgen -W '$(rm y)' x",      "shopt -s expand_aliases\nalias x=rm\nx y",
        "hash -p /bin/rm x; x y",      "PS4='$(rm y)'; set -x; :",
        "BASH_ENV=f bash -c :",        "export BASH_ENV=f",
        "env BASH_ENV=f bash script",  NULL};
    static const char *const clear[] = {"x='[a]'",
                                        "PS4='+ '; set -x",
                                        "printf '[`%s`]' x",
                                        "git commit -m 'see [`x`](y)'",
                                        "grep '[$(]' f",
                                        "test -n 'a[0]'",
                                        "mapfile -t lines < f",
                                        "alias",
                                        "hash -r",
                                        "printf",
                                        NULL};
    check_opaque(opaque, true);
    check_opaque(clear, false);
}

TEST(ordinary_command_lines_are_followed)
{
    static const char *const plain[] = {
        "git status",
        "git add -A && git commit -m \"say 'hello' (again)\"",
        "git log --oneline --format='%h %s' -n 5 | head -3",
        "git diff HEAD~1 -- src/*.c",
        "git push origin \"$BRANCH\"",
        "git stash list; git stash pop stash@{0}",
        "git commit -m \"$(cat <<'EOF'\nfix: it's (not) done # yet\n\n\"quoted\" `code` "
        "$X\nEOF\n)\"",
        "npm ci && npm run build -- --mode=production",
        "npm install --save-dev typescript@^5.0.0 'eslint@>=8'",
        "NODE_ENV=test npx jest --watch=false -t 'a (b)'",
        "make -j\"$(nproc)\" CC='ccache gcc' all 2>&1 | tee build.log | tail -20",
        "cmake -S . -B build && cmake --build build -j4",
        "python3 -m pytest -q -k 'not slow' tests/ | tail -5",
        "python3 - <<'EOF'\nprint(f\"it's {x}\")\nEOF",
        "python3 -c \"import sys; print(sys.version)\"",
        "cargo test --all -- --nocapture",
        "go test ./... -run 'TestA|TestB'",
        "docker run --rm -v \"$PWD:/w\" -w /w node:20 npm test",
        "ls -la | grep -v '^d' | awk '{print $9}' | sort -u",
        "find . -name '*.py' -not -path './venv/*' -print0 | xargs -0 grep -ln 'import os'",
        "find src -type f \\( -name '*.c' -o -name '*.h' \\) -exec wc -l {} +",
        "grep -rn \"it's\" src | cut -d: -f1,2",
        "sed -i 's/a\\(b\\)/\\1[$]/g; s#x#y#' file.txt",
        "awk 'BEGIN { n = 0 } /x/ { n++ } END { print n }' f",
        "for f in *.c; do echo \"$f\"; done",
        "for i in $(seq 1 3); do curl -s \"http://localhost:$i/\"; done",
        "for ((i = 0; i < 3; i++)); do echo $i; done",
        "while read -r line; do echo \"$line\"; done < input.txt",
        "until curl -sf localhost:80; do sleep 1; done",
        "case \"$1\" in\n  start|begin) run;;\n  (stop) halt;;\n  *) echo \"use: $0 "
        "start\";;\nesac",
        "case $f in *.c|*.h) a;; *.md) b;; \"$x\") c;& $y) d;; esac > log",
        "if [ -f package.json ]; then npm test; else echo none; fi",
        "if [[ $x =~ ^v[0-9]+\\.([0-9]+)$ && -n $y ]]; then echo ok; fi",
        "[[ -d build ]] || mkdir -p build",
        "test -f a && echo yes || echo no",
        "cat > notes.md <<'EOF'\n# It's a `title`\n$(not run) ((\nEOF\nwc -l notes.md",
        "cat <<EOF > conf.ini\nuser=$USER\nhome=${HOME:-/root}\ndon't care\nEOF",
        "cat <<-EOF\n\tcost: \\$5 (\"five\")\n\tEOF",
        "jq -r '.scripts | keys[] | select(test(\"a\"))' package.json",
        "curl -sS -X POST -H 'Content-Type: application/json' -d '{\"a\": [1, 2]}' \"$URL\" | jq .",
        "echo $((1 + 2)) $(( (a + b) * 2 )) ${#x} ${x%.c} ${x##*/} ${x/a/b} \"${x:-none}\"",
        "files=(a.c b.c); echo \"${files[@]}\" \"${#files[@]}\"",
        "export PATH=\"$HOME/bin:$PATH\"; which node",
        "cd sub && ls && cd - >/dev/null",
        "(cd sub; make) && { echo done; date; } > log 2>&1",
        "tar czf - src | ssh host 'cat > /tmp/x.tgz'",
        "diff <(sort a) <(sort b)",
        "kill -9 %1; wait $! 2>/dev/null; echo $?",
        "printf '%s\\n' \"a b\" 'c' | while IFS= read -r l; do echo \"[$l]\"; done",
        "f() { local x=$1; echo \"$x\"; }; f 1",
        "rm -f -- *.o core.* && ls",
        "timeout 60 ninja -C build test > out.txt 2>&1; echo \"exit $?\"; tail -5 out.txt",
        "bash scripts/run.sh --fast && sh -c 'cd x && make'",
        "d=$(mktemp -d) && cp -r src \"$d\" && (cd \"$d\" && ls)",
        "echo 'a' \\\n  'b' \\\n  c",
        "set -euo pipefail\n# it's a comment\nmake test",
        NULL};
    struct arena a = {0};
    struct cmdline l;
    check_opaque(plain, false);
    for (size_t i = 0; plain[i] != NULL; i++) {
        struct pattern publish = pattern_of(&a, "npm publish *"), wipe = pattern_of(&a, "dd *");
        cmdline_parse(&l, &a, str_of(plain[i]));
        if (match_may_find(&publish, &l, &a) || match_may_find(&wipe, &l, &a)) {
            test_fail(__FILE__, __LINE__, "would ask: %s", plain[i]);
        }
    }
    arena_fini(&a);
}

TEST(a_word_that_only_the_shell_knows_may_be_the_one)
{
    static const char *const may[] = {"X=push; git $X",    "git {push,origin}", "git -C x $X",
                                      "git --no-pager $X", "git $'\\x70ush'",   NULL};
    static const char *const never[] = {
        "git commit -m \"$X\"", "git -C \"$X\" status", "git add $X", "git log *.c", "ls $X", NULL};
    struct arena a = {0};
    struct cmdline l;
    struct pattern p = pattern_of(&a, "git push *");
    for (size_t i = 0; may[i] != NULL; i++) {
        cmdline_parse(&l, &a, str_of(may[i]));
        CHECK(match_may_find(&p, &l, &a) && (i == 4 || !match_finds(&p, &l, &a)));
    }
    for (size_t i = 0; never[i] != NULL; i++) {
        cmdline_parse(&l, &a, str_of(never[i]));
        if (match_may_find(&p, &l, &a)) {
            test_fail(__FILE__, __LINE__, "would ask: %s", never[i]);
        }
    }
    arena_fini(&a);
}

TEST(a_line_made_up_of_wrappers_takes_no_longer_than_another)
{
    struct arena a = {0};
    struct cmdline l;
    struct buf line;
    static const char *const layers[] = {"env -a ", "env -S ", "sudo -u nice -n ",
                                         "xargs -I 'env -S x' "};
    for (size_t i = 0; i < ARRAY_LEN(layers); i++) {
        buf_init(&line, SIZE_MAX);
        for (unsigned k = 0; k < 2000; k++) {
            buf_addz(&line, layers[i]);
        }
        struct pattern p = pattern_of(&a, "rm *");
        cmdline_parse(&l, &a, buf_str(&line));
        CHECK(!match_finds(&p, &l, &a)); // was never answered
        CHECK(match_is_opaque(&l, &a));
        buf_fini(&line);
    }
    arena_fini(&a);
}

TEST(a_pattern_is_one_plain_command)
{
    static const char *const bad[] = {"",      "  ", "a; b",   "a | b", "a $(b)",
                                      "a > b", "'a", "a '*'*", "a\nb"};
    struct arena a = {0};
    struct pattern p;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct err e = {0};
        CHECK_INT(pattern_parse(&p, &a, str_of(bad[i]), &e), ERR_INVALID);
        CHECK(e.msg[0] != '\0');
    }
    arena_fini(&a);
}

TEST(a_quoted_word_matches_itself_alone)
{
    static const char *const words[] = {"a", "*", "a b", "it's", "", "$x", "a;b"};
    struct arena a = {0};
    for (size_t i = 0; i < ARRAY_LEN(words); i++) {
        struct buf text;
        buf_init(&text, SIZE_MAX);
        pattern_quote(&text, str_of(words[i]));
        struct pattern p = pattern_of(&a, buf_z(&text));
        CHECK_INT(p.n, 1);
        CHECK(!p.words[0].dynamic && str_eqz(p.words[0].text, words[i]));
        buf_fini(&text);
    }
    arena_fini(&a);
}

TEST(inside_is_judged_by_the_cleaned_path)
{
    CHECK(match_is_inside(STR("a"), STR("/w/s"), STR("/w")));
    CHECK(match_is_inside(STR("../a"), STR("/w/s"), STR("/w")));
    CHECK(match_is_inside(STR("/w"), STR("/w"), STR("/w")));
    CHECK(match_is_inside(STR("/x"), STR("/"), STR("/")));
    CHECK(!match_is_inside(STR("../../a"), STR("/w/s"), STR("/w")));
    CHECK(!match_is_inside(STR("/wx/a"), STR("/w"), STR("/w")));
    CHECK(!match_is_inside(STR(""), STR("/w"), STR("/w")));
    CHECK(!match_is_inside(((struct str){"a\0b", 3}), STR("/w"), STR("/w")));
}
