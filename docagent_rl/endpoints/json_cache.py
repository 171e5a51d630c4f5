"""A cache of JSON values on disk."""

import json
import os
import tempfile
from pathlib import Path
from typing import Any

from docagent_rl.base.errors import InfrastructureError, UserError
from docagent_rl.base.io import atomic_write


class JsonCache:
    """A cache of JSON values, each in a file named by its key, that lasts until it is deleted.

    Threads and processes may share the folder, which is created with the first value. Keys are
    hexadecimal digits. A damaged file counts as missing. All methods block, and raise an
    `InfrastructureError` if the disk fails.

    Raises:
        UserError: The folder cannot be used.
    """

    def __init__(self, folder: Path, what: str) -> None:
        self._folder = folder
        self._what = f"the {what} {folder}"
        place = next(each for each in (folder, *folder.absolute().parents) if each.exists())
        if not (place.is_dir() and os.access(place, os.W_OK | os.X_OK)):
            raise UserError(f"{self._what} cannot be opened: {place} is not a writable folder")

    def get(self, key: str) -> Any:
        """Return the value of `key`, or None."""
        try:
            return json.loads(self._file(key).read_bytes())
        except (FileNotFoundError, ValueError, RecursionError):
            return None
        except OSError as error:
            raise self._failure(error) from error

    def put(self, key: str, value: Any) -> Any:
        """Store a value unless there is one already; return the stored value.

        All processes that put a value get the same one.
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
                try:  # unlike a rename, a link does not replace an existing file
                    os.link(whole.name, file)
                except OSError:  # the file exists, or the file system does not support links
                    if not file.exists():
                        atomic_write(file, json.dumps(value))
        except OSError as error:
            raise self._failure(error) from error
        return self.get(key)

    def _file(self, key: str) -> Path:
        return self._folder / key[:2] / f"{key}.json"

    def _failure(self, error: OSError) -> InfrastructureError:
        return InfrastructureError(f"{self._what} cannot be used: {type(error).__name__}: {error}")
