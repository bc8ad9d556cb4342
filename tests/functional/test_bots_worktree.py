"""Where a bot works and how a person takes its work over: the user's tree changes by no surprise.

Every case compares the user's files, index, HEAD and refs before and after a run byte for byte.
"""
import json
import os
import pathlib
import re
import tempfile

import pytest

from bots import DONE, FILES, Repo, Rig, call, check_same, complete, gate, paste, repo, rig, say, shell, use  # noqa: F401
from conftest import retry

WORK = [shell("echo bot > bot.txt && echo more >> a.txt"), *DONE]
ODD = ["with \"quotes\".txt", "new\nline.txt", "na\u00efve \u00fcn\u00ef \U0001f6a2.txt", "-dash", " space ",
       "tab\there", "back\\slash", "it's", "dir with space/-x", b"\xff\xfe-no-utf8", ".hidden", "*.star",
       "$(touch injected)"]


# ---- the matrix: what the user's tree may be like -----------------------------------------------

def modified(repo):
    repo.save("b.txt", "changed\n")


def deleted(repo):
    os.unlink(repo.root / "b.txt")


def untracked(repo):
    repo.save("new/deep/file.txt", "new\n")
    os.mkdir(repo.root / "empty")


def staged(repo):
    repo.save("b.txt", "staged\n")
    repo.save("added.txt", "added\n")
    repo.git("add", "-A")
    repo.save("b.txt", "and changed again\n")


def renamed(repo):
    repo.git("mv", "b.txt", "c.txt")
    os.rename(repo.root / "src/main.c", repo.root / "src/other.c")


def exec_bit(repo):
    os.chmod(repo.root / "b.txt", 0o755)


def symlink(repo):
    os.unlink(repo.root / "b.txt")
    os.symlink("a.txt", repo.root / "b.txt")
    os.symlink("/no/such/place", repo.root / "dangling")
    os.symlink("src", repo.root / "to-dir")


def file_becomes_directory(repo):
    os.unlink(repo.root / "b.txt")
    repo.save("b.txt/inside", "x\n")


def intent_to_add(repo):
    repo.save("later.txt", "later\n")
    repo.git("add", "-N", "later.txt")


def odd_names(repo):
    for name in ODD:
        repo.save(name, "odd\n")
    repo.git("add", "--", "-dash", "it's")


def ignored(repo):
    repo.save("noise.log", "noise\n")
    repo.save("cache/x", "x\n")


def binary(repo):
    repo.save("blob.bin", bytes(range(256)) * 40)
    repo.save("a.crlf", b"one\r\ntwo\r\n")


def clean(repo):
    pass


STATES = [clean, modified, deleted, untracked, staged, renamed, exec_bit, symlink, file_becomes_directory,
          intent_to_add, odd_names, ignored, binary]


def check_run(rig, branch="main"):
    """A run that adds bot.txt and changes a.txt: the user's is as before, the branch has both."""
    repo = rig.repo
    before, files, head = repo.state(), repo.files(), repo.head()
    run = rig.run(WORK)
    row = run.row()
    assert row["end_reason"] == "complete" and row["action"] == "review", row
    check_same(before, repo.state())
    rig.check_clean()
    assert repo.branches() == [f"afloat/worker-{run.id}"] == [row["branch"]]
    assert row["base"] == head and (row["base_branch"] or "") == branch
    return run, row, files


@pytest.mark.parametrize("state", STATES)
def test_the_users_tree_is_as_it_was_and_the_bot_saw_it(rig, repo, state):
    state(repo)
    run, row, files = check_run(rig)
    assert repo.at(row["start"]) == files, "the bot began with what the user had"
    assert row["start"] == row["base"] or "Afloat-Start: yes" in repo.git("log", "-1", "--format=%B", row["start"])
    assert (row["start"] == row["base"]) == (state in (clean, ignored))
    after = dict(files)
    after[b"bot.txt"] = ("100644", b"bot\n")
    after[b"a.txt"] = ("100644", files[b"a.txt"][1] + b"more\n")
    assert repo.at(row["branch"]) == after
    assert run.changed() == ["a.txt", "bot.txt"], "only the bot's own work"
    patch = run.call("GET", "/diff")["patch"]
    assert "+more" in patch and "+bot" in patch


def test_defect_8_a_run_from_a_linked_worktree(home, hub, repo, tmp_path):
    repo.git("worktree", "add", "-q", "-b", "side", str(tmp_path / "linked"))
    linked = Repo(tmp_path / "linked")
    linked.save("b.txt", "changed\n")
    linked.save("new.txt", "new\n")
    main = repo.state()
    rig = Rig(home, linked)
    before, files = linked.state(), linked.files()
    run = rig.run(WORK)
    row = run.row()
    assert row["end_reason"] == "complete" and row["base_branch"] == "side", row
    check_same(before, linked.state())
    check_same(main, repo.state())
    assert repo.worktrees() == [str(tmp_path / "linked")]
    assert linked.at(row["start"]) == files
    assert row["project"] == "repo", "worktrees of one repository share one workspace"
    again = Rig(home, repo).run(WORK)
    assert again.row()["project"] == "repo" and again.metadata()["session_number"] == 2


def test_defect_13_a_detached_head_is_no_branch(rig, repo):
    repo.save("b.txt", "second\n")
    repo.commit("second")
    repo.git("checkout", "-q", "--detach", "HEAD~1")
    run, row, files = check_run(rig, branch="")
    assert row["base"] == repo.head() and "(from HEAD)" not in run.prompt()
    refused = run.call("POST", "/merge", {"working_dir": str(repo.root)}, 409)
    assert "branch" in refused["detail"], refused


