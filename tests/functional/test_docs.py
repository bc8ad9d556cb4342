"""README and guides are true: every block is pasted whole into a fresh home, and prints what the page shows.

How a block is marked decides what is done with it:

    sh, none   pasted as a whole into a real bash on a terminal. Each command must succeed. A comment
               `# -> TEXT` is what its command prints. A command that waits for the user comes last.
    console    `$ COMMAND` and what it prints, command by command; numbers, dates and times may differ.
    lua        `-- ~/.afloat/PATH` in the first line: saved there and loaded. Else an extract: it must
               compile, and every function it names must exist.
    toml       read by the parser that the page is about, without a complaint.
    json       saved under the name that the page gives it.
    python, js, c  a plugin that must load.
    tsx        `// ~/.afloat/plugins/NAME/...` in the first line: saved there; a page must be able to load it.

A block that cannot be run is in NOT_RUN, with the reason.
"""
import json
import os
import pty
import re
import select
import subprocess
import tempfile
import time

import pytest

from conftest import BIN, DEADLINE, ROOT, Home, check_report, free_port, retry

BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.S | re.M)
FOLDERS = ("docs", "docs/explain", "docs/guide", "docs/reference")
PAGES = ["README.md", *(f"{folder}/{p.name}" for folder in FOLDERS for p in sorted((ROOT / folder).glob("*.md"))
                        if p.name not in ("arch.md", "api.md"))]
NOT_RUN = {"make run     #": "builds this tree and runs this test",
           "systemctl --user": "changes the services of who runs the tests"}
# a last line that reads what the user types: what shows that it waits or has ended, and the keys that end it
WAITS = {
    # not \r: typed while the run still has the terminal, it would reach the shell untranslated
    "afloat run reviewer 'look at the last commit'": (rb"resume: afloat run", b"\n"),
    "afloat run pilot 'list the files'": (rb"resume: afloat run", b"\n"),
    "afloat chat": (rb"(?s)/help lists the commands.*> ", b"/quit\r"),
    "afloat shell": (rb"\(afloat\) ready> \S*$", b"exit\r"),
}


def blocks(page):
    """(kind, text) of every block of a page, those of NOT_RUN left out."""
    found = BLOCK.findall((ROOT / page).read_text())
    return [(kind, text) for kind, text in found if not any(mark in text for mark in NOT_RUN)]


# ---- a user with a fresh home ----------------------------------------------------------------


