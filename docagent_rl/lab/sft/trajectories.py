"""Training rows from recorded trajectories, one trajectory at a time, with counts of what was left
out.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum

from docagent_rl.actions.base import StopCause
from docagent_rl.base.errors import UserError
from docagent_rl.documents.store import DocumentStore
from docagent_rl.envs.images import ImageSheet, Picture
from docagent_rl.lab.sft.ledgers import TurnError, replay
from docagent_rl.lab.sft.rows import SftRow, sft_rows
from docagent_rl.rollout.chat import ChatCodec
from docagent_rl.rollout.trajectory import Trajectory
from docagent_rl.samples.sample import Sample
from docagent_rl.samples.selection import SplitUnit, set_aside, unit_key, unit_keys


class DropReason(Enum):
    """A reason why a trajectory has no row in the file, in the words of the report."""

    MASKED = "masked: a service failed, or the question could not be played"
    UNWRITTEN = "the policy wrote nothing in it"
    SPELLING = "a turn is empty or spells a special token"
    CUT_OFF = "a turn was cut off before its end"
    TOO_LONG = "longer than --max-length"


@dataclass(slots=True)
class RowCounts:
    """Counts of the trajectories that gave rows, of these rows, and of what was left out."""

    trajectories: int = 0
    rows: int = 0
    tokens: int = 0
    trained: int = 0
    """Tokens with a loss."""
    images: int = 0
    """Images shown, counting repetitions."""
    longest: int = 0
    """Number of tokens of the longest row."""
    dropped: Counter[DropReason] = field(default_factory=Counter)


@dataclass(frozen=True, slots=True)
class RowMaker:
    """Makes a model's training rows from trajectories."""

    codec: ChatCodec
    store: DocumentStore | None = None
    """The store against which pages are checked; `None`: they are not checked."""
    max_length: int | None = None
    """Most tokens of a row; a trajectory with a longer one is left out, never cut."""
    retokenise: bool = False
    """Encode texts again even if ids were recorded, for another model."""
    _seen: set[str] = field(default_factory=set)

    def rows(self, trajectory: Trajectory) -> list[SftRow] | DropReason:
        """Return the rows of a trajectory, or the reason why it has none.

        Raises:
            UserError: the trajectory was recorded with another model or template, or its pages
                differ from the store's: the other trajectories will have the same problem.
        """
        if trajectory.masked:
            return DropReason.MASKED
        if any(turn.stop != StopCause.END_OF_TURN.value for turn in trajectory.turns):
            return DropReason.CUT_OFF
        try:
            rows = sft_rows(trajectory, replay(trajectory, self.codec, retokenise=self.retokenise))
        except TurnError:
            return DropReason.SPELLING
        if self.max_length is not None and any(
            len(row.input_ids) > self.max_length for row in rows
        ):
            return DropReason.TOO_LONG
        if self.store is not None:
            for picture in (picture for row in rows for picture in row.images):
                if picture.key not in self._seen:
                    check_picture(picture, self.store)
                    self._seen.add(picture.key)
        return rows or DropReason.UNWRITTEN


def check_picture(picture: Picture, store: DocumentStore) -> None:
    """Raise `UserError` if a store's pages are not those from which a picture was made."""
    pieces = (
        [tile.image for tile in picture.tiles] if isinstance(picture, ImageSheet) else [picture]
    )
    for piece in pieces:
        if store.page(piece.page).image_hash != piece.page_hash:
            raise UserError(
                f"page {piece.page} of {store} differs from the page that the trajectory showed: "
                "name the store of the run (--store)"
            )


def iter_rows(
    trajectories: Iterable[Trajectory], maker: RowMaker, account: RowCounts
) -> Iterator[SftRow]:
    """Yield the rows of trajectories in order; `account` is filled in."""
    for trajectory in trajectories:
        rows = maker.rows(trajectory)
        if isinstance(rows, DropReason):
            account.dropped[rows] += 1
        else:
            account.trajectories += 1
            account.rows += len(rows)
            account.tokens += sum(len(row.input_ids) for row in rows)
            account.trained += sum(sum(row.loss_mask) for row in rows)
            account.images += sum(len(row.images) for row in rows)
            account.longest = max([account.longest, *(len(row.input_ids) for row in rows)])
            yield from rows


def validation_selector(
    trajectories: Iterable[Trajectory], fraction: float, unit: SplitUnit, seed: int
) -> Callable[[Trajectory], bool]:
    """Set aside a fraction in (0, 1) of the documents or questions for validation.

    They are chosen by a hash of seed and unit, as by `data convert --split`: at least one unit, but
    not all. Masked trajectories are not counted, and belong to neither part.

    Returns:
        A function that returns whether a trajectory is for validation.

    Raises:
        UserError: the fraction is out of range, or there is only one unit.
    """
    samples = [Sample.from_dict(each.sample) for each in trajectories if not each.masked]
    keys = unit_keys(samples, unit)
    first = set_aside(keys, fraction, seed, unit, option="--val-fraction")
    # documents joined by a question are listed with a key each
    aside = {unit_key(each, unit) for each, key in zip(samples, keys, strict=True) if key in first}

    def validates(trajectory: Trajectory) -> bool:
        return (
            not trajectory.masked and unit_key(Sample.from_dict(trajectory.sample), unit) in aside
        )

    return validates
