"""The constants of the formula for a step's time, each with its source.

No recipe has run at its real size, so two of them are assumptions. A report of `make gpu-check`
replaces those that it has measured (`gpu_report.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum


class RateName(StrEnum):
    """The names of the constants, which are also fields of `Rates` and keys of a report."""

    TRAINING = "training"
    PREFILL = "prefill"
    DECODING = "decoding"
    SYNC = "sync"


@dataclass(frozen=True, slots=True)
class SourcedRate:
    """A constant of the formula.

    Attributes:
        value: a share of a GPU's peak, or bytes per second.
        source: where the value comes from.
    """

    value: float
    source: str

    def __str__(self) -> str:
        return f"{self.value:.3g}"


@dataclass(frozen=True, slots=True)
class Rates:
    """The constants of the formula."""

    training: SourcedRate = SourcedRate(
        0.28, "measured on one H200: 8 layers of Qwen2.5-VL-7B over 41,024 tokens (docs/cluster.md)"
    )
    """The share of the peak operations in passes over whole rows: 6.0 s for forward and backward
    passes of 8 of 28 layers and the tower; .27 for a row of 10,240 tokens.
    """
    prefill: SourcedRate = SourcedRate(0.4, "assumed")
    """The share of the peak operations while a server reads prompts."""
    decoding: SourcedRate = SourcedRate(0.6, "assumed")
    """The share of the memory's bandwidth while a server samples."""
    sync: SourcedRate = SourcedRate(
        7e9, "measured on one H100: 3,415 MiB in .5 s (docs/cluster.md)"
    )
    """Bytes per second from the trainer to a server."""

    def with_measured(self, measured: Mapping[RateName, SourcedRate]) -> Rates:
        """Return the constants with those that were measured in the place of their own."""
        return replace(self, **{name.value: rate for name, rate in measured.items()})


MEANINGS: Mapping[RateName, str] = {
    RateName.TRAINING: "share of the peak in passes over rows",
    RateName.PREFILL: "share of the peak while prompts are read",
    RateName.DECODING: "share of the bandwidth while tokens are sampled",
    RateName.SYNC: "bytes per second to a server",
}
"""A short description of each constant, for tables."""


def rates_markdown(rates: Rates) -> str:
    """Return the constants and their sources as a table in Markdown."""
    rows = [
        f"| {text} | {rate} | {rate.source} |"
        for name, text in MEANINGS.items()
        for rate in [getattr(rates, name.value)]
    ]
    return "\n".join(["| constant | value | source |", "|---|---:|---|", *rows]) + "\n"
