"""Writing turns of a system, and knowing what comes next."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

from docagent_rl.documents import PageRef
from docagent_rl.envs.game import Act, Game
from docagent_rl.envs.script import Move


class Pen(ABC):
    """Everything that scripts need to know of a system.

    Args:
        config: of the system, parsed.
    """

    shown: ClassVar[int] = 1
    forgives: ClassVar[bool] = True
    """Whether a turn that cannot be read leaves the session going on."""

    def __init__(self, config: Any) -> None:
        self.config = config

    @property
    def pages_a_search(self) -> int:
        """New pages that a search shows."""
        return self.shown

    @property
    def corpus(self) -> bool:
        """Whether searches look through all documents."""
        return False

    @abstractmethod
    def legal(self, game: Game) -> tuple[Move, ...]:
        """What may come now."""

    @abstractmethod
    def right(self, game: Game) -> Act:
        """What somebody would do who knows the references. A search may leave its query open: the first of
        `pages` is what it is for.
        """

    @abstractmethod
    def write(self, act: Act, game: Game) -> str:
        """A well-formed turn."""

    @abstractmethod
    def needs(self, game: Game) -> int:
        """Turns that the rest takes when everything goes well, the answer included and what may be left
        out not.
        """

    def look(self, game: Game) -> None:
        """Note what the last turn showed."""
        game.look(game.brought)

    def search_for(self, game: Game) -> Act:
        """A search for the first page that is missing, or for anything."""
        if game.missing:
            return Act(Move.SEARCH, pages=(game.missing[0],))
        return Act(Move.SEARCH, query=game.record.question)

    def to_magnify(self, game: Game) -> PageRef | None:
        """The gold page with boxes that was shown last, unless it was magnified."""
        page = game.seen[-1] if game.seen else None
        if page is None or page in game.magnified or page not in game.gold or not game.boxes(page):
            return None
        return page
