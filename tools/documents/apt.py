"""Debian packages through apt, without root: apt's own lists and cache stay as they are."""

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

    The machine's own package lists are used first. Where they do not know a package, fresh ones are
    fetched into the folder, as an ordinary user may.

    Args:
        folder: Where packages and lists go; made when absent.
        options: More options of apt, such as `Dir::Etc::SourceList=FILE`.

    Raises:
        UserError: This is no Debian, so that there is nothing to download with.
    """

    def __init__(self, folder: Path, options: Sequence[str] = ()) -> None:
        if missing := [tool for tool in TOOLS if shutil.which(tool) is None]:
            raise UserError(
                f"{' and '.join(missing)} not found: the documents come from Debian's packages, so "
                "fetch "
                "them on a machine (or in a container) with Debian and copy the folder"
            )
        self._folder = folder.absolute()
        self._given = list(options)
        self._own_lists = False

    def download(self, package: str, version: str) -> tuple[Path, str]:
        """A package as a file, and its version.

        The version that the mirror offers is taken where it lacks the wanted one: it is for the
        caller to see whether that will do.

        Raises:
            UserError: No mirror that apt knows has the package.
            InfrastructureError: The mirror does not answer.
        """
        if not self._offered(package):
            self._update()
        offered = self._offered(package)
        if not offered:
            raise UserError(
                f"apt knows no package {package!r}: its sources (/etc/apt/sources.list) are not "
                "Debian's main"
            )
        chosen = version if version in offered else offered[0]
        kept = self._folder / f"{package}.deb"
        with tempfile.TemporaryDirectory(dir=self._folder) as scratch:
            self._run("apt-get", "download", "-q", f"{package}={chosen}", cwd=Path(scratch))
            [file] = Path(scratch).glob("*.deb")
            file.replace(kept)
        return kept, chosen

    def _offered(self, package: str) -> list[str]:
        """The versions that can be downloaded, the newest first."""
        lines = self._run("apt-cache", "madison", package).splitlines()
        rows = [[cell.strip() for cell in line.split("|")] for line in lines]
        return [row[1] for row in rows if len(row) == 3 and not row[2].endswith("Sources")]

    def _update(self) -> None:
        self._own_lists = True
        for name in ("lists/partial", "cache/archives/partial"):
            (self._folder / name).mkdir(parents=True, exist_ok=True)
        (self._folder / "status").touch()
        # an index that cannot be had is an error, not a warning
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
            # locks, lists and caches of its own, so that neither root is needed nor the system's
            # are touched
            options += [
                f"Dir::State={self._folder}",
                f"Dir::State::lists={self._folder / 'lists'}",
                f"Dir::State::status={self._folder / 'status'}",
                f"Dir::Cache={self._folder / 'cache'}",
            ]
        return [word for option in options for word in ("-o", option)]


def read_member(package: Path, path: str) -> bytes | None:
    """A file of a package, None when it has none of that name. Nothing is unpacked to disk.

    Raises:
        UserError: The package is damaged.
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
