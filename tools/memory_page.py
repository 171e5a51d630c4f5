"""Compose docs/memory.md, which `python -m tools.recipe_pages` writes."""

from docagent_rl.checks.budget import MemoryKind, total
from docagent_rl.checks.budget_table import gib
from docagent_rl.checks.cards import CARDS, MIB, SOLD_AS, card_memory, usable
from docagent_rl.checks.model_sizes import known_sizes
from docagent_rl.checks.recipe_check import Cluster, budget_of_recipe
from docagent_rl.checks.recipe_list import recipe_names
from docagent_rl.models.layers import LayerBytes

SHOWN = (
    "Qwen/Qwen2.5-VL-7B-Instruct",
    "Qwen/Qwen3-VL-8B-Instruct",
    "Qwen/Qwen3-VL-30B-A3B-Instruct",
    "Qwen/Qwen3.5-9B",
    "Qwen/Qwen3-8B",
)
"""The models whose layers the page lists."""
_PAGE = """\
# Memory

*For whoever plans hardware: how much memory each recipe needs, how much a card really has, and how layers are counted.*

The table gives GiB on 1 node of 8 H100 of 80 GB; disk includes the checkpoints that are kept.
`python -m tools.recipe_pages` writes it.
`docagent-rl recipes budget RECIPE [overrides]` prints the parts of one recipe's budget, with any overrides.
A run on GPUs prints the same before it starts, and is refused if it cannot fit.

{recipes}

Some recipes need more than the {room} GiB that a run may fill on an H100: `doc_v_star_qwen3_5_9b` and
`unidoc_rl_qwen3_5_9b`, which fit on 8 H200, and the recipes of Qwen3-VL-30B-A3B, which fit on two nodes of 8 H200.

Weights, gradients, optimizer states, gathered layers, the server's weights and its cache are counted.
Layer states, logits, processes and features are estimated for a full micro-batch. In the rollout
the server fills its share of the GPU (`gpu_memory_utilization`). Host memory does not include retrievers:
each process that searches needs about 1 GiB, plus its model and its index
([models](retrieval/models.md)). A search actor that shares a GPU of the trainer (`service.shared_gpu_gib`) counts in all
phases, and .75 GiB are estimated for its context.

## Cards

A card has less memory than its box says. `--gpu-memory` of `recipes budget` and `recipes fit`
takes a card's name, a size as printed on boxes (which means the smallest card sold under that size), or a number of
GiB as reported by `nvidia-smi`. From this, .9 GiB are subtracted for the driver (torch reports .5 to .85 GiB
less for such cards than `nvidia-smi` does), and 5 % of the rest stay free. Each budget includes 2 GiB for the
contexts of trainer and server.

{cards}

## States of layers

For each kind of layer, a family has formulas that compute from the layer's widths the bytes that it keeps
for its backward pass (`docagent_rl/models`). `python -m tools.layer_memory` counts the same bytes with hooks on
the tensors that autograd saves, using transformers' own layers at released widths, in bfloat16 under autocast.
It also counts the peak of live memory in the forward and backward passes. The tests compare every formula with
both counts: the kept bytes must agree to a tenth of a percent, and the peak to 6 %, without being below the count.
The tensors have no storage, so no GPU is needed. Attention is replaced by a function that saves what a flash
kernel saves: queries, keys, values, output, sums of exponentials.

{layers}

With gradient checkpointing, a pass needs the input of every layer and the peak of one layer; without it, it
needs what all layers keep. Qwen3.5's delta nets are counted as torch computes them. The kernels of
flash-linear-attention were not counted: by design they recompute the chunks in the backward pass, so they keep
less. The same numbers are used for LoRA, where they are too large: a layer of Qwen3 of width 1,024 keeps 48 kB
per token with adapters of rank 32, and 54 kB if all its weights are trained.

A micro-batch contains several rows, and so the images of several rows. They are counted as the larger of two
numbers: the visual tokens of one whole row, and three fifths of the micro-batch's tokens. This share is our choice,
for rows that show all their images between short turns. A trained vision tower keeps the inputs of its layers and
the states of its merger until its backward pass. That pass starts when the language model's backward pass is over,
so the larger of the two peaks counts. A frozen tower is finished before the language model starts, and leaves only
its output. It computes one image after the other, with all its layers gathered if they are sharded, which is less
than the language model needs later. An image that several rows of a micro-batch show counts for each of them,
though the tower's states exist only once.

Each rank keeps the features of frozen towers, and of the reference's, in host memory: up to a tenth of the node's
free memory, divided among its ranks, and at most 4 GiB. The budget counts 4 GiB. A page of 1,000 tokens takes 7 MB for
Qwen2.5-VL-7B, and 33 MB for Qwen3-VL-8B, whose tower also gives features to three layers. The least recently used are
dropped first. If a step's pages do not fit, they are computed again in each pass.

A trained tower of a 7B model was measured on one H200 ([cluster.md](cluster.md)). For 27,000 visual tokens it
needed 20.0 GiB, where these formulas give 20.8, including the embeddings and the head that the engine gathers. For
5,000 visual tokens it needed 2.3 GiB, where they give 5.6. No language model's states have been measured on a GPU.
"""


def memory_page() -> str:
    """Return the page about all recipes on one machine."""
    memory = card_memory("80GB")
    found = {name: budget_of_recipe(name, (), Cluster(1, 8), memory) for name in recipe_names()}
    places = [place for place in MemoryKind if any(total(lines, place) for lines in found.values())]
    rows = [f"| recipe | {' | '.join(places)} |\n|---|{'---:|' * len(places)}"]
    for name, lines in found.items():
        rows.append(f"| `{name}` | {' | '.join(gib(total(lines, place)) for place in places)} |")
    recipes = "\n".join(rows)
    return _PAGE.format(recipes=recipes, room=gib(usable(memory)), cards=_cards(), layers=_layers())


def _cards() -> str:
    """Return a table of the cards that have a name."""
    boxes = {name: size.replace("gb", " GB") for size, name in SOLD_AS.items()}
    rows = ["| card | nvidia-smi, MiB | a run may fill, GiB | counts for |\n|---|---:|---:|---|"]
    for name, size in CARDS.items():
        rows.append(f"| `{name}` | {size:,} | {gib(usable(size * MIB))} | {boxes.get(name, '')} |")
    return "\n".join(rows)


def _layers() -> str:
    """Return a table of the bytes that layers of the listed models keep."""
    rows = [
        "| kB per token of a layer, or per patch of a tower | kept | at most |\n|---|---:|---:|"
    ]
    for name in SHOWN:
        sizes = known_sizes(name)
        assert sizes is not None
        title = name.rpartition("/")[2]
        most = max(layer.kept for layer in sizes.states)
        for layer in dict.fromkeys(sizes.states):
            kind = ""
            if sizes.linear_layers:
                kind = ", delta net" if layer.kept == most else ", attention"
            rows.append(_layer_row(title + kind, layer))
        if sizes.tower is not None:
            rows.append(_layer_row(f"{title}, tower", sizes.tower.block))
    return "\n".join(rows)


def _layer_row(title: str, layer: LayerBytes) -> str:
    most = layer.kept + layer.working
    return f"| {title} | {layer.kept / 1000:,.0f} | {most / 1000:,.0f} |"
