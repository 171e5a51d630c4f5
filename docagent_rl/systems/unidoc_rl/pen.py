"""Writing the turns of UniDoc-RL."""

from __future__ import annotations

from docagent_rl.documents import PageRef
from docagent_rl.envs.game import Act, Game, on_view, view_of
from docagent_rl.envs.pen import Pen
from docagent_rl.envs.script import Move
from docagent_rl.envs.search_scope import SearchScope
from docagent_rl.records.record import parse_page_id

_THOUGHTS = {
    Move.SEARCH: "I need the page about {}.",
    Move.SELECT: "That image speaks of {}.",
    Move.CROP: "The part about {} is small, I look closer.",
    Move.ANSWER: "This tells the {}.",
}


class UniDocPen(Pen):
    """Searches, selects, magnifies gold boxes, notes what it saw, answers."""

    @property
    def pages_a_search(self) -> int:
        """See `Pen`."""
        return self.config.search.candidates

    @property
    def corpus(self) -> bool:
        """See `Pen`."""
        return self.config.search.scope is SearchScope.CORPUS

    def look(self, game: Game) -> None:
        """See `Pen`: a page is read when it was selected."""
        effect = game.effect
        game.images += len(game.brought) or game.kind in ("selection", "crop")
        if game.kind == "selection":
            game.look([PageRef(*parse_page_id(effect["page"]))])
        elif game.kind == "pages":
            game.look(game.brought)

    def legal(self, game: Game) -> tuple[Move, ...]:
        """See `Pen`."""
        if self._closing(game):
            return (Move.ANSWER,)
        if game.kind == "candidates":
            return (Move.SELECT, Move.SEARCH, Move.ANSWER)
        crop = self.config.grammar.crop and game.kind in ("selection", "pages")
        return (Move.SEARCH, Move.CROP, Move.ANSWER) if crop else (Move.SEARCH, Move.ANSWER)

    def right(self, game: Game) -> Act:
        """See `Pen`."""
        if self._closing(game):
            return Act(Move.ANSWER, text=game.answer)
        if game.kind == "candidates":
            right = [number for number, page in enumerate(game.brought) if page in game.missing]
            if right or game.left <= 2 or not self._goes_on(game):
                return Act(Move.SELECT, index=right[0] if right else 0)
        page = self.to_magnify(game) if self.config.grammar.crop else None
        if page is not None and game.kind in ("selection", "pages") and game.left > self.needs(game):
            return Act(Move.CROP, pages=(page,), boxes=game.boxes(page)[: self.config.crop.max_boxes])
        if self._goes_on(game):
            return self.search_for(game)
        return Act(Move.ANSWER, text=game.answer)

    def needs(self, game: Game) -> int:
        """See `Pen`."""
        return len(game.missing) * (1 + self.config.grammar.select) + 1

    def write(self, act: Act, game: Game) -> str:
        """See `Pen`; what was read is noted before going on."""
        thought = f"<think>{_THOUGHTS[act.move].format(game.word())}</think>"
        read = game.seen and game.kind in ("selection", "crop", "candidates", "pages")
        if read and act.move in (Move.SEARCH, Move.ANSWER):
            known = act.text if act.move is Move.ANSWER else f"Page {game.seen[-1].page} was read."
            thought = f"<think>I note what it says.</think><information>{known}</information>{thought}"
        match act.move:
            case Move.SEARCH:
                return f"{thought}<search>{act.query}</search>"
            case Move.SELECT:
                return f"{thought}<select>{act.index}</select>"
            case Move.CROP:
                view = view_of(game, self.config.coords.frame)
                return f"{thought}<bbox>{[on_view(box, *view) for box in act.boxes]}</bbox>"
            case Move.ANSWER:
                return f"{thought}<answer>{act.text}</answer>"
        raise ValueError(f"UniDoc-RL has no {act.move}")

    def _closing(self, game: Game) -> bool:
        """Nothing but an answer is carried out."""
        return game.last or game.images > self.config.image_limit

    def _goes_on(self, game: Game) -> bool:
        steps = 1 + self.config.grammar.select
        return (bool(game.missing) or not game.searches) and game.left > steps
