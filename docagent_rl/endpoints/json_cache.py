"""JSON values by key on disk."""

import json
import os
import tempfile
from pathlib import Path
from typing import Any

from docagent_rl.base.errors import InfrastructureError, UserError
from docagent_rl.base.io import atomic_write


class JsonCache:
    """JSON values, each a file named by its key, that stay until their folder is deleted.

    Threads and processes may share the folder, which is made with the first value. Keys are
    hexadecimal digits. A damaged file counts as absent. All methods block, and raise
    `InfrastructureError` when the disk fails.

    Raises:
        UserError: the folder cannot be used.
    """

    def __init__(self, folder: Path, what: str) -> None:
        self._folder = folder
        self._what = f"the {what} {folder}"
        place = next(each for each in (folder, *folder.absolute().parents) if each.exists())
        if not (place.is_dir() and os.access(place, os.W_OK | os.X_OK)):
            raise UserError(
                f"{self._what} cannot be opened: {place} is no folder that can be written"
            )

    def get(self, key: str) -> Any:
        """Return the value under `key`, or `None`."""
        try:
            return json.loads(self._file(key).read_bytes())
        except (FileNotFoundError, ValueError, RecursionError):
            return None
        except OSError as error:
            raise self._failure(error) from error

    def put(self, key: str, value: Any) -> Any:
        """Keep a value unless there is one, and return the one that is kept, the same for all
        processes.
        """
        file = self._file(key)
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile("w", dir=file.parent, prefix=".") as whole:
                json.dump(value, whole)
                whole.flush()
                if file.exists() and self.get(key) is None:
                    file.unlink(missing_ok=True)
                Path(whole.name).chmod(0o644)
                try:  # unlike a rename, a link leaves what is there
                    os.link(whole.name, file)
                except OSError:  # it is there, or this file system has no links
                    if not file.exists():
                        atomic_write(file, json.dumps(value))
        except OSError as error:
            raise self._failure(error) from error
        return self.get(key)

    def _file(self, key: str) -> Path:
        return self._folder / key[:2] / f"{key}.json"

    def _failure(self, error: OSError) -> InfrastructureError:
        return InfrastructureError(f"{self._what} cannot be used: {type(error).__name__}: {error}")
