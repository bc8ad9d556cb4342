"""Directories for the page: listed without a tool call, and told of when something in them changes."""
import json
import os

from conftest import retry
from test_front import Events


def listed(home, dir):
    answer = home.http("GET", f"/files?dir={dir}")
    assert answer.status == 200, answer.body
    return {e["name"]: e for e in answer.json()["entries"]}


def watch(home, *dirs):
    answer = home.http("POST", "/files/watch", json.dumps({"dirs": [str(d) for d in dirs]}).encode())
    assert answer.status == 200, answer.body
    return answer.json()


def test_a_directory_is_listed_with_files_directories_and_links(home, hub, tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "a.txt").write_text("a")
    (tmp_path / "to-sub").symlink_to("sub")
    (tmp_path / "broken").symlink_to("nothing")
    (tmp_path / "<b>.md").write_text("")
    found = listed(home, tmp_path)
    assert {n: (e["kind"], e.get("link", False)) for n, e in found.items()} == {
        "sub": ("dir", False), "a.txt": ("file", False), "to-sub": ("dir", True), "broken": ("file", True), "<b>.md": ("file", False)}


def test_what_cannot_be_listed_says_why(home, hub, tmp_path):
    (tmp_path / "file").write_text("")
    for dir, status, words in ((tmp_path / "none", 404, "No such file"), (tmp_path / "file", 400, "Not a directory"), ("relative", 400, "not an absolute path")):
        answer = home.http("GET", f"/files?dir={dir}")
        assert answer.status == status and words in answer.json()["detail"], answer.body
    answer = home.http("POST", "/files/watch", b'{"dirs": ["x"]}')
    assert answer.status == 400 and "not an absolute path" in answer.json()["detail"]
    answer = home.http("POST", "/files/watch", json.dumps({"dirs": ["/"] * 257}).encode())
    assert answer.status == 400 and "256" in answer.json()["detail"]


def test_changes_in_a_watched_directory_are_events(home, hub, tmp_path):
    (tmp_path / "sub").mkdir()
    events = Events(home)
    answer = watch(home, tmp_path, tmp_path / "none")
    assert answer["watching"] == [str(tmp_path)] and answer["lease_s"] >= 30, "what is not there is left out"
    (tmp_path / "new.txt").write_text("1")
    told = events.wait("files.changed", dir=str(tmp_path))
    assert told["names"] == ["new.txt"] and told["listing"] is True
    with open(tmp_path / "new.txt", "a") as f:
        f.write("2")
    told = events.wait("files.changed", dir=str(tmp_path), listing=False)
    assert told["names"] == ["new.txt"], "a write to a file is no change of the list"
    (tmp_path / "sub" / "deep").write_text("")
    (tmp_path / "new.txt").unlink()
    told = events.wait("files.changed", dir=str(tmp_path), listing=True)
    assert told["names"] == ["new.txt"], "what happens below is not told"


def test_many_changes_are_one_event_and_a_directory_made_anew_is_watched_again(home, hub, tmp_path):
    place = tmp_path / "place"
    place.mkdir()
    events = Events(home)
    watch(home, place)
    for i in range(200):
        (place / f"f{i}").write_text("")
    told = events.wait("files.changed", dir=str(place))
    assert told["names"] is None or len(told["names"]) <= 64, "a flood names no file"

    def quiet():
        before = len(events.more()["events"])
        watch(home, tmp_path)  # a round trip
        return before == len(events.more()["events"])

    retry(quiet)
    place.rename(tmp_path / "old")
    place.mkdir()
    watch(home, place)
    events = Events(home)
    (place / "again").write_text("")

    def again():
        return any(e["type"] == "files.changed" and e["dir"] == str(place) and e["names"] == ["again"] for e in events.more()["events"])

    retry(again)


def text(home, method, path, **more):
    if method == "GET":
        return home.http("GET", f"/files/text?path={path}")
    return home.http("PUT", "/files/text", json.dumps({"path": str(path), **more}).encode())


