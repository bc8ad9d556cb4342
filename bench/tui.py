"""Figures of the full-screen interface: what drawing costs beside ncurses, how soon it is there, how soon a saved layout
is on the screen, and how long a key takes meanwhile."""
import json
import os
import statistics
import subprocess
import time

import chat
import terminal

SAVES = 50
KEYS = 100


def drawing(build, row, rounds):
    said = json.loads(subprocess.run([build / "bench" / "bench_cells", str(rounds)], check=True, capture_output=True).stdout)
    row("tui: a frame of 160 x 50 with 30 % changed (CPU)", f"{said['us'] / 1000:.2f} ms", "<= 0.6 ms", said["us"] <= 600)
    for name, ours, theirs in (("scattered", "bytes", "ncurses_bytes"), ("scrolled", "scroll_bytes", "ncurses_scroll_bytes")):
        known = said[theirs] >= 0
        row(f"tui: bytes of a frame, {name}, beside ncurses",
            f"{said[ours]:.0f} / {said[theirs]:.0f}" if known else f"{said[ours]:.0f} / not measured", "<= 1.0 x",
            said[ours] <= said[theirs] if known else None)


class Place(chat.Place):
    def open(self):
        t = terminal.Terminal([self.afloat], self.env, self.project)
        t.until(rb"Ctrl\+P palette")
        return t

    def layout(self, word):
        path = self.dir / "home/lua/user/ui/layout.lua"
        path.parent.mkdir(parents=True, exist_ok=True)
        new = path.with_suffix(".new")
        new.write_text('return function(state, next) local tree = next(state)\n'
                       'table.insert(tree.children, 1, { type = "text", text = "%s", size = 1 }) return tree end\n' % word)
        os.replace(new, path)


def measure(afloat, build, row, rounds):
    drawing(build, row, rounds)
    place = Place(afloat)
    try:
        times = []
        for _ in range(max(rounds, 5)):
            began = time.monotonic()
            t = place.open()
            times.append((time.monotonic() - began) * 1000)
            t.close()
        ms = statistics.median(times)
        row("tui: from the command to the first frame", f"{ms:.1f} ms", "<= 100 ms", ms <= 100)
        t = place.open()
        saves = []
        for i in range(SAVES):
            began = time.monotonic()
            word = chr(ord("a") + i % 26) * 12  # only cells that change are written: all of these do
            place.layout(word)
            t.until(word.encode())
            saves.append((time.monotonic() - began) * 1000)
        ms = statistics.median(saves)
        row("tui: from a saved layout to its frame", f"{ms:.1f} ms", "<= 30 ms", ms <= 30)
        t.send("i")
        keys = []
        for _ in range(KEYS):
            began = time.monotonic()
            t.send("§")
            t.until("§".encode())
            keys.append((time.monotonic() - began) * 1000)
        ms = statistics.median(keys)
        row("tui: from a key to the screen", f"{ms:.1f} ms", "<= 5 ms", ms <= 5)
        t.close()
    finally:
        place.close()
