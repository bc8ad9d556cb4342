"""Figures of `afloat chat` on a pseudo-terminal that this program reads: how soon one can type, what drawing a
fast answer costs, and how long a key takes meanwhile."""
import json
import os
import select
import statistics
import subprocess
import time

import terminal

KB = 100
KEYS = 100
PROMPT = rb"(?s)> .*\x1b\[2C\x1b\[\?2026l"


def answer():
    """Headings, paragraphs, lists, tables and code, KB kilobytes of them."""
    block = ("## A heading\n\n" + "Some *plain* words of a paragraph with `code` in it, and more of them. " * 6 + "\n\n"
             + "".join(f"- item {i} of a list\n" for i in range(8)) + "\n```c\n"
             + "".join(f"int line_{i} = {i}; // code\n" for i in range(20)) + "```\n\n"
             + "| a | b |\n|---|---|\n" + "| cell | another cell |\n" * 6 + "\n")
    return (block * (KB * 1000 // len(block) + 1))[:KB * 1000]


class Place(terminal.Place):
    """A home with a hub that runs, and a model that says what the test wants, a thousand pieces a second."""

    def __init__(self, afloat, *lines):
        super().__init__(afloat)
        path = self.dir / "scenario.jsonl"
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        self.env.update(AFLOAT_PROVIDER="scripted", AFLOAT_SCENARIO=str(path))
        self.run("start")

    def run(self, *args):
        subprocess.run([self.afloat, *args], env=self.env, check=True, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL)

    def chat(self):
        return terminal.Terminal([self.afloat, "chat"], self.env, self.project)

    def close(self):
        self.run("stop")
        super().close()


def first_prompt(place, row, rounds):
    times = []
    for _ in range(max(rounds, 5)):
        began = time.monotonic()
        t = place.chat()
        t.until(PROMPT)
        times.append((time.monotonic() - began) * 1000)
        t.close()
    ms = statistics.median(times)
    row("chat: from the command to the first prompt", f"{ms:.1f} ms", "<= 60 ms", ms <= 60)


def press(t):
    """Type a key and wait until it is in the input; then take it away. Returns the milliseconds."""
    began = time.monotonic()
    t.send("§")
    while "> §".encode() not in t.read():
        pass
    took = (time.monotonic() - began) * 1000
    t.send("\x7f")
    return took


def fast_answer(place, row):
    t = place.chat()
    t.until(PROMPT)
    t.send("go\r")
    t.until(rb"writing")
    before, began, keys, tail = terminal.spent(t.process.pid), time.monotonic(), [], b""
    while b"THE END" not in tail:
        if len(keys) < KEYS and time.monotonic() - began > 0.1 * len(keys):
            keys.append(press(t))
        if select.select([t.fd], [], [], 0.02)[0]:
            tail = tail[-200:] + t.read()
    took, cpu = time.monotonic() - began, terminal.spent(t.process.pid) - before
    t.close()
    share, echo = cpu / took * 100, statistics.median(keys)
    print(f"    {KB} KB in {took:.1f} s; slowest of {len(keys)} keys {max(keys):.1f} ms")
    row(f"chat: CPU for {KB} KB of Markdown at 1,000 deltas/s", f"{share:.1f} % of a core", "<= 10 %", share <= 10)
    row("chat: key to echo meanwhile", f"{echo:.2f} ms", "<= 5 ms", echo <= 5)


def measure(afloat, row, rounds):
    place = Place(afloat, {"text": answer() + "\n\nTHE END", "delta_ms": 1})
    try:
        first_prompt(place, row, rounds)
        fast_answer(place, row)
    finally:
        place.close()
