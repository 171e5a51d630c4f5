"""`python -m tools.recipe_pages`: writes docs/memory.md and docs/variants.md from the recipes."""

from __future__ import annotations

import ast
import inspect
import itertools
import textwrap
from collections.abc import Iterator, Mapping
from enum import Enum
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from docagent_rl.base.section import VariantSection
from docagent_rl.checks.budget import Place, total
from docagent_rl.checks.budget_table import gib, sizes_of
from docagent_rl.checks.cards import CARDS, MIB, SOLD_AS, card_memory, usable
from docagent_rl.checks.provenance import Source, read_provenance
from docagent_rl.checks.recipe_check import Cluster, budget_of_recipe
from docagent_rl.checks.recipe_list import recipe_names
from docagent_rl.models.layers import Layer
from docagent_rl.systems import SYSTEMS, get_system
from docagent_rl.training.settings.models import known_model
from tools.recipe_provenance import flat

DOCS = Path(__file__).resolve().parents[1] / "docs"
VARIANTS = ("paper", "released")
_MEMORY = """\
# Memory

What each recipe takes, in GiB, on 1 node of 8 H100 of 80 GB, with the checkpoints that are kept.
Written by `python -m tools.recipe_pages`;
`docagent-rl recipes budget RECIPE [overrides]` prints the parts of one recipe, with any overrides. A run on
GPUs prints the same before it starts, and is refused where it cannot fit.

{recipes}

`doc_v_star_qwen3_5_9b` and `unidoc_rl_qwen3_5_9b` may be filled beyond {room} GiB of an H100, and those of
Qwen3-VL-30B-A3B are: the first two fit on 8 H200, the others on two nodes of 8 H200.

Weights, gradients, optimizer states, gathered layers, the server's weights and its cache are counted. States
of layers, logits, processes and features are estimates, for a full micro-batch. In the rollout the server fills
its share of the GPU (`gpu_memory_utilization`). Host memory does not include retrievers: each process that
searches takes about 1 GiB, and its model and its index besides ([models](retrieval/models.md)).

## Cards

A card has less memory than is printed on its box. `--gpu-memory` of `recipes budget` and `recipes fit` takes
a card's name, a size as printed on boxes (then the smallest card sold as such counts), or a number of GiB as
`nvidia-smi` reports them. Of that, .9 GiB count as the driver's own (what torch reports of such cards is .5 to
.85 GiB less than `nvidia-smi` says), and 5 % of the rest stay free. 2 GiB of each budget are the contexts of
trainer and server.

{cards}

## States of layers

Each family has formulas of the bytes that a layer keeps for its backward pass, by kind of layer and from its
widths (`docagent_rl/models`). `python -m tools.layer_memory` counts the same by hooks on the tensors that
autograd saves, with transformers' own layers at released widths, in bfloat16 under autocast; and the most
that lives at a time in forward and backward pass. The tests hold every formula to both: what is kept to a tenth
of a percent, the peak to 6 %, and never below. The tensors are without memory, and no GPU is needed. Attention
is a stand-in that saves what a flash kernel saves: queries, keys, values, output, sums of exponentials.

{layers}

With gradient checkpointing a pass holds the input of every layer and the peak of one; without, what all layers
keep. Qwen3.5's delta nets are counted as torch computes them. Kernels of flash-linear-attention were not
counted; they compute the chunks again in the backward pass and keep less. Adapters change little: frozen
layers keep less of their norms, and each adapter keeps 64 bytes of a token (rank 32) in place of it.

A micro-batch holds several rows, and so the images of several: at least those of one whole row, or three
fifths of its tokens, which is a choice: rows that show all their images between short turns. A trained vision
tower waits with the inputs of its layers and the states of its merger; its backward pass begins when the
language model's is over, so that the larger of the two counts. A frozen tower is done before the language
model begins, and leaves its output.

One H200 has measured a trained tower ([cluster.md](cluster.md)): 20.0 GiB for 27,000 visual tokens of a 7B
model, where these formulas say 20.8, with the embeddings and the head that the engine gathers; for 5,000
visual tokens 2.3 GiB, where they say 5.6.
"""
_SHOWN = ("Qwen/Qwen2.5-VL-7B-Instruct", "Qwen/Qwen3-VL-8B-Instruct", "Qwen/Qwen3.5-9B", "Qwen/Qwen3-8B")
_SHOWN += ("Qwen/Qwen3-VL-30B-A3B-Instruct",)
"""Models whose layers the page lists."""
_VARIANTS = """\
# Variants

`docagent.env.variant` chooses between `paper`, the system as published, and `released`, the published code as
it was meant to work. The tables list the keys of `docagent.env` that it changes. A key that a recipe sets
keeps its value under both; `null` takes the variant's. A key that a recipe does not list takes a `+` on the
command line, e.g. `+docagent.env.polar_exact=true`. "(ours)" marks a value of `paper` on which the paper is
silent or differs; `docagent-rl recipes show` lists these, and such values that both variants share.
Written by `python -m tools.recipe_pages`.
"""
_GATE = """\
## Answers behind a closed gate

With `reward.gate` (VRAG-RL and UniDoc-RL, `released`) the reward is 0 where the format term is 0, and
training does not ask the judge about such an answer: it is *unjudged*, which is not wrong. Its term
`reward/outcome` is 0, as published. The trajectory's outcome says `unjudged`, and so do funnel, viewer,
filters and `rescore`; `docagent/outcome/accuracy_of_judged` is of the other answers, and
`docagent/outcome/unjudged` is the share of these. No answer, or a blank one, is wrong.

Validation and `docagent-rl eval` ask the judge about every answer, whatever the form; the reward stays 0
behind the gate. `reward/outcome` is then the validation score of the released code: the judge's score for
UniDoc-RL, and for VRAG-RL 0 without a search. `judge_score` is the judge's score for both. To have the
unjudged answers of a training run judged:

```bash
docagent-rl rescore RUN --out DIR -- docagent.env.reward.gate=false
```

"""
_PADDING = """\
## More turns, more reward

Additional turns that repeat calls, find nothing, open wrong pages or are malformed do not raise the reward of
a trajectory, in any system (`tests/players/test_padding.py`), with these exceptions:

"""


