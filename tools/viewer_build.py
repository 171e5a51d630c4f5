"""Build the viewer's page, or check that the committed build belongs to the sources.

python -m tools.viewer_build [--check]

The build that users run is committed (`docagent_rl/lab/viewer/static`), so that they do not need
npm. `build.json` next to the sources has the checksums of both, and the check compares them
everywhere. Where npm and its packages are available, it also builds the sources and compares the
files.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

FRONTEND = Path(__file__).resolve().parents[1] / "docagent_rl/lab/viewer/frontend"
BUILT = ("index.html", "app.js", "app.css")
_SOURCES = ("package.json", "package-lock.json", "tsconfig.json", "vite.config.ts", "src")

app = typer.Typer(add_completion=False)


@app.command()
def main(
    check: Annotated[
        bool, typer.Option("--check", help="Change nothing; status 1 if the build is stale.")
    ] = False,
) -> None:
    """Build the viewer's page from its sources, after checking types and running tests."""
    static = FRONTEND.parent / "static"
    if check and (reason := stale(FRONTEND, static)):
        _end(reason)
    if shutil.which("npm") is None:
        if not check:
            _end("npm is missing (Node 20 or later)")
        typer.echo("viewer: checksums match; npm is missing, so the page was not built again")
        return
    if not _installed():
        if not check:
            _end("npm ci failed: see above")
        typer.echo(
            "viewer: checksums match; npm cannot get its packages, so the page was not built again"
        )
        return
    _npm("run", "check")
    _npm("test")
    if not check:
        _npm("run", "build")
        (FRONTEND / "build.json").write_text(json.dumps(sums(FRONTEND, static), indent=2) + "\n")
        return
    with tempfile.TemporaryDirectory() as folder:
        _npm("exec", "--offline", "--", "vite", "build", "--outDir", folder, "--emptyOutDir")
        if digest(static, BUILT) != digest(Path(folder), BUILT):
            _end("viewer: a build of the sources differs from docagent_rl/lab/viewer/static")


def stale(frontend: Path, static: Path) -> str | None:
    """Return an error if the committed page does not belong to the sources, else `None`."""
    recorded = json.loads((frontend / "build.json").read_text())
    now = sums(frontend, static)
    for what in ("sources", "built"):
        if recorded.get(what) != now[what]:
            return (
                f"viewer: the {what} are not those of the last build: run python -m "
                "tools.viewer_build"
            )
    return None


def sums(frontend: Path, static: Path) -> dict[str, str]:
    """Return checksums of the sources and of the build."""
    return {"sources": digest(frontend, _SOURCES), "built": digest(static, BUILT)}


def digest(folder: Path, names: Iterable[str]) -> str:
    """Return a digest of the names and contents of files; a folder stands for all files in it."""
    found = hashlib.sha256()
    for name in names:
        place = folder / name
        files = (
            sorted(each for each in place.rglob("*") if each.is_file())
            if place.is_dir()
            else [place]
        )
        for file in files:
            content = file.read_bytes()
            found.update(f"{file.relative_to(folder).as_posix()} {len(content)}\n".encode())
            found.update(content)
    return found.hexdigest()


def _installed() -> bool:
    """Return whether the packages of the lock file are installed, after trying to install them."""
    have = FRONTEND / "node_modules/.package-lock.json"
    want = FRONTEND / "package-lock.json"
    if have.is_file() and have.stat().st_mtime >= want.stat().st_mtime:
        return True
    return _run("ci", "--no-audit", "--no-fund")


def _npm(*arguments: str) -> None:
    if not _run(*arguments):
        _end(f"viewer: npm {' '.join(arguments)} failed in {FRONTEND}")


def _run(*arguments: str) -> bool:
    environment = {**os.environ, "NO_UPDATE_NOTIFIER": "1"}
    found = subprocess.run(
        ["npm", *arguments],
        cwd=FRONTEND,
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    if found.returncode:
        sys.stderr.write(found.stdout + found.stderr)
    return found.returncode == 0


def _end(reason: str) -> None:
    typer.echo(reason, err=True)
    raise typer.Exit(1)


if __name__ == "__main__":
    app()
