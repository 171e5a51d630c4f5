"""The runs that a viewer shows, each with its index, store and tokenizer."""

import logging
import sqlite3
import threading
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from docagent_rl.base.errors import UserError
from docagent_rl.documents.store import DocumentStore
from docagent_rl.lab.agents.run_folder import run_names
from docagent_rl.lab.viewer.file_warnings import FileWarnings
from docagent_rl.lab.viewer.folder import ViewedRun
from docagent_rl.lab.viewer.index import Index, parsed_line, update_viewer_index
from docagent_rl.lab.viewer.queries import summary, trajectory_row

POLL_S = 3.0
"""Seconds between checks of the runs' folders."""

logger = logging.getLogger(__name__)


@dataclass
class OpenRun:
    """A run that a viewer shows; `store_dir` and `tokenizer_dir` take precedence over its own
    configuration.
    """

    number: int
    """Its position on the command line, from 0."""
    name: str
    folder: ViewedRun
    store_dir: Path | None = None
    tokenizer_dir: Path | None = None
    progress: tuple[int, int] | None = None
    """Bytes read so far and in total, while its files are being indexed."""
    indexed: bool = False
    """True if its index was brought up to date at least once."""
    failure: str | None = None
    """The reason why there is no index, shown on the page."""

    def update(self) -> bool:
        """Index what is new; return whether anything has changed.

        Raises:
            UserError: the index cannot be updated.
        """

        def progress(done: int, total: int) -> None:
            self.progress = done, total

        try:
            warnings_changed = self.file_warnings.update()
            changed = update_viewer_index(self.folder, progress) or warnings_changed
        except (OSError, sqlite3.Error) as error:
            self.failure = f"the index cannot be updated: {error}"
            raise UserError(f"{self.folder.path}: {self.failure}") from error
        finally:
            self.progress = None
        self.failure = None
        self.indexed = True
        return changed

    @cached_property
    def file_warnings(self) -> FileWarnings:
        """Warnings about its files."""
        return FileWarnings(self.folder.path)

    @contextmanager
    def index(self) -> Generator[sqlite3.Connection]:
        """Open its index for reading."""
        index = Index(self.folder.index_file)
        if not index.path.exists():
            index.prepare()
        with index.reading() as base:
            yield base

    def trajectory(self, number: int) -> dict[str, Any]:
        """Return a trajectory as it was recorded."""
        with self.index() as base:
            row = trajectory_row(base, number)
        try:
            with self.folder.file(row["file"]).open("rb") as file:
                file.seek(row["begin"])
                return parsed_line(file.read(row["length"]))
        except (OSError, ValueError) as error:
            raise UserError(
                f"{row['file']} has changed since it was indexed: reload the page"
            ) from error

    def described(self) -> dict[str, Any]:
        """Return a description of the run, JSON-ready."""
        with self.index() as base:
            found = summary(base)
        indexing = self.progress
        # before the first update an empty index does not mean an empty run
        if (
            indexing is None
            and self.failure is None
            and not (self.indexed or found["trajectories"])
        ):
            indexing = (0, 1)
        metrics = sum(1 for _ in (self.folder.path / "metrics").glob("*.json"))
        return {
            "id": self.number,
            "name": self.name,
            "kind": self.folder.kind,
            **found,
            "revision": found["revision"] + metrics,
            "indexing": indexing and {"done": indexing[0], "total": indexing[1]},
            "failure": self.failure,
        }

    @cached_property
    def store(self) -> DocumentStore | None:
        """The documents as the policy was shown them; `None` if no store is found."""
        for path in self._stores():
            try:
                return DocumentStore(path, image_cache=16)
            except (UserError, OSError) as error:
                logger.info("%s is not a usable store: %s", path, error)
        return None

    def _stores(self) -> Iterator[Path]:
        if self.store_dir is not None:
            yield self.store_dir
            return
        named = [self.folder.configured(f"docagent.{key}") for key in ("shown_store", "store")]
        near = self.folder.path.parent.parent / "store"  # <workspace>/runs/<experiment>
        yield from (path for path in (*named, near) if path is not None and path.is_dir())

    @cached_property
    def tokenizer(self) -> Any:
        """A tokenizer of the library `tokenizers`; `None` if none is found."""
        for file in (path / "tokenizer.json" for path in self._tokenizers()):
            if not file.is_file():
                continue
            from tokenizers import Tokenizer

            try:
                return Tokenizer.from_file(str(file))
            except Exception as error:  # the library raises plain exceptions for an invalid file
                logger.warning("%s is not a valid tokenizer: %s", file, error)
        return None

    def _tokenizers(self) -> Iterator[Path]:
        if self.tokenizer_dir is not None:
            yield self.tokenizer_dir
            return
        for key in ("tokenizer_path", "path"):
            if path := self.folder.configured(f"actor_rollout_ref.model.{key}"):
                yield path
        yield from sorted(self.folder.path.glob("checkpoints/global_step_*/actor/huggingface"))[-1:]


def open_runs(
    paths: Sequence[Path], store_dir: Path | None = None, tokenizer_dir: Path | None = None
) -> list[OpenRun]:
    """Open the runs given on the command line, named by as many of their folders as make the names
    distinct.

    Raises:
        UserError: one is not a run, or is named twice.
    """
    folders = [ViewedRun(path) for path in paths]
    named = zip(run_names([folder.path for folder in folders]), folders, strict=True)
    return [
        OpenRun(n, name, folder, store_dir, tokenizer_dir) for n, (name, folder) in enumerate(named)
    ]


def follow_runs(runs: Sequence[OpenRun], over: threading.Event, pause_s: float = POLL_S) -> None:
    """Index what is new in the runs, again and again, until `over` is set."""
    while True:
        for run in runs:
            try:
                run.update()
            except UserError as error:
                logger.warning("%s", error)
        if over.wait(pause_s):
            return
