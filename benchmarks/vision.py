"""Time passes over a micro-batch whose rows share pages, in a vision tower and in a whole model.

python -m benchmarks.vision --cpu-time
python -m benchmarks.vision --tower-only --width 1280 --depth 4 --patches 1024 --cpu-time
python -m benchmarks.vision --tower-only --width 1280 --depth 32 --patches 4096 --device cuda

Rows of a group show the same pages. Old log-probs, the reference's and the update go over all rows.
Each tower is measured as upstream runs it, place by place, and as ours runs it: trained, in which
case the distinct pages of the micro-batch take one pass, and frozen, in which case a page is
computed in the first pass and kept. The whole model has as many text tokens as visual ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from types import SimpleNamespace
from typing import Annotated, Any

import torch
import typer
from torch import Tensor
from transformers import Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration

from benchmarks.common import CPU_TIME, best_times, show, single_thread
from docagent_rl.rollout.images import EncodedImage, join_patches
from docagent_rl.rollout.patches import PatchFormat, features
from docagent_rl.training.vision.features import FeatureStore
from docagent_rl.training.vision.row_images import read_images
from docagent_rl.training.vision.tower import SharedTower

LAYOUT = PatchFormat(14, 2, 2, (120.0,) * 3, (60.0,) * 3)
IMAGE = 9
"""The token of image placeholders."""
ROOM = 8 << 30

Row = dict[str, Tensor]


def build_model(width: int, depth: int, hidden: int, layers: int) -> Any:
    """Return a Qwen2.5-VL with random weights, whose tower has heads of 80 as the released one."""
    heads = max(1, width // 80)
    vision = {
        "hidden_size": width,
        "intermediate_size": width * 8 // 3 // 4 * 4,
        "num_heads": heads,
        "depth": depth,
        "out_hidden_size": hidden,
        "fullatt_block_indexes": [depth - 1],
    }
    text = {
        "hidden_size": hidden,
        "intermediate_size": 4 * hidden,
        "num_hidden_layers": layers,
        "num_attention_heads": hidden // 64,
        "num_key_value_heads": max(1, hidden // 512),
        "vocab_size": 1024,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "pad_token_id": 0,
        "layer_types": ["full_attention"] * layers,
        "rope_parameters": {"rope_type": "default", "mrope_section": [8, 12, 12]},
    }
    ids = {"image_token_id": IMAGE, "video_token_id": 10, "vision_start_token_id": 11}
    config = Qwen2_5_VLConfig(text_config=text, vision_config=vision, **ids)
    torch.manual_seed(0)
    return Qwen2_5_VLForConditionalGeneration._from_config(config, attn_implementation="sdpa")


def make_rows(rows: int, pages: int, patches: int) -> list[Row]:
    """Return rows that all show the same pages, (1, 2 m, patches / 2 m) patches each."""
    side = 2 * int((patches / 4) ** 0.5)
    grid = torch.tensor([[1, side, patches // side // 2 * 2]])
    size = int(grid.prod())
    generator = torch.Generator().manual_seed(0)
    made = []
    for number in range(pages):
        shape = (size, LAYOUT.patch_bytes)
        image = torch.randint(0, 256, shape, generator=generator, dtype=torch.uint8)
        made.append(EncodedImage(SimpleNamespace(key=str(number)), image, grid, LAYOUT))
    return [join_patches(made) for _ in range(rows)]


class Passes:
    """The passes of a step over the rows of a micro-batch, by a tower or by the model around it."""

    def __init__(self, model: Any, rows: Sequence[Row], *, tower_only: bool) -> None:
        self.model = model
        self.tower = model.model.visual
        self.rows = rows
        self.grids = torch.cat([row["image_grid_thw"] for row in rows])
        self.device = next(model.parameters()).device
        self.dtype = next(model.parameters()).dtype
        self._tower_only = tower_only
        tokens = int(self.grids.prod(dim=-1).sum()) // LAYOUT.merge**2 // len(rows)
        ids = torch.full((len(rows), 2 * tokens), 20, device=self.device)
        ids[:, tokens // 2 : tokens // 2 + tokens] = IMAGE
        self.ids = ids

    def upstream(self, *, frozen: bool) -> float:
        """Run all passes as upstream does."""
        return self._step(None, frozen=frozen)

    def ours(self, *, frozen: bool) -> float:
        """Run all passes with shared pages; features of earlier calls are not known."""
        forward = self.tower.forward
        shared = SharedTower(self.tower, FeatureStore(ROOM), keeps=frozen)
        try:
            return self._step(shared, frozen=frozen)
        finally:
            self.tower.forward = forward

    def _step(self, shared: SharedTower | None, *, frozen: bool) -> float:
        """Return the sum of the outputs of old log-probs, the reference's and the update."""
        self.tower.requires_grad_(not frozen)
        total = 0.0
        for _ in range(2):
            with torch.no_grad():
                total += float(self._forward(shared))
        loss = self._forward(shared)
        if loss.requires_grad:
            loss.backward()
        self.model.zero_grad()
        return total + float(loss.detach())

    def _forward(self, shared: SharedTower | None) -> Tensor:
        if shared is None:
            pixels = torch.cat([features(row, self.device)["pixel_values"] for row in self.rows])
        else:
            pixels = torch.empty(0, 1, device=self.device)
            shared.expect(read_images(self.rows))
        pixels = pixels.to(self.dtype)
        grids = self.grids.to(self.device)
        found = self.tower(pixels, grid_thw=grids).pooler_output
        if self._tower_only:
            return found.float().abs().mean()
        embeds = self.model.get_input_embeddings()(self.ids)
        mask = (self.ids == IMAGE)[..., None].expand_as(embeds)
        embeds = embeds.masked_scatter(mask, found.to(embeds))
        places = torch.arange(self.ids.shape[1], device=self.device).expand(3, len(self.ids), -1)
        output = self.model.model.language_model(inputs_embeds=embeds, position_ids=places)
        return output.last_hidden_state.float().abs().mean()


