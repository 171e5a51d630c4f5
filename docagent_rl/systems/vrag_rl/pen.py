"""Writing the turns of VRAG-RL."""

from __future__ import annotations

from docagent_rl.envs.game import Act, Game, on_view, view_of
from docagent_rl.envs.pen import Pen
from docagent_rl.envs.script import Move
from docagent_rl.envs.search_scope import SearchScope

_THOUGHTS = {
    Move.SEARCH: "I need the page about {}.",
    Move.CROP: "The part about {} is small, I look closer.",
    Move.ANSWER: "The pages tell the {}.",
}


class VragPen(Pen):
    """Searches for each gold page, zooms where boxes are known, answers."""

    @property
    def pages_a_search(self) -> int:
        """See `Pen`."""
        return self.config.search.pages_per_search

    @property
    def corpus(self) -> bool:
        """See `Pen`."""
        return self.config.search.scope is SearchScope.CORPUS

    def legal(self, game: Game) -> tuple[Move, ...]:
        """See `Pen`."""
        if game.last:
            return (Move.ANSWER,)
        crop = (Move.CROP,) if self.config.grammar.crop and game.seen else ()
        return (Move.SEARCH, *crop, Move.ANSWER)

    def right(self, game: Game) -> Act:
        """See `Pen`."""
        if game.last:
            return Act(Move.ANSWER, text=game.answer)
        page = self.to_magnify(game) if self.config.grammar.crop else None
        if page is not None and game.kind == "pages" and game.left > len(game.missing) + 1:
            return Act(Move.CROP, pages=(page,), boxes=game.boxes(page)[:1])
        if game.missing or not game.searches:
            return self.search_for(game)
        return Act(Move.ANSWER, text=game.answer)

    def needs(self, game: Game) -> int:
        """See `Pen`."""
        return len(game.missing) + 1

    def write(self, act: Act, game: Game) -> str:
        """See `Pen`."""
        thought = f"<think>{_THOUGHTS[act.move].format(game.word())}</think>"
        match act.move:
            case Move.SEARCH:
                return f"{thought}<search>{act.query}</search>"
            case Move.CROP:
                return (
                    f"{thought}<bbox>{on_view(act.boxes[0], *view_of(game, self.config.coords.frame))}</bbox>"
                )
            case Move.ANSWER:
                return f"{thought}<answer>{act.text}</answer>"
        raise ValueError(f"VRAG-RL has no {act.move}")
