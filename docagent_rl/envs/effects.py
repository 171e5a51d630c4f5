"""The effects of turns: a class for each kind.

An environment creates an effect, `Effect.to_dict` is written to a trajectory file, and
`effect_reading` parses it again. Code that handles trajectories of any system uses the properties
`brought`, `views`, `read` and `found`, and does not need to know the kind of an effect. A system
adds its own fields to an effect in `own`, or defines a subclass.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, ClassVar

from docagent_rl.documents import PageRef
from docagent_rl.envs.shown_page import EntryRecord, NamedPage, ShownPage, without_none


@dataclass(frozen=True, slots=True)
class Effect:
    """The effect of a turn: nothing, unless it is an instance of a subclass.

    `own` contains the fields that a system adds, JSON-ready; only that system interprets them.
    """

    KIND: ClassVar[str] = ""
    own: Mapping[str, Any] = field(default_factory=dict, kw_only=True)

    @property
    def kind(self) -> str:
        """The name of the kind in a file; empty for no effect."""
        return self.KIND

    @property
    def brought(self) -> tuple[ShownPage, ...]:
        """Pages that were shown, as whole images or as text, to be read or chosen from."""
        return ()

    @property
    def views(self) -> tuple[ShownPage, ...]:
        """Everything that was shown to the agent: the pages of `brought`, and magnified parts."""
        return self.brought

    @property
    def read(self) -> tuple[PageRef, ...]:
        """Pages that another model read for the agent."""
        return ()

    @property
    def found(self) -> tuple[PageRef, ...]:
        """Pages that a search returned without showing them."""
        return ()

    def fields(self) -> dict[str, Any]:
        """Return the fields by key, JSON-ready; `None` values are not written."""
        return {}

    def to_dict(self) -> dict[str, Any]:
        """Return the effect as a JSON-ready dictionary."""
        return {**without_none({"kind": self.kind or None, **self.fields()}), **self.own}


NO_EFFECT = Effect()
"""The effect of a turn for which the environment recorded none."""


class Nothing(StrEnum):
    """The reason why a turn showed nothing."""

    FEEDBACK = "feedback"
    """The policy is told what is wrong with its turn."""
    INVALID = "invalid"
    """Nothing in the turn could be executed, which ended the trajectory."""
    NOT_EXECUTED = "not_executed"
    """The action was not executed because a limit was reached."""
    FINISH = "finish"
    """The policy finished its part."""


@dataclass(frozen=True, slots=True)
class NothingShown(Effect):
    """Nothing was shown, for a reason."""

    why: Nothing

    @property
    def kind(self) -> str:
        """See `Effect`."""
        return self.why.value


@dataclass(frozen=True, slots=True)
class PagesBrought(Effect):
    """Pages were shown; `hits` is the number of search results, or `None` without a search."""

    pages: tuple[ShownPage, ...]
    hits: int | None = None

    @property
    def brought(self) -> tuple[ShownPage, ...]:
        """See `Effect`."""
        return self.pages

    def fields(self) -> dict[str, Any]:
        """See `Effect`."""
        return {"hits": self.hits, "pages": [page.to_dict() for page in self.pages]}


@dataclass(frozen=True, slots=True)
class PagesShown(PagesBrought):
    """Pages were shown to be read."""

    KIND: ClassVar = "pages"


@dataclass(frozen=True, slots=True)
class Candidates(PagesBrought):
    """Pages were shown to choose from; a page counts as read when it is selected."""

    KIND: ClassVar = "candidates"


@dataclass(frozen=True, slots=True)
class NoNewPage(Effect):
    """A search returned no page that had not been shown before; `hits` is its number of results."""

    KIND: ClassVar = "no_new_page"
    hits: int | None = None

    def fields(self) -> dict[str, Any]:
        """See `Effect`."""
        return {"hits": self.hits}


@dataclass(frozen=True, slots=True)
class OneView(Effect):
    """One page, or parts of one, was shown to the agent."""

    view: ShownPage

    @property
    def views(self) -> tuple[ShownPage, ...]:
        """See `Effect`."""
        return (self.view,)

    def fields(self) -> dict[str, Any]:
        """See `Effect`."""
        return self.view.to_dict()


@dataclass(frozen=True, slots=True)
class Magnified(OneView):
    """One or several parts of a page were shown magnified."""

    KIND: ClassVar = "crop"


@dataclass(frozen=True, slots=True)
class Selected(OneView):
    """A candidate was selected and shown again.

    Args:
        index: index of the candidate, from 0.
        fallback: whether this candidate replaces one whose index does not exist.
    """

    KIND: ClassVar = "selection"
    index: int | None = None
    fallback: bool = False

    def fields(self) -> dict[str, Any]:
        """See `Effect`."""
        return {"index": self.index, "fallback": self.fallback, **self.view.to_dict()}


@dataclass(frozen=True, slots=True)
class Hits(Effect):
    """A search returned these pages; at most an extract of each was shown."""

    KIND: ClassVar = "hits"
    pages: tuple[NamedPage, ...]

    @property
    def found(self) -> tuple[PageRef, ...]:
        """See `Effect`."""
        return tuple(hit.page for hit in self.pages)

    def fields(self) -> dict[str, Any]:
        """See `Effect`."""
        return {"hits": [hit.to_dict() for hit in self.pages]}


@dataclass(frozen=True, slots=True)
class NoHit(Effect):
    """A search returned nothing."""

    KIND: ClassVar = "no_hit"

    def fields(self) -> dict[str, Any]:
        """See `Effect`."""
        return {"hits": []}


@dataclass(frozen=True, slots=True)
class EntriesRead(Effect):
    """Another model read pages for the agent; `remarks` says, line by line, what it left out."""

    KIND: ClassVar = "read"
    entries: tuple[EntryRecord, ...]
    remarks: tuple[str, ...] = ()

    @property
    def read(self) -> tuple[PageRef, ...]:
        """See `Effect`."""
        return tuple(page for entry in self.entries for page in entry.pages)

    def fields(self) -> dict[str, Any]:
        """See `Effect`."""
        return {
            "entries": [entry.to_dict() for entry in self.entries],
            "remarks": list(self.remarks),
        }


@dataclass(frozen=True, slots=True)
class Answered(Effect):
    """The turn gave the final answer.

    Args:
        judged: whether the judge was asked; `None` if the system has no judge.
        pages: the pages in the prompt, if its text does not name them.
    """

    KIND: ClassVar = "answer"
    judged: bool | None = None
    pages: tuple[ShownPage, ...] = ()

    @property
    def brought(self) -> tuple[ShownPage, ...]:
        """See `Effect`."""
        return self.pages

    def fields(self) -> dict[str, Any]:
        """See `Effect`."""
        return {"judged": self.judged, "pages": [page.to_dict() for page in self.pages] or None}


@dataclass(frozen=True, slots=True)
class OwnEffect(Effect):
    """An effect of a kind that only its system knows; its pages count like those of other effects.

    Args:
        name: name of the kind.
        pages: pages that were shown.
        view: a page, or parts of one, that was shown.
        entries: pages that another model read.
        hits: pages that a search returned without showing them.
    """

    name: str
    pages: tuple[ShownPage, ...] = ()
    view: ShownPage | None = None
    entries: tuple[EntryRecord, ...] = ()
    hits: tuple[NamedPage, ...] = ()

    @property
    def kind(self) -> str:
        """See `Effect`."""
        return self.name

    @property
    def brought(self) -> tuple[ShownPage, ...]:
        """See `Effect`."""
        return self.pages

    @property
    def views(self) -> tuple[ShownPage, ...]:
        """See `Effect`."""
        return self.pages if self.view is None else (self.view, *self.pages)

    @property
    def read(self) -> tuple[PageRef, ...]:
        """See `Effect`."""
        return tuple(page for entry in self.entries for page in entry.pages)

    @property
    def found(self) -> tuple[PageRef, ...]:
        """See `Effect`."""
        return tuple(hit.page for hit in self.hits)

    def fields(self) -> dict[str, Any]:
        """See `Effect`."""
        return {
            **(self.view.to_dict() if self.view else {}),
            "pages": [page.to_dict() for page in self.pages] or None,
            "entries": [entry.to_dict() for entry in self.entries] or None,
            "hits": [hit.to_dict() for hit in self.hits] or None,
        }