def test_a_text_is_read_and_written_and_never_over_a_newer_one(home, hub, tmp_path):
    file = tmp_path / "a.txt"
    file.write_bytes("ä\r\nno newline at the end".encode())
    file.chmod(0o640)
    got = text(home, "GET", file).json()
    assert got["text"] == "ä\r\nno newline at the end"
    put = text(home, "PUT", file, text="mine\n", stamp=got["stamp"])
    assert put.status == 200 and file.read_text() == "mine\n" and file.stat().st_mode & 0o777 == 0o640
    stale = text(home, "PUT", file, text="older\n", stamp=got["stamp"])
    assert stale.status == 409 and file.read_text() == "mine\n" and "changed by another" in stale.json()["detail"]
    assert text(home, "PUT", file, text="again\n", stamp=put.json()["stamp"]).status == 200
    assert text(home, "PUT", file, text="anyway\n").status == 200
    (tmp_path / "link").symlink_to("a.txt")
    assert text(home, "PUT", tmp_path / "link", text="through\n").status == 200
    assert file.read_text() == "through\n" and (tmp_path / "link").is_symlink(), "a link stays one"
    assert text(home, "PUT", tmp_path / "new/dir/b.txt", text="", stamp="").status == 200
    assert (tmp_path / "new/dir/b.txt").read_text() == ""
    assert text(home, "PUT", tmp_path / "new/dir/b.txt", text="x", stamp="").status == 409, "it is there already"


def test_what_is_no_text_or_too_large_is_refused(home, hub, tmp_path):
    (tmp_path / "bytes").write_bytes(b"\x00\xff")
    (tmp_path / "large").write_bytes(b"x" * (9 << 20))
    os.mkfifo(tmp_path / "pipe")
    for name, status in (("bytes", 415), ("large", 413), ("pipe", 400), ("none", 404), ("", 400)):
        assert text(home, "GET", tmp_path / name).status == status, name
    assert text(home, "PUT", tmp_path, text="x").status == 400


def test_a_page_opens_plugins_but_nothing_that_makes_it_the_user(home, hub, tmp_path):
    (home.dir / "plugins").mkdir()
    (home.dir / "plugins/p.lua").write_text("-- p\n")
    (home.dir / "config.toml").write_text("[sandbox]\nhide = [\"%s/private\"]\n" % tmp_path)
    (tmp_path / "private").mkdir()
    (tmp_path / "private/key").write_text("k")
    (home.dir / "plugins/nowhere").symlink_to("../token")
    (home.dir / "plugins/escape").symlink_to("../hub.lock")
    retry(lambda: home.json("config", "show") and str(tmp_path / "private") in home.ok("config", "show"))
    assert text(home, "GET", home.dir / "plugins/p.lua").json()["text"] == "-- p\n"
    assert text(home, "PUT", home.dir / "plugins/p.lua", text="-- q\n").status == 200
    assert text(home, "GET", home.dir / "config.toml").status == 200
    for path in ("token", "secrets.json", "trust.json", "state/hub.json", "run/hub.pid", "sessions/x/events.jsonl", "plugins/escape", "plugins/../token"):
        assert text(home, "GET", home.dir / path).status in (403, 404), path
        assert text(home, "PUT", home.dir / path, text="x").status == 403, path
    assert text(home, "PUT", home.dir / "plugins/nowhere", text="x").status == 404, "a link that leads nowhere is not followed"
    assert text(home, "PUT", home.dir / "config.toml", text="x").status == 403
    assert not (home.dir / "sessions/x").exists(), "nothing is made on the way"
    assert text(home, "GET", tmp_path / "private/key").status == 403
    assert not (home.dir / "token").exists() and (home.dir / "hub.lock").read_text() != "x"


def entry(home, op, path, **more):
    if op == "remove":
        return home.http("DELETE", f"/files?path={path}" + "".join(f"&{k}={json.dumps(v)}" for k, v in more.items()))
    return home.http("POST", "/files/" + op, json.dumps({"path": str(path), **{k: str(v) for k, v in more.items()}}).encode())


