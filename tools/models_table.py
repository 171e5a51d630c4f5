"""Write the tables of `models.yaml` into docs/retrieval/models.md.

python -m tools.models_table docs/retrieval/models.md
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from docagent_rl.base.errors import UserError
from docagent_rl.base.io import atomic_write
from docagent_rl.retrieval.encoders.spec import MODELS, ArchitectureFamily, EncoderSpec, KnownModel

BEGIN = "<!-- from docagent_rl/retrieval/encoders/models.yaml -->"
END = "<!-- end -->"


def markdown() -> str:
    """Return two tables: the models, and their uses in papers."""
    models = ["| name | model | reads | vectors | resolution or length | precision | from |"]
    models.append("|---|---|---|---|---|---|---|")
    models += [_model_row(name, known) for name, known in MODELS.items()]
    prompts = ["| name | query | page |", "|---|---|---|"]
    prompts += [
        f"| `{name}` | {_prompt(spec.query_prompt, spec)} | {_prompt(spec.page_prompt, spec)} |"
        for name, spec in ((name, known.spec) for name, known in MODELS.items())
    ]
    uses = ["| system | part | name | pages per search | source |", "|---|---|---|---|---|"]
    rows = [(use, name) for name, known in MODELS.items() for use in known.uses]
    uses += [
        "| {system} | {part} | `{name}` | {top_k} | {source} |".format(name=name, **use)
        for use, name in sorted(rows, key=lambda row: row[0]["system"])
    ]
    return "\n\n".join("\n".join(table) for table in (models, prompts, uses))


def with_table(page: str) -> str:
    """Return a page with the current tables between its marks.

    Raises:
        UserError: the page has no marks.
    """
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise UserError(f"the page has no {BEGIN} and {END}")
    return f"{before}{BEGIN}\n\n{markdown()}\n\n{END}{after}"


def _model_row(name: str, known: KnownModel) -> str:
    spec = known.spec
    many = "one per " + ("token" if spec.family is ArchitectureFamily.COLBERT else "patch")
    pooling = f"one, {_pooling(spec)}" if not spec.family.late_interaction else many
    cells = [
        f"`{name}`",
        spec.model,
        spec.content,
        f"{pooling}, {known.dim}",
        _size(spec),
        spec.dtype,
    ]
    return "| " + " | ".join([*cells, known.facts]) + " |"


def _pooling(spec: EncoderSpec) -> str:
    return "last token" if spec.family.last_token else "as the checkpoint says"


def _size(spec: EncoderSpec) -> str:
    if spec.max_pixels:
        side = spec.family.patch
        patches = spec.max_pixels // side**2
        low = f"{spec.min_pixels // side**2} to " if spec.min_pixels else "up to "
        return f"{low}{patches} patches of {side} x {side}"
    if spec.page_tokens:
        return f"{spec.page_tokens} tokens per passage"
    return "the checkpoint's"


def _prompt(prompt: str | None, spec: EncoderSpec) -> str:
    if prompt is None:
        return (
            "none" if spec.family is ArchitectureFamily.SENTENCE_TRANSFORMER else "the checkpoint's"
        )
    # shorten ten repetitions of a token
    short = re.sub(r"(<[^<>]+>)\1{9}", r"\1 x 10", prompt)
    return "`" + short.replace("\n", "\\n").replace("|", "\\|") + "`"


def main(path: Path) -> None:
    """Write the tables into the page at `path`."""
    atomic_write(path, with_table(path.read_text(encoding="utf-8")))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
