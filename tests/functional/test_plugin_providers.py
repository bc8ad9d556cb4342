"""Model providers that plugins offer, in every language: provider{name, models, stream}."""
import json
import os
import shutil
import signal

import pytest

from conftest import retry

# each says: reasoning, the words of the last message one by one, usage; "boom" throws, "use" calls a tool
LUA = """
provider { name = "echo", models = { "loud", "quiet" }, description = "says it again",
  stream = function(ctx, request, emit)
    local last = request.messages[#request.messages]
    if last.role == "tool" then return "found " .. last.content[1].output end
    local text = type(last.content) == "string" and last.content or last.content[1].text
    emit { reasoning = "hm" }
    for word in text:gmatch("%S+") do
      emit((request.model == "loud" and word:upper() or word) .. " ")
      timer.sleep(0.001)
    end
    if text:find("boom") then error("no way") end
    if text:find("use") then emit { tool_call = { name = "list_files", input = {} } } end
    emit { usage = { input = 5, cached = 1, output = 2 } }
  end }
"""
PYTHON = '''
@provider(name="echo", models=["loud", "quiet"])
def stream(ctx, request):
    """Says it again."""
    last = request["messages"][-1]
    if last["role"] == "tool":
        return "found " + last["content"][0]["output"]
    text = last["content"] if isinstance(last["content"], str) else last["content"][0]["text"]
    yield {"reasoning": "hm"}
    for word in text.split():
        yield (word.upper() if request["model"] == "loud" else word) + " "
    if "boom" in text:
        raise ValueError("no way")
    if "use" in text:
        yield {"tool_call": {"name": "list_files", "input": {}}}
    yield {"usage": {"input": 5, "cached": 1, "output": 2}}
'''
NODE = """
provider({ name: "echo", models: ["loud", "quiet"], async stream(ctx, request, emit) {
  const last = request.messages.at(-1);
  if (last.role === "tool") return "found " + last.content[0].output;
  const text = typeof last.content === "string" ? last.content : last.content[0].text;
  emit({ reasoning: "hm" });
  for (const word of text.split(" ")) {
    emit((request.model === "loud" ? word.toUpperCase() : word) + " ");
    await timer.sleep(0.001);
  }
  if (text.includes("boom")) throw new Error("no way");
  if (text.includes("use")) emit({ tool_call: { name: "list_files", input: {} } });
  emit({ usage: { input: 5, cached: 1, output: 2 } });
} });
"""
C = r"""
#include <afloat/plugin.h>
#include <ctype.h>
#include <stdio.h>
#include <string.h>

static void stream(struct afloat_call *c)
{
    char path[64], word[256];
    int n = 0;
    do {
        snprintf(path, sizeof path, "request.messages.%d.role", n++);
    } while (afloat_text(c, path) != NULL);
    snprintf(path, sizeof path, "request.messages.%d.role", n - 2);
    if (strcmp(afloat_text(c, path), "tool") == 0) {
        snprintf(path, sizeof path, "request.messages.%d.content.0.output", n - 2);
        afloat_answer_text(c, "found %s", afloat_text(c, path));
        return;
    }
    snprintf(path, sizeof path, "request.messages.%d.content", n - 2);
    const char *text = afloat_text(c, path);
    afloat_emit(c, "{\"reasoning\": \"hm\"}");
    for (const char *at = text; *at != '\0';) {
        size_t length = strcspn(at, " ");
        snprintf(word, sizeof word, "%.*s ", (int)length, at);
        for (char *p = word; strcmp(afloat_text(c, "request.model"), "loud") == 0 && *p != '\0'; p++) {
            *p = (char)toupper((unsigned char)*p);
        }
        afloat_emit_text(c, word);
        at += length + (at[length] == ' ');
    }
    if (strstr(text, "boom") != NULL) {
        afloat_fail(c, "no way");
        return;
    }
    if (strstr(text, "use") != NULL) {
        afloat_emit(c, "{\"tool_call\": {\"name\": \"list_files\", \"input\": {}}}");
    }
    afloat_emit(c, "{\"usage\": {\"input\": 5, \"cached\": 1, \"output\": 2}}");
}

AFLOAT_PLUGIN(.name = "talker", .providers = (const struct afloat_provider[]){
    {.name = "echo", .models = (const char *const[]){"loud", "quiet", NULL}, .run = stream}, {0}})
"""
FILES = {"lua": ("talker.lua", LUA), "python": ("talker.py", PYTHON), "node": ("talker.mjs", NODE), "c": ("talker.c", C)}


