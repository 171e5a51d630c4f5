"""Warnings about files of a run that differ from what was written, or are not sealed."""

import logging
import threading
from collections.abc import Hashable
from dataclasses import dataclass, field
from pathlib import Path

from docagent_rl.base.seals import Sealed
from docagent_rl.checkpoints.file_status import (
    FileFinding,
    FileStatus,
    finding,
    is_run,
    names_of,
    read_seal_of,
    seal_finding,
)
from docagent_rl.lab.viewer import steps

_NAMED = 5
_SAID = {
    FileStatus.DAMAGED: ("bad", "Files of this run are damaged"),
    FileStatus.UNSEALED: ("warn", "Files of this run are not sealed"),
}

logger = logging.getLogger(__name__)


@dataclass
class FileWarnings:
    """Compares the files of a run with its seal, and again whenever one has changed."""

    root: Path
    _found: dict[str, tuple[Hashable, FileFinding]] = field(default_factory=dict)
    """For each file name, the state in which the file was compared, and the result."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def update(self) -> bool:
        """Compare what has changed since the last call; return whether the warnings changed.

        Damaged files are named in the log.

        Raises:
            UserError: the seal cannot be read.
        """
        if not is_run(self.root):
            return False
        with self._lock:
            sealed = read_seal_of(self.root)
            before = self._found
            broken = seal_finding(self.root, sealed)
            names = names_of(self.root, sealed)
            self._found = {name: self._compared(name, sealed) for name in names}
            if broken is not None:
                self._found[""] = sealed, broken
            new = [each for name, each in self._found.items() if each != before.get(name)]
            for _, found in new:
                if found.status is FileStatus.DAMAGED:
                    logger.warning("%s", found)
            return bool(new)

    def warnings(self) -> list[steps.StepWarning]:
        """Return one warning about damaged files, and one about unsealed files."""
        warnings = []
        for status, (severity, title) in _SAID.items():
            lines = [str(found) for _, found in self._found.values() if found.status is status]
            if lines:
                more = [f"and {len(lines) - _NAMED} more"] if len(lines) > _NAMED else []
                text = "; ".join(
                    [*lines[:_NAMED], *more, f"`docagent-rl check {self.root}` lists them all"]
                )
                warnings.append(steps.StepWarning(status.value, severity, title, text, None))
        return warnings

    def _compared(self, name: str, sealed: Sealed) -> tuple[Hashable, FileFinding]:
        try:
            state = (self.root / name).stat()
            now = state.st_size, state.st_mtime_ns, sealed.records.get(name), name in sealed.begun
        except OSError:
            now = None, None, sealed.records.get(name), name in sealed.begun
        before = self._found.get(name)
        return before if before and before[0] == now else (now, finding(self.root, name, sealed))
