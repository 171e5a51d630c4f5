"""The index that is there before one is built in its folder."""

from __future__ import annotations

import hashlib

from docagent_rl.base.errors import UserError
from docagent_rl.retrieval.index_files import IndexFiles
from docagent_rl.retrieval.vectors.header import Kind, Source, VectorHeader
from docagent_rl.retrieval.vectors.sealed_headers import index_kind, read_sealed
from docagent_rl.retrieval.vectors.shards import open_bank, read_shard, shard_damages


def current_index(files: IndexFiles, source: Source, *, replace: bool) -> VectorHeader | None:
    """The index that is there, if it is one of the same vectors.

    Raises:
        UserError: it is another one, or damaged, and is not to be replaced.
    """
    try:
        data = files.header.read_bytes()
    except FileNotFoundError:
        return None
    again = "replace it with --force, or name another folder"
    there = index_kind(data)
    if there and there not in tuple(Kind) and not replace:
        raise UserError(f"{files.root} holds an index of another kind than {source.kind.value}: {again}")
    try:
        header = read_sealed(VectorHeader, data, files.header, files)
    except UserError:
        if replace:
            return None
        raise
    if header.source != source:
        if replace:
            return None
        raise UserError(
            f"{files.root} holds an index of other vectors ({_differences(header.source, source)}): {again}"
        )
    for name, digest in header.shards.items():
        _drop_damaged(files, name, digest, replace=replace)
    return header


def _drop_damaged(files: IndexFiles, name: str, digest: str, *, replace: bool) -> None:
    """See that a shard is whole; its files are read to their end where damage is to be mended.

    Raises:
        UserError: it is not, and is not to be made anew.
    """
    try:
        shard = read_shard(files, name, digest)
        open_bank(files, shard)
        if not replace or not shard_damages(files, shard):
            return
    except UserError:
        if not replace:
            raise
    # what is damaged is neither kept nor copied from
    retired = files.root / f".{hashlib.sha256(name.encode()).hexdigest()[:8]}.tmp"
    path = files.root / name
    if path.is_symlink() or path.exists():
        path.rename(retired)


def _differences(there: Source, wanted: Source) -> str:
    before, after = there.model_dump(mode="json"), wanted.model_dump(mode="json")
    return "; ".join(
        f"{name}: {_short(before[name])}, not {_short(after[name])}"
        for name in before
        if before[name] != after[name]
    )


def _short(value: object) -> str:
    return str(value)[:12] if isinstance(value, str) else str(value)