@pytest.fixture
def work(tmp_path):
    (tmp_path / "a-file-to-see").write_text("")
    return tmp_path


@pytest.fixture(params=FILES)
def lang(request):
    needs = {"node": "node", "c": "cc"}.get(request.param)
    if needs and shutil.which(needs) is None:
        pytest.skip(f"{needs} is not installed")
    return request.param


def save(home, name, text):
    (home.dir / "plugins").mkdir(exist_ok=True)
    (home.dir / "plugins" / name).write_text(text)
    report = home.json("reload")
    assert report["ok"], report
    return report


def say(home, work, text, model="echo/quiet", **more):
    """One turn: {state, text, usage, error...}."""
    made = json.loads(home.ok("api", "POST", "/session", json.dumps({"model": model, "working_dir": str(work), **more})))
    done = json.loads(home.ok("api", "POST", f"/session/{made['id']}/message", json.dumps({"text": text, "wait": True})))
    return made["id"], done


def events(home, session, kind):
    rows = home.http("GET", f"/session/{session}/events?limit=1000").json()["events"]
    return [e for e in rows if e["type"] == kind]


def test_a_turn_is_answered_in_every_language(home, hub, work, lang):
    save(home, *FILES[lang])
    rows = {row["name"]: row for row in home.json("models")["providers"]}
    assert rows["echo"]["kind"] == "plugin" and rows["echo"]["plugin"] == "talker" and rows["echo"]["models"] == ["loud", "quiet"]
    assert home.ok("models", "echo").split() == ["loud", "quiet"]
    session, done = say(home, work, "hello there", "echo/loud")
    assert done["state"] == "completed" and done["text"].strip() == "HELLO THERE", done
    assert (done["usage"]["input"], done["usage"]["cached"], done["usage"]["output"]) == (5, 1, 2)
    told = events(home, session, "message.delta")
    assert "".join(e.get("reasoning", "") for e in told) == "hm"
    assert "".join(e.get("text", "") for e in told).strip() == "HELLO THERE"


def test_tools_of_the_session_are_called_and_their_results_come_back(home, hub, work, lang):
    save(home, *FILES[lang])
    session, done = say(home, work, "use a tool")
    assert done["state"] == "completed" and done["text"].startswith("found ") and "a-file-to-see" in done["text"], done
    assert [e["tool"] for e in events(home, session, "tool.called")] == ["list_files"]


def test_a_throw_is_a_fault_with_plugin_and_place(home, hub, work, lang):
    file, text = FILES[lang]
    save(home, file, text)
    _, done = say(home, work, "boom")
    assert done["state"] == "failed" and done["error"]["code"] == "PLUGIN_FAILED", done
    assert "plugin 'talker'" in done["error"]["message"] and "no way" in done["error"]["message"]
    line = next((i for i, x in enumerate(text.splitlines(), 1) if "no way" in x), 0)
    assert lang == "c" or f"({file}:{line})" in done["error"]["message"], done  # C has no place of its own


def test_validate_lists_providers_and_tests_can_ask_them(home, hub, lang):
    file, text = FILES[lang]
    save(home, file, text)
    seen = home.json("plugin", "validate", "talker")["contributions"]["providers"]
    assert "echo" in json.dumps(seen)
    outputs = home.json("plugin", "show", "talker")["outputs"]
    assert {"kind": "provider", "name": "echo", "swaps": True} in outputs
    assert home.json("plugin", "list")["plugins"][0]["providers"] == ["echo"]


