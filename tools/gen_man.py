#!/usr/bin/python3
"""Write the man pages from the command table: tools/gen_man.py AFLOAT DIRECTORY

The table is what `AFLOAT help --json` prints. afloat.1 is the overview; afloat-NOUN.1 explains a noun
with all its verbs. Inner commands, which only the program itself starts, have no page.
"""
import json
import pathlib
import subprocess
import sys

INNER = "Started by afloat itself"


def text(words):
    """Plain text for troff: no escape, no control line."""
    quoted = words.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq")
    return "\\&" + quoted if quoted[:1] in ".'" else quoted


def flag_lines(flags):
    for flag in flags:
        letter = f"\\-{flag['letter']}, " if flag["letter"] else ""
        value = f" \\fI{text(flag['value'])}\\fR" if flag["value"] else ""
        choices = f" ({', '.join(flag['choices'])})" if flag["choices"] else ""
        yield f".TP\n\\fB{letter}\\-\\-{text(flag['name'])}\\fR{value}\n{text(flag['help'] + choices)}"


def head(name, about, version):
    return [f'.TH {name.upper()} 1 "" "afloat {version}" "Afloat"', ".SH NAME", f"{text(name)} \\- {text(about)}"]


def usage(row):
    words = ["afloat", row["noun"], row["verb"], row["arguments"]]
    return " ".join(w for w in words if w)


def noun_page(rows, version):
    lines = head("afloat-" + rows[0]["noun"], rows[0]["help"].split(";")[0], version) + [".SH SYNOPSIS"]
    lines += [f".B {text(usage(r))}\n.br" for r in rows]
    lines.append(".SH DESCRIPTION")
    for row in rows:
        lines += [f".SS {text(usage(row))}", text(row["help"][0].upper() + row["help"][1:] + ".")]
        lines += flag_lines(row["options"])
        lines += [".PP", "Examples:", ".PP", ".nf", *(f"    {text(e)}" for e in row["examples"]), ".fi"]
    return lines + [".SH SEE ALSO", ".BR afloat (1)"]


def overview(nouns, groups, flags, version):
    lines = head("afloat", "workbench for AI agents that changes while it runs", version)
    lines += [".SH SYNOPSIS", ".B afloat\n.I COMMAND\n[ARGUMENTS] [FLAGS]", ".SH DESCRIPTION",
              "A hub in the background holds conversations with models and runs their tools in a sandbox.",
              "Plugins, tools, prompts and shell environments are replaced while it runs, as they are saved."]
    group = None
    for rows in sorted(nouns.values(), key=lambda r: groups.index(r[0]["group"])):
        if rows[0]["group"] != group:
            group = rows[0]["group"]
            lines.append(f".SS {text(group)}")
        verbs = ", ".join(r["verb"] for r in rows[1:])
        about = rows[0]["help"] + (f"; also {verbs}" if verbs else "")
        lines.append(f".TP\n.BR afloat\\-{text(rows[0]['noun'])} (1)\n{text(about)}")
    lines += [".SH OPTIONS", *flag_lines([f for f in flags if f["global"]])]
    codes = ["0 ok", "1 failure", "2 usage", "3 not found", "4 not allowed", "5 hub unreachable",
             "6 a reload had failures", "7 conflict", "124 time\\-out", "130 interrupted"]
    return lines + [".SH EXIT STATUS", ",\n".join(codes) + ".", ".SH FILES", ".TP\n.I ~/.afloat\nall data of the user "
                    "(AFLOAT_HOME names another place); config.toml in it is the configuration"]


def main():
    program, out = sys.argv[1], pathlib.Path(sys.argv[2])
    run = lambda *words: json.loads(subprocess.run([program, *words, "--json"], check=True, capture_output=True).stdout)
    table, version = run("help"), run("version")["version"]
    nouns = {}
    for row in table["commands"]:
        if row["group"] != INNER:
            nouns.setdefault(row["noun"], []).append(row)
    pages = {f"afloat-{noun}.1": noun_page(rows, version) for noun, rows in nouns.items()}
    pages["afloat.1"] = overview(nouns, table["groups"], table["flags"], version)
    out.mkdir(parents=True, exist_ok=True)
    for name, lines in pages.items():
        (out / name).write_text("\n".join(lines) + "\n")


main()
