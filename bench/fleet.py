"""The queue of runs of hubs that share a store: a real PostgreSQL, and as many clients as hubs, without bots.

A claim is the database's part, from asking for a run to having it; what a hub then does with it (a worktree, git, a
session) is in `bots-start`. A client asks again as soon as it has its answer, so a pair of client and server process
keeps one core busy: how many times as fast five are shows the cores of the machine first, and the queue only after
that. So the CPU time of a claim is told too, which does not depend on who else uses the machine, and what the server's
processes wait for while five claim."""
import collections
import os
import pathlib
import re
import statistics
import subprocess
import sys
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
QUEUED, PROJECTS, TAKEN, HUBS, BUDGET = 10_000, 20, 1000, 5, 4
PREPARE = "PREPARE claim AS SELECT id FROM afloat.run_claim($1, 1, '{w}', 10000);\n"  # as hubs do
CLAIM = "EXECUTE claim('%s');\n"


class Client:
    """A psql that is connected."""

    def __init__(self, server, database, hub):
        self.claim = CLAIM % hub
        self.process = subprocess.Popen([str(server.bin / "psql"), "-qAtX", "-v", "ON_ERROR_STOP=1", "-h", str(server.dir),
                                         "-U", "boss", "-d", database.name], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        self.send(PREPARE + "SELECT pg_backend_pid();\n")
        self.pids = [self.process.pid, int(self.read()[0])]

    def send(self, text):
        self.process.stdin.write(text + "\\echo end\n")
        self.process.stdin.flush()

    def read(self):
        return [line.strip() for line in iter(self.process.stdout.readline, "end\n")]

    def cpu(self):
        """Milliseconds of client and server process."""
        return [int(pathlib.Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e6 for pid in self.pids]

    def close(self):
        self.process.communicate("")


def fill(database):
    database.sql(f"""DELETE FROM afloat.runs;
        INSERT INTO afloat.runs (id, project, bot, state, body)
            SELECT 'r' || i, 'p' || i % {PROJECTS}, 'w', 'queued', '{{}}' FROM generate_series(1, {QUEUED}) i;
        VACUUM ANALYZE afloat.runs""")


def claim_all(server, database, hubs):
    """`hubs` clients take TAKEN runs together: {claims per second, and ms CPU of one claim: client, server}."""
    fill(database)
    clients = [Client(server, database, f"h{i}") for i in range(hubs)]
    before = [c.cpu() for c in clients]
    start = time.perf_counter()
    for c in clients:
        c.send(c.claim * (TAKEN // hubs))
    taken = {id for c in clients for id in c.read()}
    took = time.perf_counter() - start
    after = [c.cpu() for c in clients]
    for c in clients:
        c.close()
    assert len(taken) == TAKEN, "a run was taken twice, or not at all"
    client, server = (sum(a[i] - b[i] for a, b in zip(after, before)) / TAKEN for i in (0, 1))
    return {"rate": TAKEN / took, "client": client, "server": server}


def waits(server, database):
    """What processes that claim for HUBS clients wait for: {"": share that has a core or is ready for one, type: share}."""
    seen, over, watcher = collections.Counter(), threading.Event(), Client(server, database, "")

    def watch():
        while not over.is_set():
            watcher.send("SELECT '.' || coalesce(wait_event_type, '') FROM pg_stat_activity WHERE state = 'active'"
                         " AND query LIKE 'EXECUTE claim%' AND wait_event_type IS DISTINCT FROM 'Client';\n")
            seen.update(x[1:] for x in watcher.read())
    thread = threading.Thread(target=watch)
    thread.start()
    claim_all(server, database, HUBS)
    over.set()
    thread.join()
    watcher.close()
    return {k: n / seen.total() for k, n in seen.items()}


def queue(Hub, row, rounds):
    sys.path.insert(0, str(ROOT / "tests" / "functional"))
    import pg_rig
    server = pg_rig.Server(fsync="on")
    try:
        database = server.database()
        with Hub(files={"config.toml": f'[store]\nurl = "{database.url()}"\n'}):
            pass  # it makes the schema
        database.sql("".join(f"SELECT afloat.hub_start('h{i}', 'h{i}', '{{}}', '', 3600);" for i in range(HUBS)))
        times, found = [], {1: [], HUBS: []}
        for _ in range(rounds):
            fill(database)
            client = Client(server, database, "h0")
            client.send("\\timing on\n" + client.claim * 50)
            times += [float(x) for x in re.findall(r"Time: ([0-9.]+) ms", "\n".join(client.read()))][1:]
            client.close()
            for hubs in found:  # in turn: the machine is shared
                found[hubs].append(claim_all(server, database, hubs))
        one, many = ({k: statistics.median(r[k] for r in runs) for k in runs[0]} for runs in found.values())
        report(row, statistics.median(times), one, many, waits(server, database))
    finally:
        server.close()


def report(row, p50, one, many, waiting):
    row(f"claim of a run, {QUEUED:,} queued", f"{p50:.2f} ms", "<= 5 ms", p50 <= 5)
    for hubs, x in ((1, one), (HUBS, many)):
        print(f"    {hubs} hub{'s' * (hubs > 1)}: {x['rate']:.0f} claims/s; CPU of one claim {x['server']:.2f} ms in PostgreSQL, "
              f"{x['client']:.2f} ms in the client")
    print(f"    the server's processes with {HUBS} hubs: " + ", ".join(
        f"{share:.0%} {'on a core or ready for one' if kind == '' else kind}" for kind, share in sorted(waiting.items())))
    cores, cpu = len(os.sched_getaffinity(0)), [x["client"] + x["server"] for x in (one, many)]
    most = cores * cpu[0] / cpu[1]
    apart = HUBS * cpu[0] / (many["client"] + many["server"] / waiting[""])
    print(f"    {cores} cores allow {cores / cpu[1] * 1000:.0f} claims/s, {most:.1f} times one hub; with a core for each process it would be "
          f"{apart:.1f} times (computed)")
    ratio = many["rate"] / one["rate"]
    allowed = ratio >= BUDGET or most >= BUDGET
    row(f"{HUBS} hubs claim, beside one", f"{ratio:.1f} x" + ("" if allowed else f", not measured: {cores} cores"),
        f">= {BUDGET} x", ratio >= BUDGET if allowed else None)
