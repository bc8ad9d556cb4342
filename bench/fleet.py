"""The queue of runs of hubs that share a store: a real PostgreSQL, and as many clients as hubs, without bots."""
import pathlib
import re
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
QUEUED, PROJECTS, CLAIMS, HUBS = 10_000, 20, 200, 5
CLAIM = "SELECT id FROM afloat.run_claim('{hub}', 1, '{{w}}', 1000);\n"


def psql(server, database, text, **more):
    return subprocess.Popen([str(server.bin / "psql"), "-AtX", "-v", "ON_ERROR_STOP=1", "-h", str(server.dir),
                             "-U", "boss", "-d", database.name], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                            text=True, **more), text


def fill(database):
    database.sql(f"""DELETE FROM afloat.runs;
        INSERT INTO afloat.runs (id, project, bot, state, body)
            SELECT 'r' || i, 'p' || i % {PROJECTS}, 'w', 'queued', '{{}}' FROM generate_series(1, {QUEUED}) i;
        VACUUM ANALYZE afloat.runs""")


def claims_per_s(server, database, hubs):
    """How many runs `hubs` clients take in a second, all together."""
    fill(database)
    clients = [psql(server, database, CLAIM.format(hub=f"h{i}") * CLAIMS) for i in range(hubs)]
    start = time.perf_counter()
    for process, text in clients:
        process.stdin.write(text)
        process.stdin.close()
    taken = [x for process, _ in clients for x in process.stdout.read().split()]
    took = time.perf_counter() - start
    assert len(taken) == len(set(taken)) == hubs * CLAIMS, "a run was taken twice, or not at all"
    return len(taken) / took


def queue(Hub, row, rounds):
    sys.path.insert(0, str(ROOT / "tests" / "functional"))
    import pg_rig
    server = pg_rig.Server(fsync="on")
    try:
        database = server.database()
        with Hub(files={"config.toml": f'[store]\nurl = "{database.url()}"\n'}):
            pass  # it makes the schema
        database.sql("".join(f"SELECT afloat.hub_start('h{i}', 'h{i}', '{{}}', '', 3600);" for i in range(HUBS)))
        times, one, all_of_them = [], [], []
        for _ in range(rounds):
            fill(database)
            process, text = psql(server, database, "\\timing on\n" + CLAIM.format(hub="h0") * 50)
            said = process.communicate(text)[0]
            times += [float(x) for x in re.findall(r"Time: ([0-9.]+) ms", said)][1:]
            one.append(claims_per_s(server, database, 1))
            all_of_them.append(claims_per_s(server, database, HUBS))
        p50 = statistics.median(times)
        row(f"claim of a run, {QUEUED:,} queued", f"{p50:.2f} ms", "<= 5 ms", p50 <= 5)
        ratio = statistics.median(all_of_them) / statistics.median(one)
        row(f"{HUBS} hubs claim, beside one", f"{ratio:.1f} x ({statistics.median(all_of_them):.0f}/s)", ">= 4 x",
            ratio >= 4)
    finally:
        server.close()
