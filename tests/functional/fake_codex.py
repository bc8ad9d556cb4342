#!/usr/bin/env python3
"""A Codex that misbehaves: FAKE says how. It speaks just enough of `codex app-server` to be given a turn."""
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

MODE = os.environ.get("FAKE", "")
NAMES = ["initialize", "thread/start", "thread/resume", "turn/start", "turn/steer", "turn/interrupt", "dynamicTools",
         "developerInstructions", "item/commandExecution/requestApproval", "item/fileChange/requestApproval", "item/tool/call",
         "item/started", "item/completed", "item/agentMessage/delta", "thread/tokenUsage/updated", "turn/completed", "error"]


def schema(dir):
    dir.mkdir(parents=True, exist_ok=True)
    names = [n for n in NAMES if MODE != "old" or n != "turn/steer"]
    for name in ("ClientRequest", "ServerRequest", "ServerNotification"):
        (dir / f"{name}.json").write_text(json.dumps(names))


def send(**message):
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def delta(text):
    send(method="item/agentMessage/delta", params={"itemId": "m", "delta": text})


def finish(text):
    send(method="item/completed", params={"item": {"type": "agentMessage", "id": "m", "text": text}})
    send(method="turn/completed", params={"turn": {"id": "u", "status": "completed"}})


def play():
    if MODE == "crash":
        delta("half")
        subprocess.Popen(["sleep", "987654"], start_new_session=True)
        sys.stderr.write("first words\nboom\n")
        sys.stderr.flush()
        os._exit(7)
    elif MODE == "garbage":
        sys.stdout.write("this is not JSON\n")
        sys.stdout.flush()
        time.sleep(600)
    elif MODE == "line":
        sys.stdout.write("x" * (17 << 20))
        sys.stdout.flush()
        time.sleep(600)
    elif MODE == "flood":
        for _ in range(400):
            delta("y" * 50000)
        finish("that was much")
    elif MODE == "odd":  # everything that is well-formed and makes no sense
        for message in ([], {"id": 99, "result": {}}, {"id": 98, "error": {}}, {"method": "item/completed"},
                        {"method": "item/started", "params": {"item": {"type": "fileChange", "id": "f", "changes": 7}}},
                        {"method": "item/started", "params": {"item": {"type": "fileChange", "id": "g", "changes": {"a": 0x100000006, "b": 2}}}},
                        {"method": "thread/tokenUsage/updated", "params": {"tokenUsage": "none"}},
                        {"method": "turn/unknown", "params": []}, {"method": "item/tool/call", "id": 5, "params": {}},
                        {"method": "item/commandExecution/requestApproval", "id": 6, "params": {"itemId": 3}},
                        {"method": "item/fileChange/requestApproval", "id": 7, "params": {"itemId": "f"}},
                        {"method": "item/fileChange/requestApproval", "id": 9, "params": {"itemId": "g"}},
                        {"method": "item/permissions/requestApproval", "id": 8}):
            if message:
                send(**message)
        finish("odd, but done")
    elif MODE == "stubborn":
        finish("done")
    elif MODE == "unasked":
        send(method="item/completed", params={"item": {"type": "commandExecution", "id": "c", "command": "rm -rf x", "exitCode": 0,
                                                       "status": "completed", "aggregatedOutput": ""}})
    else:  # silent, deaf
        delta("half")
        time.sleep(600)


def main():
    if "--version" in sys.argv:
        print(f"codex-fake 9.9.1\nHOME is {os.environ['HOME']}")
        return
    if "generate-json-schema" in sys.argv:
        schema(pathlib.Path(sys.argv[sys.argv.index("--out") + 1]))
        return
    for line in sys.stdin:
        message = json.loads(line)
        method, id = message.get("method"), message.get("id")
        if method == "initialize":
            send(id=id, result={"userAgent": "fake"})
        elif method in ("thread/start", "thread/resume"):
            send(id=id, result={"thread": {"id": "th"}})
        elif method == "turn/start":
            send(id=id, result={"turn": {"id": "u"}})
            play()
        elif method == "turn/interrupt" and MODE == "unasked":
            send(id=id, result={})
            send(method="turn/completed", params={"turn": {"id": "u", "status": "interrupted"}})
    if MODE == "stubborn":  # neither the end of its input nor SIGTERM ends it
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        while True:
            signal.pause()


main()
