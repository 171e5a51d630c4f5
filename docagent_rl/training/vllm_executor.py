"""vLLM's executor in the core of an engine, with a method more for `docagent-rl doctor --deep`.

The core does not import verl, and neither does this module, so that the doctor sees the effect of
vLLM's own plugins. Import it only in processes that run vLLM.
"""

import importlib
from typing import Any

from vllm.v1.executor.multiproc_executor import MultiprocExecutor

from docagent_rl.training.patching import patch_status

PATCHES = "docagent_patches_of_core"
"""The method that the core handles itself."""


class ProbeExecutor(MultiprocExecutor):
    """An executor that reports the patches of its process."""

    def collective_rpc(self, method: Any, *args: Any, **options: Any) -> Any:
        """Call a method of all workers as upstream; `PATCHES` returns this process's patch
        states.
        """
        if method == PATCHES:
            return [patches_here()]
        return super().collective_rpc(method, *args, **options)


def patches_here() -> dict[str, str]:
    """Import the modules that patches of this process wait for; return all states by name."""
    for status in patch_status():
        for module in status.waiting:
            importlib.import_module(module)
    return {status.name: status.state.value for status in patch_status()}
