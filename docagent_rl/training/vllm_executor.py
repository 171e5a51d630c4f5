"""vLLM's executor of worker processes, in the core of an engine, with a method for
`docagent-rl doctor`.

The core imports no verl, and neither does this module: what the doctor finds is what vLLM's own
plugins do. Import it in a process that runs vLLM only.
"""

import importlib
from typing import Any

from vllm.v1.executor.multiproc_executor import MultiprocExecutor

from docagent_rl.training.patching import patch_status

PATCHES = "docagent_patches_of_core"
"""The method that the core answers itself."""


class ProbeExecutor(MultiprocExecutor):
    """An executor that says which patches its process has."""

    def collective_rpc(self, method: Any, *args: Any, **options: Any) -> Any:
        """Call a method of all workers, as upstream; `PATCHES` returns the states of patches by
        name.
        """
        if method == PATCHES:
            return [patches_here()]
        return super().collective_rpc(method, *args, **options)


def patches_here() -> dict[str, str]:
    """Import what the patches of this process wait for, and return the state of each by name."""
    for status in patch_status():
        for module in status.waiting:
            importlib.import_module(module)
    return {status.name: status.state.value for status in patch_status()}