def main() -> None:
    """Write both pages."""
    for name, page in (("memory", memory_page()), ("variants", variant_page())):
        (DOCS / f"{name}.md").write_text(page, encoding="utf-8")


def memory_page() -> str:
    """Write a page on all recipes on one machine."""
    found = {name: budget_of_recipe(name, (), Cluster(1, 8), card_memory("80GB")) for name in recipe_names()}
    places = [place for place in Place if any(total(lines, place) for lines in found.values())]
    rows = [f"| recipe | {' | '.join(places)} |\n|---|{'---:|' * len(places)}"]
    for name, lines in found.items():
        rows.append(f"| `{name}` | {' | '.join(gib(total(lines, place)) for place in places)} |")
    room = gib(usable(card_memory("80GB")))
    return _MEMORY.format(recipes="\n".join(rows), room=room, cards=_cards(), layers=_layers())


def _cards() -> str:
    """Return a table of the cards that are known by name."""
    boxes = {name: size.replace("gb", " GB") for size, name in SOLD_AS.items()}
    rows = ["| card | nvidia-smi, MiB | a run may fill, GiB | counts for |\n|---|---:|---:|---|"]
    for name, size in CARDS.items():
        rows.append(f"| `{name}` | {size:,} | {gib(usable(size * MIB))} | {boxes.get(name, '')} |")
    return "\n".join(rows)


def _layers() -> str:
    """Return a table of what layers of the largest listed models take."""
    rows = ["| kB a token of a layer, a patch of a tower | kept | at most |\n|---|---:|---:|"]
    for name in _SHOWN:
        model = known_model(name)
        assert model is not None
        sizes = sizes_of(model)
        title = name.rpartition("/")[2]
        for layer in dict.fromkeys(sizes.states):
            kind = "delta net" if layer.kept == max(each.kept for each in sizes.states) else "attention"
            kind = f", {kind}" if sizes.linear_layers else ""
            rows.append(_layer_row(f"{title}{kind}", layer))
        if sizes.tower is not None:
            rows.append(_layer_row(f"{title}, tower", sizes.tower.block))
    return "\n".join(rows)


