"""Directories for the page: listed without a tool call, and told of when something in them changes."""
import json

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
