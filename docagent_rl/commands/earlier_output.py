"""What `data generate` finds where it is to write: looked at before anything is paid for."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from docagent_rl.base.errors import UserError
from docagent_rl.lab.generate.funnel import digest_of


def funnel_file(out: Path) -> Path:
    """Return where the numbers of a run lie, beside its questions."""
    return out.with_name(f"{out.name}.funnel.json")


def may_replace(out: Path, settings: str, *, force: bool) -> bool:
    """Return whether a file that is there may be replaced by another.

    Only one that the same settings made, and that lacks what an endpoint did not reply to, is replaced
    unasked; one that the same settings made, and that lacks nothing, is made again as it is.

    Args:
        out: the file.
        settings: digest of what is asked for.
        force: whatever it is.

    Raises:
        UserError: something else made it, it was changed and lacks something, or it is a folder.
    """
    if out.is_dir():
        raise UserError(f"{out} is a folder: name a file")
    if force or not out.exists():
        return force
    recorded = _recorded(funnel_file(out))
    if recorded.get("settings") != settings:
        raise UserError(
            f"{out} was made by other settings, or by something else; name another file, or replace it with "
            "--force"
        )
    lacking = recorded.get("unanswered")
    if isinstance(lacking, Mapping) and lacking.get("sha256") != digest_of(out.read_bytes()):
        raise UserError(
            f"{out} was changed since it was made, and what got no reply is still to be asked; name another "
            "file, or replace it with --force"
        )
    return isinstance(lacking, Mapping)


def _recorded(file: Path) -> Mapping[str, Any]:
    try:
        found = json.loads(file.read_bytes()) if file.is_file() else {}
    except ValueError:  # half a character is one, too
        return {}
    return found if isinstance(found, Mapping) else {}
