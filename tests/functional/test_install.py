"""make install and make uninstall: everything is where a system looks for it, and works from there."""
import gzip
import json
import os
import pathlib
import re
import select
import socket
import subprocess

import pytest

from conftest import BIN

ROOT = pathlib.Path(__file__).resolve().parents[2]


def install(verb, root):
    env = {**os.environ, "DESTDIR": str(root), "PREFIX": "/usr", "BUILD": str(pathlib.Path(BIN).parent)}
    done = subprocess.run([ROOT / "tools/install", verb], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    place = tmp_path_factory.mktemp("root")
    install("install", place)
    return place


def test_the_installed_program_starts_its_hub_and_runs_a_tool(root, tmp_path):
    env = {**os.environ, "AFLOAT_HOME": str(tmp_path / "home"), "PATH": f"{root}/usr/bin:{os.environ['PATH']}"}
    run = lambda *words: subprocess.run(["afloat", *words], env=env, cwd=tmp_path, capture_output=True, text=True)
    try:
        done = run("tool", "run", "shell", '{"cmd": "echo from the box"}', "--json")
        assert done.returncode == 0 and "from the box" in done.stdout, done.stderr  # so the launcher was found
    finally:
        assert run("stop").returncode == 0


def test_every_command_has_a_man_page(root):
    table = json.loads(subprocess.run([BIN, "help", "--json"], capture_output=True, check=True).stdout)["commands"]
    shown = [r for r in table if r["group"] != "Started by afloat itself"]
    pages = {p.name: gzip.decompress(p.read_bytes()).decode() for p in (root / "usr/share/man/man1").iterdir()}
    assert set(pages) == {f"afloat-{r['noun']}.1.gz" for r in shown} | {"afloat.1.gz"}
    plain = lambda text: text.replace("\\-", "-").replace("\\(aq", "'").replace("\\e", "\\")
    for row in shown:
        page = plain(pages[f"afloat-{row['noun']}.1.gz"])
        assert all(e in page for e in row["examples"]), row
        for flag in row["options"]:  # of this command: '--resume' takes another value in each
            value = " \\fI" + flag["value"] if flag["value"] else ""
            assert f"--{flag['name']}\\fR{value}" in page and flag["help"] in page, (row, flag)


def test_the_overview_has_the_groups_in_the_order_of_the_help(root):
    table = json.loads(subprocess.run([BIN, "help", "--json"], capture_output=True, check=True).stdout)
    page = gzip.decompress((root / "usr/share/man/man1/afloat.1.gz").read_bytes()).decode()
    assert re.findall(r"^\.SS (.*)$", page, re.M) == table["groups"][:-1]
    assert "list plugins and improvements; also show, why, logs, new," in page


def test_the_man_pages_are_sound(root):
    for page in (root / "usr/share/man/man1").iterdir():
        done = subprocess.run(["groff", "-man", "-Tutf8", "-ww", "-z"], input=gzip.decompress(page.read_bytes()),
                              capture_output=True)
        assert done.returncode == 0 and done.stderr == b"", (page, done.stderr)


def test_completions_and_the_unit_are_installed(root):
    share = root / "usr/share"
    assert "complete " in (share / "bash-completion/completions/afloat").read_text()
    assert "#compdef afloat" in (share / "zsh/vendor-completions/_afloat").read_text()
    assert "complete -c afloat" in (share / "fish/vendor_completions.d/afloat.fish").read_text()
    unit = (root / "usr/lib/systemd/user/afloat.service").read_text()
    assert "ExecStart=/usr/bin/afloat hub" in unit and "KillMode=process" in unit
    socket_unit = (root / "usr/lib/systemd/user/afloat.socket").read_text()
    assert "ListenStream=%t/afloat/hub.sock" in socket_unit and "Symlinks=%t/afloat/systemd.sock" in socket_unit


def test_installing_again_is_fine_and_uninstalling_leaves_nothing(root, tmp_path):
    keep = tmp_path / "usr/bin/other"
    keep.parent.mkdir(parents=True)
    keep.write_text("not ours")
    install("install", tmp_path)
    install("install", tmp_path)
    assert (tmp_path / "usr/bin/afloat").exists()
    assert "untouched" in install("uninstall", tmp_path)
    assert [p for p in tmp_path.rglob("*") if not p.is_dir()] == [keep]


# ---- afloat uninstall ---------------------------------------------------------------------------


def installed(root, home, *words, **more):
    env = {**os.environ, "AFLOAT_HOME": str(home)}
    return subprocess.run([root / "usr/bin/afloat", *words], env=env, capture_output=True, text=True,
                          stdin=subprocess.DEVNULL, **more)


def left(place):
    return [p for p in place.rglob("*") if not p.is_dir()]


def test_uninstall_stops_the_hub_and_removes_what_was_installed(tmp_path):
    root, home = tmp_path / "root", tmp_path / "home"
    install("install", root)
    other = root / "usr/bin/other"
    other.write_text("not ours")
    before = len(left(root))
    assert installed(root, home, "start").returncode == 0
    shown = installed(root, home, "uninstall", "--dry-run", "--json")
    listed = json.loads(shown.stdout)
    assert listed["dry_run"] and not listed["data"] and len(left(root)) == before
    done = installed(root, home, "uninstall")
    assert done.returncode == 0 and "stays; '--data' removes it" in done.stderr, done.stderr
    assert left(root) == [other] and not (root / "usr/lib/afloat").exists()
    assert (home / "hub.lock").exists()  # data is there still
    assert sorted(p for p in listed["programs"]) == sorted(done.stdout.split())


def test_data_goes_only_after_a_yes_or_by_force(tmp_path):
    root, home = tmp_path / "root", tmp_path / "home"
    install("install", root)
    assert installed(root, home, "start").returncode == 0
    refused = installed(root, home, "uninstall", "--data")
    assert refused.returncode == 4 and "--force" in refused.stderr and home.exists()
    assert installed(root, home, "status").returncode == 0  # nothing was stopped
    done = installed(root, home, "uninstall", "--data", "--force")
    assert done.returncode == 0, done.stderr
    assert not home.exists() and not list(tmp_path.glob("home.removed-*")) and not left(root)


def test_a_directory_that_is_no_home_is_left_alone(tmp_path):
    root, other = tmp_path / "root", tmp_path / "photos"
    install("install", root)
    other.mkdir()
    (other / "a.jpg").write_text("a picture")
    done = installed(root, other, "uninstall", "--data", "--force")
    assert done.returncode == 4 and "no hub has used it" in done.stderr
    assert (other / "a.jpg").exists() and (root / "usr/bin/afloat").exists()


def test_a_lock_that_fsck_left_makes_no_home(tmp_path):
    root, other = tmp_path / "root", tmp_path / "photos"
    install("install", root)
    other.mkdir()
    (other / "a.jpg").write_text("a picture")
    assert installed(root, other, "fsck").returncode == 0
    done = installed(root, other, "uninstall", "--data", "--force")
    assert done.returncode == 4 and "no hub has used it" in done.stderr
    assert (other / "a.jpg").exists()


def test_a_home_that_is_a_link_goes_with_what_it_leads_to(home, tmp_path):
    link = tmp_path / "link"
    link.symlink_to(home.dir)
    env = {"AFLOAT_HOME": str(link)}
    home.ok("start", env=env)
    home.ok("secret", "set", "KEY", input="value", env=env)
    shown = home.json("uninstall", "--data", "--dry-run", env=env)
    assert shown["data"] == [os.path.realpath(home.dir), str(link)]
    home.ok("uninstall", "--data", "--force", env=env)
    assert not home.dir.exists() and not link.is_symlink()


def test_files_of_others_in_the_runtime_directory_stay(home, tmp_path):
    run, theirs = tmp_path / "run", tmp_path / "run/theirs/file"
    env = {"AFLOAT_RUNTIME": str(run)}
    theirs.parent.mkdir(parents=True)
    run.chmod(0o700)
    theirs.write_text("x")
    home.ok("start", env=env)
    refused = home.cli("uninstall", "--data", env=env)
    assert refused.returncode == 4 and str(run) in refused.stderr and str(home.dir) in refused.stderr
    shown = home.json("uninstall", "--data", "--dry-run", env=env)["data"]
    assert str(run / "hub.sock") in shown and str(run) not in shown
    home.ok("uninstall", "--data", "--force", env=env)
    assert not home.dir.exists() and left(run) == [theirs] and list(run.iterdir()) == [theirs.parent]


def test_a_build_tree_is_left_to_its_owner(home):
    done = home.cli("uninstall", "--dry-run")
    assert done.returncode == 0 and "build tree" in done.stderr and pathlib.Path(BIN).exists()


# ---- started by systemd -------------------------------------------------------------------------


@pytest.fixture
def activated(home):
    """A socket as systemd makes it, and a function that starts the hub on it as systemd does."""
    runtime = home.dir / "run"
    runtime.mkdir(parents=True, mode=0o700)
    home.dir.chmod(0o700)
    path = runtime / "hub.sock"
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(str(path))
    path.chmod(0o600)
    listener.listen()
    hubs = []

    def start():
        def move():
            os.dup2(listener.fileno(), 3)
        words = ["sh", "-c", 'LISTEN_PID=$$ LISTEN_FDS=1 exec "$0" hub', BIN]
        hub = subprocess.Popen(words, env=home.env, preexec_fn=move, pass_fds=[3], stdout=subprocess.PIPE, text=True)
        hubs.append(hub)
        return hub
    start.listener = listener
    yield path, start
    for hub in hubs:
        hub.terminate()
        hub.wait(30)
    listener.close()


def test_a_connection_that_waits_is_answered_by_the_hub_it_started(home, activated):
    path, start = activated
    client = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    client.connect(str(path))
    client.sendall(b"GET /healthz HTTP/1.1\r\nHost: hub\r\nConnection: close\r\n\r\n")
    hub = start()
    answer = b"".join(iter(lambda: client.recv(4096), b""))
    assert b'"ok":true' in answer
    assert home.json("status")["pid"] == hub.pid
    environ = home.json("tool", "run", "shell", '{"cmd": "env; ls /proc/self/fd"}')["output"]
    assert "LISTEN_" not in environ  # nor is it passed on


def test_a_stop_leaves_the_socket_to_systemd_and_the_next_connection_starts_anew(home, activated):
    path, start = activated
    inode = path.stat().st_ino
    first = start()
    assert first.stdout.readline().startswith("ready ")
    home.ok("stop")
    assert first.wait(30) == 0
    assert path.stat().st_ino == inode  # not removed, not replaced
    second = start()
    assert second.stdout.readline().startswith("ready ")
    assert home.json("status")["pid"] == second.pid


@pytest.mark.parametrize("words, code", [(["status"], 5), (["doctor"], 0), (["stop"], 0)])
def test_looking_for_a_hub_does_not_connect_and_so_starts_none(home, activated, words, code):
    path, start = activated
    path.with_name("systemd.sock").symlink_to(path)  # as the unit's Symlinks= does
    done = home.cli(*words)
    assert done.returncode == code and "not running" in done.stdout + done.stderr
    assert not select.select([start.listener], [], [], 0)[0]  # no connection waits: systemd would start a hub for it


STARTS_NONE = [(["config"], 0), (["logs", "--json"], 3), (["logs", "-f", "--json"], 5), (["plugin", "new", "x"], 0),
               (["complete", "afloat", "bots", "show", ""], 0), (["sessions", "--no-start"], 5),
               (["api", "GET", "/healthz", "--no-start"], 5), (["events", "-f", "--no-start"], 5),
               (["mcp", "--no-start"], 5)]


@pytest.mark.parametrize("words, code", STARTS_NONE, ids=[" ".join(words) for words, _ in STARTS_NONE])
def test_a_command_that_starts_no_hub_has_systemd_start_none(home, activated, words, code):
    path, start = activated
    path.with_name("systemd.sock").symlink_to(path)
    done = home.cli(*words)
    assert done.returncode == code, done.stderr
    assert not select.select([start.listener], [], [], 0)[0]


def test_a_socket_for_another_home_is_passed_over(home, tmp_path):
    elsewhere = tmp_path / "other.sock"
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(str(elsewhere))
    listener.listen()
    words = ["sh", "-c", 'LISTEN_PID=$$ LISTEN_FDS=1 exec "$0" hub', BIN]
    hub = subprocess.Popen(words, env=home.env, preexec_fn=lambda: os.dup2(listener.fileno(), 3), pass_fds=[3],
                           stdout=subprocess.PIPE, text=True)
    try:
        assert hub.stdout.readline().startswith("ready ")
        assert home.json("status")["pid"] == hub.pid and "passed-over" in home.ok("logs")
    finally:
        hub.terminate()
        hub.wait(30)
        listener.close()
