"""Properties of an encoder that indexes and their builders use without opening it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from docagent_rl.documents.store import PageContent

if TYPE_CHECKING:
    from docagent_rl.retrieval.encoders.local import LocalEncoder


@dataclass(frozen=True, slots=True)
class EncoderFacts:
    """Properties of an encoder; see `Encoder` for the first three."""

    content: PageContent
    dim: int
    fingerprint: str
    spec: Mapping[str, Any]
    """Its specification as JSON, with which it can be opened again."""
    batch_size: int
    """Number of pages per batch."""

    @classmethod
    def of(cls, encoder: LocalEncoder) -> EncoderFacts:
        """Return the properties of an encoder."""
        spec = encoder.spec.model_dump(mode="json")
        return cls(encoder.content, encoder.dim, encoder.fingerprint, spec, encoder.batch_size)
