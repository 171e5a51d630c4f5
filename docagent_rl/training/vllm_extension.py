"""verl's extension of vLLM's workers, with a method more for `docagent-rl doctor --deep`.

Import it only in processes that run vLLM.
"""

from dataclasses import asdict
from typing import Any

from verl.workers.rollout.vllm_rollout.utils import vLLMColocateWorkerExtension

from docagent_rl.training.registrations import registered


class ProbeExtension(vLLMColocateWorkerExtension):
    """A worker that lists what is registered in its process."""

    def docagent_registered(self) -> dict[str, Any]:
        """Return the fields of `Registered`."""
        return asdict(registered())
