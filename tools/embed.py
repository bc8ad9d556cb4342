#!/usr/bin/python3
"""Put a tree of text files into a C table: embed.py OUTPUT DIRECTORY SYMBOL HEADER, or --list DIRECTORY.

A row is {path below the directory, text, length} of base/shipped.h; HEADER declares the table SYMBOL.
"""
import pathlib
import sys


def tree(directory):
    return sorted(p for p in pathlib.Path(directory).rglob("*") if p.is_file() and not p.name.startswith("."))


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
    out, directory, symbol, header = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3], sys.argv[4]
    rows = []
    for path in tree(directory):
        data = path.read_bytes()
        rows.append(f'    {{"{path.relative_to(directory)}",\n{literal(data)},\n     {len(data)}}},\n')
    pathlib.Path(out).write_text(
        f'// Made by tools/embed.py; do not edit.\n#include "{header}"\n\n'
        '#pragma GCC diagnostic ignored "-Woverlength-strings"\n\n'
        f"const struct shipped {symbol}[] = {{\n" + "".join(rows) + "    {NULL, NULL, 0},\n};\n")


main()
