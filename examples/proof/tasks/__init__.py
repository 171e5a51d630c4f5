"""The tasks, one for each system: documents that need its actions, and a script that is perfect."""

from __future__ import annotations

from importlib import import_module

from docagent_rl.base.errors import UserError
from proof.tasks.base import ProofTask

SYSTEMS = ("alden", "doc_v_star", "mm_doc_r1", "unidoc_rl", "vrag_rl")
"""The systems; the task of each is `proof.tasks.<system>:TASK`."""


def get_task(system: str) -> ProofTask:
    """Return the task of a system.

    Raises:
        UserError: the system has no task.
    """
    if system not in SYSTEMS:
        raise UserError(f"there is no task of {system!r}; choose from {', '.join(SYSTEMS)}")
    try:
        return import_module(f"proof.tasks.{system}").TASK
    except ModuleNotFoundError as error:
        if error.name != f"proof.tasks.{system}":
            raise
        raise UserError(
            f"the task of {system} is not written yet (examples/proof/tasks/{system}.py)"
        ) from None
