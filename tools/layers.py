#!/usr/bin/env python3
"""Check include direction in src/ against src/LAYERS.

--dot prints the picture of the includes, --rows the folders that exist with what they may use
(read by src/meson.build, so that the linker enforces the same rule).
"""
import pathlib
import re
import sys

SRC = pathlib.Path(__file__).resolve().parent.parent / "src"
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.M)


def read_rules():
    rules = {}
    for line in (SRC / "LAYERS").read_text().splitlines():
        line = line.split("#")[0].strip()
        if not line:
            continue
        name, _, deps = line.partition(":")
        bad = [d for d in deps.split() if d not in rules]  # only folders above: no cycles
        if bad:
            sys.exit(f"src/LAYERS: {name} names {', '.join(bad)}, not listed above it")
        rules[name.strip()] = deps.split()
    return rules


def fault(rules, folder, include):
    """What is wrong with `folder` including `include`, or None."""
    other = include.split("/")[0]
    if not (SRC / include).exists():
        return f'"{include}" is not a path under src/'
    if folder != other and other not in rules[folder]:
        return f"{folder} may not use {include}"
    if folder != other and include.endswith("_int.h"):
        return f"{include} is private to {other}"
    return None


def walk(rules):
    edges, faults = set(), []
    for file in sorted(SRC.glob("*/**/*.[ch]")):
        folder, name = file.relative_to(SRC).parts[0], file.relative_to(SRC.parent)
        if folder not in rules:
            faults.append(f"{name}: folder {folder} is not in LAYERS")
            continue
        for include in INCLUDE.findall(file.read_text()):
            problem = fault(rules, folder, include)
            if problem:
                faults.append(f"{name}: {problem}")
            elif folder != include.split("/")[0]:
                edges.add((folder, include.split("/")[0]))
    return edges, faults


def main():
    rules = read_rules()
    if "--rows" in sys.argv:
        there = [n for n in rules if (SRC / n / "meson.build").exists()]
        for name in there:
            print(f"{name}: {' '.join(d for d in rules[name] if d in there)}")
        return 0
    edges, faults = walk(rules)
    if "--dot" in sys.argv:
        print("digraph src { rankdir=BT; node [shape=box fontname=Helvetica];")
        for a, b in sorted(edges):
            print(f"  {a} -> {b};")
        print("}")
    for line in faults:
        print(line, file=sys.stderr)
    return 1 if faults else 0


sys.exit(main())
