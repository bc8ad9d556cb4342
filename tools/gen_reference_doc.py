#!/usr/bin/env python3
"""Keep docs/reference/ true to the tables of the source; --check changes nothing and fails where a page is stale.

hooks.md   the table of points comes from src/hook/points.def, and so do the points of the typed SDK for TypeScript and
           of the Python package; the fields that the page explains must be those of the
           records in src/bind/
errors.md  a section for every code; the line under its heading comes from the tables
tui.md     the fields of the nodes and the functions that it explains must be those of src/tui/ and runtime/lua/ui/init.lua
llms.txt   the pages that docs/README.md lists, each with its first sentence; a page that is not listed is only noted
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
TEXT = r'"((?:[^"\\]|\\.)*)"'
stale = []


def source(path):
    return re.sub(r"^//.*$", "", (ROOT / "src" / path).read_text(), flags=re.M)


def write(path, text):
    file = ROOT / path
    if file.exists() and file.read_text() == text:
        return
    if "--check" in sys.argv:
        stale.append(f"{path} is stale: run tools/gen_reference_doc.py")
    else:
        file.write_text(text)


def compare(what, documented, real):
    for name in sorted(real - documented):
        stale.append(f"{what}: '{name}' is not documented")
    for name in sorted(documented - real):
        stale.append(f"{what}: '{name}' is documented and does not exist")


# ---- hook points ---------------------------------------------------------------------------------


TYPES = {"NONE": "void", "TEXT": "string", "SUMMARY": "string", "REQUEST": "ModelRequest", "RESPONSE": "ModelResponse",
         "DELTA": "{ text?: string; reasoning?: string }", "CALL": "ToolCall", "RESULT": "ToolResult",
         "ERROR": "{ code: string; message: string; where: string }"}
VOTE = '"allow" | "ask" | "deny" | ["deny", string]'


def replace_part(path, mark, text):
    """Replace what stands between the line that begins with `mark` and the one that begins with it and ": end"."""
    before, middle, after = re.split(rf"^({mark}.*\n)(?:.*\n)*?(?={mark}: end\n)", (ROOT / path).read_text(), flags=re.M)
    write(path, before + middle + text + after)


def hooks():
    page = (ROOT / "docs/reference/hooks.md").read_text()
    rows = ["| point | kind | arguments | is about |", "|---|---|---|---|"]
    points = re.findall(rf'^POINT\(\w+,\s*{TEXT},\s*(\w+),\s*(\w+),\s*\w+,\s*(\w+),\s*(\w+),\s*(\w+),\s*{TEXT}\)',
                        source("hook/points.def"), re.M)
    for name, kind, waits, first, second, _, text in points:
        arguments = ", ".join(["ctx"] + [v.lower() for v in (first, second) if v != "NONE"])
        note = "" if waits == "true" else "; its handlers cannot wait"
        rows.append(f"| `{name}` | {kind.lower()} | `{arguments}` | {text}{note} |")
    before, rest = page.split("<!-- points -->\n")
    write("docs/reference/hooks.md",
          before + "<!-- points -->\n" + "\n".join(rows) + "\n<!-- end -->\n" + rest.split("<!-- end -->\n")[1])
    typed = []
    for name, kind, _, first, second, answer, _ in points:
        arguments = ", ".join(f"{v.lower()}: {TYPES[v]}" for v in (first, second) if v != "NONE")
        returned = {"REQUEST": "ModelRequest | { response: ModelResponse }"}.get(answer, TYPES[answer])
        typed.append(f"  const {name}: Hook<[{arguments}], {VOTE if kind == 'VETO' else returned}>;\n")
    replace_part("runtime/templates/plugin-node-dir/plugins/NAME/afloat.d.ts", "  // hook points", "".join(typed))
    replace_part("runtime/python/plugins/loader.py", "# hook points",
                 "POINTS = (" + ",\n          ".join(f'"{name}"' for name, *_ in points) + ")\n")
    tables = source("bind/agent_args.c") + source("bind/offer_route.c")
    for record in re.findall(r"record_field (\w+)_fields\[", tables):
        body = re.search(rf"record_field {record}_fields\[\w*\] = \{{(.*?)\}};", tables, re.S)[1]
        real = set(re.findall(rf"\.name = {TEXT}", body))
        section = re.search(rf"^## Fields of `{record}`.*?(?=^## |\Z)", page, re.S | re.M)
        documented = set(re.findall(r"^\| `(\w+)` \|", section[0], re.M)) if section else set()
        compare(f"docs/reference/hooks.md, fields of {record}", documented, real)


# ---- errors --------------------------------------------------------------------------------------


def turn_codes():
    """Codes that end a turn; those of other tables are explained there."""
    agent = "".join(p.read_text() for p in sorted((ROOT / "src/agent").glob("*.[ch]")))
    faults = re.findall(rf"^    X\(\w+, {TEXT}, (?:true|false)\)", source("agent/provider.h"), re.M)
    raised = re.findall(rf"(?:turn__fail|turn__stop_engine|set_stopped|set_error)\(t, {TEXT}|note__put_error\(&?w, {TEXT}|"
                        rf"\"([A-Z]+_[A-Z_]+): |\"code\", {TEXT}", agent)
    return dict.fromkeys([*faults, *(next(filter(None, found)) for found in raised)])


def errors():
    lines = {}
    for code, status, leave, title in re.findall(rf"^PROBLEM\((\w+),\s*(\d+),\s*(\d+),\s*{TEXT}\)",
                                                 source("proto/problems.def"), re.M):
        lines[code] = f"*HTTP {status}, exit code {leave}: {title[0].lower() + title[1:]}.*"
    for code, severity in re.findall(r"^CODE\((\w+),\s*(\w+)\)", source("gen/codes.def"), re.M):
        lines.setdefault(code, f"*Diagnostic, {severity.lower()}.*")
    for code in turn_codes():
        lines.setdefault(code, "*Ends a turn or a tool call.*")
    page = (ROOT / "docs/reference/errors.md").read_text()
    compare("docs/reference/errors.md", set(re.findall(r"^### (\w+)$", page, re.M)), set(lines))

    def head(found):
        return f"### {found[1]}\n{lines.get(found[1], '')}\n\n"
    new = re.sub(r"^### (\w+)\n(?:\*.*\*\n)?\n*", head, page, flags=re.M)
    for code, text in re.findall(r"^### (\w+)\n.*\n\n(.*)$", new, re.M):
        if len(text) < 10 or text.startswith("#"):
            stale.append(f"docs/reference/errors.md: '{code}' is not explained")
    write("docs/reference/errors.md", new)


# ---- the full-screen interface -------------------------------------------------------------------


def section_of(page, title):
    return re.search(rf"^### {title}\n.*?(?=^##|\Z)", page, re.S | re.M)[0]


def tui():
    page = (ROOT / "docs/guide/tui.md").read_text()
    nodes = section_of(page, "Nodes")
    common = set(re.findall(r"(\w+):", re.search(rf"common_fields\[\] = {TEXT}", source("tui/node.c"))[1]))
    compare("docs/guide/tui.md, every node", common & set(re.findall(r"`(\w+)`", nodes.split("\n| ")[0])), common)
    documented = {}
    for types, fields in re.findall(r"^\| (`.*?) \| (.*) \|$", nodes, re.M):
        documented.update(dict.fromkeys(re.findall(r"`(\w+)`", types), set(re.findall(r"`(\w+)`", fields)) - common))
    real = {name: set(re.findall(r"(\w+):", fields))
            for name, fields in re.findall(rf"\.name = {TEXT}, \.fields = {TEXT}", source("tui/widgets.c"))}
    compare("docs/guide/tui.md, types of nodes", set(documented), set(real))
    for name in sorted(set(documented) & set(real)):
        compare(f"docs/guide/tui.md, fields of {name}", documented[name], real[name])
    frame = (ROOT / "runtime/lua/ui/init.lua").read_text()
    there = set(re.findall(rf"\{{{TEXT}, lua_\w+\}}", source("tui/call.c"))) | {"g"}
    there |= set(re.findall(r"^function afloat\.(\w+)\(", frame, re.M))
    for noun, body in re.findall(r"^afloat\.(\w+) = \{\n(.*?)^\}", frame, re.S | re.M):
        there |= {f"{noun}.{verb}" for verb in re.findall(r"^  (\w+) = function", body, re.M)}
    named = set()
    for cell in re.findall(r"^\| (`afloat.*?) \| ", section_of(page, "Functions"), re.M):
        noun = None
        for full, verb in re.findall(r"`afloat\.([\w.]+)|`\.(\w+)", cell):
            noun = full.split(".")[0] if full else noun
            named.add(full or f"{noun}.{verb}")
    compare("docs/guide/tui.md, functions", named, there)


# ---- llms.txt ------------------------------------------------------------------------------------


def first_sentence(path):
    """What a page is about: the first sentence after its heading."""
    text = re.sub(r"^(#.*|!\[.*|```.*|\|.*)$", "", path.read_text(), flags=re.M)
    paragraph = " ".join(next(p for p in re.split(r"\n\s*\n", text) if p.strip()).split())
    sentence = re.match(r".*?[.:](?= |$)", paragraph)
    plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", sentence[0] if sentence else paragraph)
    return plain[:-1] + "." if plain.endswith(":") else plain


def llms():
    index = (ROOT / "docs/README.md").read_text()
    out = ["# Afloat", "", "> " + first_sentence(ROOT / "README.md") + " " + "Plugins, hooks, tools, prompts and shell environments "
           "change while it runs.", "", "Made from docs/README.md by tools/gen_reference_doc.py.", ""]
    listed = set()
    for line in index.splitlines():
        if line.startswith("## "):
            out += ["", line, ""] if out[-1] else [line, ""]
        found = re.match(r"- \[([^]]*)\]\(([^)#]+)\)", line)
        if found:
            path = (ROOT / "docs" / found[2]).resolve()
            where = path.relative_to(ROOT)
            if path in listed:
                stale.append(f"docs/README.md lists {where} twice")
            listed.add(path)
            out.append(f"- [{found[1]}]({where}): {first_sentence(path)}")
    pages = [p for folder in ("guide", "reference", "explain") for p in (ROOT / "docs" / folder).glob("*.md")]
    for path in sorted(set(pages) - listed):
        print(f"note: docs/README.md does not list {path.relative_to(ROOT)}")
    if "--check" not in sys.argv:
        write("llms.txt", "\n".join(out) + "\n")
    links = re.findall(r"^- \[[^]]*\]\(([^)]+)\)", (ROOT / "llms.txt").read_text(), re.M)
    stale.extend(f"llms.txt: there is no '{link}'" for link in links if not (ROOT / link).exists())


hooks()
errors()
tui()
llms()
print("\n".join(stale), end="\n" if stale else "")
sys.exit(1 if stale else 0)
