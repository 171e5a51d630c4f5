"""The only place that builds token sequences."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

NO_TURN = -1
"""The turn index of tokens that were not sampled."""


class LedgerImage(Protocol):
    """An image as the ledger sees it: its number of placeholder tokens."""

    @property
    def num_tokens(self) -> int:
        """The number of placeholder tokens, equal to the number of features of the vision tower."""
        ...


@dataclass(slots=True)
class LedgerTurn:
    """One atomic turn.

    Args:
        token_ids: the ids exactly as sampled; may be empty (if the first id was a stop id).
        log_probs: the log-probability of each sampled id; empty if the rollout reports none.
        observation_ids: the tokens that follow, up to and including the next assistant header.
        images: images of the observation, in the order of their placeholders.
        rewards: the reward of each sampled id.
    """

    token_ids: list[int]
    log_probs: list[float]
    observation_ids: list[int] = field(default_factory=list)
    images: tuple[LedgerImage, ...] = ()
    rewards: list[float] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class LedgerRow:
    """A finished training row; the lists of the response region have equal lengths `t`.

    Args:
        prompt_ids: everything before the first sampled id.
        response_ids: `(t,)`, all turns and observations; ends with the last sampled id.
        response_mask: `(t,)`, 1 exactly on sampled ids.
        log_probs: `(t,)`, 0 outside the mask; `None` if the rollout reported none.
        turn_index: `(t,)`, the 0-based turn of each sampled id, `NO_TURN` elsewhere.
        rewards: `(t,)`, token-level rewards.
        images: every image whose placeholders are in the row, in order.
    """

    prompt_ids: list[int]
    response_ids: list[int]
    response_mask: list[int]
    log_probs: list[float] | None
    turn_index: list[int]
    rewards: list[float]
    images: tuple[LedgerImage, ...]


class TurnLedger:
    """Turns, images, masks, log-probs and rewards of one trajectory.

    It guarantees, for any input:

    - ids are kept as they are, never decoded and encoded again;
    - the number of image placeholders equals the number of image features;
    - the sequence never exceeds its limits, and an observation that does not fit leaves no trace;
    - the mask is 1 exactly on sampled ids.

    Args:
        prompt_ids: tokens before the first sampled one, including the header of the assistant turn.
        max_response: limit of the response region (all turns and all observations), in tokens.
        image_token_id: the placeholder id; `None` for a text-only model.
        images: images of the prompt.

    Raises:
        ValueError: the prompt's placeholders and images do not match.
    """

    def __init__(
        self,
        prompt_ids: Sequence[int],
        *,
        max_response: int,
        image_token_id: int | None,
        images: Sequence[LedgerImage] = (),
    ) -> None:
        self._image_token_id = image_token_id
        self._max_response = max_response
        self._check_placeholders(prompt_ids, images, "prompt")
        self._prompt_length = len(prompt_ids)
        self._ids = list(prompt_ids)
        self._images: list[LedgerImage] = list(images)
        self._turns: list[LedgerTurn] = []

    @property
    def token_ids(self) -> list[int]:
        """Return a copy of the whole sequence, which is the model's next input."""
        return list(self._ids)

    @property
    def images(self) -> tuple[LedgerImage, ...]:
        """Return every image of the sequence, in order."""
        return tuple(self._images)

    @property
    def turns(self) -> tuple[LedgerTurn, ...]:
        """Return the turns so far."""
        return tuple(self._turns)

    @property
    def prompt_length(self) -> int:
        """Return the number of tokens before the response region."""
        return self._prompt_length

    @property
    def response_length(self) -> int:
        """Return the number of tokens in the response region."""
        return len(self._ids) - self._prompt_length

    @property
    def room(self) -> int:
        """Return the number of tokens that still fit."""
        return self._max_response - self.response_length

    @property
    def sampled(self) -> int:
        """Return the number of sampled tokens in all turns."""
        return sum(len(turn.token_ids) for turn in self._turns)

    def fits(self, tokens: int, *, reserve: int = 1) -> bool:
        """Return whether an observation of this length leaves `reserve` tokens for the next
        turn.
        """
        return tokens + reserve <= self.room

    def add_turn(self, token_ids: Sequence[int], log_probs: Sequence[float] = ()) -> None:
        """Append the ids that the policy sampled.

        Raises:
            ValueError: the tokens do not fit, the log-probs differ in number, or an image
                placeholder was sampled.
        """
        if len(token_ids) > self.room:
            raise ValueError(f"a turn of {len(token_ids)} tokens exceeds the room of {self.room}")
        if log_probs and len(log_probs) != len(token_ids):
            raise ValueError(f"{len(log_probs)} log-probs for {len(token_ids)} sampled tokens")
        if self._image_token_id is not None and self._image_token_id in token_ids:
            raise ValueError("the policy sampled an image placeholder, for which there is no image")
        self._ids.extend(token_ids)
        turn = LedgerTurn(list(token_ids), list(log_probs), rewards=[0.0] * len(token_ids))
        self._turns.append(turn)

    def add_observation(
        self, token_ids: Sequence[int], images: Sequence[LedgerImage] = (), *, reserve: int = 1
    ) -> bool:
        """Append the observation that follows the last turn, or reject it as a whole.

        Args:
            token_ids: observation tokens up to and including the next assistant header.
            images: images of the observation.
            reserve: the number of tokens that must remain for the next turn.

        Returns:
            False if the observation does not fit; neither its text nor its images are added then.

        Raises:
            ValueError: there is no turn before it, the turn already has an observation, or
                placeholders and images do not match.
        """
        if not self._turns:
            raise ValueError("an observation needs a turn before it")
        last = self._turns[-1]
        if last.observation_ids:
            raise ValueError("the last turn already has an observation")
        self._check_placeholders(token_ids, images, "observation")
        if not self.fits(len(token_ids), reserve=reserve):
            return False
        last.observation_ids = list(token_ids)
        last.images = tuple(images)
        self._ids.extend(token_ids)
        self._images.extend(images)
        return True

    def add_reward(self, reward: float, *, tokens: Sequence[tuple[int, int, float]] = ()) -> None:
        """Reward the last turn.

        Args:
            reward: is added to the turn's last sampled token. If the turn has none, it is added to
                the nearest earlier sampled token of this ledger; if there is none either, it is
                dropped. Callers with several ledgers must therefore reward the last ledger that has
                a sampled token.
            tokens: `(first, end, value)` ranges of the turn's tokens; a value is split evenly over
                its range.

        Raises:
            IndexError: a range lies outside the turn.
        """
        turn = next((t for t in reversed(self._turns) if t.token_ids), None)
        if turn is not None:
            turn.rewards[-1] += reward
        for first, end, value in tokens:
            own = self._turns[-1].rewards
            if not 0 <= first < end <= len(own):
                raise IndexError(
                    f"token range [{first}, {end}) outside a turn of {len(own)} tokens"
                )
            for position in range(first, end):
                own[position] += value / (end - first)

    def row(self) -> LedgerRow:
        """Return the training row, without an observation after the last sampled turn."""
        last = max((n for n, turn in enumerate(self._turns) if turn.token_ids), default=-1)
        turns = self._turns[: last + 1]
        ids: list[int] = []
        mask: list[int] = []
        log_probs: list[float] = []
        index: list[int] = []
        rewards: list[float] = []
        has_log_probs = all(len(t.log_probs) == len(t.token_ids) for t in turns)
        images = list(self._images[: len(self._images) - sum(len(t.images) for t in self._turns)])
        for number, turn in enumerate(turns):
            after = turn.observation_ids if number < last else []
            sampled = len(turn.token_ids)
            observed = len(after)
            ids += turn.token_ids + after
            mask += [1] * sampled + [0] * observed
            log_probs += (turn.log_probs or [0.0] * sampled) + [0.0] * observed
            index += [number] * sampled + [NO_TURN] * observed
            rewards += turn.rewards + [0.0] * observed
            images += turn.images if number < last else ()
        return LedgerRow(
            prompt_ids=self._ids[: self._prompt_length],
            response_ids=ids,
            response_mask=mask,
            log_probs=log_probs if has_log_probs and turns else None,
            turn_index=index,
            rewards=rewards,
            images=tuple(images),
        )

    def _check_placeholders(
        self, token_ids: Sequence[int], images: Sequence[LedgerImage], where: str
    ) -> None:
        found = 0 if self._image_token_id is None else list(token_ids).count(self._image_token_id)
        expected = sum(image.num_tokens for image in images)
        if found != expected:
            raise ValueError(
                f"the {where} has {found} image placeholders for {expected} image features"
            )
