#!/usr/bin/python3
"""Put the built page into C: embed_web.py OUTPUT DIST_DIRECTORY

The bytes are taken in by the assembler (.incbin), so megabytes cost no compile time; the table beside
them is that of server/server.h. An empty manifest gives an empty table: the hub then serves a plain page.
"""
import hashlib
import json
import pathlib
import sys


def quote(text):
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def main():
    out, dist = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]).resolve()
    assets = json.loads((dist / "manifest.json").read_text())["assets"]
    blobs, rows = [], []
    for number, asset in enumerate(assets):
        spans = []
        for suffix in ("", ".br", ".gz"):
            file = dist / "assets" / (asset["name"] + suffix)
            label = f"web_{number}{suffix.replace('.', '_')}"
            blobs.append(f'__asm__(".section .rodata\\n.globl {label}\\n{label}: .incbin {quote(quote(str(file)))[1:-1]}\\n.previous");\n'
                         f"extern const char {label}[];\n")
            spans.append(f"{{{label}, {file.stat().st_size}}}")
        etag = hashlib.sha256((dist / "assets" / asset["name"]).read_bytes()).hexdigest()[:32]
        rows.append(f"    {{{quote(asset['name'])}, {quote(asset['type'])}, {quote(etag)},\n"
                    f"     {', '.join(spans)}}},\n")
    html = (dist / "index.html").read_text() if assets else ""
    out.write_text('// Made by tools/embed_web.py; do not edit.\n#include "main/web_page.h"\n\n'
                   + "".join(blobs)
                   + "\nstatic const struct server_asset assets[] = {\n" + "".join(rows)
                   + "    {0},\n};\n\nstatic const char html[] =\n    "
                   + "\n    ".join(quote(line) for line in html.splitlines(keepends=True) or [""]) + ";\n"
                   + "\nconst struct server_page web_page = {html, assets};\n")


main()
