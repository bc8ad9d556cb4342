#!/usr/bin/python3
"""Draw the full-screen interface as it stands in a real terminal: tools/terminal_picture.py AFLOAT OUT.svg

A private home and project, a few turns of the offline model, the interface inside tmux; what tmux then has on its
screen, with its colours, becomes an SVG.
"""
import html
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

COLS, ROWS, CELL, LINE = 110, 30, 8.4, 18
PALETTE = ["#1d2229", "#e06c75", "#7fbf7f", "#d7a65f", "#6fa8dc", "#b48ead", "#56b6c2", "#c8ccd4",
           "#6b7480", "#ff8f98", "#9fdf9f", "#f0c27f", "#8fc8fc", "#d4aecd", "#76d6e2", "#ffffff"]


def colour(code):
    if code < 16:
        return PALETTE[code]
    if code >= 232:
        return "#%02x%02x%02x" % ((8 + (code - 232) * 10,) * 3)
    steps = [0, 95, 135, 175, 215, 255]
    code -= 16
    return "#%02x%02x%02x" % (steps[code // 36], steps[code // 6 % 6], steps[code % 6])


class Style:
    def __init__(self):
        self.fg = self.bg = None
        self.bold = self.dim = self.reverse = False

    def apply(self, text):
        codes = [int(c or 0) for c in re.split("[;:]", text)]
        while codes:
            c = codes.pop(0)
            if c == 0:
                self.__init__()
            elif c in (1, 2, 7):
                setattr(self, {1: "bold", 2: "dim", 7: "reverse"}[c], True)
            elif c == 22:
                self.bold = self.dim = False
            elif c == 27:
                self.reverse = False
            elif 30 <= c <= 37 or 90 <= c <= 97:
                self.fg = PALETTE[c - 30 if c < 90 else c - 82]
            elif 40 <= c <= 47 or 100 <= c <= 107:
                self.bg = PALETTE[c - 40 if c < 100 else c - 92]
            elif c in (38, 48) and codes:
                kind, name = codes.pop(0), "fg" if c == 38 else "bg"
                if kind == 5:
                    setattr(self, name, colour(codes.pop(0)))
                else:
                    setattr(self, name, "#%02x%02x%02x" % tuple(codes[-3:]))
                    codes.clear()
            elif c == 39:
                self.fg = None
            elif c == 49:
                self.bg = None


def draw(screen):
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {COLS * CELL + 24:.0f} {ROWS * LINE + 24}" '
           'font-family="DejaVu Sans Mono, Menlo, Consolas, monospace" font-size="14">'
           '<rect width="100%" height="100%" rx="8" fill="#14181e"/>']
    for row, line in enumerate(screen.splitlines()[:ROWS]):
        style, col = Style(), 0
        for mark, text in re.findall(r"\x1b\[([\d;:]*)m|([^\x1b]+)", line):
            if not text:
                style.apply(mark)
                continue
            fg, bg = style.fg or "#c8ccd4", style.bg
            if style.reverse:
                fg, bg = bg or "#14181e", fg
            x, y = 12 + col * CELL, 12 + row * LINE
            if bg:
                out.append(f'<rect x="{x:.1f}" y="{y}" width="{len(text) * CELL:.1f}" height="{LINE}" fill="{bg}"/>')
            if text.strip():
                more = (' font-weight="bold"' if style.bold else "") + (' opacity="0.65"' if style.dim else "")
                out.append(f'<text x="{x:.1f}" y="{y + 13.5:.1f}" fill="{fg}" xml:space="preserve" '
                           f'textLength="{len(text) * CELL:.1f}"{more}>{html.escape(text)}</text>')
            col += len(text)
    return "\n".join(out) + "\n</svg>\n"


def main():
    program, out = os.path.abspath(sys.argv[1]), pathlib.Path(sys.argv[2])
    place = pathlib.Path(tempfile.mkdtemp(prefix="afloat-picture-"))
    project = place / "shop"
    project.mkdir()
    env = {**os.environ, "AFLOAT_HOME": str(place / "home"), "AFLOAT_PROVIDER": "scripted", "TERM": "tmux-256color",
           "TMUX_TMPDIR": str(place), "HOME": str(place)}
    run = lambda *words: subprocess.run(words, cwd=project, env=env, check=True, capture_output=True, text=True).stdout
    try:
        (project / "README.md").write_text("# The shop\n\nSells hats.\n")
        run("git", "init", "-q", ".")
        run(program, "chat", "-p", "list the files")
        run(program, "chat", "-p", "what is Afloat?")
        run("tmux", "new-session", "-d", "-x", str(COLS), "-y", str(ROWS), program)
        for keys, seen in ((None, "Ctrl+P"), (["C-n"], "message"), (['write "opens at nine" to hours.txt', "Enter"], "is written"),
                           (['replace "nine" with "ten" in hours.txt', "Enter"], "is changed")):
            if keys:
                run("tmux", "send-keys", *keys)
            until = time.monotonic() + 20
            while seen not in run("tmux", "capture-pane", "-p") and time.monotonic() < until:
                time.sleep(0.1)
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(draw(run("tmux", "capture-pane", "-p", "-e")))
    finally:
        subprocess.run(["tmux", "kill-server"], env=env, capture_output=True)
        subprocess.run([program, "stop", "--all"], env=env, capture_output=True)
        shutil.rmtree(place, ignore_errors=True)


main()
