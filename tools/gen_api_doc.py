#!/usr/bin/env python3
"""Write docs/api.md from src/proto/ops.def, events.def and problems.def; --check: is it stale?"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "api.md"
TEXT = r'"((?:[^"\\]|\\.)*)"'


def rows(file, pattern):
    text = (ROOT / "src" / "proto" / file).read_text()
    return re.findall(pattern, re.sub(r"^//.*$", "", text, flags=re.M), re.M)


def describe(params):
    return ", ".join(p.split(":")[0] + ("?" if p.endswith("?") else "") for p in params.split())


def main():
    ops = rows("ops.def", rf"^OP\(\w+,\s*{TEXT},\s*(\w+),\s*{TEXT},\s*([^\"]*?),\s*{TEXT},\s*{TEXT}\)")
    events = rows("events.def", rf"^EVENT\(\w+,\s*{TEXT},\s*{TEXT}\)")
    problems = rows("problems.def", rf"^PROBLEM\((\w+),\s*(\d+),\s*(\d+),\s*{TEXT}\)")
    out = ["# The HTTP interface", "",
           "Made by `tools/gen_api_doc.py` from the tables in `src/proto/`. `GET /openapi.json` of a running hub says",
           "the same to machines.", "",
           "## Operations", "", "| route | takes | does |", "|---|---|---|"]
    for name, method, path, flags, params, text in ops:
        notes = []
        if "OP_OPEN" in flags:
            notes.append("no authentication")
        if "OP_SOCKET" in flags:
            notes.append("only over the Unix socket")
        note = f" ({', '.join(notes)})" if notes else ""
        out.append(f"| `{method} {path}` | {describe(params)} | {text}{note} |")
    out += ["", "## Events", "", "| type | tells |", "|---|---|"]
    out += [f"| `{kind}` | {text} |" for kind, text in events]
    out += ["", "`user.*` events are your own; `stream.gap {from, to}` says that events are no longer there to replay.",
            "", "## Errors", "",
            "`application/problem+json` with `type`, `title`, `status`, `code`, `detail` and, where there is a remedy, `hint`.",
            "", "| code | status | exit code of a command | title |", "|---|---|---|---|"]
    out += [f"| `{code}` | {status} | {exit_code} | {title} |" for code, status, exit_code, title in problems]
    new = "\n".join(out) + "\n"
    if "--check" in sys.argv:
        fresh = PAGE.exists() and PAGE.read_text() == new
        return 0 if fresh else print("docs/api.md is stale: run tools/gen_api_doc.py") or 1
    PAGE.write_text(new)
    return 0


sys.exit(main())