def test_defect_10_paths_of_any_name_are_carried_over_and_back(rig, repo):
    for name in ODD:
        repo.save(name, "odd\n")
    repo.commit("odd")
    for name in ODD:
        repo.save(name, "changed\n")
    os.unlink(repo.root / "tab\there")
    files = repo.files()
    touch = "for f in *line.txt ./-dash 'with \"quotes\".txt' na*; do echo bot >> \"$f\"; done"
    run = rig.run([shell(touch), *DONE])
    row = run.row()
    assert repo.at(row["start"]) == files and not (repo.root / "injected").exists()
    rig.home.ok("runs", "apply", run.id, cwd=repo.root)
    for name in ("new\nline.txt", "-dash", 'with "quotes".txt', "na\u00efve \u00fcn\u00ef \U0001f6a2.txt"):
        assert (repo.root / name).read_text() == "changed\nbot\n", name
    assert (repo.root / " space ").read_text() == "changed\n"


def test_a_repository_without_commits_is_refused_with_the_way_out(home, hub, tmp_path):
    repo = Repo(tmp_path / "empty")
    repo.save("x", "x\n")
    rig = Rig(home, repo)
    before = repo.state()
    refused = rig.start([], status=409)
    assert "git commit" in refused["detail"] + refused.get("hint", ""), refused
    check_same(before, repo.state())
    done = home.cli("run", "worker", "go", cwd=repo.root, env=rig.env(DONE))
    assert done.returncode != 0 and "git commit" in done.stderr, done
    repo.commit("the way out")
    assert rig.run(DONE).row()["end_reason"] == "complete"


def test_a_bare_repository_is_refused(home, hub, repo, tmp_path):
    repo.git("clone", "-q", "--bare", ".", str(tmp_path / "bare.git"))
    rig = Rig(home, Repo.at_path(tmp_path / "bare.git"))
    refused = rig.start([], status=409)
    assert "bare" in refused["detail"], refused
    assert rig.repo.git("worktree", "list").count("\n") == 0 and rig.repo.branches() == []


def test_outside_git_a_run_is_refused_unless_told(home, hub, tmp_path):
    rig = Rig(home, Repo.at_path(tmp_path / "plain"))
    rig.repo.root.mkdir()
    done = home.cli("run", rig.bot(), "go", cwd=rig.repo.root, env=rig.env(WORK))
    assert done.returncode != 0 and "--skip-git-check" in done.stderr, done
    assert os.listdir(rig.repo.root) == []
    run = rig.run(WORK, skip_git_check=True)
    row = run.row()
    assert row["end_reason"] == "complete" and not row["branch"]
    assert (rig.repo.root / "bot.txt").read_text() == "bot\n"


def test_a_sparse_checkout_stays_sparse_and_loses_nothing(rig, repo):
    repo.git("sparse-checkout", "set", "--no-cone", "/*", "!/src/")
    assert not (repo.root / "src").exists()
    repo.save("b.txt", "changed\n")
    run, row, files = check_run(rig)
    at = repo.at(row["branch"])
    assert at[b"src/main.c"][1] == FILES["src/main.c"].encode(), "what is not checked out is not deleted"
    assert at[b"b.txt"][1] == b"changed\n" and at[b"bot.txt"][1] == b"bot\n"


def test_submodules_stay_what_they_are_and_the_run_says_so(home, hub, repo, tmp_path):
    inner = Repo(tmp_path / "inner", {"lib.c": "int x;\n"})
    repo.git("submodule", "--quiet", "add", str(inner.root), "lib")
    repo.git("commit", "-q", "-m", "with a submodule")
    rig = Rig(home, repo)
    run, row, files = check_run(rig)
    assert any("submodule" in n for n in row["notes"]), row["notes"]
    entry = repo.git("ls-tree", row["branch"], "lib")
    assert entry == repo.git("ls-tree", "HEAD", "lib") and entry.startswith("160000")
    assert (repo.root / "lib/lib.c").read_text() == "int x;\n"
    inside = Rig(home, Repo(repo.root / "lib"), tmp_path)  # the submodule itself is a repository like any
    before = repo.state()
    assert inside.run([shell("echo bot > bot.txt"), *DONE]).row()["end_reason"] == "complete"
    check_same(before, repo.state())


def test_a_merge_in_progress_is_carried_as_files(rig, repo):
    repo.git("checkout", "-q", "-b", "other")
    repo.save("b.txt", "theirs\n")
    repo.commit("theirs")
    repo.git("checkout", "-q", "main")
    repo.save("b.txt", "ours\n")
    repo.commit("ours")
    repo.git("merge", "other", ok=False)
    assert "<<<<<<<" in (repo.root / "b.txt").read_text()
    run, row, files = check_run(rig)
    assert repo.at(row["start"])[b"b.txt"] == files[b"b.txt"]
    refused = run.call("POST", "/merge", {"working_dir": str(repo.root)}, 409)
    assert f"runs apply {run.id}" in refused["detail"] + refused.get("hint", ""), refused


def test_a_run_in_a_subdirectory_works_in_that_subdirectory(rig, repo):
    run = rig.run([shell("pwd; ls"), *DONE], working_dir=str(repo.root / "src"))
    tool, ok, output, _ = run.results()[0]
    where, *listed = output.split()
    assert ok and where.endswith(f"worker-{run.id}/src") and listed == ["main.c"]


