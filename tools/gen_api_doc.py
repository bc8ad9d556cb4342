#!/usr/bin/env python3
"""Write docs/api.md from src/proto/ops.def, params.def, events.def and problems.def; --check: is it stale?"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "api.md"
TYPES = dict(s="string", i="integer", n="number", b="boolean", a="array", o="object", j="any")
TEXT = r'"((?:[^"\\]|\\.)*)"'


def rows(file, pattern):
    text = (ROOT / "src" / "proto" / file).read_text()
    return re.findall(pattern, re.sub(r"^//.*$", "", text, flags=re.M), re.M)


def describe(params):
    return ", ".join(p.split(":")[0] + ("?" if "?" in p else "") for p in params.split())


def lua_name(name, flags):
    return "" if "OP_LUA" not in flags else "`hub." + re.sub(r"\.end$", ".end_", name) + "`"


def explain(ops, params):
    """One row for each help text: the parameter, and the operations that it is about."""
    help_of, where = {(scope, name): text for scope, name, text in params}, {}
    for name, _, _, _, fields, _ in ops:
        for field in fields.split():
            key, kind = field.split(":")
            text = next(help_of[scope, key] for scope in (name, name.split(".")[0], "") if (scope, key) in help_of)
            note = "; never from a plugin" if kind.endswith("!") else ""
            where.setdefault((key, TYPES[kind[0]], text + note), []).append(name)
    return [f"| `{key}` | {kind} | {text} | {', '.join(names)} |" for (key, kind, text), names in sorted(where.items())]


def main():
    ops = rows("ops.def", rf"^OP\(\w+,\s*{TEXT},\s*(\w+),\s*{TEXT},\s*([^\"]*?),\s*{TEXT},\s*{TEXT}\)")
    events = rows("events.def", rf"^EVENT\(\w+,\s*{TEXT},\s*{TEXT}\)")
    problems = rows("problems.def", rf"^PROBLEM\((\w+),\s*(\d+),\s*(\d+),\s*{TEXT}\)")
    out = ["# The HTTP interface", "",
           "Made by `tools/gen_api_doc.py` from the tables in `src/proto/`. `GET /openapi.json` of a running hub says",
           "the same to machines.", "",
           "## Operations", "",
           "The function is what trusted Lua calls, `hub.session.show{id = s}`; operations without one are not for plugins.", "",
           "| route | takes | does | Lua |", "|---|---|---|---|"]
    for name, method, path, flags, params, text in ops:
        notes = []
        if "OP_OPEN" in flags:
            notes.append("no authentication")
        if "OP_SOCKET" in flags:
            notes.append("only over the Unix socket")
        if "OP_DESTROYS" in flags:
            notes.append("something may be lost")
        note = f" ({', '.join(notes)})" if notes else ""
        out.append(f"| `{method} {path}` | {describe(params)} | {text}{note} | {lua_name(name, flags)} |")
    out += ["", "## Parameters", "", "| name | type | means | of |", "|---|---|---|---|"]
    out += explain(ops, rows("params.def", rf"^PARAM\({TEXT},\s*{TEXT},\s*{TEXT}\)"))
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
