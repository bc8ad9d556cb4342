"""afloat setup: what is found, chosen and written."""
import http.server
import json
import threading

import pytest
from conftest import retry


class Models(http.server.BaseHTTPRequestHandler):
    """The part of an OpenAI-compatible server that setup asks."""
    names = ["tiny", "big\x1b[2J\"name"]
    status = 200

    def do_GET(self):
        body = json.dumps({"object": "list", "data": [{"id": n} for n in self.names]}).encode()
        self.send_response(self.status if self.path == "/v1/models" else 404)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


@pytest.fixture
def url():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Models)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/v1"
    server.shutdown()


def test_a_local_server_is_found_and_written_into_a_new_config(home, url):
    done = home.cli("setup", "--url", url)
    assert done.returncode == 0, done.stderr
    assert "tiny" in done.stdout and "\x1b" not in done.stdout and "config.toml names it" in done.stdout
    shown = home.json("config", "show")
    text = json.dumps(shown)
    assert "tiny" in text and url in text
    row = [p for p in home.json("models")["providers"] if p["name"] == "local"]
    assert row and row[0]["default"] and "tiny" in home.ok("models", "local").split("\n")


def test_a_model_can_be_named_and_hostile_names_stay_texts(home, url):
    home.ok("setup", "--url", url, "-m", Models.names[1])
    assert home.cli("doctor").returncode == 0  # its config.toml can be read


def test_a_config_that_is_there_is_left_alone(home, url):
    (home.dir / "config.toml").write_text("# mine\n")
    done = home.ok("setup", "--url", url)
    assert "stays as it is" in done and "[providers.local]" in done
    assert (home.dir / "config.toml").read_text() == "# mine\n"


def test_a_config_that_setup_wrote_is_not_offered_the_same_lines_again(home, url):
    home.ok("setup", "--url", url)
    done = home.ok("setup", "--url", url)
    assert "stays as it is" not in done and "config.toml names it" in done


def test_json_says_what_was_found(home, url):
    got = home.json("setup", "--url", url)
    assert got["chosen"] == "local" and got["written"] and got["models"] == 2
    assert got["found"] == [{"name": "local", "kind": "openai-chat", "api_key_env": None, "base_url": url}]


def test_nothing_found_says_what_to_do(home):
    home.env.update(OPENAI_API_KEY="", ANTHROPIC_API_KEY="")
    done = home.cli("setup", "--url", "http://127.0.0.1:1/v1")
    assert done.returncode == 1 and "no models at" in done.stderr
    assert home.cli("setup", "--url", "ftp://x").returncode == 2


def test_a_server_that_cannot_be_used_is_named_with_the_cause(home, url):
    def said(url):
        done = home.cli("setup", "--url", url)
        assert done.returncode == 1 and f"no models at {url}: " in done.stderr, done
        return done.stderr
    assert "Connection refused" in said("http://127.0.0.1:1/v1")
    assert "status 404" in said(url.removesuffix("/v1") + "/v9")
    Models.status = 401
    try:
        assert "wants a key" in said(url) and "config.toml" in said(url)
    finally:
        Models.status = 200


@pytest.mark.parametrize("secret", ["http://me:hunter2@127.0.0.1:1/v1", "http://127.0.0.1:1/v1?key=hunter2"])
def test_a_url_with_a_secret_is_refused_and_not_repeated(home, secret):
    done = home.cli("setup", "--url", secret)
    assert done.returncode == 2 and "without a key" in done.stderr and "hunter2" not in done.stderr, done


def test_json_says_that_nothing_was_found(home, tmp_path):
    home.env.update(OPENAI_API_KEY="", ANTHROPIC_API_KEY="", PATH=str(tmp_path))
    plain, done = home.cli("setup"), home.cli("setup", "--json")
    if "no model was found" in plain.stderr:  # else somebody's server runs on this machine
        assert max(map(len, plain.stderr.splitlines())) <= 80 and "OPENAI_API_KEY" in plain.stderr
        assert json.loads(done.stdout) == {"found": [], "chosen": None, "models": 0, "written": False}
        assert done.returncode == plain.returncode == 1


def test_a_key_is_tried_and_never_printed(home, url):
    base = url.removesuffix("/v1")
    (home.dir / "config.toml").write_text(f'[providers.openai]\nkind = "openai-chat"\nbase_url = "{base}/v1"\n'
                                          'api_key_env = "OPENAI_API_KEY"\n')
    home.env.update(OPENAI_API_KEY="sk-very-secret", ANTHROPIC_API_KEY="")
    done = home.cli("setup", "--provider", "openai")
    assert done.returncode == 0, done.stderr
    assert "OPENAI_API_KEY is set" in done.stdout and "openai answers (2 models)" in done.stdout
    assert "very-secret" not in done.stdout + done.stderr
    assert home.cli("setup", "--provider", "nowhere").returncode == 3


@pytest.fixture
def two(home, url):
    """Both keys are set, and both providers are the server here."""
    home.env.update(OPENAI_API_KEY="sk-1", ANTHROPIC_API_KEY="sk-2")
    (home.dir / "config.toml").write_text("".join(
        f'[providers.{name}]\nkind = "openai-chat"\nbase_url = "{url}"\napi_key_env = "{name.upper()}_API_KEY"\n'
        for name in ("openai", "anthropic")))
    return home


def usual(home):
    return [p["name"] for p in home.json("models")["providers"] if p["default"]]


def test_of_two_keys_setup_takes_the_one_that_the_chat_takes(two):
    done = two.ok("setup")
    assert "openai answers (2 models); no settings are needed" in done and usual(two) == ["openai"]


def test_a_choice_that_the_chat_would_not_take_by_itself_needs_lines(two):
    done, lines = two.ok("setup", "--provider", "anthropic"), '[model]\nprovider = "anthropic"\n'
    assert f"These lines use anthropic:\n\n{lines}\n" in done and "no settings" not in done and "Add these lines" in done
    with open(two.dir / "config.toml", "a") as file:
        file.write(lines)
    retry(lambda: usual(two) == ["anthropic"])
    assert "no settings are needed" in two.ok("setup", "--provider", "anthropic")
    assert 'provider = "openai"' in two.ok("setup")  # the lines in force name another


def test_a_model_that_was_named_needs_lines(two):
    done = two.ok("setup", "-m", "tiny")
    assert '[model]\nprovider = "openai"\nname = "tiny"\n' in done and "no settings" not in done
