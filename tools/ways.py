#!/usr/bin/env python3
"""Check that docs/internals/ways.md names functions that are defined in the file beside them."""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent


def is_defined(name, file):
    path = ROOT / file if file.startswith("runtime/") else ROOT / "src" / file
    pattern = rf"^{name}\(\)" if file.startswith("runtime/") else rf"^[a-z][^;\n]*\b{name}\([^;]*?\)\n\{{"
    return path.exists() and re.search(pattern, path.read_text(), re.M) is not None


def main():
    page = (ROOT / "docs/internals/ways.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \| `([\w/.]+)` \|", page, re.M)
    missing = [f"{file} does not define {name}()" for name, file in rows if not is_defined(name, file)]
    if len(rows) < 60:
        missing.append(f"only {len(rows)} functions were found in docs/internals/ways.md")
    print("\n".join(missing))
    return 1 if missing else 0


sys.exit(main())