def test_entries_are_made_moved_and_deleted_and_never_over_another(home, hub, tmp_path):
    place = tmp_path / "place"
    assert entry(home, "dir", place / "a/b").status == 200 and (place / "a/b").is_dir()
    again = entry(home, "dir", place / "a/b")
    assert again.status == 409 and "exists" in again.json()["detail"]
    (place / "one").write_text("1")
    (place / "two").write_text("2")
    over = entry(home, "move", place / "one", to=place / "two")
    assert over.status == 409 and "already exists" in over.json()["detail"]
    assert (place / "one").read_text() == "1" and (place / "two").read_text() == "2"
    assert entry(home, "move", place / "one", to=place / "new/three").json()["to"] == str(place / "new/three")
    assert (place / "new/three").read_text() == "1" and not (place / "one").exists()
    assert entry(home, "move", place / "a", to=place / "a/b/c").status == 400, "not into itself"
    assert entry(home, "move", place / "none", to=place / "x").status == 404
    assert not (place / "x").exists()
    counted = entry(home, "remove", place, dry_run=True).json()
    assert (counted["files"], counted["dirs"], counted["more"]) == (2, 4, False) and (place / "two").exists()
    removed = entry(home, "remove", place).json()
    assert (removed["files"], removed["dirs"], removed["trashed"]) == (2, 4, counted["trashed"]) and not place.exists()
    if removed["trashed"]:
        assert [p.read_text() for p in home.dir.glob("trash/*/place/new/three")] == ["1"]
    assert entry(home, "remove", place).status == 404
    for path in (f"{tmp_path}/.", f"{tmp_path}/..", "/", "relative"):
        assert entry(home, "remove", path).status in (400, 403), path


def test_a_link_is_moved_or_deleted_itself_and_leads_nowhere_else(home, hub, tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "real/kept").write_text("k")
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "out").symlink_to(home.dir)
    assert entry(home, "move", tmp_path / "link", to=tmp_path / "other").status == 200
    assert (tmp_path / "other").is_symlink() and (tmp_path / "real/kept").read_text() == "k"
    assert entry(home, "remove", tmp_path / "other", dry_run=True).json()["files"] == 1
    assert entry(home, "remove", tmp_path / "other").status == 200
    assert not (tmp_path / "other").is_symlink() and (tmp_path / "real/kept").read_text() == "k"
    for op, path, more in (("remove", "out/hub.lock", {}), ("move", "out/hub.lock", {"to": tmp_path / "x"}), ("dir", "out/new", {}),
                           ("move", "real/kept", {"to": tmp_path / "out/trust.json"})):
        assert entry(home, op, tmp_path / path, **more).status == 403, (op, path)
    assert (home.dir / "hub.lock").exists() and not (home.dir / "trust.json").exists() and not (home.dir / "new").exists()


def test_what_holds_the_hubs_home_or_a_hidden_path_is_not_moved_or_deleted(home, hub, tmp_path):
    (home.dir / "plugins/sub").mkdir(parents=True)
    (home.dir / "plugins/sub/p.txt").write_text("")
    (home.dir / "bots/b/workspaces").mkdir(parents=True)
    (tmp_path / "shelf/private").mkdir(parents=True)
    (tmp_path / "shelf/private/key").write_text("k")
    (home.dir / "config.toml").write_text("[sandbox]\nhide = [\"%s/shelf/private\"]\n" % tmp_path)
    retry(lambda: "shelf/private" in home.ok("config", "show"))
    for path in (home.dir, home.dir.parent, home.dir / "plugins", home.dir / "bots/b", home.dir / "bots/b/workspaces",
                 home.dir / "config.toml", home.dir / "state", tmp_path / "shelf", tmp_path / "shelf/private", tmp_path / "shelf/private/key"):
        for answer in (entry(home, "remove", path), entry(home, "move", path, to=tmp_path / "taken")):
            assert answer.status == 403, (path, answer.body)
    assert (tmp_path / "shelf/private/key").read_text() == "k" and not (tmp_path / "taken").exists()
    assert entry(home, "remove", home.dir / "plugins/sub").status == 200, "a person's own files"


def test_all_files_below_a_directory_are_found_the_nearest_first(home, hub, tmp_path):
    for name in ("top.c", "a/deep/er/x.c", "a/near.c", ".git/HEAD", "b/node_modules/m/index.js", "b/.git/config"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    (tmp_path / "round").symlink_to(tmp_path)
    found = home.http("GET", f"/files/find?dir={tmp_path}").json()
    assert set(found["names"]) == {"top.c", "round", "a/near.c", "a/deep/er/x.c"} and found["more"] is False
    assert found["names"].index("a/deep/er/x.c") == 3, found["names"]
    for i in range(20100):
        (tmp_path / f"a/f{i}").touch()
    found = home.http("GET", f"/files/find?dir={tmp_path}").json()
    assert len(found["names"]) == 20000 and found["more"] is True and "top.c" in found["names"]
    answer = home.http("GET", f"/files/find?dir={tmp_path}/none")
    assert answer.status == 404 and "No such file" in answer.json()["detail"]