def main(
    rows: Annotated[int, typer.Option(min=1, help="Rows of the micro-batch.")] = 4,
    pages: Annotated[int, typer.Option(min=1, help="Pages that each row shows.")] = 2,
    patches: Annotated[int, typer.Option(min=16, help="Patches of a page.")] = 256,
    width: Annotated[int, typer.Option(min=80, help="Width of the tower.")] = 160,
    depth: Annotated[int, typer.Option(min=1, help="Layers of the tower.")] = 4,
    hidden: Annotated[int, typer.Option(min=64, help="Width of the language model.")] = 512,
    layers: Annotated[int, typer.Option(min=1, help="Layers of the language model.")] = 4,
    tower_only: Annotated[bool, typer.Option("--tower-only", help="Leave the model out.")] = False,
    device: Annotated[str, typer.Option(help="A device of torch: cpu or cuda.")] = "cpu",
    bf16: Annotated[bool, typer.Option("--bf16", help="Compute in bfloat16.")] = False,
    repeats: Annotated[int, typer.Option(min=1, help="Rounds; the best time counts.")] = 3,
    cpu_time: Annotated[bool, typer.Option("--cpu-time", help=CPU_TIME)] = False,
) -> None:
    """Time the passes of a step with a trained and with a frozen tower."""
    single_thread(cpu_time)
    model = build_model(width, depth, hidden, layers).to(device)
    if bf16:
        model = model.to(torch.bfloat16)
    passes = Passes(model, make_rows(rows, pages, patches), tower_only=tower_only)
    table = []
    for frozen in (False, True):
        calls: dict[str, Callable[[], float]] = {
            "each place": partial(passes.upstream, frozen=frozen),
            "each page once": partial(passes.ours, frozen=frozen),
        }
        seconds, results = best_times(calls, repeats, cpu_time)
        slowest = seconds["each place"]
        for name, time in seconds.items():
            kind = "frozen" if frozen else "trained"
            times = f"{slowest / time:.1f}"
            table.append((f"{kind}, {name}", f"{time:.3f}", times, f"{results[name]:.6f}"))
    what = "tower" if tower_only else "model"
    title = f"three passes of the {what}, {rows} rows that show {pages} pages of {patches} patches"
    show(title, ("tower", "seconds", "times as fast", "sum"), table)


if __name__ == "__main__":
    typer.run(main)
