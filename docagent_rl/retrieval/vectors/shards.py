"""Shards: the vectors of some documents, written once and never changed.

```
shard-<16 hex>/         named by the hash of its header
    shard.json          what is in it, and the SHA-256 of each file; carries its own checksum
    vectors.bin         rows of bfloat16 or int8, little-endian
    offsets.bin         int64: page i has the rows from offsets[i] to offsets[i + 1]
    scales.bin          float32, a factor a row; of int8 only
```
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from docagent_rl.base.errors import UserError
from docagent_rl.retrieval.index_files import IndexFiles
from docagent_rl.retrieval.vectors.bank import Bank, bank_bytes, map_vectors
from docagent_rl.retrieval.vectors.header import ShardHeader, Source, StoredDocument
from docagent_rl.retrieval.vectors.parts import Scratch, part_damages, place, read_part, refuse_links
from docagent_rl.retrieval.vectors.sealed_headers import damaged_vectors, read_sealed

HEADER = "shard.json"
_OFFSET, _SCALE = np.dtype("<i8"), np.dtype("<f4")


@dataclass(frozen=True, slots=True)
class Shard:
    """A shard that is whole as far as its header tells.

    Args:
        name: of its folder.
        digest: SHA-256 of the file of its header.
        header: what is in it.
    """

    name: str
    digest: str
    header: ShardHeader


def write_shard(
    files: IndexFiles, source: Source, documents: tuple[StoredDocument, ...], pages: Iterable[Bank]
) -> Shard:
    """Write a shard beside its place, then move it there.

    Args:
        files: of the index, which the caller has claimed.
        source: of the vectors.
        documents: in the order of their pages.
        pages: a bank for each page, as many as the documents have.

    Raises:
        OSError: it cannot be written.
    """
    with Scratch(files.root) as folder:
        lengths, scales = [], []
        digest = hashlib.sha256()
        with (folder / "vectors.bin").open("wb") as file:
            for bank in pages:
                data = bank_bytes(bank)
                digest.update(data)
                file.write(data)
                lengths.append(int(bank.offsets[-1]))
                if bank.scales is not None:
                    scales.append(bank.scales)
        if len(lengths) != sum(document.pages for document in documents):
            raise RuntimeError("the pages are not those of the documents")
        checksums = {"vectors.bin": digest.hexdigest()}
        arrays = {"offsets.bin": np.cumsum([0, *lengths]).astype(_OFFSET)}
        if scales:
            arrays["scales.bin"] = np.concatenate(scales).astype(_SCALE)
        for name, array in arrays.items():
            (folder / name).write_bytes(array.tobytes())
            checksums[name] = hashlib.sha256(array.tobytes()).hexdigest()
        header = ShardHeader(source=source, vectors=sum(lengths), documents=documents, files=checksums)
        text = header.sealed().encode()
        (folder / HEADER).write_bytes(text)
        whole = hashlib.sha256(text).hexdigest()
        shard = Shard(f"shard-{whole[:16]}", whole, header)
        if shard_damages(files, shard):
            place(folder, files.root / shard.name)
    return shard


def found_shards(files: IndexFiles, source: Source) -> Iterator[Shard]:
    """The shards in a folder that hold vectors of this source, by name; damaged ones are left out."""
    for path in sorted(files.root.glob("shard-*")):
        try:
            shard = read_shard(files, path.name)
            open_bank(files, shard)
        except UserError:
            continue
        if shard.header.source == source:
            yield shard


def read_shard(files: IndexFiles, name: str, digest: str | None = None) -> Shard:
    """The header of a shard.

    Args:
        files: of the index.
        name: of its folder.
        digest: what the header's file must have; by default the one that the name tells of.

    Raises:
        UserError: it is damaged.
    """
    path = files.root / name / HEADER
    data = read_part(path, files)
    found = hashlib.sha256(data).hexdigest()
    if name != f"shard-{found[:16]}" or digest not in (None, found):
        raise damaged_vectors(path, "its checksum is that of other bytes", files)
    return Shard(name, found, read_sealed(ShardHeader, data, path, files))


def open_bank(files: IndexFiles, shard: Shard) -> Bank:
    """The vectors of a shard, mapped into memory.

    Raises:
        UserError: a file is missing, of another size, or its numbers make no sense.
    """
    header, folder = shard.header, files.root / shard.name
    path = folder / "offsets.bin"
    offsets = np.frombuffer(read_part(path, files, (header.pages + 1) * 8), _OFFSET).astype(np.int64)
    if offsets[0] != 0 or offsets[-1] != header.vectors or (np.diff(offsets) < 0).any():
        raise damaged_vectors(path, "its pages do not share out the vectors", files)
    scales = None
    if "scales.bin" in header.files:
        path = folder / "scales.bin"
        scales = np.frombuffer(read_part(path, files, header.vectors * 4), _SCALE).astype(np.float32)
        if not (np.isfinite(scales) & (scales >= 0)).all():
            raise damaged_vectors(path, "it holds factors that no vector has", files)
    path = folder / "vectors.bin"
    try:
        refuse_links(path)
        vectors = map_vectors(path, header.vectors, header.source.dim, header.source.settings.precision)
    except (OSError, ValueError, RuntimeError) as error:
        raise damaged_vectors(path, str(error), files) from error
    return Bank(vectors, offsets, scales)


def shard_damages(files: IndexFiles, shard: Shard) -> dict[Path, str]:
    """What is wrong with the files of a shard, each read to its end; empty when all are as they were."""
    folder = files.root / shard.name
    return part_damages(folder, {HEADER: shard.digest, **shard.header.files})
