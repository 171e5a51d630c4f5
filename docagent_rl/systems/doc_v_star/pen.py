"""Writing the turns of Doc-V*."""

from __future__ import annotations

from docagent_rl.envs.game import Act, Game
from docagent_rl.envs.pen import Pen
from docagent_rl.envs.script import Move

_PLANS = {
    Move.SEARCH: "Look for pages about {}.",
    Move.FETCH: "Open the pages that should hold {}.",
    Move.ANSWER: "Answer about {}.",
}


class DocVStarPen(Pen):
    """Retrieves the first gold page, fetches the others by number, lists what is relevant, answers."""

    @property
    def pages_a_search(self) -> int:
        """See `Pen`: what every document is shown at least."""
        return self.config.retrieval.pages or 1

    def legal(self, game: Game) -> tuple[Move, ...]:
        """See `Pen`."""
        if game.last:
            return (Move.ANSWER,)
        search = (Move.SEARCH,) if self.config.retrieval.enabled else ()
        fetch = (Move.FETCH,) if self.config.fetch.enabled else ()
        return (*search, *fetch, Move.ANSWER)

    def right(self, game: Game) -> Act:
        """See `Pen`."""
        if game.last or not (game.missing or (not game.searches and not game.seen)):
            return Act(Move.ANSWER, text=game.answer)
        by_number = self.config.fetch.enabled and (game.searches or not self.config.retrieval.enabled)
        if game.missing and by_number:
            return Act(Move.FETCH, pages=tuple(game.missing[: self.config.fetch.max_pages]))
        if self.config.retrieval.enabled:
            return self.search_for(game)
        return Act(Move.ANSWER, text=game.answer)

    def needs(self, game: Game) -> int:
        """See `Pen`."""
        return min(len(game.missing), 1 + -(-len(game.missing) // self.config.fetch.max_pages)) + 1

    def write(self, act: Act, game: Game) -> str:
        """See `Pen`."""
        return f"<think>{self._thought(act, game)}</think><action>{self._action(act)}</action>"

    def _thought(self, act: Act, game: Game) -> str:
        word = game.word()
        analysis = f"<analysis>The question is about {word}.</analysis>"
        plan = _PLANS[act.move].format(word)
        if game.turn == 1:
            return f"{analysis}<plan>{plan}</plan><summary>Nothing was read yet.</summary>"
        relevant = [page.page for page in game.brought if page in game.gold]
        told = f"Page {', '.join(map(str, relevant))} matters." if relevant else "Nothing new."
        listed = f"<relevant_pages>[{', '.join(map(str, relevant))}]</relevant_pages>"
        first = analysis if self.config.thought.analysis else ""
        return f"{first}{listed}<summary>{told} {plan}</summary>"

    def _action(self, act: Act) -> str:
        match act.move:
            case Move.SEARCH:
                return f"<retrieval_page>{act.query}</retrieval_page>"
            case Move.FETCH:
                return f"<fetch_page>[{', '.join(str(page.page) for page in act.pages)}]</fetch_page>"
            case Move.ANSWER:
                return f"<answer>{act.text}</answer>"
        raise ValueError(f"Doc-V* has no {act.move}")
