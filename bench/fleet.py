"""The queue of runs of hubs that share a store: a real PostgreSQL, and as many clients as hubs, without bots.

A claim is the database's part, from asking for a run to having it; what a hub then does with it (a worktree, git, a
session) is in `bots-start`. A client asks again as soon as it has its answer, so a pair of client and server process
keeps one core busy: how many times as fast five are shows the cores of the machine first, and the queue only after
that. So the CPU time of a claim is told too, which does not depend on who else uses the machine, and what the server's
processes wait for while five claim.

The hubs of a fleet are on several machines. So the same claims are measured over a network too: a relay in this process
that delivers each packet a fixed time later. The clients are then idle for most of the time, and the ratio shows whether
hubs wait for each other, for a row or a lock, and not how many cores there are."""
import collections
import os
import pathlib
import re
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
QUEUED, PROJECTS, TAKEN, HUBS, BUDGET = 10_000, 20, 1000, 5, 4
ONE_WAY_MS = 1  # of the network: machines of one site
PREPARE = "PREPARE claim AS SELECT id, epoch, body, env, lost FROM afloat.run_claim($1, 1, '{w}', 10000);\n"  # as hubs do
CLAIM = "EXECUTE claim('%s');\n"


class Network:
    """Between clients and the server: every packet arrives ONE_WAY_MS later. `host` is where clients connect."""

    def __init__(self, server):
        self.host = tempfile.mkdtemp(prefix="afloat-bench-net-")
        self.target = str(server.dir / ".s.PGSQL.5432")
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(f"{self.host}/.s.PGSQL.5432")
        self.listener.listen()
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                near, _ = self.listener.accept()
            except OSError:
                return
            far = socket.socket(socket.AF_UNIX)
            far.connect(self.target)
            for a, b in ((near, far), (far, near)):
                threading.Thread(target=self.carry, args=(a, b), daemon=True).start()

    def carry(self, a, b):
        """psql waits for each answer before it asks again: there is never a second packet on the way."""
        while data := a.recv(65536):
            time.sleep(ONE_WAY_MS / 1000)
            b.sendall(data)
        b.shutdown(socket.SHUT_WR)

    def close(self):
        self.listener.close()
        shutil.rmtree(self.host)


