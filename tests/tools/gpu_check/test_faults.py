"""Each check passes at its tiny size on the CPU, and fails if there is a fault in what it
checks.
"""

import json
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from docagent_rl.lab.tiny.model import build_model
from docagent_rl.lab.tiny.shapes import tiny_config
from docagent_rl.lab.tiny.tokenizer import build_tokenizer
from docagent_rl.models.layers import LayerBytes
from docagent_rl.rollout.trajectory import Trajectory, TrajectoryTurn
from tests.tools.gpu_check.faults import AFTER, BEFORE, FAULTS, MACHINE
from tools.gpu_check.check import CheckError, Outcome
from tools.gpu_check.meter import Cost
from tools.gpu_check.parts import widths
from tools.gpu_check.parts.recipe import BOUNDS, judged
from tools.gpu_check.registry import CHECKS, find
from tools.gpu_check.runner import environment, run_one

NAMED = {
    f"{check}: {fault.__name__}": words
    for check, all_ in FAULTS.items()
    for fault, words in all_.items()
}
TIME_S = 600
ONE_H200 = {10_240: 2.3, 19_000: 5.8, 41_024: 17.8, 45_056: 20.0}
"""Peaks in GiB by tokens, as `widths` found them (docs/cluster.md)."""


@pytest.fixture(scope="module")
def said(tmp_path_factory, warm_python) -> dict[str, str | None]:
    folder = tmp_path_factory.mktemp("faults")
    command = [warm_python, "-m", "tests.tools.gpu_check.faults", str(folder)]
    own = environment(MACHINE, folder)
    done = subprocess.run(command, env=own, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.release
@pytest.mark.slow(first=True)
def test_checks_pass_and_every_fault_is_named(said):
    assert [said[name] for name in (*BEFORE, *AFTER)] == [None] * len((*BEFORE, *AFTER))
    seen = {name: said[name] or "" for name in NAMED}
    assert {name: text for name, text in seen.items() if not text.startswith("CheckError")} == {}
    assert {name: text for name, text in seen.items() if NAMED[name] not in text} == {}


@pytest.mark.slow(first=True)
@pytest.mark.usefixtures("warm_processes")
def test_the_check_of_models_passes_in_a_process_of_its_own(tmp_path):
    assert {check.name for check in CHECKS} == {*BEFORE, *AFTER, "models", "recipe", "serving"}
    found = run_one(find("models"), MACHINE, tmp_path, TIME_S)
    assert found.outcome is Outcome.PASS, found.log
    assert found.device == "cpu"


def run_of(folder: Path, server: list, trainer: list, **metrics: float) -> Path:
    """Write the folder of a run in which server and trainer have these log-probs at each step."""
    turn = TrajectoryTurn("", "", [5] * len(server), server, trainer_log_probs=trainer)
    files = {
        "metrics/{}.json": json.dumps({"actor/grad_norm": 1.0, "actor/loss": 0.1} | metrics),
        "trajectories/{}.jsonl": Trajectory("", 0, 1, "train", {}, "", turns=[turn]).to_json(),
    }
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True)
        for step in (1, 2):
            (folder / name.format(step)).write_text(text)
    return folder


@pytest.fixture(scope="module")
def log_probs() -> dict[str, list[float]]:
    """Return a tiny model's log-probs after one step of its optimizer, and those that a server with
    a fault would have.
    """
    model = build_model(tiny_config(build_tokenizer([]), "qwen3"), seed=0)
    tokens = torch.randint(1000, (8, 81), generator=torch.Generator().manual_seed(0))

    def sampled(temperature: float = 1.0) -> torch.Tensor:
        logits = model(input_ids=tokens).logits[:, :-1] / temperature
        return logits.log_softmax(-1).gather(2, tokens[:, 1:, None]).flatten()

    before = sampled()
    before.mean().backward()
    torch.optim.AdamW(model.parameters(), lr=1e-4).step()  # the rate of the check's runs
    right = sampled()
    faults = {"stale": before, "sharper": sampled(0.7), "of the token before": right.roll(1)}
    return {"right": right.tolist()} | {name: found.tolist() for name, found in faults.items()}


@pytest.mark.parametrize("device", BOUNDS)
@pytest.mark.parametrize("fault", ["stale", "sharper", "of the token before"])
def test_a_server_with_other_numbers_than_the_trainer_is_refused(
    log_probs, tmp_path, fault, device
):
    run = run_of(tmp_path, log_probs[fault], log_probs["right"])
    with pytest.raises(
        CheckError, match=r"a run, step 1: .* nats \(mean of 640 tokens\), not less than"
    ):
        judged("a run", run, BOUNDS[device])


@pytest.mark.parametrize("device", BOUNDS)
def test_server_and_trainer_may_round(log_probs, tmp_path, device):
    right, bound = log_probs["right"], BOUNDS[device]
    rounded = [each + bound.mean / 2 for each in right]
    found = judged("a run", run_of(tmp_path / "good", rounded, right), bound)
    assert found["apart"]["mean"] == pytest.approx(bound.mean / 2)
    one = [right[0] + 2 * bound.most, *right[1:]] + 40 * right
    with pytest.raises(CheckError, match="most of"):
        judged("a run", run_of(tmp_path / "bad", one, 41 * right), bound)


@pytest.mark.parametrize(
    ("numbers", "metrics", "words"),
    [
        ([-1.0], {}, "numbers of tokens and of log-probs"),
        ([], {}, "no token"),
        ([-1.0, float("nan")], {}, "not finite"),
        ([-1.0, -1.0], {"actor/loss": float("nan")}, "not numbers: .*loss"),
        ([-1.0, -1.0], {"actor/grad_norm": 0.0}, "no gradient"),
    ],
)
def test_a_run_without_numbers_is_refused(tmp_path, numbers, metrics, words):
    run = run_of(tmp_path, [-1.0] * 2 if numbers else [], numbers, **metrics)
    with pytest.raises(CheckError, match=words):
        judged("a run", run, BOUNDS["cpu"])


def test_a_budget_that_leaves_out_the_states_of_a_tower_or_of_layers_is_refused(monkeypatch):
    model = widths.seven_billion()
    for tokens, gib in ONE_H200.items():
        widths.check_estimate(tokens, Cost(0, 1, 1024 * gib), widths.estimated_mib(model, tokens))
    small = replace(model, tower=replace(model.tower, block=LayerBytes(0, 0)))
    with pytest.raises(
        CheckError, match=r"45056 tokens take 20.0 GiB in the tower; the budget says 12.5"
    ):
        widths.check_estimate(45_056, Cost(0, 1, 1024 * 20.0), widths.estimated_mib(small, 45_056))
    before, _ = widths.estimated_mib(model, 45_056)
    monkeypatch.setattr(widths, "kept_states", lambda *sizes, **ways: 0)
    with pytest.raises(CheckError, match=r"GiB before the tower; the budget says"):
        widths.check_estimate(45_056, Cost(0.9 * before, 1, 0), widths.estimated_mib(model, 45_056))
