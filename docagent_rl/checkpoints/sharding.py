"""Arithmetic of FSDP2's shards: the indices of a tensor that each rank holds, for any number of
ranks.

FSDP2 cuts a tensor along one dimension as `torch.chunk` does: every rank holds the same number of
indices as long as there are any left, so that the last ranks hold fewer, or none.
"""

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from docagent_rl.base.errors import UserError

RECORD = "fsdp_config.json"
"""The file with FSDP's version and the number of ranks that verl writes beside the shards."""
_RESHARDED = 2
"""The version of FSDP whose shards can be distributed anew."""


@dataclass(frozen=True, slots=True)
class ShardPiece:
    """Consecutive indices of a tensor, which were in the shard of a saved rank and belong to
    another one now.
    """

    saved_rank: int
    saved_start: int
    """The first index within the saved shard."""
    start: int
    """The first index within the new shard."""
    length: int


@dataclass(frozen=True, slots=True)
class Sharding:
    """The way in which FSDP distributes a model."""

    version: int
    """FSDP's version, 1 or 2."""
    mesh: tuple[int, ...]
    """Sizes of the mesh of ranks. One dimension: every rank has its own shard; two (HSDP): groups
    of ranks have copies of the same shards.
    """

    @property
    def ranks(self) -> int:
        """The number of ranks."""
        return math.prod(self.mesh)

    def __str__(self) -> str:
        kind = "HSDP" if len(self.mesh) > 1 else f"FSDP{self.version}"
        return f"{' x '.join(map(str, self.mesh))} ranks with {kind}"


def shard_range(size: int, rank: int, ranks: int) -> range:
    """Return the indices of a dimension with `size` indices that a rank holds."""
    length = -(-size // ranks)
    return range(min(rank * length, size), min((rank + 1) * length, size))


def pieces(size: int, rank: int, ranks: int, saved_ranks: int) -> Iterator[ShardPiece]:
    """Yield the pieces of which a rank's shard of a dimension with `size` indices is made, if
    `saved_ranks` ranks have saved it.
    """
    own = shard_range(size, rank, ranks)
    if not own:
        return
    length = -(-size // saved_ranks)
    for saved_rank in range(own.start // length, (own.stop - 1) // length + 1):
        saved = shard_range(size, saved_rank, saved_ranks)
        start = max(own.start, saved.start)
        stop = min(own.stop, saved.stop)
        yield ShardPiece(saved_rank, start - saved.start, start - own.start, stop - start)


def saved_version_and_ranks(folder: Path) -> tuple[int, int] | None:
    """Return FSDP's version and the number of ranks with which a model was last saved to a folder;
    None if verl has not recorded it.

    The names of files do not say it: verl does not remove the shards of an earlier save of the same
    step by another number of ranks.

    Raises:
        UserError: the record cannot be read.
    """
    path = folder / RECORD
    try:
        record = json.loads(path.read_text())
        return int(record["FSDP_version"]), int(record["world_size"])
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise UserError(
            f"{path} is not verl's record of FSDP's version and ranks ({error!r}): restore it from "
            "a copy, or resume from another checkpoint (trainer.resume_from_path)"
        ) from error


def check_change(folder: Path, saved: Sharding, now: Sharding) -> None:
    """Check that a run can distribute the shards in a folder over its own ranks.

    Raises:
        UserError: the checkpoint or the run is not sharded by FSDP2 over all of its ranks.
    """
    if all(each.version == _RESHARDED and len(each.mesh) == 1 for each in (saved, now)):
        return
    raise UserError(
        f"{folder} was saved by {saved}, but this run has {now}: another number of ranks can only "
        "resume from FSDP2 (strategy=fsdp2) without copies of shards (fsdp_size=-1), and only "
        f"with it. Resume with {saved.ranks} ranks (trainer.nnodes * trainer.n_gpus_per_node) and "
        "the settings of then; or start a new run (trainer.resume_mode=disable) from the model "
        "that `docagent-rl export` writes"
    )
