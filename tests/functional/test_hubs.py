"""`GET /hubs`, `afloat hubs` and placement of runs on a hub with a store of its own."""
from bots import DONE, call, repo, rig  # noqa: F401


def only(home):
    rows = call(home, "GET", "/hubs")["hubs"]
    assert len(rows) == 1, rows
    return rows[0]


def test_a_hub_with_its_own_store_lists_itself(rig):
    row = only(rig.home)
    assert set(row) == {"name", "state", "labels", "generation", "runs", "seen_at"}
    assert row["state"] == "live" and row["labels"] == [] and row["runs"] == 0
    assert row["generation"] == call(rig.home, "GET", "/healthz")["generation"]
    for words in (["hubs"], ["hubs", "list"]):
        assert [{**x, "seen_at": row["seen_at"]} for x in rig.home.json(*words)["hubs"]] == [row]
    shown = rig.home.ok("hubs", "list")
    assert row["name"] in shown and "live" in shown


def test_labels_are_replaced_and_outlive_a_restart(home, start_hub):
    (home.dir / "config.toml").write_text('[store]\nhub_name = "anvil"\nlabels = ["small"]\n')
    hub = start_hub()
    assert only(home)["name"] == "anvil" and only(home)["labels"] == ["small"]
    home.ok("hubs", "label", "anvil", "gpu", "linux")
    assert only(home)["labels"] == ["gpu", "linux"]
    hub.close()
    start_hub()
    assert only(home)["labels"] == ["gpu", "linux"]
    home.ok("hubs", "label", "anvil")
    assert only(home)["labels"] == []
    refused = home.cli("hubs", "label", "anvil", "a b")
    assert refused.returncode == 1 and "'a b'" in refused.stderr
    refused = home.cli("hubs", "label", "other", "gpu")
    assert refused.returncode == 3 and "'anvil'" in refused.stderr


def test_a_draining_hub_takes_no_new_runs_until_it_is_told_to(rig):
    name = only(rig.home)["name"]
    rig.home.ok("hubs", "drain", name)
    assert only(rig.home)["state"] == "draining"
    refused = rig.start(DONE, status=409)
    assert refused["code"] == "CONFLICT" and f"hubs drain {name} --off" in refused["detail"]
    rig.home.ok("hubs", "drain", name, "--off")
    assert only(rig.home)["state"] == "live"
    assert rig.start(DONE).wait()["end_reason"] == "complete"


def test_a_run_is_placed_by_a_label_that_the_hub_has(rig):
    refused = rig.start(DONE, on="gpu", status=409)
    assert refused["code"] == "CONFLICT" and "'gpu'" in refused["detail"] and "[store] url" in refused["detail"]
    done = rig.popen(DONE, "go", "--on", "gpu")
    _, err = done.communicate(timeout=30)
    assert done.returncode == 7 and b"no hub has the label 'gpu'" in err
    rig.home.ok("hubs", "label", only(rig.home)["name"], "gpu")
    row = rig.start(DONE, on="gpu").wait()
    assert row["end_reason"] == "complete" and row["options"]["on"] == "gpu"


def test_rows_of_runs_name_hub_lease_and_epoch(rig):
    run = rig.start(DONE)
    run.wait()
    for row in (run.row(), call(rig.home, "GET", "/runs")["runs"][0]):
        assert row["hub"] is None and row["lease_until"] is None and row["epoch"] is None