def test_a_run_in_a_directory_that_git_does_not_have_works_at_the_root(rig, repo):
    repo.save("cache/x", "ignored\n")
    before = repo.state()
    run = rig.run([shell("pwd"), *DONE], working_dir=str(repo.root / "cache"))
    assert run.results()[0][2].strip() == run.row()["worktree"]
    check_same(before, repo.state())


def test_a_repository_may_lie_at_any_path(home, hub, tmp_path):
    repo = Repo(tmp_path / "we ird \n'\"$x \u00fc -", FILES)
    rig = Rig(home, repo, tmp_path)
    repo.save("b.txt", "dirty\n")
    run, row, files = check_run(rig)
    assert row["project"] == "we-ird-x"
    home.ok("runs", "apply", run.id, cwd=repo.root)
    assert (repo.root / "bot.txt").read_text() == "bot\n" and (repo.root / "b.txt").read_text() == "dirty\n"


def test_settings_of_the_user_that_change_what_git_does(rig, repo):
    for setting in ("commit.gpgSign=true", "user.signingKey=nobody", "core.autocrlf=input", "merge.ff=no",
                    "diff.external=false", "diff.noprefix=true", "color.ui=always", "status.branch=true",
                    "status.showUntrackedFiles=no", "diff.ignoreSubmodules=all", "apply.whitespace=error"):
        repo.git("config", *setting.split("="))
    repo.save("new.txt", "trailing  \n")
    run, row, files = check_run(rig)
    assert repo.at(row["start"])[b"new.txt"][1] == b"trailing  \n" and run.changed() == ["a.txt", "bot.txt"]
    patch = run.call("GET", "/diff")["patch"]
    assert "+++ b/bot.txt\n" in patch and "\x1b" not in patch
    rig.home.ok("runs", "apply", run.id, cwd=repo.root)
    assert (repo.root / "bot.txt").read_text() == "bot\n"


def test_the_worktree_is_where_the_contract_says(rig, repo):
    run = rig.start([gate(), *DONE])
    dir = run.at_gate()
    assert dir == rig.home.dir / "worktrees" / "repo" / f"worker-{run.id}"
    assert re.fullmatch(r"[0-9a-f]{8}", run.id)
    assert repo.worktrees() == [str(dir)]
    run.open_gate()
    run.wait()
    rig.check_clean()


def test_without_a_worktree_it_works_in_place(rig, repo):
    before = repo.git("for-each-ref")
    run = rig.run(WORK, worktree=False)
    row = run.row()
    assert row["end_reason"] == "complete" and not row["branch"]
    assert (repo.root / "bot.txt").read_text() == "bot\n" and repo.git("for-each-ref") == before
    assert "bot.txt" in repo.git("status", "--porcelain"), "nothing is committed for the user"


# ---- what is left at the end --------------------------------------------------------------------

def test_defect_5_uncommitted_work_is_on_the_branch_after_the_end(rig, repo):
    scenes = [shell("echo one > one && git add one && git commit -qm mine && echo two > two && echo x >> a.txt && "
                    "rm b.txt && git add two && chmod +x src/main.c"), *DONE]
    run = rig.run(scenes)
    row = run.row()
    at = repo.at(row["branch"])
    assert at[b"one"][1] == b"one\n" and at[b"two"][1] == b"two\n" and at[b"a.txt"][1] == b"a\nx\n"
    assert b"b.txt" not in at and at[b"src/main.c"][0] == "100755"
    subjects = repo.git("log", "--format=%s", f"{row['start']}..{row['branch']}").splitlines()
    assert len(subjects) == 2 and subjects[1] == "mine", subjects
    assert row["head"] == repo.head(row["branch"]) and row["commits"] == 2
    rig.check_clean()


def test_work_is_kept_wherever_head_has_gone(rig, repo):
    run = rig.run([shell("git checkout -q --detach && echo lost > lost.txt && git add -A && git commit -qm away; "
                         "echo loose > loose.txt"), *DONE])
    row = run.row()
    rig.check_clean()
    held = {p for b in repo.branches() for p in repo.at(b)}
    assert {b"lost.txt", b"loose.txt"} <= held, (repo.branches(), row["notes"])


def test_ignored_files_that_are_not_kept_are_named(rig, repo):
    done = rig.popen([shell("mkdir -p cache/deep && echo x > cache/deep/y && echo x > noise.log && echo k > kept.txt"),
                      *DONE], "go")
    _, err = done.communicate(timeout=30)
    row = rig.only().row()
    assert sorted(row["not_kept"]) == ["cache/", "noise.log"]
    assert "noise.log" in err.decode() and "cache/" in err.decode() and "kept.txt" not in row["not_kept"]


@pytest.fixture
def outside():
    """A directory that is not below /tmp, which is private in the box."""
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="afloat-test-") as dir:
        yield pathlib.Path(dir)


def test_include_link_and_setup(home, hub, outside):
    repo = Repo(outside / "repo", FILES)
    rig = Rig(home, repo)
    repo.save(".gitignore", "*.log\ncache/\n.env\nnode_modules/\n")
    repo.commit("ignore more")
    repo.save(".env", "KEY=1\n")
    repo.save("node_modules/dep/index.js", "dep\n")
    before = repo.state()
    rig.bot(keys='sleep_secs = 0\n[worktree]\ninclude = [".env"]\nlink = ["node_modules"]\n'
                 'setup = ["echo set-up > ready.txt"]\n')
    run = rig.run([shell("cat .env node_modules/dep/index.js ready.txt; echo KEY=2 > .env"), *DONE])
    row = run.row()
    assert row["end_reason"] == "complete", row
    assert run.results()[0][1:3] == (True, "KEY=1\ndep\nset-up\n")
    check_same(before, repo.state())
    assert b"node_modules" not in {p.split(b"/")[0] for p in repo.at(row["branch"])}
    rig.check_clean()


