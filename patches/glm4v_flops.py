"""Count the operations of a training step of GLM-4V, for the utilisation metric.

Upstream: verl 0.9.1, `verl/utils/flops_counter.py`, `ESTIMATE_FUNC`. GLM-4V uses the function of
Qwen2, which reads the sizes of the language model from the outer configuration. Since transformers
5 they are only in `text_config`, and the first update ends the run ("'Glm4vConfig' object has no
attribute 'hidden_size'").

Here the function gets the language model's configuration; as before, the vision tower is not
counted.

No longer needed once the entry reads `text_config`.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

from docagent_rl.training.patching import TRAINING, Patch

MODEL = "glm4v"


def _apply(module: ModuleType) -> None:
    count = module.ESTIMATE_FUNC[MODEL]

    def count_language_model(config: Any, tokens: int, lengths: list[int], seconds: float) -> float:
        """Return operations per second, in units of 10^12."""
        return count(config.get_text_config(), tokens, lengths, seconds)

    vars(count_language_model)["__wrapped__"] = count
    module.ESTIMATE_FUNC[MODEL] = count_language_model


PATCH = Patch(
    name="glm4v_flops",
    package="verl",
    versions="==0.9.1",
    reference="verl/utils/flops_counter.py::ESTIMATE_FUNC",
    reason="the first update of GLM-4V fails to find the language model's sizes in the "
    "configuration",
    target_module="verl.utils.flops_counter",
    apply=_apply,
    processes=TRAINING,
)