class Client:
    """A psql that is connected."""

    def __init__(self, host, database, hub):
        self.claim = CLAIM % hub
        self.process = subprocess.Popen([str(database.server.bin / "psql"), "-qAtX", "-v", "ON_ERROR_STOP=1", "-h", str(host),
                                         "-U", "boss", "-d", database.name], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        self.send(PREPARE + "SELECT pg_backend_pid();\n")
        self.pids = [self.process.pid, int(self.read()[0])]

    def send(self, text):
        self.process.stdin.write(text + "\\echo end\n")
        self.process.stdin.flush()

    def read(self):
        return [line.strip() for line in iter(self.process.stdout.readline, "end\n")]

    def used(self):
        """Milliseconds of a core that the client and the server's process had, and for which both were ready and had none."""
        had, ready = zip(*(map(int, pathlib.Path(f"/proc/{pid}/schedstat").read_text().split()[:2]) for pid in self.pids))
        return [x / 1e6 for x in (*had, sum(ready))]

    def close(self):
        self.process.communicate("")


def fill(database):
    database.sql(f"""DELETE FROM afloat.runs;
        INSERT INTO afloat.runs (id, project, bot, state, body)
            SELECT 'r' || i, 'p' || i % {PROJECTS}, 'w', 'queued', '{{}}' FROM generate_series(1, {QUEUED}) i;
        VACUUM ANALYZE afloat.runs""")


def claim_all(host, database, hubs):
    """`hubs` clients take TAKEN runs together: {claims per second, and ms of one claim: CPU of client, server and network,
    and how long client and server were ready and had no core}."""
    fill(database)
    clients = [Client(host, database, f"h{i}") for i in range(hubs)]
    before, carried = [c.used() for c in clients], time.process_time()
    start = time.perf_counter()
    for c in clients:
        c.send(c.claim * (TAKEN // hubs))
    taken = {line.split("|")[0] for c in clients for line in c.read()}
    took, carried = time.perf_counter() - start, time.process_time() - carried
    after = [c.used() for c in clients]
    for c in clients:
        c.close()
    assert len(taken) == TAKEN, "a run was taken twice, or not at all"
    client, server, ready = (sum(a[i] - b[i] for a, b in zip(after, before)) / TAKEN for i in range(3))
    return {"rate": TAKEN / took, "client": client, "server": server, "network": carried * 1000 / TAKEN, "ready": ready}


def waits(host, database):
    """What processes that claim for HUBS clients wait for: {"": share that has a core or is ready for one, event: share}."""
    seen, over, watcher = collections.Counter(), threading.Event(), Client(database.server.dir, database, "")

    def watch():
        while not over.is_set():
            watcher.send("SELECT '.' || coalesce(wait_event_type || ' ' || wait_event, '') FROM pg_stat_activity WHERE state = 'active'"
                         " AND query LIKE 'EXECUTE claim%' AND wait_event_type IS DISTINCT FROM 'Client';\n")
            seen.update(x[1:] for x in watcher.read())
    thread = threading.Thread(target=watch)
    thread.start()
    claim_all(host, database, HUBS)
    over.set()
    thread.join()
    watcher.close()
    return {k: n / seen.total() for k, n in seen.items()}


def timed(host, database, statement, n):
    """Median of the milliseconds that each of `n` statements takes, as psql sees them; the first warms up."""
    client = Client(host, database, "h0")
    client.send("\\timing on\n" + statement * n)
    times = [float(x) for x in re.findall(r"Time: ([0-9.]+) ms", "\n".join(client.read()))][1:]
    client.close()
    return statistics.median(times)


def queue(Hub, row, rounds):
    sys.path.insert(0, str(ROOT / "tests" / "functional"))
    import pg_rig
    server = pg_rig.Server(fsync="on")
    network = Network(server)
    try:
        database = server.database()
        with Hub(files={"config.toml": f'[store]\nurl = "{database.url()}"\n'}):
            pass  # it makes the schema
        database.sql("".join(f"SELECT afloat.hub_start('h{i}', 'h{i}', '{{}}', '', 3600);" for i in range(HUBS)))
        hosts = {0: server.dir, 2 * ONE_WAY_MS: network.host}  # by the milliseconds of a round trip
        times, found = [], {(away, hubs): [] for away in hosts for hubs in (1, HUBS)}
        for _ in range(rounds):
            fill(database)
            times.append(timed(server.dir, database, CLAIM % "h0", 50))
            for (away, hubs), runs in found.items():  # in turn: the machine is shared
                runs.append(claim_all(hosts[away], database, hubs))
        p50 = statistics.median(times)
        row(f"claim of a run, {QUEUED:,} queued", f"{p50:.2f} ms", "<= 5 ms", p50 <= 5)
        for away, host in hosts.items():
            one, many = ({k: statistics.median(r[k] for r in found[away, hubs]) for k in found[away, hubs][0]} for hubs in (1, HUBS))
            report(row, away, timed(host, database, "SELECT 1;\n", 50), one, many, waits(host, database))
    finally:
        network.close()
        server.close()


def report(row, away_ms, trip, one, many, waiting):
    where = f", {away_ms} ms away," if away_ms else ""
    print(f"    a round trip of a statement that does nothing: {trip:.2f} ms")
    for hubs, x in ((1, one), (HUBS, many)):
        print(f"    {hubs} hub{'s' * (hubs > 1)}: {x['rate']:.0f} claims/s; CPU of one claim {x['server']:.2f} ms in PostgreSQL, "
              f"{x['client']:.2f} ms in the client, {x['network']:.2f} ms in the bench; {x['ready']:.2f} ms without a core")
    print(f"    the server's processes with {HUBS} hubs: " + ", ".join(
        f"{share:.0%} {'on a core or ready for one' if kind == '' else kind}" for kind, share in sorted(waiting.items()) if share >= 0.005))
    cores, (cpu, cpu_many) = len(os.sched_getaffinity(0)), (x["client"] + x["server"] + x["network"] for x in (one, many))
    most = cores * (away_ms + cpu) / cpu_many
    apart = (HUBS * 1000 / one["rate"] - HUBS * one["ready"]) / (HUBS * 1000 / many["rate"] - many["ready"])
    print(f"    {cores} cores allow {cores / cpu_many * 1000:.0f} claims/s, {most:.1f} times one hub; with a core for each process it would "
          f"be {apart:.1f} times (computed)")
    ratio = many["rate"] / one["rate"]
    allowed = ratio >= BUDGET or most >= BUDGET
    row(f"{HUBS} hubs{where} claim, beside one", f"{ratio:.1f} x" + ("" if allowed else f", not measured: {cores} cores"),
        f">= {BUDGET} x", ratio >= BUDGET if allowed else None)