BAD = [('emit { tekst = "x" }', "no member 'tekst'"), ("emit(42)", "a text or an object"), ('emit { stop_reason = "tired" }', "stop_reason"),
       ("emit { tool_call = { input = {} } }", "'name'"), ("emit { text = 5 }", "'text' must be of type"),
       ("return { textt = 'x' }", "no member 'textt'; did you mean 'text'?"), ("local t = {} t.t = t emit(t)", "emit")]


@pytest.mark.parametrize("code, message", BAD)
def test_what_is_no_event_is_refused_where_it_is_said(home, hub, work, code, message):
    save(home, "talker.lua", "provider { name = 'echo', stream = function(ctx, request, emit)\n" + code + "\nend }")
    _, done = say(home, work, "x", "echo/any")
    assert done["state"] == "failed" and message in done["error"]["message"], done
    assert code.startswith("return") or "talker.lua:2" in done["error"]["message"]


def test_a_stream_may_ask_to_be_tried_again(home, hub, work):
    save(home, "talker.lua", """
local tries = 0
provider { name = "echo", stream = function(ctx, request, emit)
  tries = tries + 1
  emit("try " .. tries)
  if tries < 3 then emit { error = { code = "PROVIDER_RATE_LIMITED", message = "slow down", retry_after = 0.01 } } end
end }""")
    session, done = say(home, work, "x", "echo/any")
    assert done["state"] == "completed" and done["text"] == "try 3", done
    aborted = events(home, session, "message.aborted")
    assert [e["error"]["code"] for e in aborted] == ["PROVIDER_RATE_LIMITED"] * 2


def test_an_error_without_a_code_is_final(home, hub, work):
    save(home, "talker.lua", "provider { name = 'echo', stream = function(_, _, emit) emit { error = { message = 'broken' } } end }")
    session, done = say(home, work, "x", "echo/any")
    assert done["error"]["code"] == "PROVIDER_REJECTED" and "broken" in done["error"]["message"]
    assert events(home, session, "message.aborted") == []


@pytest.mark.parametrize("status, fault", [(400, "REJECTED"), (401, "AUTH"), (402, "QUOTA")])
def test_the_status_of_an_error_counts_beside_a_code_of_the_plugins_own(home, hub, work, status, fault):
    save(home, "talker.lua", f"""provider {{ name = 'echo', stream = function(_, _, emit)
      emit {{ error = {{ message = 'bad', code = 'of_our_own', status = {status} }} }} end }}""")
    session, done = say(home, work, "x", "echo/any")
    assert done["error"]["code"] == f"PROVIDER_{fault}" and "bad" in done["error"]["message"], done
    assert events(home, session, "message.aborted") == []


def test_calls_without_an_id_keep_their_outputs_apart(home, hub, work):
    save(home, "talker.lua", """provider { name = 'echo', stream = function(_, request, emit)
      local n = 1
      for _, m in ipairs(request.messages) do if m.role == 'tool' then n = n + 1 end end
      if n == 3 then return 'done' end
      emit { tool_call = { name = 'shell', input = { cmd = 'seq ' .. n .. '00000 ' .. n .. '20000' } } }
    end }""")
    session, done = say(home, work, "x", "echo/any")
    assert done["state"] == "completed" and done["text"] == "done", done
    ids = [e["call_id"] for e in events(home, session, "tool.called")]
    kept = home.dir / "sessions" / session / "outputs"
    assert [(kept / f"{id}.txt").read_text().splitlines()[0] for id in ids] == ["100000", "200000"]