def test_a_setup_that_fails_ends_the_run_and_leaves_nothing(rig, repo):
    rig.bot(keys='[worktree]\nsetup = ["echo broken tool >&2; exit 3"]\n')
    before = repo.state()
    done = rig.popen(WORK, "go")
    _, err = done.communicate(timeout=30)
    assert done.returncode != 0 and "broken tool" in err.decode(), err
    check_same(before, repo.state())
    rig.check_clean()


# ---- looking ------------------------------------------------------------------------------------

def test_a_diff_of_a_run_that_works_shows_what_lies_there(rig, repo):
    repo.save("b.txt", "the user's own\n")
    run = rig.start([shell("echo now > now.txt"), gate(), *DONE])
    run.at_gate()
    assert run.changed() == ["at-go", "now.txt"]
    run.open_gate()
    run.wait()
    assert rig.home.ok("runs", "diff", run.id, cwd=repo.root).count("+now") == 1


# ---- apply --------------------------------------------------------------------------------------

def applied(repo):
    """The files that lie in the user's tree, and what git's index holds."""
    return repo.files(), (repo.root / ".git/index").read_bytes(), repo.head()


def test_apply_puts_the_bots_work_on_a_dirty_tree_three_way(rig, repo):
    repo.save("lines.txt", "".join(f"{i}\n" for i in range(30)))
    repo.commit("lines")
    repo.save("b.txt", "dirty before\n")
    run = rig.run([shell("sed -i 's/^25$/bot/' lines.txt; echo bot > bot.txt; rm src/main.c; chmod +x a.txt"), *DONE])
    repo.save("lines.txt", "user\n" + "".join(f"{i}\n" for i in range(30)))  # meanwhile the user goes on
    repo.save("mine.txt", "mine\n")
    repo.git("add", "mine.txt")
    files, index, head = applied(repo)
    run.call("POST", "/apply", {"working_dir": str(repo.root)})
    now, index_now, head_now = applied(repo)
    assert (index_now, head_now) == (index, head), "uncommitted, and the index is the user's"
    assert (repo.root / "lines.txt").read_text() == "user\n" + "".join(
        "bot\n" if i == 25 else f"{i}\n" for i in range(30))
    want = {**files, b"lines.txt": now[b"lines.txt"], b"bot.txt": ("100644", b"bot\n"), b"a.txt": ("100755", b"a\n")}
    del want[b"src/main.c"]
    assert now == want
    assert run.row()["applied_at"]


def test_apply_that_conflicts_leaves_everything(rig, repo):
    run = rig.run([shell("echo bot > a.txt; echo bot > bot.txt; rm b.txt"), *DONE])
    repo.save("a.txt", "user\n")
    before = repo.state()
    refused = run.call("POST", "/apply", {"working_dir": str(repo.root)}, 409)
    assert "a.txt" in json.dumps(refused), refused
    check_same(before, repo.state())
    done = rig.home.cli("runs", "apply", run.id, cwd=repo.root)
    assert done.returncode == 7 and "a.txt" in done.stderr
    check_same(before, repo.state())


def test_apply_never_overwrites_a_file_of_the_user(rig, repo):
    run = rig.run([shell("echo bot > bot.txt; git add -f noise.log 2>/dev/null; echo bot > made.log; "
                         "git add -f made.log; git commit -qm log"), *DONE])
    repo.save("made.log", "the user's, ignored\n")
    before = repo.state()
    run.call("POST", "/apply", {"working_dir": str(repo.root)}, 409)
    check_same(before, repo.state())


def test_apply_and_merge_act_on_the_checkout_where_they_are_typed(rig, repo, tmp_path):
    run = rig.run(WORK)
    linked = tmp_path / "linked"
    repo.git("worktree", "add", "-q", "-b", "side", str(linked))
    before = repo.files(), repo.head()
    rig.home.ok("runs", "apply", run.id, cwd=linked)
    assert (linked / "bot.txt").read_text() == "bot\n"
    Repo(linked).git("reset", "-q", "--hard")
    os.unlink(linked / "bot.txt")
    rig.home.ok("runs", "merge", run.id, cwd=linked)
    assert run.row()["merged_into"] == "side" and (linked / "bot.txt").read_text() == "bot\n"
    assert (repo.files(), repo.head()) == before


def test_a_run_whose_branch_is_gone_says_so(rig, repo):
    run = rig.run(WORK)
    repo.git("branch", "-q", "-D", run.row()["branch"])
    before = repo.state()
    for words in (("runs", "diff", run.id), ("runs", "apply", run.id), ("runs", "merge", run.id),
                  ("run", "worker", "--resume", run.id)):
        done = rig.home.cli(*words, cwd=repo.root, env=rig.env(DONE))
        assert done.returncode == 3 and f"afloat/worker-{run.id}" in done.stderr, done
    check_same(before, repo.state())
    rig.check_clean()
    assert run.row()["state"] == "ended"


def test_apply_twice_changes_nothing_more(rig, repo):
    run = rig.run(WORK)
    run.call("POST", "/apply", {"working_dir": str(repo.root)})
    before = repo.files()
    rig.home.ok("runs", "apply", run.id, cwd=repo.root)
    assert repo.files() == before


# ---- merge --------------------------------------------------------------------------------------