def _layer_row(title: str, layer: Layer) -> str:
    most = layer.kept + layer.working
    return f"| {title} | {layer.kept / 1000:,.0f} | {most / 1000:,.0f} |"


def variant_page() -> str:
    """Write a page with a table of differences for every system that has both variants."""
    parts, single = [_VARIANTS], []
    for name in sorted(SYSTEMS):
        cells = [[cell.replace("|", "\\|") for cell in row] for row in differences(name)]
        if not cells:
            single.append(f"`{name}`")
            continue
        rows = "".join(f"| {' | '.join(row)} |\n" for row in cells)
        parts.append(f"## {name}\n\n| key | paper | released | what it is |\n|---|---|---|---|\n{rows}")
    parts.append(f"No code was released for {' and '.join(single)}, which have the variant `paper` alone.\n")
    padding = [
        f"- **{name}, `{variant}`.** {text}\n"
        for name in sorted(SYSTEMS)
        for variant, text in get_system(name).padding.items()
    ]
    return "\n".join([*parts, _GATE + _PADDING + "".join(padding)])


def differences(name: str) -> Iterator[tuple[str, str, str, str]]:
    """List the differences between the variants of a system; none for a system without both.

    Yields:
        The key below `docagent.env`, its value in the paper and in the released code, and what it is.
    """
    system = get_system(name)
    config_type = system.config_type
    if not issubclass(config_type, VariantSection) or set(VARIANTS) - set(config_type.variants):
        return
    defaults = config_type.variants
    prompts = [system.default_prompt(config_type.for_variant(variant)) for variant in VARIANTS]
    if len(set(prompts)) > 1:
        yield "(prompt)", f"`{prompts[0]}`", f"`{prompts[1]}`", "The package's prompt."
    paper, released = (dict(flat(defaults[variant])) for variant in VARIANTS)
    recipe = next(recipe for recipe in recipe_names() if recipe.startswith(name))
    named = read_provenance(recipe).keys(Source.DEPARTS, Source.RELEASE, Source.SILENT)
    ours = tuple(f"{key}." for key in named)
    for key in dict.fromkeys([*paper, *released]):
        if paper.get(key) != released.get(key):
            yield (
                f"`{key}`",
                "(ours) " * f"docagent.env.{key}.".startswith(ours) + _value(paper, key),
                _value(released, key),
                _explanation(config_type, key.split(".")),
            )


def _value(values: Mapping[str, Any], key: str) -> str:
    value = values.get(key)
    if isinstance(value, Enum):
        doc = _docstrings(type(value)).get(value.name, "")
        return f"`{value.value}`: {doc}" if doc else f"`{value.value}`"
    return "" if key not in values else f"`{str(value).lower() if isinstance(value, bool) else value}`"


def _explanation(config_type: type[BaseModel], path: list[str]) -> str:
    """Return the docstring of a field, or of the enumeration that its values are from."""
    kind = config_type.model_fields[path[0]].annotation
    if len(path) > 1 and isinstance(kind, type) and issubclass(kind, BaseModel):
        return _explanation(kind, path[1:])
    own = _docstrings(config_type).get(path[0], "")
    if not own and isinstance(kind, type) and issubclass(kind, Enum):
        return " ".join((kind.__doc__ or "").split())
    return own


def _docstrings(kind: type) -> dict[str, str]:
    """Return the strings below the attributes of a class and its bases, by attribute, on one line each."""
    found: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        if not base.__module__.startswith("docagent_rl."):
            continue
        [definition] = ast.parse(textwrap.dedent(inspect.getsource(base))).body
        body = definition.body if isinstance(definition, ast.ClassDef) else []
        for statement, after in itertools.pairwise(body):
            if not (isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)):
                continue
            if isinstance(statement, ast.AnnAssign):
                target = statement.target
            elif isinstance(statement, ast.Assign):
                target = statement.targets[0]
            else:
                continue
            if isinstance(target, ast.Name):
                found[target.id] = " ".join(str(after.value.value).split())
    return found


if __name__ == "__main__":
    main()
