"""Paths of a chain's workspace, as Python and as bash read them."""

import shlex
from dataclasses import dataclass
from pathlib import Path

WORKSPACE = "DOCAGENT_WORKSPACE"


@dataclass(frozen=True, kw_only=True)
class InWorkspace:
    """A base of settings whose chain works in a folder."""

    workspace: Path
    """The folder, absolute."""

    @property
    def environment(self) -> dict[str, str]:
        """Variables of all commands."""
        return {WORKSPACE: str(self.workspace)}

    def place(self, *parts: str) -> Path:
        """Return a path of the workspace."""
        return self.workspace.joinpath(*parts)

    def word(self, *parts: str) -> str:
        """Return a path of the workspace as bash reads it."""
        return shlex.quote(str(self.place(*parts)))