def test_merge_fast_forwards_a_clean_tree(rig, repo):
    run = rig.run(WORK)
    rig.home.ok("runs", "merge", run.id, cwd=repo.root)
    row = run.row()
    assert repo.head() == repo.head(row["branch"]) and repo.git("status", "--porcelain") == ""
    assert (repo.root / "bot.txt").read_text() == "bot\n" and row["merged_into"] == "main"


def test_merge_makes_a_merge_where_both_went_on(rig, repo):
    run = rig.run(WORK)
    repo.save("b.txt", "the user went on\n")
    user = repo.commit("user")
    run.call("POST", "/merge", {"working_dir": str(repo.root)})
    assert repo.git("rev-list", "--parents", "-1", "HEAD").split()[1:] == [user, repo.head(run.row()["branch"])]
    assert (repo.root / "b.txt").read_text() == "the user went on\n" and (repo.root / "bot.txt").exists()
    assert repo.git("status", "--porcelain") == ""


def test_merge_that_conflicts_changes_nothing(rig, repo):
    run = rig.run([shell("echo bot > a.txt"), *DONE])
    repo.save("a.txt", "user\n")
    repo.commit("user")
    before = repo.state()
    refused = run.call("POST", "/merge", {"working_dir": str(repo.root)}, 409)
    assert "a.txt" in json.dumps(refused), refused
    check_same(before, repo.state())


def test_merge_after_a_dirty_start_takes_only_the_bots_commits(rig, repo):
    repo.save("b.txt", "dirty\n")
    run = rig.run(WORK)
    repo.git("checkout", "-q", "--", "b.txt")  # the user threw it away meanwhile
    run.call("POST", "/merge", {"working_dir": str(repo.root)})
    assert (repo.root / "b.txt").read_text() == "b\n" and (repo.root / "bot.txt").read_text() == "bot\n"
    assert "Afloat-Start" not in repo.git("log", "--format=%B", "main")
    assert repo.git("status", "--porcelain") == ""


def test_merge_into_a_dirty_tree_is_refused_with_a_line_that_works(rig, repo, tmp_path):
    run = rig.run(WORK)
    repo.save("b.txt", "dirty\n")
    before = repo.state()
    done = rig.home.cli("runs", "merge", run.id, cwd=repo.root)
    assert done.returncode == 7, done
    check_same(before, repo.state())
    line = re.search(r"afloat runs apply \w+", done.stderr)
    assert line, done.stderr
    pasted = paste(rig.home, line.group(), tmp_path, repo.root)
    assert pasted.returncode == 0, pasted
    assert (repo.root / "bot.txt").read_text() == "bot\n" and (repo.root / "b.txt").read_text() == "dirty\n"


def test_the_run_merges_by_itself_only_when_told(rig, repo):
    before = repo.state()
    asked = rig.run([shell("echo bot > one.txt"), complete(action="merge"), say("Bye.")])  # merge = "ask", no terminal
    assert asked.row()["action"] == "review"
    check_same(before, repo.state())
    rig.bot("never", 'merge = "never"\n')
    assert rig.run([shell("echo bot > two.txt"), complete(action="merge"), say("Bye.")],
                   bot="never").row()["action"] == "review"
    check_same(before, repo.state())
    rig.bot("auto", 'merge = "auto"\n')
    row = rig.run([shell("echo bot > three.txt"), complete(action="merge"), say("Bye.")], bot="auto").row()
    assert row["merged_into"] == "main" and (repo.root / "three.txt").exists()
    assert rig.run([shell("echo bot > four.txt"), complete(action="review"), say("Bye.")],
                   bot="auto").row().get("merged_at") is None
    told = rig.run([shell("echo bot > five.txt"), complete(action="merge"), say("Bye.")], merge=True).row()
    assert told["merged_into"] == "main" and (repo.root / "five.txt").exists()


def test_an_automatic_merge_never_touches_a_dirty_tree(rig, repo):
    rig.bot(keys='merge = "auto"\n')
    repo.save("b.txt", "dirty\n")
    before = repo.state()
    row = rig.run([shell("echo bot > bot.txt"), complete(action="merge"), say("Bye.")]).row()
    assert row["action"] == "review" and row.get("merged_at") is None
    check_same(before, repo.state())


@pytest.mark.parametrize("path", [".afloat/plugins/x.lua", ".gitmodules", ".gitattributes", "sub/.gitattributes",
                                  ".github/workflows/ci.yml", "AGENTS.md", "sub/AGENTS.md", "agents.MD"])
def test_protected_paths_always_become_a_review(rig, repo, path):
    rig.bot(keys='merge = "auto"\nsandbox = "danger-full-access"\n')
    before = repo.state()
    scenes = [shell(f"mkdir -p $(dirname {path}) && echo '# x' > {path}"), complete(action="merge"), say("Bye.")]
    run = rig.run(scenes, sandbox="danger-full-access")
    row = run.row()
    assert path.encode() in repo.at(row["branch"]), "the bot wrote it"
    assert row["action"] == "review" and row.get("merged_at") is None, row
    check_same(before, repo.state())
    assert run.call("GET", "/diff")["protected"], "and who looks is told"


# ---- discard ------------------------------------------------------------------------------------

def test_discard_keeps_the_branch_unless_told(rig, repo):
    kept, gone = rig.run(WORK), rig.run(WORK)
    rig.home.ok("runs", "discard", kept.id, cwd=repo.root)
    assert kept.row()["discarded_at"] and repo.has(kept.row()["branch"])
    rig.home.ok("runs", "discard", gone.id, "--delete-branch", cwd=repo.root)
    assert gone.row()["discarded_at"] and repo.branches() == [kept.row()["branch"]]