GATED = {"lua": """
provider {{ name = "echo", stream = function(ctx, request, emit)
  emit("{word} ")
  while not fs.exists("{gate}") do timer.sleep(0.01) end
  emit("end")
end }}
""", "python": """
import os, time
@provider(name="echo")
def stream(ctx, request, emit):
    emit("{word} ")
    while not os.path.exists("{gate}"):
        time.sleep(0.01)
    emit("end")
""", "node": """
import fs from "node:fs";
provider({{ name: "echo", async stream(ctx, request, emit) {{
  emit("{word} ");
  while (!fs.existsSync("{gate}")) await timer.sleep(0.01);
  emit("end");
}} }});
""", "c": r"""
#include <afloat/plugin.h>
#include <unistd.h>
static void stream(struct afloat_call *c)
{{
    afloat_emit_text(c, "{word} ");
    while (access("{gate}", F_OK) != 0 && afloat_emit_text(c, "")) {{
        usleep(10000);
    }}
    afloat_emit_text(c, "end");
}}
AFLOAT_PLUGIN(.name = "talker", .providers = (const struct afloat_provider[]){{{{.name = "echo", .run = stream}}, {{0}}}})
"""}


def begin(home, work, model="echo/any"):
    """A turn whose first word was said; its session and the process that waits for its end."""
    made = json.loads(home.ok("api", "POST", "/session", json.dumps({"model": model, "working_dir": str(work)})))
    home.ok("api", "POST", f"/session/{made['id']}/message", json.dumps({"text": "go"}))
    retry(lambda: events(home, made["id"], "message.delta"))
    return made["id"]


def ended(home, session):
    return retry(lambda: [e for kind in ("turn.completed", "turn.failed", "turn.interrupted") for e in events(home, session, kind)])[-1]


@pytest.mark.parametrize("how", ["edit", "remove"])
def test_a_stream_in_flight_finishes_on_its_generation(home, hub, work, tmp_path, lang, how):
    gate = tmp_path / "gate"
    file = FILES[lang][0]
    save(home, file, GATED[lang].format(word="old", gate=gate))
    session = begin(home, work)
    if how == "edit":
        save(home, file, GATED[lang].format(word="new", gate=gate))
    else:
        (home.dir / "plugins" / file).unlink()
        home.json("reload")
        assert "echo" not in [row["name"] for row in home.json("models")["providers"]]
    gate.write_text("")
    last = ended(home, session)
    assert last["type"] == "turn.completed" and last["text"] == "old end", last
    if how == "edit":
        assert say(home, work, "x", "echo/any")[1]["text"] == "new end"
    else:
        done = json.loads(home.ok("api", "POST", f"/session/{session}/message", json.dumps({"text": "x", "wait": True})))
        assert done["state"] == "failed" and "'echo'" in done["error"]["message"], done


def test_an_interrupt_ends_the_stream(home, hub, work, tmp_path, lang):
    save(home, FILES[lang][0], GATED[lang].format(word="old", gate=tmp_path / "never"))
    session = begin(home, work)
    home.ok("api", "POST", f"/session/{session}/interrupt")
    assert ended(home, session)["type"] == "turn.interrupted"
    (tmp_path / "never").write_text("")
    assert say(home, work, "x", "echo/any")[1]["text"] == "old end"  # the host serves on


def test_a_stream_that_emits_while_it_is_interrupted_is_not_heard(home, hub, work):
    save(home, "talker.lua", """
provider { name = "echo", stream = function(ctx, request, emit)
  local on_end <close> = setmetatable({}, { __close = function() emit("too late") log.info("closed") end })
  emit("old ")
  timer.sleep(3600)
end }
""")
    session = begin(home, work)
    home.ok("api", "POST", f"/session/{session}/interrupt")
    assert ended(home, session)["type"] == "turn.interrupted"
    assert "closed" in retry(lambda: home.ok("plugin", "logs", "talker"))
    assert not [e for e in events(home, session, "message.delta") if "too late" in e["text"]]
    begin(home, work)  # the hub serves on


def test_a_silent_stream_is_given_up(home, start_hub, work, tmp_path):
    (home.dir / "config.toml").write_text("[retry]\nidle_ms = 100\ntries = 1\n")
    start_hub()
    save(home, "talker.lua", GATED["lua"].format(word="old", gate=tmp_path / "never"))
    session = begin(home, work)
    last = ended(home, session)
    assert last["type"] == "turn.failed" and last["error"]["code"] == "PROVIDER_IDLE", last


