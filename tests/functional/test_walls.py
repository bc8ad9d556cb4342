"""What a sandboxed agent tries in order to have something done outside of its sandbox: each way is closed
for commands and for file tools alike."""
import json
import os

from test_agent import Session, call, one_call, remove_work, work  # noqa: F401  (fixtures)


def results(s):
    return [(e["success"], e["output"] or "", e["error"]) for e in s.events("tool.completed")]


def play(s, *lines):
    """Let the session's model say these lines next; gives the results of its calls."""
    s.said = getattr(s, "said", []) + list(lines)
    path = s.home.dir / f"scenario-{s.id}.jsonl"
    path.write_text("".join(json.dumps(x) + "\n" for x in s.said))
    s.call("PATCH", "", {"env": {"PATH": os.environ["PATH"], "AFLOAT_PROVIDER": "scripted",
                                 "AFLOAT_SCENARIO": str(path)}})
    s.ask()
    return results(s)[-len(lines) + 1:]


# ---- the working directory ----------------------------------------------------------------------

def test_a_replaced_working_directory_is_refused_to_every_tool_also_after_a_restart(home, start_hub, work):
    hub = start_hub()
    work.mkdir()
    (work / "victim").mkdir()
    (work / "src" / "x" / "project").mkdir(parents=True)
    s = Session(home, work / "src" / "x" / "project", writable=[str(work / "src")])
    attack = [one_call(cmd="touch pwned; pwd -P"), one_call("write_file", path="pwned", content="x"),
              one_call("list_files"), {"text": "end"}]
    swapped = play(s, one_call(cmd=f"cd {work}/src && mv x y && mkdir x && ln -s {work}/victim x/project"),
                   {"text": "end"})
    assert swapped[0][0], swapped
    for success, _, error in play(s, *attack):
        assert not success and "no longer the directory" in error
    hub.close()
    start_hub()
    for success, _, error in play(s, *attack):
        assert not success and "symbolic link" in error
    assert os.listdir(work / "victim") == []


def test_a_directory_given_through_a_link_is_kept_by_its_real_path(home, hub, work):
    work.mkdir()
    (work / "real").mkdir()
    (work / "more").mkdir()
    (work / "link").symlink_to(work / "real")
    (work / "also").symlink_to(work / "more")
    s = Session(home, work / "link", writable=[str(work / "also")])
    row = s.call("GET")
    assert (row["working_dir"], row["writable"]) == (str(work / "real"), [str(work / "more")])
    (work / "link").unlink()
    assert play(s, one_call(cmd=f"touch here {work}/more/there"), {"text": "end"})[0][0]
    assert (work / "real" / "here").exists() and (work / "more" / "there").exists()
