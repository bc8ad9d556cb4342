"""Pictures in messages: over HTTP and in the chat, in the three formats of providers, in the journal."""
import base64
import json
import os
import struct
import zlib

import pytest

from conftest import Hub
from test_agent import Session, call
from test_providers import KEY, KINDS, model  # noqa: F401 (a fixture)


def png(n=1, pad=0):
    """A PNG whose contents depend on `n`, with `pad` bytes of no meaning."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0))
            + chunk(b"IDAT", zlib.compress(bytes([0, n]))) + chunk(b"teXt", bytes(pad)) + chunk(b"IEND", b""))


JPEG = b"\xff\xd8\xff\xe0" + bytes(20)
GIF = b"GIF89a" + bytes(20)
WEBP = b"RIFF\x20\0\0\0WEBP" + bytes(20)
DONE = [{"text": "I see."}] * 9


def items(session, i=-1):
    """The pictures of a request, as the journal's model saw them."""
    messages = session.requests()[i]["body"]["messages"]
    return [x for m in messages if isinstance(m["content"], list) for x in m["content"] if x["type"] == "image"]


@pytest.fixture
def work(tmp_path):
    dir = tmp_path / "work"
    dir.mkdir()
    (dir / "shot.png").write_bytes(png())
    return dir


def test_a_picture_is_kept_once_and_referred_to(home, hub, work):
    s = Session(home, work, DONE)
    (work / "again.png").write_bytes(png())
    s.ask("what is this?", images=[str(work / "shot.png"), str(work / "again.png")])
    kept = list((home.dir / "sessions" / s.id / "images").iterdir())
    assert len(kept) == 1 and kept[0].read_bytes() == png() and oct(kept[0].stat().st_mode)[-3:] == "600"
    said = s.events("message.completed")[0]
    assert [i["name"] for i in said["images"]] == ["shot.png", "again.png"]
    assert said["images"][0] == {"path": f"sessions/{s.id}/images/{kept[0].name}", "media_type": "image/png",
                                 "bytes": len(png()), "name": "shot.png"}
    first = s.requests()[0]["body"]["messages"][0]["content"]
    assert [x["type"] for x in first] == ["image", "image", "text"] and first[-1]["text"] == "what is this?"
    for file in ("events.jsonl", "requests.jsonl"):
        assert base64.b64encode(png()).decode() not in (home.dir / "sessions" / s.id / file).read_text()
    (work / "shot.png").unlink()  # the session has its own
    s.ask("and now?")
    assert len(items(s)) == 2
    s.call("DELETE", "?purge=true")
    assert not kept[0].exists()


def test_every_kind_and_base64(home, hub, work):
    s = Session(home, work, DONE)
    given = []
    for name, data in (("a.jpg", JPEG), ("b.gif", GIF), ("c.webp", WEBP), ("wrong-name.txt", png(2))):
        (work / name).write_bytes(data)
        given.append(str(work / name))
    given.append({"data": base64.b64encode(png(3)).decode(), "name": "pasted.png"})
    s.ask("look", images=given)
    assert [(i["media_type"], i["name"]) for i in s.events("turn.started")[0]["images"]] == [
        ("image/jpeg", "a.jpg"), ("image/gif", "b.gif"), ("image/webp", "c.webp"), ("image/png", "wrong-name.txt"),
        ("image/png", "pasted.png")]


def test_what_is_refused(home, hub, work):
    s = Session(home, work, DONE)
    (work / "big.png").write_bytes(png(pad=6 << 20))
    (work / "text.png").write_text("this is no picture at all")
    os.mkfifo(work / "fifo.png")

    def no(*images):
        return s.call("POST", "/message", {"text": "x", "images": list(images)}, 400)["detail"]
    assert no(str(work / "big.png")).endswith("big.png' is too large: 6.0 MB, and a picture may have 5 MB")
    assert no(str(work / "text.png")) == "'text.png' is no PNG, JPEG, GIF or WebP picture"
    assert "cannot open" in no(str(work / "none.png")) and "is not a file" in no(str(work / "fifo.png"))
    assert "is not a file" in no(str(work)) and "an absolute path" in no("shot.png") and "an absolute path" in no(7)
    assert "not base64" in no({"data": "###"}) and "at most 10 pictures" in no(*[str(work / "shot.png")] * 11)
    assert s.events("message.completed") == [] and s.call("GET")["state"] == "idle"


def test_a_model_that_takes_none(home, hub, work):
    (home.dir / "config.toml").write_text('[models."blind"]\nimages = false\n')
    call(home, "POST", "/reload", {})
    s = Session(home, work, DONE)
    s.ask("look", images=[str(work / "shot.png")])
    s.call("PATCH", "", {"model": "blind"})
    refused = s.call("POST", "/message", {"text": "and this", "images": [str(work / "shot.png")]}, 400)
    assert refused["detail"] == "model 'blind' takes no pictures" and "[models." in refused["hint"]
    assert s.ask("go on without")["state"] == "completed"