def test_a_bot_that_discards_loses_nothing(rig, repo):
    run = rig.run([shell("echo bot > bot.txt"), complete(action="discard"), say("Bye.")])
    row = run.row()
    assert row["action"] == "discard" and repo.at(row["branch"])[b"bot.txt"][1] == b"bot\n"


# ---- worktrees ----------------------------------------------------------------------------------

def test_worktrees_in_use_are_listed_and_never_cleaned(rig, repo):
    run = rig.start([shell("echo x > x; head -c 100000 /dev/zero > big"), gate(), *DONE])
    dir = run.at_gate()
    [row] = call(rig.home, "GET", "/worktrees")["worktrees"]
    assert row["path"] == str(dir) and row["run_id"] == run.id and row["state"] == "live" and row["bot"] == "worker"
    assert row["bytes"] >= 100000 and row["uncommitted"] >= 2 and row["age_s"] >= 0
    cleaned = call(rig.home, "POST", "/worktrees/clean", {})
    assert cleaned["removed"] == [] and [k["path"] for k in cleaned["kept"]] == [str(dir)]
    assert (dir / "x").exists()
    said = rig.home.ok("worktrees", "clean", cwd=repo.root)
    assert (dir / "x").exists(), said
    run.open_gate()
    assert run.wait()["end_reason"] == "complete"
    assert call(rig.home, "GET", "/worktrees")["worktrees"] == []


def test_worktrees_that_nobody_lives_in_are_cleaned_and_their_work_kept(rig, repo):
    ended = rig.run(WORK)
    branch, dir = ended.row()["branch"], ended.worktree()
    repo.git("worktree", "add", "-q", str(dir), branch)
    (dir / "left.txt").write_text("left\n")
    [row] = call(rig.home, "GET", "/worktrees")["worktrees"]
    assert row["state"] == "left" and row["uncommitted"] == 1 and row["run_id"] == ended.id
    dry = call(rig.home, "POST", "/worktrees/clean", {"dry_run": True})
    assert dry["dry_run"] and dry["removed"] == [str(dir)] and dir.exists()
    assert rig.home.cli("worktrees", "clean", cwd=repo.root).returncode == 0
    retry(lambda: not dir.exists())
    rig.check_clean()
    assert repo.show(branch, "left.txt") == "left\n"


def test_a_worktree_of_nobody_is_shown_and_nothing_in_it_is_lost(rig, repo):
    dir = rig.home.dir / "worktrees" / "repo" / "worker-0badcafe"
    repo.git("worktree", "add", "-q", "-b", "afloat/worker-0badcafe", str(dir))
    (dir / "left.txt").write_text("left\n")
    [row] = call(rig.home, "GET", "/worktrees")["worktrees"]
    assert row["path"] == str(dir) and row["state"] == "left"
    call(rig.home, "POST", "/worktrees/clean", {})
    assert dir.exists() and (dir / "left.txt").exists() or b"left.txt" in repo.at("afloat/worker-0badcafe")


# ---- the user's repository is closed ------------------------------------------------------------

def test_a_bot_cannot_destroy_the_repository(rig, repo):
    """Objects, refs, other runs' branches, registrations: nothing beneath .git can be written from inside."""
    first = rig.run(WORK).row()
    git = repo.root / ".git"
    before, objects = repo.state(), sorted(p for p in (git / "objects").rglob("*") if p.is_file())
    tries = [f"echo /nonexistent > {git}/objects/info/alternates", f"rm -rf {git}/objects/??", f"rm -rf {git}/objects/pack",
             f"rm -f {git}/{'refs/heads/' + first['branch']}", f"touch {git}/worktrees/new",
             f"for d in {git}/worktrees/*; do touch $d/new || exit 1; done", f"find {git} -type d -exec touch {{}}/x ';'"]
    second = rig.run([*(shell(t) for t in tries),
                      shell(f"git update-ref refs/heads/{first['branch']} HEAD; git branch -D main; git gc --prune=now -q"),
                      shell("echo work > w.txt; git add -A; git commit -qm work; git stash list; git worktree list; git status"),
                      *DONE])
    results = second.results()
    assert [r[1] for r in results[:6]] == [False] * 6, results
    assert results[8][1], results[8]
    check_same(before, repo.state())
    assert set(objects) <= {p for p in (git / "objects").rglob("*") if p.is_file()} and not (git / "objects/info/alternates").exists()
    assert repo.head(first["branch"]) == first["head"]
    assert repo.git("log", "-1", "--format=%s", second.row()["branch"]) == "work"
    rig.check_clean()


@pytest.mark.parametrize("age", ["now", "1 hour ago"])  # git does not read an old file that its index knows
def test_a_bot_that_destroys_its_own_repository_keeps_its_files(rig, repo, age):
    run = rig.run([shell(f"echo work > w.txt; touch -d '{age}' w.txt; git add -A; git commit -qm work; echo more > m.txt; "
                         "c=$(git rev-parse --git-common-dir); echo /nonexistent > $c/objects/info/alternates; "
                         "rm -rf $c/objects/?? $c/objects/pack $c/refs $c/packed-refs $c/HEAD"), *DONE])
    row = run.row()
    assert row["end_reason"] == "complete" and repo.show(row["branch"], "w.txt") == "work\n", row
    assert repo.show(row["branch"], "m.txt") == "more\n"
    rig.check_clean()


