"""The effects of ALDEN's turns: a call with its pages, or an answer with its scores."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from docagent_rl.envs.effects import Answered, Effect
from docagent_rl.envs.shown_page import ShownPage


class CallKind(StrEnum):
    """The end of a call."""

    PAGES = "pages"
    """A search showed pages."""
    NO_PAGE = "no_page"
    """A search found none."""
    PAGE = "page"
    """A fetch showed its page."""
    NO_ROOM = "no_room"
    """The context holds as many images as it may."""
    NO_SUCH_PAGE = "no_such_page"
    """A fetch names a page that the document does not have."""
    MALFORMED_FETCH = "malformed_fetch"
    """A fetch names no page."""


NOT_MADE = frozenset({CallKind.NO_SUCH_PAGE, CallKind.MALFORMED_FETCH})
"""The ends of calls that could not be made, of which no pages are recorded."""


@dataclass(frozen=True, slots=True)
class Called(Effect):
    """A search or a fetch.

    Args:
        end: how it ended.
        pages: that it showed.
        repeated: whether all of them were shown before.
    """

    end: CallKind
    pages: tuple[ShownPage, ...] = ()
    repeated: bool = False

    @property
    def kind(self) -> str:
        """See `Effect`."""
        return self.end.value

    @property
    def brought(self) -> tuple[ShownPage, ...]:
        """See `Effect`."""
        return self.pages

    def fields(self) -> dict[str, Any]:
        """See `Effect`."""
        pages = None if self.end in NOT_MADE else [page.to_dict() for page in self.pages]
        return {"pages": pages, "repeated": self.repeated}


@dataclass(frozen=True, slots=True)
class Scored(Answered):
    """An answer.

    Args:
        score: by the metric that is rewarded.
        refused: whether it declines to answer.
        likeness: to the references by each metric, by its name.
    """

    score: float = 0.0
    refused: bool = False
    likeness: Mapping[str, float] = field(default_factory=dict)

    def fields(self) -> dict[str, Any]:
        """See `Effect`."""
        return {"score": self.score, "refused": self.refused, **self.likeness}
