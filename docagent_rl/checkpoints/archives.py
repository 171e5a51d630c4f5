"""The number and the checksum of a step's trajectories, beside them: `trajectories/<step>.json`."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

import yaml

from docagent_rl.base.io import atomic_write, is_sealed, seal
from docagent_rl.documents.audit import Audit, Damage

_RESTORE = "take the file from a copy, or leave the step out of what you report"


def write_seal(archive: Path, trajectories: int, sha256: str) -> None:
    """Record what a whole file of trajectories holds."""
    atomic_write(
        _seal_of(archive), seal(json.dumps({"trajectories": trajectories, "sha256": sha256}, indent=1))
    )


def remove_seal(archive: Path) -> None:
    """Forget what a file of trajectories held: another takes its place."""
    _seal_of(archive).unlink(missing_ok=True)


def audit_archives(run_dir: Path) -> Audit:
    """Compare the files of a run's trajectories with their seals, and read its numbers and its
    configuration.
    """
    archives = sorted(run_dir.glob("trajectories/*.jsonl"))
    seals = set(run_dir.glob("trajectories/*.json"))
    audit = Audit(f"{len(archives)} files of trajectories")
    for archive in archives:
        if _seal_of(archive) not in seals:
            audit.unsealed += 1
        elif problem := _problem(archive):
            audit.damages.append(Damage(archive, f"{problem}; {_RESTORE}"))
    lost = sorted(seals - {_seal_of(archive) for archive in archives})
    audit.damages += [Damage(each.with_suffix(".jsonl"), f"is missing; {_RESTORE}") for each in lost]
    audit.damages += [*_damaged_metrics(run_dir), *_damaged_configuration(run_dir)]
    return audit


def _seal_of(archive: Path) -> Path:
    return archive.with_suffix(".json")


def _problem(archive: Path) -> str | None:
    try:
        data = _seal_of(archive).read_bytes()
        if not is_sealed(data):
            raise ValueError("it has no checksum")
        known = json.loads(data)
        trajectories, sha256 = int(known["trajectories"]), str(known["sha256"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        return f"its seal {_seal_of(archive).name} is damaged ({error})"
    digest, found = hashlib.sha256(), 0
    try:
        with archive.open("rb") as lines:
            for line in lines:
                digest.update(line)
                found += 1
    except OSError as error:
        return f"cannot be read ({error.strerror or error})"
    if found != trajectories:
        return f"has {found} trajectories, and {trajectories} were written"
    return None if digest.hexdigest() == sha256 else "its checksum is that of other bytes: it was edited"


def _damaged_metrics(run_dir: Path) -> Iterator[Damage]:
    for path in sorted(run_dir.glob("metrics/*.json")):
        try:
            whole = isinstance(json.loads(path.read_bytes()), dict)
        except (OSError, ValueError):
            whole = False
        if not whole:
            yield Damage(path, f"holds no numbers of a step; {_RESTORE}")


def _damaged_configuration(run_dir: Path) -> Iterator[Damage]:
    folder = run_dir / "hydra"
    if not folder.is_dir():
        return
    for path in sorted({folder / "config.yaml", *folder.glob("*.yaml")}):
        try:
            found = yaml.safe_load(path.read_bytes())
        except (OSError, yaml.YAMLError) as error:
            problem = f"cannot be read ({type(error).__name__})"
        else:
            if found is not None or (path.name != "config.yaml" and path.stat().st_size > 0):
                continue
            problem = "is empty"
        yield Damage(
            path,
            f"{problem}: it says what the run did; take it from a copy, or compose it with the same command",
        )
