"""verl's supervised trainer makes a checkpoint from recorded trajectories, and a recipe of RL
starts from it.
"""

import json

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForImageTextToText, AutoProcessor, AutoTokenizer

from docagent_rl.lab.sft.dataset import LedgerSftDataset
from docagent_rl.lab.sft.rows import tokenizer_digest
from docagent_rl.training.engine.checkpoint import weights_folder
from tests.e2e.chain import BATCH, STEPS


@pytest.fixture(scope="module")
def chain(runs):
    return runs.result("chain")


@pytest.fixture(scope="module")
def metrics(chain) -> dict[str, list[float]]:
    """Return the values of each number of the supervised run, one per step."""
    found: dict[str, list[float]] = {}
    for line in (chain.sft_run / "metrics" / "after_0.jsonl").read_text().splitlines():
        for name, value in json.loads(line)["data"].items():
            found.setdefault(name, []).append(value)
    return found


def test_the_loss_falls(metrics):
    losses = metrics["train/loss"]
    assert len(losses) == STEPS
    assert losses[-1] < 0.7 * losses[0], losses


def test_the_tower_stays_and_the_rest_moves(chain):
    before, after = (
        load_file(each / "model.safetensors") for each in (chain.model, chain.fine_tuned)
    )
    assert before.keys() == after.keys()
    moved = {name: not torch.equal(before[name], after[name]) for name in before}
    assert not any(moved[name] for name in moved if "visual" in name)
    assert any("visual" in name for name in moved)
    assert all(
        moved[name] for name in moved if "visual" not in name and name.endswith("proj.weight")
    )


def test_the_checkpoint_holds_what_was_trained(chain, metrics):
    """The loss on the rows, computed by transformers alone, equals the trainer's number for its
    last step.
    """
    model = AutoModelForImageTextToText.from_pretrained(
        chain.fine_tuned, dtype=torch.float32
    ).eval()
    tokenizer = AutoTokenizer.from_pretrained(chain.fine_tuned)
    processor = AutoProcessor.from_pretrained(chain.fine_tuned)
    processor.get_rope_index = model.model.get_rope_index
    file = str(chain.rows / "val.parquet")
    config = {"store": str(chain.run.workspace / "store")}
    rows = LedgerSftDataset(file, tokenizer, config, processor, max_samples=BATCH)
    total, count = 0.0, 0
    for row in (rows[index] for index in range(len(rows))):
        ids, mask = row["input_ids"], row["loss_mask"][1:].bool()
        with torch.no_grad():
            logits = model(
                input_ids=ids[None],
                position_ids=row["position_ids"][1:, None],
                attention_mask=torch.ones_like(ids)[None],
                **row["multi_modal_inputs"],
            ).logits[0, :-1]
        nll = torch.nn.functional.cross_entropy(logits, ids[1:], reduction="none")
        total, count = total + nll[mask].sum().item(), count + int(mask.sum())
    assert total / count == pytest.approx(metrics["val/loss"][-1], rel=1e-3)


def test_the_run_names_its_model(chain):
    """`eval --model` and the engine read the name: the run, its checkpoint, and the weights in
    it.
    """
    for named in (chain.sft_run, chain.fine_tuned.parent, chain.fine_tuned):
        assert weights_folder(named) == str(chain.fine_tuned)


def test_the_checkpoint_has_the_tokenizer_that_rows_were_made_with(chain):
    before, after = (
        AutoTokenizer.from_pretrained(each) for each in (chain.model, chain.fine_tuned)
    )
    assert tokenizer_digest(before) == tokenizer_digest(after)


def test_what_verl_prints_is_in_the_log(chain, metrics):
    log = (chain.sft_run / "console.log").read_text()
    assert "'_target_': 'verl.workers.config.HFModelConfig'" in log
    assert log.count("step:1 - ") == 1
