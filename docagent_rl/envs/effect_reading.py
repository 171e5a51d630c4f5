"""Parsing of the effects in trajectory files.

A file may contain anything. Values that are not a valid page, box or number are dropped. An effect
of an unknown kind, or without the fields that its kind requires, becomes an `OwnEffect`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from docagent_rl.envs.effects import (
    NO_EFFECT,
    Answered,
    Candidates,
    Effect,
    EntriesRead,
    Hits,
    Magnified,
    NoHit,
    NoNewPage,
    Nothing,
    NothingShown,
    OwnEffect,
    PagesShown,
    Selected,
)
from docagent_rl.envs.recorded import flag_of, listing, mapping, text_of, whole_of
from docagent_rl.envs.shown_page import (
    PAGE_KEYS,
    EntryRecord,
    NamedPage,
    ShownPage,
    known,
    rest_of,
    without_none,
)

Fields = Mapping[str, Any]


def read_effect(data: object) -> Effect:
    """Parse the output of `Effect.to_dict`; the system's own fields go to `own`."""
    found = mapping(data)
    if not found:
        return NO_EFFECT
    kind = text_of(found.get("kind")) or ""
    reader = _READERS.get(kind, _own_effect)
    return reader(found) or _own_effect(found)


_BROUGHT = frozenset({"kind", "pages", "hits"})
_SELECTED = PAGE_KEYS | {"kind", "index", "fallback"}
_MAGNIFIED = PAGE_KEYS | {"kind"}


def _own_effect(found: Fields) -> Effect:
    effect = OwnEffect(
        text_of(found.get("kind")) or "",
        pages=_pages(found),
        view=_view(found),
        entries=_entries(found),
        hits=_hits(found),
    )
    # a field with the name of a page field that contains no page belongs to the system itself
    return replace(effect, own=rest_of(found, {"kind", *without_none(effect.fields())}))


def _nothing(found: Fields) -> Effect:
    return NothingShown(Nothing(found["kind"]), own=rest_of(found, {"kind"}))


def _pages_shown(found: Fields) -> Effect:
    return PagesShown(_pages(found), whole_of(found.get("hits")), own=rest_of(found, _BROUGHT))


def _candidates(found: Fields) -> Effect:
    return Candidates(_pages(found), whole_of(found.get("hits")), own=rest_of(found, _BROUGHT))


def _no_new_page(found: Fields) -> Effect:
    return NoNewPage(whole_of(found.get("hits")), own=rest_of(found, {"kind", "hits"}))


def _selected(found: Fields) -> Effect | None:
    view = _view(found)
    if view is None:
        return None
    index = whole_of(found.get("index"))
    fallback = found.get("fallback") is True
    return Selected(view, index, fallback, own=rest_of(found, _SELECTED))


def _magnified(found: Fields) -> Effect | None:
    view = _view(found)
    return None if view is None else Magnified(view, own=rest_of(found, _MAGNIFIED))


def _hits_listed(found: Fields) -> Effect:
    return Hits(_hits(found), own=rest_of(found, {"kind", "hits"}))


def _no_hit(found: Fields) -> Effect:
    return NoHit(own=rest_of(found, {"kind", "hits"}))


def _entries_read(found: Fields) -> Effect:
    remarks = known(map(text_of, listing(found.get("remarks"))))
    return EntriesRead(_entries(found), remarks, own=rest_of(found, {"kind", "entries", "remarks"}))


def _answered(found: Fields) -> Effect:
    judged = flag_of(found.get("judged"))
    return Answered(judged, _pages(found), own=rest_of(found, {"kind", "judged", "pages"}))


_READERS: Mapping[str, Callable[[Fields], Effect | None]] = {
    **{kind.value: _nothing for kind in Nothing},
    PagesShown.KIND: _pages_shown,
    Candidates.KIND: _candidates,
    NoNewPage.KIND: _no_new_page,
    Selected.KIND: _selected,
    Magnified.KIND: _magnified,
    Hits.KIND: _hits_listed,
    NoHit.KIND: _no_hit,
    EntriesRead.KIND: _entries_read,
    Answered.KIND: _answered,
}


def _pages(found: Fields) -> tuple[ShownPage, ...]:
    return known(map(ShownPage.from_dict, listing(found.get("pages"))))


def _hits(found: Fields) -> tuple[NamedPage, ...]:
    return known(map(NamedPage.from_dict, listing(found.get("hits"))))


def _entries(found: Fields) -> tuple[EntryRecord, ...]:
    return tuple(map(EntryRecord.from_dict, listing(found.get("entries"))))


def _view(found: Fields) -> ShownPage | None:
    """Parse the page whose fields are mixed with those of an effect."""
    return ShownPage.from_dict({name: found[name] for name in PAGE_KEYS if name in found})
