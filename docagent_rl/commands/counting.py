"""How the texts of a stored run were counted."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from docagent_rl.base.errors import UserError

if TYPE_CHECKING:
    from docagent_rl.envs.token_budget import TokenCounter


def run_counter(run: Path, tokenizer: Path | None = None) -> TokenCounter:
    """How the run counted the tokens of texts that it kept within budgets.

    Args:
        run: its folder, or a file of trajectories; one that belongs to no run has no tokenizer.
        tokenizer: a folder with a `tokenizer.json`; default: what the run's configuration names, or its last
            checkpoint holds. A run without one, as with a model behind an endpoint, estimated them.

    Raises:
        UserError: there is none in `tokenizer`.
    """
    from docagent_rl.envs.token_budget import estimated_tokens
    from docagent_rl.lab.viewer.folder import ViewedRun
    from docagent_rl.lab.viewer.runs import OpenRun, Places

    try:
        folder = ViewedRun(run)
    except UserError:
        if tokenizer is not None:
            raise
        # no run; whoever reads its trajectories says what is wrong with it
        return estimated_tokens
    found = OpenRun(0, run.name, folder, Places(tokenizer=tokenizer)).tokenizer
    if found is None:
        if tokenizer is not None:
            raise UserError(f"{tokenizer} holds no tokenizer.json that can be read")
        return estimated_tokens
    return lambda text: len(found.encode(text, add_special_tokens=False).ids)
