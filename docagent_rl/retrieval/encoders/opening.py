"""Encoders of a specification: for pages, and for queries at rollout time."""

from __future__ import annotations

from collections.abc import Mapping

from docagent_rl.retrieval.config import QueryEncoderConfig
from docagent_rl.retrieval.encoders import Encoder
from docagent_rl.retrieval.encoders.local import LocalEncoder
from docagent_rl.retrieval.encoders.queries import QueryEncoder
from docagent_rl.retrieval.encoders.spec import EncoderSpec, Family

KEY = "docagent.retriever.encoder"


def open_encoder(
    spec: EncoderSpec | Mapping[str, object],
    *,
    device: str | None = None,
    batch_size: int = 8,
    threads: int | None = None,
    named: str = "encoder.model",
) -> LocalEncoder:
    """Open the model of a specification in this process.

    Args:
        spec: the model.
        device: of torch; None: the CPU.
        batch_size: pages, passages or queries at a time.
        threads: of torch on the CPU; None: one.
        named: what names the model, for messages.

    Raises:
        UserError: the specification is none, or the model is not there, damaged, or another.
    """
    read = spec if isinstance(spec, EncoderSpec) else EncoderSpec.read(spec)
    made = _encoder_class(read.family)
    return made(read, device=device, batch_size=batch_size, threads=threads, named=named)


def open_query_encoder(spec: Mapping[str, object], config: QueryEncoderConfig) -> QueryEncoder:
    """Open the encoder of queries of an index.

    Args:
        spec: of the encoder of its pages, as the index holds it.
        config: how queries are encoded.

    Raises:
        UserError: see `open_encoder`; or the server cannot serve the model.
        InfrastructureError: the server does not answer.
    """
    read = EncoderSpec.read(spec)
    if config.model is not None:
        read = read.model_copy(update={"model": config.model, "revision": None})
    return QueryEncoder(_query_model(read, config), config)


def _query_model(spec: EncoderSpec, config: QueryEncoderConfig) -> Encoder:
    if config.endpoint is not None:
        from docagent_rl.retrieval.encoders.served import ServedEncoder

        return ServedEncoder(spec, config.endpoint, batch_size=config.batch_size)
    return open_encoder(
        spec,
        device=config.device,
        batch_size=config.batch_size,
        threads=config.threads,
        named=f"{KEY}.model",
    )


def _encoder_class(family: Family) -> type[LocalEncoder]:
    if family is Family.SENTENCE_TRANSFORMER:
        from docagent_rl.retrieval.encoders.dense import DenseEncoder

        return DenseEncoder
    if family is Family.COLBERT:
        from docagent_rl.retrieval.encoders.late_texts import LateTextEncoder

        return LateTextEncoder
    from docagent_rl.retrieval.encoders.images import LateImageEncoder, Qwen2VLEncoder

    return Qwen2VLEncoder if family is Family.QWEN2_VL else LateImageEncoder
