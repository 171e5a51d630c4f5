"""Facts of an encoder that an index and its builders go by, without opening it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from docagent_rl.documents.store import PageContent

if TYPE_CHECKING:
    from docagent_rl.retrieval.encoders.local import LocalEncoder


@dataclass(frozen=True, slots=True)
class EncoderFacts:
    """Facts of an encoder: what of a page it reads, the length of its vectors, its fingerprint (see
    `Encoder`).
    """

    content: PageContent
    dim: int
    fingerprint: str
    spec: Mapping[str, Any]
    """The JSON with which it is opened again."""
    batch_size: int
    """Pages that it encodes at a time."""

    @classmethod
    def of(cls, encoder: LocalEncoder) -> EncoderFacts:
        """Return those of an encoder."""
        spec = encoder.spec.model_dump(mode="json")
        return cls(encoder.content, encoder.dim, encoder.fingerprint, spec, encoder.batch_size)
