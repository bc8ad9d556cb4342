"""The offline model through the real program: it talks on, uses real tools, and its plugin is live."""
import pytest

from bots import repo, rig  # noqa: F401


@pytest.fixture
def talk(home, hub, tmp_path):
    """Say one thing after the other in one session; each answer is what the chat prints."""
    place = tmp_path / "place"
    place.mkdir()

    def say(*words):
        answers = []
        for i, text in enumerate(words):
            done = home.cli("chat", text, "--permission", "auto", *(["-c"] if i else []), cwd=place)
            assert done.returncode == 0, done.stderr
            assert "This is the offline demo" in done.stdout
            answers.append(done.stdout)
        return answers
    say.place = place
    return say


def test_a_conversation_with_files(talk):
    (talk.place / "README.md").write_text("# Title of the page\n")
    first, second, third, fourth, last = talk(
        "hello", "read README.md", 'write "hello there" to notes.txt', 'replace "there" with "you" in notes.txt', "?")
    assert "README.md" in first
    assert "# Title of the page" in second
    assert "written" in third and "changed" in fourth
    assert (talk.place / "notes.txt").read_text() == "hello you\n"
    assert "have none for that" in last and "list the files" in last


def test_what_it_offers_can_be_typed_as_it_stands(talk):
    (talk.place / "README.md").write_text("TODO\n")
    (answer,) = talk("hello")
    offers = [line[2:].split(":")[0].strip("`") for line in answer.splitlines() if line.startswith("- `")]
    assert len(offers) == 8 and 'write "hello" to notes.txt' in offers, answer
    for offer, said in zip(offers, talk(*offers)):
        assert "did not work" not in said and "have none for that" not in said, (offer, said)


def test_a_command_without_output_is_told(talk):
    (answer,) = talk('run "true"')
    assert "It printed:\n(nothing)\n" in answer


def test_a_failed_tool_is_told(talk):
    (answer,) = talk("read missing.txt")
    assert "did not work" in answer and "missing.txt" in answer


def test_a_plugin_gives_it_a_tool_in_the_next_step(talk, home):
    (answer,) = talk("write a plugin")
    assert "the die shows " in answer
    assert any(row["name"] == "improvements/dice" for row in home.json("plugin", "list")["plugins"])


def test_a_summary_names_what_was_asked(talk, home):
    talk("list the files", 'write "hello" to notes.txt')
    (row,) = home.json("sessions")["sessions"]
    text = home.json("api", "POST", f"/session/{row['id']}/compact")["text"]
    assert text.startswith('So far the user asked for this:\n- list the files\n- write "hello" to notes.txt\n')


def test_a_bot_completes_its_run(rig):
    home, repo = rig.home, rig.repo.root
    home.ok("bots", "create", "helper", cwd=repo)
    ended = home.cli("run", "helper", 'write "hello" to notes.txt', cwd=repo)
    assert ended.returncode == 0, ended.stderr
    assert "This is the offline demo" in ended.stdout
    (run,) = home.json("runs")["runs"]
    assert run["end_reason"] == "complete"
    assert "+hello" in home.ok("runs", "diff", run["run_id"])