def test_a_host_that_dies_in_the_middle_fails_the_turn_and_comes_back(home, hub, work, tmp_path):
    gate = tmp_path / "gate"
    save(home, "talker.py", GATED["python"].format(word="old", gate=gate).replace(
        'emit("{word} ")', "").replace("import os, time", f"import os, time\nopen('{tmp_path}/pid', 'w').write(str(os.getpid()))"))
    session = begin(home, work)
    os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)
    last = ended(home, session)
    assert last["type"] == "turn.failed" and last["error"]["code"] == "PLUGIN_FAILED", last
    gate.write_text("")
    retry(lambda: home.cli("models", "echo").returncode == 0)
    assert retry(lambda: (done := say(home, work, "x", "echo/any")[1])["state"] == "completed" and done)["text"] == "old end"


def test_a_flood_of_events_is_bounded(home, hub, work):
    save(home, "talker.py", """
@provider(name="echo")
def stream(ctx, request, emit):
    while True:
        emit({"reasoning": "x" * 100000, "tool_call": {"name": "y" * 100000}})
""")
    _, done = say(home, work, "x", "echo/any")
    assert done["state"] == "failed" and done["error"]["code"] in ("PROVIDER_TOO_LARGE", "PLUGIN_FAILED"), done
    assert home.http("GET", "/healthz").json()["ok"]


def test_settings_win_over_a_plugin_of_the_same_name(home, start_hub, work):
    (home.dir / "config.toml").write_text('[providers.echo]\nkind = "scripted"\n')
    start_hub()
    save(home, *FILES["lua"])
    rows = [row for row in home.json("models")["providers"] if row["name"] == "echo"]
    assert [row["kind"] for row in rows] == ["scripted"]


def test_the_first_of_two_plugins_has_the_name(home, hub, work):
    save(home, "a.lua", "provider { name = 'echo', stream = function(_, _, emit) emit('a') end }")
    report = save(home, "b.lua", "provider { name = 'echo', stream = function(_, _, emit) emit('b') end }")
    assert [d["code"] for d in report["diagnostics"]] == ["OUTPUT_CONFLICT"]
    assert say(home, work, "x", "echo/any")[1]["text"] == "a"


def test_a_mistyped_model_is_refused_with_the_nearest(home, hub, work):
    save(home, *FILES["lua"])
    done = home.cli("chat", "-m", "echo/lowd", "hi", cwd=work)
    assert done.returncode != 0 and "'loud'" in done.stderr
    done = home.cli("chat", "-m", "eco/loud", "hi", cwd=work)
    assert done.returncode != 0 and "'echo'" in done.stderr


def test_a_projects_provider_reaches_only_its_sessions(home, hub, work, tmp_path_factory):
    repo = tmp_path_factory.mktemp("repo")
    os.makedirs(repo / ".afloat" / "plugins")
    (repo / ".git").mkdir()
    (repo / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    (repo / ".afloat" / "plugins" / "talker.lua").write_text("provider { name = 'echo', stream = function(_, _, emit) emit('here') end }")
    home.ok("trust", str(repo))
    body = {"model": "echo/any", "working_dir": str(repo)}
    made = home.json("api", "POST", "/session", json.dumps({**body, "model": "scripted"}))
    retry(lambda: [p for p in home.json("plugin", "list", "--all")["plugins"] if p["name"].startswith("talker") and p["serving"]])
    assert say(home, repo, "x", "echo/any")[1]["text"] == "here"
    refused = home.cli("api", "POST", "/session", json.dumps({**body, "working_dir": str(work)}))
    assert refused.returncode != 0, refused.stdout
    assert made["id"]


def test_a_plugins_models_are_served_to_other_programs(home, hub):
    save(home, *FILES["lua"])
    answer = home.http("POST", "/v1/responses", json.dumps({"model": "echo/loud", "input": "hello"}).encode()).json()
    assert answer["output"][-1]["content"][0]["text"] == "HELLO ", answer
    assert "echo/loud" in [m["id"] for m in home.http("GET", "/v1/models").json()["data"]]
