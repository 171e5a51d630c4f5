"""Numbers of a run, over all of its steps but the first."""

import json

from staleness.table import Measured, read_run, table

OFF_POLICY = "training/off_policy"


def step(seconds: float, lag: float, span: float, **added: float) -> dict[str, float]:
    return {
        "timing_s/step": seconds,
        "docagent/trajectories/trained": 16.0,
        "rollout_corr/kl": lag / 100,
        f"{OFF_POLICY}/trajectory_staleness/mean": lag,
        f"{OFF_POLICY}/trajectory_staleness_worst/max": 2 * lag,
        f"{OFF_POLICY}/trajectory_spans/mean": span,
        f"{OFF_POLICY}/trajectory_spans/max": span + 1,
        **added,
    }


def test_a_run_is_read_without_its_first_step(tmp_path):
    dropped = {f"{OFF_POLICY}/evicted_samples": 3}
    steps = {1: step(90, 0, 1), 2: step(10, 1, 1.5), 10: step(20, 2, 2.5, **dropped)}
    (tmp_path / "metrics").mkdir()
    for number, numbers in steps.items():
        (tmp_path / "metrics" / f"{number}.json").write_text(json.dumps(numbers))
    (tmp_path / "metrics" / "val-4.json").write_text("{}")
    assert read_run(tmp_path) == Measured(
        steps=3,
        step_s=15,
        played=32,
        dropped=3,
        updates_behind=1.5,
        most_updates_behind=4,
        versions=2,
        most_versions=3.5,
        server_kl=0.015,
    )


def test_a_table_has_a_row_for_each_run():
    run = Measured(3, 15, 32, 3, 1.5, 4, 2, 4, 0.015)
    lines = table({"sync": run, "colocate_async": run}).splitlines()
    assert len(lines) == 4
    assert len({line.count("|") for line in lines}) == 1
    assert lines[2] == "| sync | 15.0 | 32 | 3 | 1.50 (4) | 2.00 (4) | 1.5e-02 |"
