"""Writing the steps of MM-Doc-R1's seeker."""

from __future__ import annotations

import json

from docagent_rl.documents import PageRef
from docagent_rl.envs.game import Act, Game
from docagent_rl.envs.pen import Pen
from docagent_rl.envs.script import Move, content_words

_REASONS = {
    Move.SEARCH: "I look for {}.",
    Move.READ: "These pages should tell about {}.",
    Move.FINISH: "What was read tells the {}.",
}
_KEYWORDS = 6


class MMDocPen(Pen):
    """Searches once, has the gold pages read, finishes; the answer agent writes the answer."""

    @property
    def pages_a_search(self) -> int:
        """See `Pen`."""
        return self.config.search.top_k

    def look(self, game: Game) -> None:
        """See `Pen`: pages that were read."""
        entries = game.effect.get("entries", ()) if game.kind == "read" else ()
        pages = [page for entry in entries for page in entry["pages"]]
        game.look([PageRef(doc_id, int(number)) for doc_id, _, number in (p.rpartition("#") for p in pages)])

    def legal(self, game: Game) -> tuple[Move, ...]:
        """See `Pen`."""
        return (Move.SEARCH, Move.READ, Move.FINISH)

    def right(self, game: Game) -> Act:
        """See `Pen`."""
        spare = game.left > self.needs(game)
        if not game.searches and spare:
            return Act(Move.SEARCH, query=game.record.question)
        own = [page for page in game.missing if page.doc_id == game.record.doc_id]
        if own:
            most = self.config.read.max_pages * self.config.read.max_entries
            return Act(Move.READ, pages=tuple(own[:most]))
        if not game.seen and game.kind == "hits" and not game.last:
            return Act(Move.READ, pages=tuple(game.brought[:1]))
        return Act(Move.FINISH)

    def needs(self, game: Game) -> int:
        """See `Pen`."""
        return self._reads(game) + 1

    def write(self, act: Act, game: Game) -> str:
        """See `Pen`."""
        return f"{_REASONS[act.move].format(game.word())} {self._action(act, game)}"

    def _action(self, act: Act, game: Game) -> str:
        match act.move:
            case Move.SEARCH:
                words = list(dict.fromkeys(content_words(act.query)))[:_KEYWORDS]
                return f"<search>{json.dumps(words, ensure_ascii=False)}</search>"
            case Move.READ:
                pages, most = [page.page for page in act.pages], self.config.read.max_pages
                entries = [
                    {"page_ids": pages[first : first + most], "query": game.record.question}
                    for first in range(0, len(pages), most)
                ]
                return f"<read>{json.dumps(entries, ensure_ascii=False)}</read>"
            case Move.FINISH:
                return "<FINISH>"
        raise ValueError(f"MM-Doc-R1 has no {act.move}")

    def _reads(self, game: Game) -> int:
        most = self.config.read.max_pages * self.config.read.max_entries
        return -(-len(game.missing) // most)
