"""The files of the first stage: made with an index, carried over where shards stay."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from docagent_rl.base.errors import UserError
from docagent_rl.retrieval.index_files import IndexFiles
from docagent_rl.retrieval.index_header import Sha256
from docagent_rl.retrieval.vectors.bank import Bank
from docagent_rl.retrieval.vectors.candidates import Candidates, lists_of
from docagent_rl.retrieval.vectors.clusters import Clusters, cluster_count, sample_size, train
from docagent_rl.retrieval.vectors.header import Source
from docagent_rl.retrieval.vectors.parts import Scratch, part_damages, place, read_part
from docagent_rl.retrieval.vectors.sealed_headers import SealedModel, damaged_vectors, read_sealed

HEADER = "candidates.json"
_GROWTH = 2
_READ = 1 << 17


class CandidatesHeader(SealedModel):
    """Of the files of a first stage."""

    schema_version: Literal[1] = 1
    source: Source
    clusters: int = Field(ge=1, le=1 << 16)
    entries: int = Field(ge=0)
    """Numbers in `pages.bin`."""
    rows: int = Field(ge=1)
    trained_on: int = Field(ge=1)
    """Vectors of the index that the clusters were made for."""
    files: dict[Annotated[str, Field(pattern=r"^(centroids|starts|pages|shard-[0-9a-f]{16})\.bin$")], Sha256]


@dataclass(frozen=True, slots=True)
class Part:
    """A shard as the first stage sees it.

    Args:
        name: of its folder.
        bank: its vectors.
        rows: the row of the index of each of its pages, int64; -1: none.
    """

    name: str
    bank: Bank
    rows: np.ndarray


def make_candidates(
    files: IndexFiles, source: Source, parts: Sequence[Part], previous: Mapping[str, str]
) -> dict[str, str]:
    """Write the first stage of an index.

    Clusters of the last version are kept until the index has twice the vectors they were made for; the
    vectors of shards that it knew are not looked at again.

    Args:
        files: of the index, which the caller has claimed.
        source: of the vectors.
        parts: all shards.
        previous: the first stage of the last version (`VectorHeader.candidates`), or none.

    Returns:
        What `VectorHeader.candidates` is to be.
    """
    total = sum(int(part.bank.offsets[-1]) for part in parts)
    clusters, trained_on, known = _kept(files, source, previous, total) or (_new(parts, total), total, {})
    codes = {part.name: known.get(part.name) for part in parts}
    for part in parts:
        if codes[part.name] is None:
            codes[part.name] = _codes(clusters, part.bank)
    found = {name: code for name, code in codes.items() if code is not None}
    rows = [np.repeat(part.rows, np.diff(part.bank.offsets)) for part in parts]
    starts, pages = lists_of(np.concatenate(list(found.values())), np.concatenate(rows), len(clusters))
    arrays = {"centroids": clusters.centres.astype("<f4"), "starts": starts, "pages": pages, **found}
    with Scratch(files.root) as folder:
        checksums = {}
        for name, array in arrays.items():
            (folder / f"{name}.bin").write_bytes(array.tobytes())
            checksums[f"{name}.bin"] = hashlib.sha256(array.tobytes()).hexdigest()
        header = CandidatesHeader(
            source=source,
            clusters=len(clusters),
            entries=len(pages),
            rows=sum(int((part.rows >= 0).sum()) for part in parts),
            trained_on=trained_on,
            files=checksums,
        )
        text = header.sealed().encode()
        (folder / HEADER).write_bytes(text)
        digest = hashlib.sha256(text).hexdigest()
        name = f"candidates-{digest[:16]}"
        if part_damages(files.root / name, {HEADER: digest, **checksums}):
            place(folder, files.root / name)
    return {name: digest}


def read_candidates_header(files: IndexFiles, name: str, digest: str) -> CandidatesHeader:
    """The header of a first stage.

    Raises:
        UserError: it is damaged.
    """
    path = files.root / name / HEADER
    data = read_part(path, files)
    if hashlib.sha256(data).hexdigest() != digest or not name.endswith(digest[:16]):
        raise damaged_vectors(path, "its checksum is that of other bytes", files)
    return read_sealed(CandidatesHeader, data, path, files)


def open_candidates(files: IndexFiles, name: str, digest: str, source: Source, rows: int) -> Candidates:
    """The first stage of an index.

    Raises:
        UserError: it is damaged, or of another index.
    """
    header, folder = read_candidates_header(files, name, digest), files.root / name
    if header.source != source or header.rows != rows:
        raise damaged_vectors(folder / HEADER, "it is of another index", files)
    centres = _array(files, folder / "centroids.bin", "<f4", header.clusters * source.dim)
    if not np.isfinite(centres).all():
        raise damaged_vectors(folder / "centroids.bin", "its numbers are not finite", files)
    starts = _array(files, folder / "starts.bin", "<i8", header.clusters + 1)
    if starts[0] != 0 or starts[-1] != header.entries or (np.diff(starts) < 0).any():
        raise damaged_vectors(folder / "starts.bin", "its clusters do not share out the pages", files)
    pages = _array(files, folder / "pages.bin", "<i4", header.entries)
    if len(pages) and not 0 <= pages.min() <= pages.max() < rows:
        raise damaged_vectors(folder / "pages.bin", "it lists pages that the index does not have", files)
    return Candidates(Clusters(centres.reshape(header.clusters, source.dim)), starts, pages, rows)


def _kept(
    files: IndexFiles, source: Source, previous: Mapping[str, str], total: int
) -> tuple[Clusters, int, dict[str, np.ndarray]] | None:
    """Clusters of the last version and what it knew of shards."""
    for name, digest in previous.items():
        try:
            header = read_candidates_header(files, name, digest)
        except UserError:
            continue
        folder = files.root / name
        if part_damages(folder, header.files) or header.source != source:
            continue
        if total > _GROWTH * header.trained_on:
            continue
        centres = np.frombuffer((folder / "centroids.bin").read_bytes(), "<f4")
        known = {
            file.removesuffix(".bin"): np.frombuffer((folder / file).read_bytes(), "<u2")
            for file in header.files
            if file.startswith("shard-")
        }
        return Clusters(centres.reshape(header.clusters, source.dim)), header.trained_on, known
    return None


def _new(parts: Sequence[Part], total: int) -> Clusters:
    clusters = cluster_count(total)
    wanted = min(total, sample_size(clusters))
    chosen = np.sort(np.random.default_rng(0).choice(total, wanted, replace=False))
    sample, before = [], 0
    for part in parts:
        count = int(part.bank.offsets[-1])
        mine = chosen[(chosen >= before) & (chosen < before + count)] - before
        sample.append(part.bank.rows(mine))
        before += count
    rows = np.concatenate(sample)
    return Clusters(train(rows[np.random.default_rng(1).permutation(len(rows))], clusters))


def _codes(clusters: Clusters, bank: Bank) -> np.ndarray:
    count = int(bank.offsets[-1])
    blocks = range(0, count, _READ)
    found = [clusters.assigned(bank.rows(np.arange(start, min(start + _READ, count)))) for start in blocks]
    return np.concatenate([np.zeros(0, "<u2"), *found])


def _array(files: IndexFiles, path: Path, kind: str, count: int) -> np.ndarray:
    dtype = np.dtype(kind)
    return np.frombuffer(read_part(path, files, count * dtype.itemsize), dtype)
