"""Download Debian packages with apt, without root and without changing the system's lists."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path

from docagent_rl.base.errors import InfrastructureError, UserError

TOOLS = ("apt-get", "apt-cache", "dpkg-deb")


class Apt:
    """Downloads packages into a folder.

    The machine's own package lists are used first. If they do not know a package, fresh ones are
    fetched into the folder, which an ordinary user may do.

    Args:
        folder: for packages and lists; created if missing.
        options: additional options for apt, such as `Dir::Etc::SourceList=FILE`.

    Raises:
        UserError: this is not Debian, so there is no apt to download with.
    """

    def __init__(self, folder: Path, options: Sequence[str] = ()) -> None:
        if missing := [tool for tool in TOOLS if shutil.which(tool) is None]:
            raise UserError(
                f"{' and '.join(missing)} not found: the documents come from Debian's packages, so "
                "fetch them on a machine (or in a container) with Debian, and copy the folder"
            )
        self._folder = folder.absolute()
        self._given = list(options)
        self._own_lists = False

    def download(self, package: str, version: str) -> tuple[Path, str]:
        """Download a package; return its file and its version.

        If the mirror lacks the wanted version, the one that it offers is downloaded; the caller
        must check whether it has the same documents.

        Raises:
            UserError: no mirror that apt knows has the package.
            InfrastructureError: the mirror does not answer.
        """
        if not self._offered(package):
            self._update()
        offered = self._offered(package)
        if not offered:
            raise UserError(
                f"apt does not know the package {package!r}: its sources (/etc/apt/sources.list) "
                "lack Debian's main; add it"
            )
        chosen = version if version in offered else offered[0]
        kept = self._folder / f"{package}.deb"
        with tempfile.TemporaryDirectory(dir=self._folder) as scratch:
            self._run("apt-get", "download", "-q", f"{package}={chosen}", cwd=Path(scratch))
            [file] = Path(scratch).glob("*.deb")
            file.replace(kept)
        return kept, chosen

    def _offered(self, package: str) -> list[str]:
        """Return the versions that can be downloaded, the newest first."""
        lines = self._run("apt-cache", "madison", package).splitlines()
        rows = [[cell.strip() for cell in line.split("|")] for line in lines]
        return [row[1] for row in rows if len(row) == 3 and not row[2].endswith("Sources")]

    def _update(self) -> None:
        self._own_lists = True
        for name in ("lists/partial", "cache/archives/partial"):
            (self._folder / name).mkdir(parents=True, exist_ok=True)
        (self._folder / "status").touch()
        # treat an index that cannot be fetched as an error instead of a warning
        self._run("apt-get", "update", "-q", "-o", "APT::Update::Error-Mode=any")

    def _run(self, *command: str, cwd: Path | None = None) -> str:
        self._folder.mkdir(parents=True, exist_ok=True)
        done = subprocess.run(
            [command[0], *self._options(), *command[1:]],
            cwd=cwd,
            env={**os.environ, "LC_ALL": "C"},
            capture_output=True,
            text=True,
            errors="replace",
        )
        if done.returncode:
            said = [line for line in done.stderr.splitlines() if line.startswith("E:")] or [
                done.stderr.strip()
            ]
            raise InfrastructureError(f"{' '.join(command)} failed: {'; '.join(said)}")
        return done.stdout

    def _options(self) -> list[str]:
        options = ["APT::Sandbox::User=root", "Acquire::Retries=3", *self._given]
        if self._own_lists:
            # separate locks, lists and caches, so that no root is needed and the system's are not
            # touched
            options += [
                f"Dir::State={self._folder}",
                f"Dir::State::lists={self._folder / 'lists'}",
                f"Dir::State::status={self._folder / 'status'}",
                f"Dir::Cache={self._folder / 'cache'}",
            ]
        return [word for option in options for word in ("-o", option)]


def read_member(package: Path, path: str) -> bytes | None:
    """Return a file of a package without unpacking it to disk, or None if there is no such file.

    Raises:
        UserError: the package is damaged.
    """
    done = subprocess.run(["dpkg-deb", "--fsys-tarfile", package], capture_output=True)
    if done.returncode:
        raise UserError(f"{package} is damaged: {done.stderr.decode(errors='replace').strip()}")
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
        for name in (f"./{path}", path):
            try:
                file = archive.extractfile(name)
            except KeyError:
                continue
            return file.read() if file else None
    return None
