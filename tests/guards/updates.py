"""Updates of tiny models by verl's engines on one rank, for `test_training.py`; the program prints
a report.
"""

from functools import partial
from pathlib import Path
from typing import Any

import torch
from tensordict import TensorDict
from torch import Tensor
from verl.utils import tensordict_utils as tu
from verl.workers.engine_workers import TrainingWorker
from verl.workers.utils.losses import ppo_loss

from docagent_rl.checks.recipe_check import composed_recipe as recipe
from docagent_rl.config import DocAgentConfig, plain_section
from docagent_rl.patches.shared_vision_passes import TOWER
from docagent_rl.training.workers.extensions import composed_class
from docagent_rl.training.workers.policy import policy_kinds
from tests.training import engines
from tests.training.vision.shared_engine import PAGES, batches, counts
from tests.training.workers.batches import actor, nested

FLASH = {
    "use_remove_padding": True,
    "override_config": {"attn_implementation": "flash_attention_2"},
}
MASKED = 3
"""The row of the text batch that is masked."""


def worker_of(name: str) -> type[TrainingWorker]:
    """Return the worker class with which a run of a recipe trains its policy."""
    run = recipe(name, ["+profile=cpu"])
    kinds = policy_kinds(run, DocAgentConfig.parse(plain_section(run.docagent)))
    return composed_class(kinds.actor, TrainingWorker)


def weights(made: TrainingWorker) -> dict[str, Tensor]:
    state = made.engine.module.state_dict()
    return {name: engines.whole(value).detach().clone() for name, value in state.items()}


def moved(before: dict[str, Tensor], after: dict[str, Tensor], *, vision: bool) -> float:
    """Return the largest change of a weight, in the vision tower or elsewhere."""
    names = [name for name in after if (".visual." in f".{name}") is vision]
    return max((float((after[name] - before[name]).abs().max()) for name in names), default=0.0)


def frozen(path: Path, data: TensorDict) -> dict[str, float]:
    """Return how far an update moves the parts of a model whose tower is frozen."""
    made = engines.worker(worker_of("doc_v_star_qwen2_5_vl_7b"), path, rows=1, lr=1e-2)
    before = weights(made)
    engines.update(made, data)
    after = weights(made)
    return {
        "vision": moved(before, after, vision=True),
        "language": moved(before, after, vision=False),
    }


def together(path: Path, data: TensorDict) -> float:
    """Return the largest difference that rows of one pack make to each other's log-probs."""
    kind = worker_of("vrag_rl_qwen2_5_vl_7b")
    alone = engines.outputs(engines.worker(kind, path, rows=1), data, "log_probs")
    packed = engines.outputs(engines.worker(kind, path, rows=4, model=FLASH), data, "log_probs")
    pairs = zip(alone, packed, strict=True)
    return max(float((one - other).abs().max()) for one, other in pairs)


def masked(path: Path) -> dict[str, float]:
    """Return how far gradients beside a masked row are from those without it, and how far a masked
    batch moves weights.
    """
    data = engines.with_numbers(engines.text_batch())
    others = [row for row in range(len(data)) if row != MASKED]
    rows = list(data["response_mask"].unbind())
    nothing = [torch.zeros_like(row) for row in rows]
    kind = worker_of("vrag_rl_qwen2_5_vl_7b")
    fast, still = (engines.worker(kind, path, rows=1, lr=lr) for lr in (1e-2, 0.0))
    for made in (fast, still):
        made.set_loss_fn(partial(ppo_loss, config=actor("seq-mean-token-mean")))
    before = weights(fast)
    engines.update(fast, with_mask(data, nothing))
    alone, _ = engines.update(still, tu.index_select_tensor_dict(data, others))
    rows[MASKED] = nothing[MASKED]
    beside, _ = engines.update(still, with_mask(data, rows))
    return {
        "moved by nothing": moved(before, weights(fast), vision=False),
        "apart": engines.apart(beside, alone),
    }


def with_mask(data: TensorDict, rows: list[Tensor]) -> TensorDict:
    data = data.copy()
    data["response_mask"] = data["loss_mask"] = nested(rows)
    return data


def shared(path: Path, image: int) -> dict[str, Any]:
    """Return what rows that share pages differ by from rows with features of their own, with a
    trained and with a frozen tower, and the images that a frozen one computed in two passes.
    """
    data, own = batches(image, PAGES)
    trained = engines.worker(worker_of("vrag_rl_qwen2_5_vl_7b"), path, rows=4)
    frozen = engines.worker(worker_of("doc_v_star_qwen2_5_vl_7b"), path, rows=2)
    passes = [engines.outputs(frozen, data, "log_probs") for _ in range(2)]
    computed = counts(frozen)
    # other micro-batches, so that pages are computed in other company
    pairs = tu.index_select_tensor_dict(data, [2, 0, 3, 1])
    getattr(frozen.engine, TOWER).forget()
    engines.outputs(frozen, pairs, "log_probs")
    passes.append(engines.outputs(frozen, data, "log_probs"))
    first, *others = passes
    return {
        "gradients": engines.apart(
            engines.update(trained, data)[0], engines.update(trained, own)[0]
        ),
        "bits": [
            all(torch.equal(a, b) for a, b in zip(first, other, strict=True)) for other in others
        ],
        "computed": computed,
    }


def report(folder: Path) -> dict[str, Any]:
    text = engines.once(engines.text_model, folder / "text")
    found: dict[str, Any] = {"masked": masked(text)}
    path, image = engines.picture_model(folder)
    data = engines.with_numbers(engines.picture_batch(image))
    return found | {
        "frozen": frozen(path, data),
        "shared": shared(path, image),
        "together": together(path, data),
    }


if __name__ == "__main__":
    engines.program(report)