def test_it_survives_a_restart_and_a_fork(home, work):
    hub = Hub(home)
    s = Session(home, work, DONE)
    s.ask("look", images=[str(work / "shot.png")])
    hub.process.kill()
    hub.process.communicate()
    again = Hub(home)
    s.call("PATCH", "", {"env": {"AFLOAT_PROVIDER": "scripted", "AFLOAT_SCENARIO": str(next(work.glob("scenario*")))}})
    s.ask("again")
    assert [i["name"] for i in items(s)] == ["shot.png"]
    copy = Session.__new__(Session)
    copy.home, copy.id = home, s.call("POST", "/fork", {}, 201)["id"]
    copy.ask("and here?")
    assert [i["name"] for i in items(copy)] == ["shot.png"]
    again.close()


def test_the_newest_fit_into_a_request(home, hub, work, model):  # noqa: F811
    base = f"http://127.0.0.1:{model.server_port}/v1"
    (home.dir / "config.toml").write_text(f'[providers.here]\nkind = "openai-chat"\nbase_url = "{base}"\napi_key_env = "HERE_CRED"\n')
    call(home, "POST", "/reload", {})
    s = Session(home, work, provider="here", model="m", env={"HERE_CRED": KEY})
    for i in range(6):
        (work / f"{i}.png").write_bytes(png(i, pad=4 << 20))
        model.answers.append(KINDS["openai-chat"][2]("ok"))
        s.ask(f"message {i}", images=[str(work / f"{i}.png")])
    text = json.dumps(model.seen[-1][2])
    assert text.count("data:image/png;base64,") == 4
    assert "[picture 0.png: it was shown before]" in text and "[picture 1.png: it was shown before]" in text


def parts(kind, body):
    """What a provider is sent of the user's message: (pictures, texts)."""
    if kind == "openai-chat":
        content = body["messages"][-1]["content"]
        return [c["image_url"]["url"] for c in content if c["type"] == "image_url"], [c["text"] for c in content if c["type"] == "text"]
    if kind == "openai-responses":
        content = [c for i in body["input"] for c in i["content"]]
        return [c["image_url"] for c in content if c["type"] == "input_image"], [c["text"] for c in content if c["type"] == "input_text"]
    content = body["messages"][-1]["content"]
    return [f"data:{c['source']['media_type']};{c['source']['type']},{c['source']['data']}" for c in content if c["type"] == "image"], \
        [c["text"] for c in content if c["type"] == "text"]


@pytest.mark.parametrize("kind", KINDS)
def test_over_the_wire(home, model, work, kind):  # noqa: F811
    base = f"http://127.0.0.1:{model.server_port}" + ("" if kind == "anthropic" else "/v1")
    (home.dir / "config.toml").write_text(
        f'[model]\nprovider = "here"\nname = "m-1"\n'
        f'[providers.here]\nkind = "{kind}"\nbase_url = "{base}"\napi_key_env = "HERE_CRED"\n')
    (work / "with space.png").write_bytes(png(2))
    model.answers += [KINDS[kind][2]("A picture.")]
    text = f"compare @shot.png with '{work}/with space.png' and @none.png"
    done = home.cli("chat", "-p", text, "--cwd", str(work), env={"HERE_CRED": KEY})
    assert done.returncode == 0 and done.stdout == "A picture.\n", done.stderr
    assert "picture: shot.png" in done.stderr and "picture: with space.png" in done.stderr
    pictures, texts = parts(kind, model.seen[0][2])
    assert [base64.b64decode(p.removeprefix("data:image/png;base64,")) for p in pictures] == [png(), png(2)]
    assert texts == [text]


@pytest.mark.parametrize("form", ["{0}/a\\ b.png", '"{0}/a b.png"', "file://{0}/a%20b.png", "@\"a b.png\"", "look at {0}/a\\ b.png please"])
def test_a_path_that_a_terminal_pastes(home, work, form):
    (work / "a b.png").write_bytes(png(5))
    scenario = work / "s.jsonl"
    scenario.write_text(json.dumps({"text": "ok"}) + "\n")
    done = home.cli("chat", form.format(work), "--cwd", str(work),
                    env={"AFLOAT_PROVIDER": "scripted", "AFLOAT_SCENARIO": str(scenario)})
    assert done.returncode == 0 and "picture: a b.png" in done.stderr, done.stderr


@pytest.mark.parametrize("text", ["shot.png", "@missing.png", "user@shot.png", "@sub/dir.png", "/no/such.png", "@shot.txt"])
def test_other_words_are_words(home, work, text):
    (work / "sub" / "dir.png").mkdir(parents=True)
    (work / "shot.txt").write_text("x")
    done = home.cli("chat", text, "--cwd", str(work), env={"AFLOAT_PROVIDER": "scripted"})
    assert done.returncode == 0 and "picture:" not in done.stderr, done.stderr
