"""Remove old checkpoints of a run (`trainer.max_actor_ckpt_to_keep`) after a newer one is complete.

verl removes an old checkpoint as soon as the actor of the new one is saved: if only one is kept,
and the run ends before the critic, the data and the tracker are saved, it has no checkpoint left.
"""

import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from docagent_rl.checkpoints.inspection import DATA, QUEUE, CheckpointState, inspect, is_shard
from docagent_rl.checkpoints.manifest import (
    UNFINISHED,
    CheckpointCheck,
    file_names,
    mark_unfinished,
    step_folders,
    step_of,
)


class Retention:
    """The checkpoints of a run, from this process and from earlier starts, and which to keep.

    Args:
        keep: the number to keep for each part of a checkpoint (`actor`, `critic`); None or 0: all.
    """

    def __init__(self, keep: Mapping[str, int | None]) -> None:
        self._keep = {part: number for part, number in keep.items() if number and number > 0}
        self._saved: dict[str, list[Path]] = {part: [] for part in keep}
        self._best: tuple[float, Path] | None = None

    def adopt(self, root: Path, step: int) -> list[Path]:
        """Register the checkpoints of earlier starts up to `step`, where the run resumes; return
        them.

        A later checkpoint belongs to steps that the run repeats; it is kept until its step is saved
        again. One without a manifest, saved without this plugin, is kept as well. What an
        interrupted removal left behind is removed first.
        """
        parts = tuple(self._saved)
        whole = []
        unfinished = []
        for folder in reversed(step_folders(root)):
            if (step_of(folder) or 0) > step:
                continue
            if inspect(folder, CheckpointCheck.SIZES, parts).state is CheckpointState.WHOLE:
                whole.append(folder)
            if (folder / UNFINISHED).exists():
                unfinished.append(folder)

        for part, saved in self._saved.items():
            saved[:0] = [folder for folder in (*unfinished, *whole) if (folder / part).is_dir()]
        for folder in unfinished:
            self._remove_rest(folder)
        return whole

    def make_room(self, folder: Path) -> None:
        """Remove checkpoints before one is saved to `folder`, but never the last complete one.

        Shards of an earlier save to the same folder are removed first: another number of ranks
        would not overwrite them.
        """
        mark_unfinished(folder)
        for name in filter(is_shard, file_names(folder)):
            (folder / name).unlink()
        for saved in self._saved.values():
            saved[:] = [path for path in saved if path != folder]
        for part, number in self._keep.items():
            self._remove_beyond(part, max(number - 1, 1))

    def add(self, folder: Path) -> None:
        """Register a complete checkpoint, and remove those beyond the limit."""
        for saved in self._saved.values():
            saved.append(folder)
        for part, number in self._keep.items():
            self._remove_beyond(part, number)

    def rate(self, folder: Path, score: float) -> None:
        """Keep a registered checkpoint in addition to the limit while its validation score is best.

        Of equal scores, the later checkpoint is kept.
        """
        known = any(folder in saved for saved in self._saved.values())
        if known and (self._best is None or score >= self._best[0]):
            self._best = (score, folder)

    def _remove_beyond(self, part: str, number: int) -> None:
        """Remove a part of all checkpoints but the last `number` ones and the best."""
        saved = self._saved[part]
        best = None if self._best is None else self._best[1]
        old = [folder for folder in saved[:-number] if folder != best]
        saved[:] = [folder for folder in saved if folder not in old]
        for folder in old:
            mark_unfinished(folder)
            shutil.rmtree(folder / part, ignore_errors=True)
            self._remove_rest(folder)

    def _remove_rest(self, folder: Path) -> None:
        """Remove what is useless without the models; the user's own files are kept in the
        folder.
        """
        if any(folder in others for others in self._saved.values()):
            return
        (folder / DATA).unlink(missing_ok=True)
        shutil.rmtree(folder / QUEUE, ignore_errors=True)
        (folder / UNFINISHED).unlink(missing_ok=True)
        with suppress(OSError):
            folder.rmdir()
