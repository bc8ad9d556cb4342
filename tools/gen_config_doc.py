#!/usr/bin/env python3
"""Write the tables of docs/guide/config.md from src/config/keys.def.

The text between `<!-- keys -->` and `<!-- end -->` is replaced; the rest of the page is written by
hand. --check changes nothing and fails when the page is stale.
"""
import ast
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
DEF = ROOT / "src/config/keys.def"
PAGE = ROOT / "docs/guide/config.md"
BEGIN, END = "<!-- keys -->\n", "<!-- end -->\n"
ROW = re.compile(r"^(KEY|PRESET|VARIABLE)\((.*)\)$", re.M)
CELL = re.compile(r'"(?:[^"\\]|\\.)*"|\w+')
LISTS = ("STRINGS", "CHOICE")
PLAIN = ("BOOL", "INT", "NUMBER", "HOT")
TAKES = {"STR": "string", "NAME": "name", "LISTEN": "string", "URL": "address", "HTTPS": "address",
         "BOOL": "true, false", "STRINGS": "list", "CHOICE": '"*" or list',
         "HOT": 'true, false, "manual"', "TABLE": "table"}
PROJECT = {"NEVER": "no", "ALWAYS": "yes", "NARROW": "only narrower", "ADD": "only adding"}


def read_rows():
    """The rows of keys.def by macro; strings decoded, words kept, NULL as None."""
    rows = {"KEY": [], "PRESET": [], "VARIABLE": []}
    for macro, cells in ROW.findall(DEF.read_text()):
        values = [None if c == "NULL" else ast.literal_eval(c) if c[0] == '"' else c
                  for c in CELL.findall(cells)]
        rows[macro].append(values)
    if not all(rows.values()):
        sys.exit(f"gen_config_doc: {DEF} has no rows that can be read")
    return rows


def quoted(values):
    return ", ".join(f'"{v}"' for v in values)


def default(kind, text):
    if text is None:
        return ""
    if kind in LISTS and text != "*":
        return f"`[{quoted(v for v in text.split(',') if v)}]`"
    return f"`{text}`" if kind in PLAIN else f'`"{text}"`'


def takes(kind, span):
    if kind == "ENUM":
        return quoted(span.split("|"))
    return span.replace("..", " to ") if span else TAKES[kind]


def section(key):
    """The table a key is written in, as its header; "" for the top."""
    table = key.rpartition(".")[0]
    if table.endswith("[]"):
        return f"[[{table[:-2]}]]"
    return f"[{table.replace('*', 'NAME')}]" if table else ""


def cell(text):
    for plain, shown in (("<", "&lt;"), ("|", "\\|"), ("*", "\\*")):
        text = text.replace(plain, shown)
    return text


def tables(rows):
    variables = {key: name for name, key, _ in rows["VARIABLE"]}
    lines, last = [], None
    for key, kind, text, span, project, help_text in rows["KEY"]:
        if section(key) != last:
            last = section(key)
            lines += ["", f"### `{last}`" if last else "### At the top of the file", "",
                      "| key | takes | default | in a project | |", "|---|---|---|---|---|"]
        name = key.rpartition(".")[2].replace("*", "NAME")
        if key in variables:
            help_text += f" (variable `{variables[key]}`)"
        lines.append(f"| `{name}` | {cell(takes(kind, span))} | {default(kind, text)} | "
                     f"{PROJECT[project]} | {cell(help_text)} |")
    lines += ["", "### Built-in providers", "", "```toml"]
    for key, value in rows["PRESET"]:
        lines.append(f'{key} = "{value}"')
    return "\n".join(lines[1:] + ["```", ""])


def main():
    page = PAGE.read_text()
    head, begin, rest = page.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not begin or not end:
        sys.exit(f"gen_config_doc: {PAGE} lacks the marks around the tables")
    fresh = head + BEGIN + "\n" + tables(read_rows()) + "\n" + END + tail
    if "--check" in sys.argv:
        if fresh != page:
            sys.exit("docs/guide/config.md is stale: run tools/gen_config_doc.py")
        return
    PAGE.write_text(fresh)


main()