def test_live_work_is_shown_before_it_is_in_the_repository(rig, repo):
    run = rig.start([shell("echo c > c.txt; git add -A; git commit -qm c; echo d > d.txt"), gate(), *DONE])
    run.at_gate()
    diff = call(rig.home, "GET", f"/runs/{run.id}/diff")
    assert {"c.txt", "d.txt"} <= {f["path"] for f in diff["files"]} and diff["commits"] == 1
    assert repo.head(run.row()["branch"]) == run.row()["start"]
    run.open_gate()
    run.wait()
    assert repo.show(run.row()["branch"], "d.txt") == "d\n"


def test_commits_in_the_users_own_linked_worktree_are_refused_with_the_reason(rig, repo, tmp_path):
    """A session in a worktree that the user made: its repository is as closed as any other."""
    linked = tmp_path / "linked"
    repo.git("worktree", "add", "-q", "-b", "afloat/mine", str(linked))
    before = repo.git("for-each-ref")
    run = rig.run([shell("git log -1 --format=%s && git status --short"), shell("echo x > x.txt && git add x.txt"), *DONE],
                  working_dir=str(linked), worktree=False)
    results = run.results()
    assert results[0][1] and not results[1][1], results
    assert "[.git can only be read in this sandbox]" in results[1][2]
    assert repo.git("for-each-ref") == before and (linked / "x.txt").exists()


# ---- modes --------------------------------------------------------------------------------------

@pytest.mark.parametrize("mask", [0o022, 0o002, 0o077])
def test_files_have_the_modes_that_the_clients_umask_gives(rig, repo, mask):
    """Whatever the umask of the hub, which is for its own home."""
    scenes = [shell("umask; echo x > new.txt; mkdir -p sub/deep; echo y > sub/deep/f; echo more >> a.txt"),
              use("write_file", path="by/tool.txt", content="t\n"), *DONE]
    repo.git("config", "core.fileMode", "false")
    os.chmod(repo.root / "a.txt", 0o666 & ~mask)
    assert rig.popen(scenes, "go", umask=mask).wait(60) == 0
    run = rig.only()
    assert rig.home.cli("runs", "apply", run.id, umask=mask, cwd=repo.root).returncode == 0

    def modes(root):
        return {n: (root / n).stat().st_mode & 0o777 for n in ("a.txt", "new.txt", "sub", "sub/deep/f", "by", "by/tool.txt")}
    want = {n: (0o777 if n in ("sub", "by") else 0o666) & ~mask for n in modes(repo.root)}
    assert modes(repo.root) == want
    repo.git("clean", "-fdq")
    assert rig.popen(scenes, "go", "--no-worktree", bot="here", umask=mask).wait(60) == 0
    assert modes(repo.root) == want
    assert rig.home.dir.stat().st_mode & 0o777 == 0o700


# ---- what is said, and where it lands -----------------------------------------------------------

def test_a_rescue_branch_is_named_and_taken_over(rig, repo):
    repo.save("wip.txt", "WIP\n")
    client = rig.popen([shell("git checkout -q --detach main; echo m > m.txt; git add m.txt; git commit -qm work"), *DONE], "go")
    _, said = client.communicate(timeout=60)
    run = rig.only()
    rescue = run.row()["rescue"]
    assert rescue and rescue.encode() in said, said
    assert rescue in rig.home.ok("runs", "show", run.id)
    assert rescue in rig.home.ok("runs", "list")
    assert "m.txt" in rig.home.ok("runs", "diff", run.id)
    assert rig.home.cli("runs", "apply", run.id, cwd=repo.root).returncode == 0
    assert (repo.root / "m.txt").read_text() == "m\n" and (repo.root / "wip.txt").read_text() == "WIP\n"
    discarded = rig.home.cli("runs", "discard", run.id, "--delete-branch", cwd=repo.root)
    assert discarded.returncode == 0 and rescue in discarded.stderr and repo.has(rescue), discarded.stderr


def test_a_merge_by_itself_lands_on_the_branch_where_the_run_began(rig, repo):
    run = rig.start([shell("echo x > x.txt"), gate(), complete("adds x", "merge"), say("Bye.")], merge=True)
    run.at_gate()
    repo.git("checkout", "-q", "-b", "release")
    run.open_gate()
    row = run.wait()
    assert row["action"] == "review" and row["wants_merge"] and row["merged_into"] is None, row
    assert any("'main'" in n and "release" in n for n in row["notes"]), row["notes"]
    assert not (repo.root / "x.txt").exists()
    assert call(rig.home, "POST", f"/runs/{run.id}/merge", {"into": "main"}, 409)["code"] == "CONFLICT"


def test_the_commit_of_a_bot_says_what_it_did_and_who_it_is(rig, repo):
    run = rig.run([shell("echo x > x.txt"), complete("Adds the file x\n\nBecause of y."), say("Bye.")])
    text = repo.git("log", "-1", "--format=%B", run.row()["branch"])
    assert text.splitlines()[0] == "Adds the file x" and "Because of y." in text
    assert f"Afloat-Bot: worker\nAfloat-Run: {run.id}" in text
    assert repo.git("log", "-1", "--format=%(trailers:key=Afloat-Bot,valueonly)", run.row()["branch"]).strip() == "worker"


def test_a_run_that_changed_nothing_hints_at_no_diff(rig, repo):
    client = rig.popen(DONE, "go")
    _, said = client.communicate(timeout=60)
    assert client.returncode == 0 and b"resume: " in said and b"look: " not in said and b"take: " not in said, said


