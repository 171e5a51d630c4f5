"""The operations of a training step of GLM-4V, for the metric of utilisation.

Upstream: verl 0.9.1, `verl/utils/flops_counter.py`, `ESTIMATE_FUNC`. GLM-4V is counted by the
function of Qwen2, which reads the sizes of the language model from the outer configuration. Since
transformers 5 they are in `text_config` alone: the first update ends the run ("'Glm4vConfig' object
has no attribute 'hidden_size'").

Here the language model's configuration is counted; the vision tower is not, as before.

Unneeded once the entry reads `text_config`.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

from docagent_rl.training.patching import TRAINING, Patch

MODEL = "glm4v"


def _apply(module: ModuleType) -> None:
    count = module.ESTIMATE_FUNC[MODEL]

    def count_language_model(config: Any, tokens: int, lengths: list[int], seconds: float) -> float:
        """Return operations a second, in units of 10^12."""
        return count(config.get_text_config(), tokens, lengths, seconds)

    vars(count_language_model)["__wrapped__"] = count
    module.ESTIMATE_FUNC[MODEL] = count_language_model


PATCH = Patch(
    name="glm4v_flops",
    package="verl",
    versions="==0.9.1",
    reference="verl/utils/flops_counter.py::ESTIMATE_FUNC",
    reason="the first update of a GLM-4V looks for the language model's sizes in the outer "
    "configuration",
    target_module="verl.utils.flops_counter",
    apply=_apply,
    processes=TRAINING,
)
