"""The runs of a viewer, each with its index, store and tokenizer."""

from __future__ import annotations

import logging
import sqlite3
import threading
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from docagent_rl.base.errors import UserError
from docagent_rl.documents import DocumentStore
from docagent_rl.documents.shown import ShownRasters, beside
from docagent_rl.lab.agents.run_folder import run_names
from docagent_rl.lab.viewer.folder import ViewedRun
from docagent_rl.lab.viewer.index import Index, parsed, update_index
from docagent_rl.lab.viewer.queries import summary, trajectory_row

POLL_S = 2.0
"""Seconds between two looks at the folder of a run; five times as long where nothing happens."""
_SHOWN_BYTES = 1 << 30
_DAMAGED = (OSError, sqlite3.Error)

logger = logging.getLogger(__name__)


class Places(NamedTuple):
    """Places that a user names where the run's own configuration names others."""

    store: Path | None = None
    tokenizer: Path | None = None


@dataclass
class OpenRun:
    """A run of a viewer."""

    number: int
    """Its place on the command line, from 0."""
    name: str
    folder: ViewedRun
    places: Places = field(default_factory=Places)
    progress: tuple[int, int] | None = None
    """Bytes that were read and that there are, while its files are being read."""
    failure: str | None = None
    """The reason why there is no index."""

    def update(self) -> bool:
        """Read what is new; return whether anything has changed. The page shows a failure."""

        def progress(done: int, total: int) -> None:
            self.progress = (done, total) if total else None

        try:
            changed = update_index(self.folder, progress)
            self.failure = None
            return changed
        except _DAMAGED as error:
            logger.warning("the index of %s: %s", self.folder.path, error)
            self.failure = f"the index cannot be kept: {error}"
            return False
        finally:
            self.progress = None

    def require_update(self) -> None:
        """Read what is new.

        Raises:
            UserError: the index cannot be kept.
        """
        self.update()
        if self.failure is not None:
            raise UserError(f"{self.folder.path}: {self.failure}")

    @contextmanager
    def index(self) -> Generator[sqlite3.Connection]:
        """Open its index for reading."""
        index = Index(self.folder.index_file)
        if not index.path.exists():
            index.prepare()
        with index.reading() as base:
            yield base

    def trajectory(self, number: int) -> dict[str, Any]:
        """Return a trajectory as it was recorded.

        Raises:
            UserError: there is none, or its line is not what was indexed.
        """
        with self.index() as base:
            row = trajectory_row(base, number)
        try:
            with self.folder.file(row["file"]).open("rb") as file:
                file.seek(row["begin"])
                return parsed(file.read(row["length"]))
        except (OSError, ValueError) as error:
            raise UserError(f"{row['file']} has changed since it was indexed: load the page again") from error

    def described(self) -> dict[str, Any]:
        """Return it ready for JSON."""
        with self.index() as base:
            found = summary(base)
        indexing = self.progress
        metrics = sum(1 for _ in (self.folder.path / "metrics").glob("*.json"))
        return {
            "id": self.number,
            "name": self.name,
            "kind": self.folder.kind,
            **found,
            "revision": found["revision"] + metrics,
            "indexing": indexing and {"done": indexing[0], "total": indexing[1]},
            "failure": self.failure,
            "store": self.store is not None,
            "tokenizer": self.tokenizer is not None,
        }

    @cached_property
    def store(self) -> DocumentStore | None:
        """The documents as the policy was shown them; `None` where no store is found."""
        for path in (*self._dirs("docagent.shown_store"), *self._stores()):
            try:
                shown = ShownRasters((beside(path.absolute()),), capacity=_SHOWN_BYTES)
                return DocumentStore(path, image_cache=16, shown=shown)
            except (UserError, OSError) as error:
                logger.info("%s is no store: %s", path, error)
        return None

    def _stores(self) -> list[Path]:
        if self.places.store is not None:
            return [self.places.store]
        # <workspace>/runs/<experiment>
        near = [self.folder.path.parent.parent / "store", self.folder.path.parent / "store"]
        return [*self._dirs("docagent.store"), *(path for path in near if path.is_dir())]

    def _dirs(self, key: str) -> list[Path]:
        """Return folders that the configuration names; none where the command names a store."""
        named = [] if self.places.store is not None else self.folder.configured_paths(key)
        return [path for path in named if path.is_dir()]

    @cached_property
    def tokenizer(self) -> Any:
        """A tokenizer of the library `tokenizers`; `None` where none is found."""
        for file in (path / "tokenizer.json" for path in self._tokenizers()):
            if not file.is_file():
                continue
            from tokenizers import Tokenizer

            try:
                return Tokenizer.from_file(str(file))
            except Exception as error:  # all that the library raises for a file that is none
                logger.warning("%s is no tokenizer: %s", file, error)
        return None

    def _tokenizers(self) -> Iterator[Path]:
        if self.places.tokenizer is not None:
            yield self.places.tokenizer
            return
        workspace = next((path.parent for path in self._stores()), None)
        for key in ("tokenizer_path", "path"):
            yield from self.folder.configured_paths(f"actor_rollout_ref.model.{key}", workspace)
        yield from sorted(self.folder.path.glob("checkpoints/global_step_*/actor/huggingface"))[-1:]


def open_runs(paths: Sequence[Path], places: Places) -> list[OpenRun]:
    """Open the runs of a command line; names are as long as tells their folders apart.

    Raises:
        UserError: one is no run, or is named twice.
    """
    folders = [ViewedRun(path) for path in paths]
    names = run_names([folder.path for folder in folders])
    return [
        OpenRun(n, name, folder, places) for n, (name, folder) in enumerate(zip(names, folders, strict=True))
    ]


class Poller:
    """Reads what is new in runs again and again, in a thread of its own."""

    def __init__(self, runs: Sequence[OpenRun], pause_s: float = POLL_S) -> None:
        self._runs = runs
        self._pause_s = pause_s
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._poll, name="docagent-view-index", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread after its present look."""
        self._over.set()
        self._thread.join()

    def _poll(self) -> None:
        pause = self._pause_s
        while not self._over.is_set():
            changed = [run.update() for run in self._runs]
            pause = self._pause_s if any(changed) else min(1.2 * pause, 5 * self._pause_s)
            self._over.wait(pause)