class User:
    """A fresh home, a project with a commit in it, and afloat on the PATH."""

    SHOWN = "1a2b3c4d"  # the run id that pages show

    def __init__(self):
        self.dir = tempfile.TemporaryDirectory(prefix="afloat-docs-")
        self.path = os.path.realpath(self.dir.name)
        self.home = Home(f"{self.path}/.afloat")
        self.shop = f"{self.path}/shop"
        name = {f"GIT_{who}_{what}": "a@b" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
        os.makedirs(f"{self.path}/bin")
        os.symlink(BIN, f"{self.path}/bin/afloat")
        self.env = {**self.home.env, **name, "HOME": self.path, "TERM": "xterm", "LANG": "C.UTF-8",
                    "PATH": f"{self.path}/bin:{os.environ['PATH']}", "SHELL": "/bin/bash"}
        del self.env["AFLOAT_HOME"]  # a user has none: it is ~/.afloat
        self.write("shop/a", "hi\n")
        self.write("shop/Makefile", "test deps:\n\t@echo made\n")
        self.write(".bashrc", "PS1='ready> ' PS2=\ntrap 'echo \"FAILED with $?: $BASH_COMMAND\"' ERR\nset -o pipefail\n")
        self.sh("git init -q && git add . && git commit -qm one")
        self.exports, self.last, self.id = "", "", self.SHOWN

    def write(self, name, text):
        path = f"{self.path}/{name}"
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as f:
            f.write(text)

    def sh(self, command, both=False):
        """What a command prints; with `both`, on stderr too."""
        done = subprocess.run(["bash", "-c", command], cwd=self.shop, env=self.env, text=True, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT if both else subprocess.PIPE,
                              timeout=DEADLINE)
        check_report(done.stdout + (done.stderr or ""))
        self.code = done.returncode
        self.said = done.stderr
        return done.stdout

    def ok(self, command):
        out = self.sh(command)
        assert self.code == 0, f"$ {command}\n{out}{self.said}"
        return out

    def close(self):
        self.home.close()
        self.dir.cleanup()


@pytest.fixture
def user():
    u = User()
    yield u
    u.close()


# ---- sh: pasted whole ------------------------------------------------------------------------


class Terminal:
    """A real bash on a terminal. It does not echo, so all that it shows was printed."""

    def __init__(self, user):
        ours, theirs = pty.openpty()
        self.process = subprocess.Popen(["bash", "--noediting", "-i"], cwd=user.shop, env=user.env, stdin=theirs,
                                        stdout=theirs, stderr=theirs, start_new_session=True,
                                        preexec_fn=lambda: os.close(ours))
        os.close(theirs)
        self.fd, self.seen = ours, b""
        self.type(b"stty -echo; echo quiet-$((40 + 2))\n")
        self.wait(rb"quiet-42\r\nready> $")

    def type(self, keys):
        while keys:
            keys = keys[os.write(self.fd, keys):]

    def wait(self, pattern, after=0, deadline=2 * DEADLINE):
        end = time.monotonic() + deadline
        while not re.search(pattern, self.seen[after:]):
            ready, _, _ = select.select([self.fd], [], [], max(0, end - time.monotonic()))
            assert ready, f"no {pattern} in\n{self.seen[after:].decode(errors='replace')}"
            self.seen += os.read(self.fd, 65536)

    def close(self):
        os.close(self.fd)  # whatever still runs on it is told, and bash waits for nobody
        self.process.wait(DEADLINE)


def last_command(block):
    """The last command of a block, without its comment."""
    lines = [line.split("#")[0].strip() for line in block.splitlines()]
    return [line for line in lines if line][-1]


def ends_waiting(block):
    return WAITS.get(last_command(block))


def paste(user, block):
    t = Terminal(user)
    try:
        at = len(t.seen)
        t.type(block.encode())
        waiting = ends_waiting(block)
        if waiting:
            t.wait(waiting[0], at)
            left = len(t.seen)
            t.type(waiting[1])
            t.wait(rb"ready> $", left)
        t.type(b"echo pasted-$((40 + 2))\n")
        t.wait(rb"pasted-42\r\n", at)
        shown = t.seen[at:].decode(errors="replace")
    finally:
        t.close()
    check_report(shown)
    assert "FAILED with" not in shown and "command not found" not in shown, f"{block}\n----\n{shown}"
    for wanted in re.findall(r"# -> (.*)$", block, re.M):
        assert wanted in shown, f"no {wanted!r} after\n{block}\n----\n{shown}"


# ---- console: a transcript --------------------------------------------------------------------


def commands(block):
    """Pairs of a command and what it prints."""
    parts = re.split(r"^\$ ", block, flags=re.M)[1:]
    return [tuple(part.partition("\n")[::2]) for part in parts]


def plain(text):
    """What has to be the same on the page and in what is printed."""
    text = re.sub(r"\b[0-9a-f]{40}\b", "HASH", text)
    return re.sub(r" +", " ", re.sub(r"\d[\d.:TZ-]*", "N", text)).strip()


def as_shown(user, printed):
    """What was printed, with the names that the page has for this user's things."""
    if found := re.match(r"afloat: run (\w{8}) on branch", printed):
        user.id = found.group(1)
    return printed.replace(user.path, "~").replace(user.id, user.SHOWN)


def follow(user, command, printed):
    """Run a command of a transcript. What an event leads to comes a moment later: then it is asked again."""
    if command.startswith("export "):
        user.exports += command + "\n"
        return
    typed = re.sub(r"--after \d+", f"--after {user.last}", command).replace(user.SHOWN, user.id)
    both = "afloat: " in printed
    got = as_shown(user, user.sh(user.exports + typed, both))
    if " emit " in command:
        user.last = got.strip()
    end = time.monotonic() + DEADLINE
    while plain(got) != plain(printed) and "--types" in command and time.monotonic() < end:
        got = as_shown(user, user.sh(user.exports + typed, both))
    if plain(got) != plain(printed):
        pytest.fail(f"$ {typed}\n{got}instead of\n{printed}", pytrace=False)


# ---- lua, toml, json ---------------------------------------------------------------------------


def news_of(user, unit):
    """How often the hub has said something about a unit."""
    types = "plugin.loaded,plugin.changed,plugin.error"
    answer = user.home.http("GET", f"/events?types={types}", headers=["Accept: application/json"])
    return sum(e["plugin"] == unit for e in answer.json()["events"])


def save_module(user, name, text):
    """Save a file of the page and wait until a hub that runs has read it."""
    stem = name.removeprefix("lua/").removesuffix(".lua")
    unit = stem if stem.startswith("improvements/") else "lua:" + stem.replace("/", ".")
    if stem.startswith("plugins/"):
        unit = stem.removeprefix("plugins/")
    before = news_of(user, unit) if user.home.hub_pid() else None
    user.write(f".afloat/{name}", text)
    if before is not None:
        retry(lambda: news_of(user, unit) > before)


def check_extract(user, text):
    """It compiles, and what it calls exists: in a module, or in a plugin where it uses a plugin's words."""
    names = sorted(set(re.findall(r"\b([a-z]+\.[a-z_]+)\(", re.sub(r"--.*", "", text))))
    known = "worktree fs http events hooks timer watch store config secrets hub log json loader state".split()
    names = [n for n in names if n.split(".")[0] in known]
    checks = "".join(f"assert({n} ~= nil, '{n} does not exist')\n" for n in names)
    user.write(".afloat/lua/user/init.lua",
               f"{checks}return {{ extract = function(path, text, url, from, to, id, ctx)\n{text}\nend }}\n")
    user.ok("afloat reload --force user.init")


def check_logger(user, text):
    """The plugin of plugins.md."""
    user.write(".afloat/plugins/logger.lua", text)
    user.ok("afloat reload")
    rows = {row["name"]: row for row in json.loads(user.ok("afloat plugin list --json"))["plugins"]}
    row = rows["logger"]
    assert row["serving"] and "roll" in row["tools"] and "hello" in str(row["commands"]), row


def check_install_list(user, text):
    """`plugins { ... }` of plugins.md, in user/init.lua."""
    user.write(".afloat/lua/user/audit.lua", "return { name = 'audit', hooks = {} }\n")
    user.write("src/notes/init.lua", "command { name = 'c', run = function() return 1 end }\n")
    user.write(".afloat/lua/user/init.lua", text)
    user.ok("afloat reload")
    names = {row["name"] for row in json.loads(user.ok("afloat plugin list --json"))["plugins"]}
    assert {"mine", "init-2", "notes"} <= names, names


def check_config(user, text):
    user.write(".afloat/plugins/my-plugin/init.lua", "command { name = 'c', run = function() end }\n")
    user.write(".afloat/config.toml", text)
    shown = json.loads(user.ok("afloat config show --json"))
    assert not shown.get("diagnostics"), shown["diagnostics"]
    user.ok("afloat reload")


def check_env(user, text):
    for name in ("shop/.afloat/common.toml", "shop/.env", "shop/env.sh", "shop/go.mod", "shop/go.sum"):
        user.write(name, "")
    user.write("shop/.afloat/env.toml", text)
    user.ok("afloat env allow")
    assert "FOO=1\n" in user.ok("afloat env show")


def check_store(user, text):
    """A database that nobody has: the settings are read, no hub is started with them."""
    user.write(".afloat/config.toml", text)
    shown = user.ok("afloat config show --origin")
    assert "build-1" in shown and "unknown" not in user.said, shown + user.said
    os.remove(f"{user.path}/.afloat/config.toml")


def check_bot(user, text):
    user.write(".afloat/bots/typed/config.md", f"+++\n{text}+++\nInstructions.\n")
    row = json.loads(user.ok("afloat bots show typed --json"))
    assert not row.get("error") and not row["diagnostics"], row
    assert "description" not in text or row["description"] == "reads commits", row


SPECIAL = {  # by what a block contains
    'name = "logger"': check_logger,
    "plugins {\n": check_install_list,
}
TOML = {"docs/guide/env.md": check_env, "docs/guide/bots.md": check_bot, "docs/guide/teams.md": check_config}  # elsewhere it is config.toml


def toml_check(page, text):
    """Which file a block of TOML belongs into: the page says it, or its first table."""
    tables = {"[store]": check_store, "[worktree]": check_bot}
    return TOML.get(page) or tables.get(text.split()[0], check_config)


def do_lua(user, page, text):
    named = re.match(r"-- ~/\.afloat/(\S+)\n", text)
    special = [check for mark, check in SPECIAL.items() if mark in text]
    if named:
        save_module(user, named.group(1), text)
    elif special:
        special[0](user, text)
    else:
        check_extract(user, text)


def do_console(user, page, text):
    for command, printed in commands(text):
        follow(user, command, printed)


def do_json(user, page, text):
    (name,) = re.findall(r"Save it as `~/(\S+)`:\n\n```json\n" + re.escape(text[:20]), (ROOT / page).read_text())
    user.write(name, text)


def do_hosted(host, file):
    """A plugin in another language: it loads, and what it registers is there."""
    def do(user, page, text):
        user.write(f".afloat/plugins/{file}", text)
        user.ok("afloat reload")
        rows = {row["name"]: row for row in json.loads(user.ok("afloat plugin list --json"))["plugins"]}
        row = rows["logger"]
        assert row["serving"] and row["state"] == "loaded" and row["host"] == host and "roll" in row["tools"], row
    return do


def do_tsx(user, page, text):
    """A plugin's web side: it compiles, and pages are offered it."""
    file, name = re.match(r"// ~/(\.afloat/plugins/([^/]+)/\S+)\n", text).groups()
    user.write(file, text)
    user.ok("afloat reload")
    listed = json.loads(user.ok("afloat api GET /front/plugins"))["plugins"]
    assert [p["name"] for p in listed] == [name], listed


KINDS = {
    "": lambda user, page, text: paste(user, text),
    "sh": lambda user, page, text: paste(user, text),
    "console": do_console,
    "lua": do_lua,
    "toml": lambda user, page, text: toml_check(page, text)(user, text),
    "json": do_json,
    "python": do_hosted("python", "logger.py"),
    "js": do_hosted("node", "logger.mjs"),
    "tsx": do_tsx,
    "c": do_hosted("c", "logger.c"),
}


@pytest.mark.parametrize("number", range(len(blocks("README.md"))))
def test_each_block_of_the_readme_works_in_a_fresh_home(user, number):
    kind, text = blocks("README.md")[number]
    KINDS[kind](user, "README.md", text)


TEAMS = "docs/guide/teams.md"


@pytest.mark.parametrize("page", [page for page in PAGES[1:] if blocks(page) and page != TEAMS])
def test_the_blocks_of_a_guide_work_one_after_the_other(user, page):
    with free_port() as port:  # the reader's own hub may have the one that the page names
        for kind, text in blocks(page):
            KINDS[kind](user, page, text.replace("127.0.0.1:4700", f"127.0.0.1:{port}"))


def test_the_guide_for_teams_works_with_a_server(user, postgres):
    """The reader is who may create roles there; the server has its socket in a place of its own."""
    user.env.update(PGHOST=str(postgres.dir), PGUSER="boss", PATH=f"{postgres.bin}:{user.env['PATH']}")
    try:
        for kind, text in blocks(TEAMS):
            KINDS[kind](user, TEAMS, text.replace('@/team"', f'@/team?host={postgres.dir}"'))
        assert json.loads(user.ok("afloat store status --json"))["kind"] == "postgresql"
    finally:
        user.sh("afloat stop --wait")
        postgres.sql("postgres", "DROP DATABASE IF EXISTS team WITH (FORCE)")
        postgres.sql("postgres", "DROP ROLE IF EXISTS ann; DROP ROLE IF EXISTS team")


def test_an_edit_after_env_init_reaches_the_running_shell(user):
    """What the README promises below its block about projects."""
    t = Terminal(user)
    try:
        t.type(b"afloat env init; afloat shell\n")
        t.wait(WAITS["afloat shell"][0])
        user.write("shop/.afloat/env.toml", "[env]\nGREETING = 'hello'\n")
        end = time.monotonic() + DEADLINE
        while b"got-hello" not in t.seen:
            assert time.monotonic() < end, t.seen.decode()
            at = len(t.seen)
            t.type(b"echo got-$GREETING.\r")
            t.wait(rb"got-\w*\.\r\n", at)
        left = len(t.seen)
        t.type(b"exit\r")
        t.wait(rb"exit\r\n(.|\n)*ready> $", left)
    finally:
        t.close()


def test_the_pages_have_blocks_of_every_kind_and_few_are_not_run():
    kinds = {kind for page in PAGES for kind, _ in blocks(page)}
    assert kinds == set(KINDS)
    assert len(NOT_RUN) <= 2
    everything = "".join((ROOT / page).read_text() for page in PAGES)
    assert all(mark in everything for mark in NOT_RUN)


def headings(page):
    """The anchors of a page, as hosts of Git repositories make them of its headings."""
    lines = re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.S | re.M), re.M)
    return {re.sub(r"[^\w -]", "", line.strip().lower()).replace(" ", "-") for line in lines}


