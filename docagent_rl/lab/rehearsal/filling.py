"""A policy without a model that fills rows: it does not answer before its last turn, and thinks as
long as there is room.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from docagent_rl.base.errors import UserError
from docagent_rl.envs.script import Act, Move
from docagent_rl.envs.turn_record import NO_RECORD
from docagent_rl.lab.agents.random_turns import QuestionStatistics, RandomContext
from docagent_rl.rollout.resources import TrajectoryResources
from docagent_rl.rollout.trajectory import Trajectory
from docagent_rl.samples.sample import Sample

ENDING = frozenset({Move.ANSWER, Move.FINISH})
"""The moves that end a trajectory."""
FEWEST = 16
"""Tokens of the shortest thought."""
THOUGHT = "<think>"
_FILLER = (
    "the report shows that sales of the year were higher than in the years before because the "
    "company sold more in the north and the costs in the table of the second part fell again"
)


class FillingPolicy:
    """Writes the turns of one trajectory in tokens.

    A thought is as long as a turn may be, or shorter if there is less room: what is left of the
    context is shared by the turns to come and by as many tokens of observations as there were on
    average.

    Args:
        resources: the system, its environment's settings, the tokenizer and the store.
        sample: the question.
        context: the largest number of tokens of a context.
        seed: for the choice of moves and words.

    Raises:
        UserError: the system has no script.
    """

    def __init__(
        self, resources: TrajectoryResources, sample: Sample, context: int, seed: str
    ) -> None:
        system = resources.system
        if system.script is None:
            raise UserError(
                f"system {system.name!r} has no script, so nothing fills its rows: set `script` of "
                "its System"
            )
        rng = random.Random(seed)
        pages = resources.services.store.document(sample.doc_id).num_pages
        turns = system.max_turns(resources.env_config)
        self._script = system.script(resources.env_config).filling()
        self._codec = resources.codec
        self._context = context
        self._state = RandomContext(sample, turns, rng, pages, QuestionStatistics.of([sample]))
        self._filler = self._codec.text_ids(f" {_FILLER}")
        self._shown = 0
        self._length = 0

    def turn(self, trajectory: Trajectory, length: int, most: int) -> list[int]:
        """Return the ids of the next turn, which ends on its own.

        Args:
            trajectory: the trajectory so far.
            length: the number of tokens of the context so far.
            most: the largest number of tokens of the turn.
        """
        state = self._state
        turns = trajectory.turns
        state.turn = len(turns) + 1
        state.record = turns[-1].record if turns else NO_RECORD
        if turns:
            self._shown += max(0, length - self._length)
        text = self._script.write(Act(self._move()), state)
        before, tag, after = text.rpartition(THOUGHT) if THOUGHT in text else ("", "", text)
        opening = self._codec.text_ids(before + tag)
        closing = [*self._codec.text_ids(after), self._codec.end_of_turn_id]
        room = min(most, self._share(length)) - len(opening) - len(closing)
        ids = [*opening, *self._thought(max(FEWEST, room)), *closing]
        # an action that does not fit is cut off, as a model's would be
        ids = ids[:most]
        self._length = length + len(ids)
        return ids

    def _share(self, length: int) -> int:
        """Return the number of tokens that the turn may have so that the others fit, too."""
        state = self._state
        left = state.turns - state.turn + 1
        observed = self._shown / max(1, state.turn - 1) * (left - 1)
        return int((self._context - length - observed) / left)

    def _thought(self, tokens: int) -> Sequence[int]:
        times = -(-tokens // len(self._filler))
        return (self._filler * times)[:tokens]

    def _move(self) -> Move:
        """Draw a move by the weights that the script offers; in the last turn, it answers."""
        offered = {move: share for move, share in self._script.moves(self._state).items() if share}
        chosen = {move: share for move, share in offered.items() if self._fills(move)} or offered
        return self._state.rng.choices(list(chosen), list(chosen.values()))[0]

    def _fills(self, move: Move) -> bool:
        return (move in ENDING) == self._state.last
