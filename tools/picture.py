#!/usr/bin/env python3
"""Draw which folder of src/ includes which, into docs/arch.md; --check fails when it is stale."""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "arch.md"
BEGIN, END = "<!-- picture: made by tools/picture.py -->", "<!-- end of picture -->"


def edges():
    dot = subprocess.run([sys.executable, ROOT / "tools" / "layers.py", "--dot"],
                         check=True, capture_output=True, text=True).stdout
    return re.findall(r"(\w+) -> (\w+);", dot)


def reduced(pairs):
    """Without the edges that a longer way already shows: a picture one can read."""
    below = {}
    for a, b in pairs:
        below.setdefault(a, set()).add(b)

    def reach(a, seen):
        for b in below.get(a, ()):
            if b not in seen:
                seen.add(b)
                reach(b, seen)
        return seen

    return [(a, b) for a, b in pairs
            if not any(b in reach(c, set()) for c in below[a] if c != b)]


def main():
    lines = [f"  {a} --> {b}" for a, b in sorted(reduced(edges()))]
    picture = "\n".join([BEGIN, "```mermaid", "flowchart BT", *lines, "```", END])
    old = PAGE.read_text()
    start, end = old.index(BEGIN), old.index(END) + len(END)
    new = old[:start] + picture + old[end:]
    if "--check" in sys.argv:
        return print("docs/arch.md is stale: run tools/picture.py") or 1 if new != old else 0
    PAGE.write_text(new)
    return 0


sys.exit(main())
