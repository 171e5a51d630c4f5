"""Encoders of a specification: for pages, and for queries at rollout time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from docagent_rl.retrieval.config import QueryEncoderConfig
from docagent_rl.retrieval.encoders.local import LocalEncoder
from docagent_rl.retrieval.encoders.spec import Encoder, EncoderSpec, Family

KEY = "docagent.retriever.encoder"


def open_encoder(
    spec: EncoderSpec | Mapping[str, object], *, named: str = "encoder.model", **options: Any
) -> LocalEncoder:
    """Open the model of a specification in this process; options are those of `LocalModel`.

    Raises:
        UserError: the specification is none, or the model is not there, damaged, or another.
    """
    read = spec if isinstance(spec, EncoderSpec) else EncoderSpec.read(spec)
    return _encoder_class(read.family)(read, named=named, **options)


def open_query_encoder(spec: Mapping[str, object], config: QueryEncoderConfig) -> Encoder:
    """Open the encoder of queries of an index, whose specification is that of the encoder of its pages.

    Raises:
        UserError: see `open_encoder`; or the model cannot be asked at a server.
        InfrastructureError: the server does not answer.
    """
    read = EncoderSpec.read(spec)
    if config.model is not None:
        read = read.model_copy(update={"model": config.model, "revision": None})
    if config.endpoint is not None:
        from docagent_rl.retrieval.pooling_server import ServedEncoder

        return ServedEncoder(read, config.endpoint)
    return open_encoder(read, device=config.device, threads=config.threads, named=f"{KEY}.model")


def _encoder_class(family: Family) -> type[LocalEncoder]:
    if family is Family.SENTENCE_TRANSFORMER:
        from docagent_rl.retrieval.encoders.sentences import DenseEncoder

        return DenseEncoder
    if family is Family.COLBERT:
        from docagent_rl.retrieval.encoders.sentences import LateTextEncoder

        return LateTextEncoder
    from docagent_rl.retrieval.encoders.images import LastTokenEncoder, LateImageEncoder

    return LastTokenEncoder if family.last_token else LateImageEncoder
