"""The effects of ALDEN's turns: a call with its pages, or an answer with its scores."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from docagent_rl.envs.effects import Answered, Effect
from docagent_rl.envs.shown_page import ShownPage


class CallKind(StrEnum):
    """The outcome of a call."""

    PAGES = "pages"
    """A search showed pages."""
    NO_PAGE = "no_page"
    """A search found no page."""
    PAGE = "page"
    """A fetch showed its page."""
    NO_ROOM = "no_room"
    """The context already contains the maximum number of images."""
    NO_SUCH_PAGE = "no_such_page"
    """A fetch names a page that the document does not have."""
    MALFORMED_FETCH = "malformed_fetch"
    """A fetch names no page."""


NOT_MADE = frozenset({CallKind.NO_SUCH_PAGE, CallKind.MALFORMED_FETCH})
"""The outcomes of calls that could not be made, for which no pages are recorded."""


@dataclass(frozen=True, slots=True)
class Called(Effect):
    """A search or a fetch.

    Args:
        end: the outcome of the call.
        pages: the pages that it showed.
        repeated: whether all of them had been shown before.
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
    """A scored answer.

    Args:
        score: the score by the metric that is rewarded.
        refused: whether the answer declines to answer.
        likeness: the similarity to the references by each metric.
    """

    score: float = 0.0
    refused: bool = False
    likeness: Mapping[str, float] = field(default_factory=dict)

    def fields(self) -> dict[str, Any]:
        """See `Effect`."""
        return {"score": self.score, "refused": self.refused, **self.likeness}
