"""The effects of turns: a class for each kind.

An environment makes an effect, a trajectory file gets `Effect.to_dict`, and `effect_reading` reads
it again. Who looks at trajectories of any system asks an effect for `brought`, `views`, `read` and
`found`, and need not know its kind. A system adds facts to an effect under keys of its `own`, or
writes a subclass.
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
    """The effect of a turn: nothing, unless a subclass says more.

    `own` is what a system adds, JSON-ready, by its key; only the system itself knows what it means.
    """

    KIND: ClassVar[str] = ""
    own: Mapping[str, Any] = field(default_factory=dict, kw_only=True)

    @property
    def kind(self) -> str:
        """The name of the kind in a file; empty where there is nothing to name."""
        return self.KIND

    @property
    def brought(self) -> tuple[ShownPage, ...]:
        """Pages that were brought up, whole or as text, to be read or chosen from."""
        return ()

    @property
    def views(self) -> tuple[ShownPage, ...]:
        """All that was put before the agent's eyes: what was brought up, and parts that were
        magnified.
        """
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
        """Return the fields ready for JSON, by their keys; one that is `None` is not written."""
        return {}

    def to_dict(self) -> dict[str, Any]:
        """Return it ready for JSON."""
        return {**without_none({"kind": self.kind or None, **self.fields()}), **self.own}


NO_EFFECT = Effect()
"""The effect of a turn of which its environment notes none."""


class Nothing(StrEnum):
    """A kind of effect that shows nothing."""

    FEEDBACK = "feedback"
    """The policy is told what is wrong with its turn."""
    INVALID = "invalid"
    """Nothing in the turn could be executed, which ended the trajectory."""
    NOT_EXECUTED = "not_executed"
    """A limit was reached: the action was not carried out."""
    FINISH = "finish"
    """The policy ended its part."""


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
    """Pages were brought up; `hits` is the number that a search returned, if there was a search."""

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
    """Pages were shown to choose from: one of them counts as read when it is selected."""

    KIND: ClassVar = "candidates"


@dataclass(frozen=True, slots=True)
class NoNewPage(Effect):
    """A search brought no page that was not shown before; `hits` is the number that it returned."""

    KIND: ClassVar = "no_new_page"
    hits: int | None = None

    def fields(self) -> dict[str, Any]:
        """See `Effect`."""
        return {"hits": self.hits}


@dataclass(frozen=True, slots=True)
class OneView(Effect):
    """One page, or parts of one, came under the agent's eyes."""

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
    """A part of a page, or several of them, was shown larger."""

    KIND: ClassVar = "crop"


@dataclass(frozen=True, slots=True)
class Selected(OneView):
    """A candidate was selected, and is shown again.

    Args:
        index: of the candidate, from 0.
        fallback: whether it stands for an index that no candidate has.
    """

    KIND: ClassVar = "selection"
    index: int | None = None
    fallback: bool = False

    def fields(self) -> dict[str, Any]:
        """See `Effect`."""
        return {"index": self.index, "fallback": self.fallback, **self.view.to_dict()}


@dataclass(frozen=True, slots=True)
class Hits(Effect):
    """A search returned these pages, and showed an extract of each at most."""

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
    """Another model read pages for the agent; `remarks` are lines about what it left out."""

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
    """The turn answered.

    Args:
        judged: whether a judge was asked; `None` where the system has none.
        pages: pages of the prompt, where their texts do not say of which page they are.
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
    """An effect of a kind that its system alone knows; the pages that it names count as of any
    other.

    Args:
        name: of the kind.
        pages: pages that were brought up.
        view: a page, or parts of one, that came under the agent's eyes.
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