def test_every_link_leads_to_a_file_and_a_heading():
    pages = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "llms.txt")]
    wrong = []
    for page in [*pages, *(ROOT / "docs").rglob("*.md")]:
        for path, anchor in re.findall(r"\]\((?![a-z]+:)([^)\s#]*)(?:#([^)\s]*))?\)", page.read_text()):
            to = (page.parent / path).resolve() if path else page
            if not to.exists() or (anchor and anchor not in headings(to)):
                wrong.append(f"{page.relative_to(ROOT)}: {path}#{anchor}")
    assert wrong == []


LISTER = """
local stock = {}
for name in ("_G string table math utf8 coroutine os io debug package"):gmatch("%S+") do stock[name] = true end
local found = {}
for name, value in pairs(_G) do
  if type(value) == "table" and not stock[name] then
    for key in pairs(value) do
      if type(key) == "string" and not key:find("^_") then found[#found + 1] = name .. "." .. key end
    end
  elseif type(value) == "function" then
    found[#found + 1] = name
  end
end
command { name = "all", run = function() return table.concat(found, " ") end }
"""
OF_LUA = set("""assert collectgarbage dofile error getmetatable ipairs load loadfile next pairs pcall print rawequal rawget rawlen
rawset require select setmetatable tonumber tostring type warn xpcall""".split())