def test_a_conflict_hints_at_a_way_that_helps(rig, repo):
    run = rig.run([shell("echo bot > a.txt"), *DONE])
    repo.save("a.txt", "mine\n")
    repo.commit("mine")
    refused = rig.home.cli("runs", "merge", run.id, cwd=repo.root)
    assert refused.returncode == 7 and f"git merge {run.row()['branch']}" in refused.stderr, refused.stderr
    assert "runs apply" not in refused.stderr


def test_a_repository_without_an_identity_gets_one_for_the_bots_commits(rig, repo):
    repo.git("config", "--unset", "user.name")
    repo.git("config", "--unset", "user.email")
    repo.git("config", "user.useConfigOnly", "true")
    run = rig.run([shell("echo x > x.txt; git add -A; HOME=/nonexistent git commit -qm mine"), *DONE])
    assert run.results()[0][1], run.results()[0]
    assert repo.git("log", "-1", "--format=%s %ae", run.row()["branch"]).endswith("afloat@localhost")


def test_a_bot_commits_as_the_user_does_in_that_repository(rig, repo):
    """An `includeIf` of the user's settings does not match the directory that the bot's git works in."""
    repo.git("config", f"includeIf.gitdir:{repo.root}/.path", str(rig.home.dir / "work.gitconfig"))
    (rig.home.dir / "work.gitconfig").write_text('[user]\n\tname = "Ann \\"at\\" Work"\n\temail = ann@work\n')
    run = rig.run([shell("echo x > x.txt; git add -A; git commit -qm mine"), shell("echo y > y.txt"), *DONE])
    assert run.results()[0][1], run.results()[0]
    authors = repo.git("log", "-2", "--format=%an <%ae>", run.row()["branch"]).splitlines()
    assert authors == ['Ann "at" Work <ann@work>'] * 2


def test_the_metadata_follow_what_a_person_decides(rig, repo):
    run = rig.run([shell("echo x > x.txt"), complete("adds x", "merge"), say("Bye.")])
    assert run.metadata()["action"] == "review"
    call(rig.home, "POST", f"/runs/{run.id}/merge", {})
    assert run.metadata()["action"] == "merged"
    other = rig.run([shell("echo y > y.txt"), *DONE])
    call(rig.home, "POST", f"/runs/{other.id}/discard", {})
    assert other.metadata()["action"] == "discard"


def test_a_run_can_be_forgotten(rig, repo):
    run, other = rig.run(WORK), rig.run([shell("echo y > y.txt"), *DONE])
    branch, gone = run.row()["branch"], other.row()["branch"]
    assert call(rig.home, "DELETE", f"/runs/{run.id}") == {"deleted": run.id, "branch": branch}
    assert repo.has(branch)
    call(rig.home, "GET", f"/runs/{run.id}", status=404)
    call(rig.home, "DELETE", f"/runs/{run.id}", status=404)
    assert rig.home.cli("runs", "remove", other.id, "--delete-branch").returncode == 0
    assert not repo.has(gone) and call(rig.home, "GET", "/runs")["runs"] == []
    live = rig.start([gate(), *DONE])
    live.at_gate()
    call(rig.home, "DELETE", f"/runs/{live.id}", status=409)
    live.open_gate()
    live.wait()


STRAY = [shell("git checkout -q --detach main; echo m > m.txt; git add m.txt; git commit -qm work"), *DONE]


def test_a_forgotten_run_and_cleaning_name_the_rescue_branch_that_stays(rig, repo):
    repo.save("wip.txt", "WIP\n")
    run, other = rig.run(STRAY), rig.run(STRAY)
    kept, cleaned = run.row()["rescue"], other.row()["rescue"]
    done = rig.home.cli("runs", "remove", run.id, "--delete-branch")
    assert done.returncode == 0 and kept in done.stderr and repo.has(kept), done.stderr
    repo.git("worktree", "add", "-q", str(other.worktree()), other.row()["branch"])
    done = rig.home.cli("worktrees", "clean", "--delete-branch")
    assert done.returncode == 0 and cleaned in done.stderr and repo.has(cleaned), done.stderr
    assert call(rig.home, "DELETE", f"/runs/{other.id}")["rescue"] == cleaned and repo.has(cleaned)


def test_cleaning_can_delete_the_branches_too(rig, repo):
    ended = rig.run(WORK)
    branch, dir = ended.row()["branch"], ended.worktree()
    repo.git("worktree", "add", "-q", str(dir), branch)
    assert rig.home.cli("worktrees", "clean", "--delete-branch").returncode == 0
    assert not dir.exists() and not repo.has(branch)
    assert ended.row()["branch_deleted"]


def test_middle_iterations_do_not_say_complete(rig, repo):
    run = rig.run([say("One."), shell("echo x > x.txt"), *DONE], iterations=3, sleep_secs=0)
    assert [i["end_reason"] for i in run.row()["iterations"]] == ["limit", "complete"]


def test_an_import_tells_each_thing_and_fails_when_one_does(home, hub, tmp_path):
    open_home = tmp_path / "openbot"
    (open_home / "bots/good").mkdir(parents=True)
    (open_home / "bots/good/config.md").write_text("Do good.\n")
    done = home.cli("bots", "import", str(open_home), "--as", "better")
    assert done.returncode == 0 and re.search(r"taken +bot +better", done.stdout), (done.stdout, done.stderr)
    (open_home / "bots/Bad Name").mkdir()
    done = home.cli("bots", "import", str(open_home))
    assert done.returncode == 1 and re.search(r"failed +bot +Bad Name", done.stdout), (done.stdout, done.stderr)
    assert "1 failed" in done.stderr
    assert home.cli("bots", "import", str(open_home), "--as", "x").returncode != 0
