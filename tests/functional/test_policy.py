"""`[policy]` of /etc/afloat/config.toml, as an administrator writes it: the program runs in a mount namespace with an /etc of
its own, so that the machine's is never touched."""
import os
import subprocess

import pytest

import conftest
from bots import DONE, repo, rig  # noqa: F401 (fixtures)
from conftest import retry
from test_plugins import answer, call, put

ENTER = """#!/bin/sh
exec unshare --user --map-root-user --mount sh -c 'mount --rbind /etc "$0/real" && mount --rbind "$0/etc" /etc && exec "$@"' \
    "{dir}" "{bin}" "$@"
"""


@pytest.fixture
def policy(home, tmp_path, monkeypatch):
    """A function that writes /etc/afloat/config.toml as the program of this test sees it."""
    (tmp_path / "real").mkdir()
    etc = tmp_path / "etc"
    (etc / "afloat").mkdir(parents=True)
    for name in os.listdir("/etc"):
        if name != "afloat":
            (etc / name).symlink_to(tmp_path / "real" / name)
    enter = tmp_path / "afloat"
    enter.write_text(ENTER.format(dir=tmp_path, bin=conftest.BIN))
    enter.chmod(0o700)
    probe = subprocess.run([enter, "version"], capture_output=True, text=True, env=home.env)
    if probe.returncode != 0:
        pytest.skip(f"this kernel or container allows no mount namespace of one's own: {probe.stderr.strip()}")
    monkeypatch.setattr(conftest, "BIN", str(enter))

    def write(text):
        new = etc / "afloat/.new"
        new.write_text(text)
        os.replace(new, etc / "afloat/config.toml")
    return write


def origin(home, key):
    rows = home.json("config", "show")["values"]
    return next((r["value"], r["origin"]) for r in rows if r["key"] == key)


def test_a_feature_stays_off_whatever_was_or_is_chosen(home, policy, start_hub):
    put(home, "plugins/p.lua", answer(1))
    hub = start_hub()
    home.ok("feature", "enable", "plugins")
    assert call(home, "GET", "/api/plugins/p/")[0] == 200
    policy("[policy.features]\nplugins = false\n")
    retry(lambda: call(home, "GET", "/api/plugins/p/")[0] != 200)
    done = home.cli("feature", "enable", "plugins")
    assert done.returncode == 4 and "/etc/afloat/config.toml" in done.stderr, done
    assert origin(home, "features.plugins") == (False, "policy")
    hub.close()
    start_hub()  # what was chosen before is still in choices.json
    row = next(f for f in call(home, "GET", "/feature")[1]["features"] if f["name"] == "plugins")
    assert row["enabled"] is False, row
    policy("")
    retry(lambda: call(home, "GET", "/api/plugins/p/")[0] == 200)


def test_a_session_has_the_plugins_the_policy_says(home, policy, start_hub):
    for name in "ab":
        put(home, f"plugins/{name}.lua", f"on_final(function(ctx, text) return text .. ' via {name}' end)")
    start_hub()
    free = home.ok("chat", "--plugins", "b", "thanks")
    assert "via b" in free and "via a" not in free
    policy('[policy.session]\nplugins = ["a"]\n')
    for asked in ({}, {"plugins": ["b"]}, {"plugins": []}):
        s = call(home, "POST", "/session", asked)[1]
        got = call(home, "GET", f"/session/{s['id']}/pipeline")[1]["plugins"]
        assert "a" in got and "b" not in got, (asked, got)
    said = home.ok("chat", "--plugins", "b", "thanks")
    assert "via a" in said and "via b" not in said, said


def test_no_flag_request_or_bot_widens_what_the_policy_allows(home, policy, rig):
    policy('[policy.sandbox]\nmode = "read-only"\nnetwork = false\n[policy.session]\npermission = "ask"\n')
    home.ok("reload")
    wide = {"sandbox": "danger-full-access", "network": True, "permission": "auto"}
    status, s = call(home, "POST", "/session", wide)
    assert status == 403 or (s["sandbox"], s["network"], s["permission"]) == ("read-only", False, "ask"), (status, s)
    status, s = call(home, "POST", "/session", {})
    assert (status, s["sandbox"], s["network"], s["permission"]) == (201, "read-only", False, "ask"), s
    status, said = call(home, "PATCH", f"/session/{s['id']}", {"permission": "auto"})
    assert call(home, "GET", f"/session/{s['id']}")[1]["permission"] == "ask", said
    call(home, "PATCH", f"/session/{s['id']}", {"title": "t", **wide})
    row = call(home, "GET", f"/session/{s['id']}")[1]
    told = [e for e in call(home, "GET", f"/session/{s['id']}/events")[1]["events"] if e["type"] == "session.updated"][-1]
    for key in ("title", *wide):
        assert told[key] == row[key], (key, told, row)
    assert call(home, "POST", "/session", {"permission": "deny"})[1]["permission"] == "deny", "narrower is allowed"
    rig.bot("wide", 'sleep_secs = 0\nsandbox = "danger-full-access"\nnetwork = true\npermission = "auto"\n')
    run = rig.run(DONE, bot="wide")
    s = run.metadata()
    assert (s["sandbox"], s["network"], s["permission"]) == ("read-only", False, "ask"), s


def test_a_listener_that_the_policy_forbids_is_not_opened(home, policy, start_hub):
    policy('[policy]\nlisten = ""\n')
    start_hub()
    done = home.cli("open", env={"BROWSER": "true"})
    assert done.returncode == 4 and "/etc/afloat/config.toml" in done.stderr, (done.returncode, done.stderr)
    assert home.http("GET", "/healthz").json()["listen"] == ""
    (home.dir / "config.toml").write_text('listen = "127.0.0.1:0"\n')
    home.cli("reload")
    assert home.http("GET", "/healthz").json()["listen"] == "" and origin(home, "listen") == ("", "policy")


def test_a_broken_policy_stops_the_start_and_leaves_a_running_hub_as_it_is(home, policy, start_hub):
    policy("[policy\n")
    done = home.cli("start")
    assert done.returncode == 5 and "/etc/afloat/config.toml" in done.stderr, (done.returncode, done.stderr)
    assert "/etc/afloat/config.toml" in home.cli("doctor").stdout
    policy('[policy.session]\npermission = "deny"\n')
    start_hub()
    policy("[policy\n")
    said = retry(lambda: [d for d in call(home, "GET", "/reload")[1]["diagnostics"] if d["path"].startswith("/etc/")])
    assert said[0]["line"] == 1 and home.cli("reload").returncode == 6
    status, s = call(home, "POST", "/session", {})
    assert status == 409 or s["permission"] == "deny", s