def test_the_page_about_the_figures_names_each_of_them():
    named = subprocess.run([ROOT / "bench/run", "nonesuch"], capture_output=True, text=True).stderr
    page = (ROOT / "docs/guide/bench.md").read_text()
    figures = named.split("there are: ")[1].split()
    assert len(figures) > 40 and [f for f in figures if f"| `{f}`" not in page and f", `{f}`" not in page] == ["shell", "chat-screen"]
    assert "`shell` gives six rows" in page and "`chat-screen` gives three rows" in page


def test_the_reference_lists_every_function_that_plugins_have(user):
    user.write(".afloat/plugins/lister.lua", LISTER)
    there = set(user.ok("afloat lister:all").split()) - OF_LUA
    there = {name for name in there if not name.startswith(("on_", "hub."))}
    page = (ROOT / "docs/reference/lua.md").read_text()
    cells = " ".join(re.findall(r"^\| (`.*?`) \|", page, re.M))
    named = set(re.findall(r"`([A-Za-z_]+(?:\.[a-z_]+)?)", cells)) - {"hub"}  # hub.NOUN.VERB
    assert there - named == set()
    assert {name for name in named if not name.startswith(("on_", "hub."))} - there == set()


def test_the_example_of_the_shipped_skill_is_a_plugin_whose_tests_pass(user):
    [text] = re.findall(r"```lua\n(.*?)```", (ROOT / "runtime/skills/plugin-authoring.md").read_text(), re.S)
    user.write(".afloat/plugins/word-count.lua", text)
    assert "FAILED" not in user.ok("afloat plugin test word-count")
    assert '"words":3' in user.ok("afloat tool run count_words '{\"text\": \"one two three\"}'").replace(" ", "")
