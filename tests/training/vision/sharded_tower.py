"""Program: a frozen tower that FSDP2 shards over two ranks, of which one knows all features and the
other none.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, distributed, nn
from torch.distributed.fsdp import fully_shard

from docagent_rl.training.vision.features import FeatureStore
from docagent_rl.training.vision.row_images import read_images
from docagent_rl.training.vision.tower import SharedTower
from tests.training.vision.pages import layout_of, rows_of, tiny_model

PAGES = ((0, 1, 2, 0), (3,))
"""Pages of the only row of each rank."""


class Reader(nn.Module):
    """A trained layer over a tower."""

    def __init__(self, tower: nn.Module, width: int) -> None:
        super().__init__()
        self.visual = tower
        self.head = nn.Linear(width, 1)

    def forward(self, pixels: Tensor) -> Tensor:
        features = self.visual(pixels, grid_thw=None).pooler_output
        return self.head(features).sum()


def report(rank: int) -> dict[str, Any]:
    torch.manual_seed(0)
    model = tiny_model("qwen2_5_vl")
    tower = model.model.visual.requires_grad_(False)
    rows = rows_of(layout_of(model.config.vision_config), [PAGES[rank]])
    shared = SharedTower(tower, FeatureStore(1 << 30), keeps=True, ranks=2, reshards=True)
    reader = Reader(tower, model.config.vision_config.out_hidden_size)
    shared.expect(read_images(rows))
    expected = float(reader(torch.empty(0, 1)).detach())
    shared.forget()
    shared.counts()
    for block in tower.blocks:
        fully_shard(block)
    fully_shard(reader)
    found: dict[str, Any] = {"outputs": [], "counts": [], "sharded": []}
    for forgetful in (None, 0, 1, None):
        if forgetful == rank:
            shared.forget()
        shared.expect(read_images(rows))
        output = reader(torch.empty(0, 1))
        # the layers' weights are freed before the backward pass, like those of the other layers
        held = [type(p).__name__ for p in tower.blocks.parameters()]
        output.backward()
        found["outputs"].append(abs(float(output.detach()) - expected))
        found["counts"].append(list(shared.counts()))
        found["sharded"].append(set(held) == {"DTensor"})
    return found


def main(folder: Path) -> None:
    place = {"rank": int(os.environ["RANK"]), "world_size": int(os.environ["WORLD_SIZE"])}
    distributed.init_process_group("gloo", init_method=os.environ["DIST_INIT_METHOD"], **place)
    found: list[Any] = [None, None]
    distributed.all_gather_object(found, report(distributed.get_rank()))
    if distributed.get_rank() == 0:
        print(json.dumps(found))
    distributed.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
