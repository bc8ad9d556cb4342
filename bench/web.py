"""The web page: bytes before its first use, first paint, frames of a long conversation, a key while text streams.

Measured in Chromium (tests/browser/bench.mjs), without a GPU. Where it is missing nothing is measured.
"""
import json
import os
import pathlib
import shutil
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent


def measure(afloat, row, rounds):
    manifest = json.loads((ROOT / "build/web/dist/manifest.json").read_text())
    first = manifest.get("first_bytes", 0) / 1024
    row("web page, compressed, before lazy parts", f"{first:.0f} KB", "<= 250 KB", first <= 250 if first else None)
    if not shutil.which("node") or not os.path.exists("/usr/bin/chromium"):
        row("web page, first paint", "not measured: no node or chromium", "<= 300 ms", None)
        return
    env = {**os.environ, "AFLOAT_BIN": str(afloat)}
    done = subprocess.run(["node", "tests/browser/bench.mjs", str(rounds)], cwd=ROOT, env=env, text=True, capture_output=True, timeout=300)
    if done.returncode != 0:
        row("web page, first paint", "failed: " + done.stderr.strip().splitlines()[0][:40], "<= 300 ms", False)
        return
    got = json.loads(done.stdout.splitlines()[-1])
    row("web page, first paint on loopback, nothing cached", f"{got['paint']:.0f} ms", "<= 300 ms", got["paint"] <= 300)
    row("web page, 10,000 messages scrolled, frame p95", f"{got['frame95']:.1f} ms", "<= 17 ms (60 fps)", got["frame95"] <= 17.5)
    row("web page, key to frame while an answer streams, p50", f"{got['key']:.1f} ms", "<= 17 ms", got["key"] <= 17.5)
