#!/usr/bin/python3
"""Put a tree of text files into a C table: embed.py OUTPUT DIRECTORY, or --list DIRECTORY.

A row is {path below the directory, text, length}; the table is `shipped_lua` of bind/shipped.h.
"""
import pathlib
import sys


def tree(directory):
    return sorted(p for p in pathlib.Path(directory).rglob("*.lua") if not p.name.startswith("."))


def literal(data):
    """The bytes as C string literals, one a line of the text."""
    lines = data.splitlines(keepends=True) or [b""]
    return "\n".join('     "' + "".join(escape(b) for b in line) + '"' for line in lines)


def escape(byte):
    if byte in b'"\\?':
        return "\\" + chr(byte)
    return chr(byte) if 32 <= byte < 127 else f"\\{byte:03o}"


def main():
    if sys.argv[1] == "--list":
        print("\n".join(str(p) for p in tree(sys.argv[2])))
        return
    out, directory = sys.argv[1], pathlib.Path(sys.argv[2])
    rows = []
    for path in tree(directory):
        data = path.read_bytes()
        rows.append(f'    {{"{path.relative_to(directory)}",\n{literal(data)},\n     {len(data)}}},\n')
    pathlib.Path(out).write_text(
        '// Made by tools/embed.py; do not edit.\n#include "bind/shipped.h"\n\n'
        "const struct shipped shipped_lua[] = {\n" + "".join(rows) + "    {NULL, NULL, 0},\n};\n")


main()
