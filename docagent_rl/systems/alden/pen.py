r"""Writing the turns of ALDEN."""

from __future__ import annotations

from docagent_rl.envs.game import Act, Game
from docagent_rl.envs.pen import Pen
from docagent_rl.envs.script import Move
from docagent_rl.rewards.text import NOT_ANSWERABLE
from docagent_rl.systems.alden.actions import FetchSyntax, PageForm
from docagent_rl.systems.alden.answer_reward import REFUSAL

_THOUGHTS = {
    Move.SEARCH: "I need the page about {}.",
    Move.FETCH: "That page has more about {}.",
    Move.ANSWER: "I know the {}.",
}


class AldenPen(Pen):
    """Searches for the first gold page, fetches what searches do not find, answers in a box."""

    # a turn without an action that can be read ends the episode
    forgives = False

    @property
    def pages_a_search(self) -> int:
        """See `Pen`."""
        return self.config.search.pages_per_search

    def legal(self, game: Game) -> tuple[Move, ...]:
        """See `Pen`."""
        if game.last:
            return (Move.ANSWER,)
        fetch = (Move.FETCH,) if self.config.fetch else ()
        return (Move.SEARCH, *fetch, Move.ANSWER)

    def right(self, game: Game) -> Act:
        """See `Pen`."""
        if game.last:
            return Act(Move.ANSWER, text=game.answer)
        if game.missing and game.searches and self.config.fetch:
            return Act(Move.FETCH, pages=(game.missing[0],))
        if game.missing or not game.searches:
            return self.search_for(game)
        return Act(Move.ANSWER, text=game.answer)

    def needs(self, game: Game) -> int:
        """See `Pen`."""
        return len(game.missing) + 1

    @property
    def _form(self) -> PageForm:
        """Texts where there is no room for any image."""
        return PageForm.IMAGE if self.config.max_images else PageForm.TEXT

    def write(self, act: Act, game: Game) -> str:
        """See `Pen`."""
        thought = f"<think>{_THOUGHTS[act.move].format(game.word())}</think>"
        match act.move:
            case Move.SEARCH:
                return f"{thought}<search>{act.query}</search>"
            case Move.FETCH:
                form = f"{self._form.value}, " if self.config.hybrid else ""
                ordinal = "-th" if self.config.fetch_syntax is FetchSyntax.ORDINAL else ""
                return f"{thought}<fetch>{form}{act.pages[0].page}{ordinal}</fetch>"
            case Move.ANSWER:
                said = REFUSAL if act.text == NOT_ANSWERABLE else act.text
                return f"{thought}<answer>\\boxed{{{said}}}</answer>"
        raise ValueError(f"ALDEN has no {act.move}")
