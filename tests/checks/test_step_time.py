from dataclasses import replace

import pytest

from docagent_rl.base.errors import UserError
from docagent_rl.checks.budget import Run, Server, Trained
from docagent_rl.checks.cards import SPEEDS, Speed, speed
from docagent_rl.checks.passes import Model, Tower
from docagent_rl.checks.rates import RateName, Rates, SourcedRate
from docagent_rl.checks.recipe_check import Cluster, composed_recipe, step_time_of_recipe
from docagent_rl.checks.step_time import StepSizes, forward, step_time, time_markdown
from docagent_rl.models.layers import LayerBytes

LAYER = LayerBytes(kept=0, working=0)
MODEL = Model(
    parameters=1_300_000,
    vision=200_000,
    head=50_000,
    embeddings=100_000,
    hidden=64,
    kv=16,
    vocabulary=500,
    states=(LAYER, LAYER),
    tower=Tower(layers=1, hidden=8, block=LAYER, outside=0, patches=4),
)
TRAINING = 0.28
PREFILL = 0.4
DECODING = 0.6
SYNC = 7e9
"""The constants as docs/performance.md lists them."""
SIZES = StepSizes(row=1000, image=500, sampled=100)
CARD = Speed(1e12, 1e11)
FORWARD = 2 * 1_000_000 + 2 * 2 * 64 * 1000 + 2 * 200_000 * 4 * 0.5
"""Operations per token: parameters without tower and embeddings, attention, and the tower."""


def run(*trained: Trained, **changes) -> Run:
    policy = Trained(MODEL, "policy", shards=4, tokens=2000, checkpointing=False)
    plain = Run(
        trained=(policy, *trained),
        server=Server(MODEL, share=0.6, gpus=2, longest=2000),
        reference=None,
        gpus_per_node=4,
        nodes=1,
        rows=40,
        image_tokens=500,
        image_unit=28,
        agents=1,
        images=0,
        kept=1,
    )
    return replace(plain, **changes)


def seconds(found) -> dict[str, float]:
    return {line.part: line.seconds for line in found}


def test_operations_of_a_pass_by_hand():
    assert forward(MODEL, SIZES) == pytest.approx(FORWARD)


def test_each_part_by_hand():
    found = seconds(step_time(run(), SIZES, CARD, cache=10**9))
    assert list(found) == [
        "reading prompts and pages",
        "sampling",
        "old log-probs",
        "update of the policy",
        "weight sync",
    ]
    tokens = 40 * 1000
    assert found["old log-probs"] == pytest.approx(tokens * FORWARD / (4e12 * TRAINING))
    assert found["update of the policy"] == pytest.approx(3 * found["old log-probs"])
    tower = 2 * 200_000 * 4 * 0.5
    # a server computes no logits where it only reads
    read = 40 * (900 * (FORWARD - tower - 2 * 50_000) + 1000 * tower) / (4e12 * PREFILL)
    assert found["reading prompts and pages"] == pytest.approx(read)
    # two servers with 20 trajectories each: 100 steps, in each of which a GPU reads its half of
    # the language model with its head, and the keys and values of half of each row: 2 x 2 bytes x
    # 2 layers x 16 / 2
    read = 2 * 1_000_000 / 2 + 20 * 1000 / 2 * 2 * 2 * 2 * 16 / 2
    assert found["sampling"] == pytest.approx(100 * read / (1e11 * DECODING))
    assert found["weight sync"] == pytest.approx(2 * 1_300_000 / SYNC)


def test_measured_constants_replace_their_own_parts_alone():
    rates = Rates().with_measured(
        {RateName.SYNC: SourcedRate(1e9, ""), RateName.PREFILL: SourcedRate(0.1, "")}
    )
    plain = seconds(step_time(run(), SIZES, CARD, cache=10**9))
    found = seconds(step_time(run(), SIZES, CARD, 10**9, rates))
    assert found["weight sync"] == pytest.approx(2 * 1_300_000 / 1e9)
    part = "reading prompts and pages"
    assert found[part] == pytest.approx(plain[part] * PREFILL / 0.1)
    others = plain.keys() - {"weight sync", part}
    assert {name: found[name] for name in others} == {name: plain[name] for name in others}


def test_a_small_cache_plays_fewer_at_a_time_and_takes_more_steps():
    whole = step_time(run(), SIZES, CARD, cache=10**9)
    # the keys and values of a row are 64,000 bytes on a GPU
    small = step_time(run(), SIZES, CARD, cache=5 * 64_000)
    assert "400 steps of 5 trajectories" in small[1].formula
    assert small[1].seconds > whole[1].seconds


def test_a_reference_a_critic_and_checkpointing_add_passes():
    critic = Trained(MODEL, "critic", shards=4, tokens=2000, checkpointing=True)
    found = seconds(step_time(run(critic), replace(SIZES, reference=True), CARD, cache=10**9))
    one = found["old log-probs"]
    assert found["reference log-probs"] == found["values"] == pytest.approx(one)
    assert found["update of the critic"] == pytest.approx(4 * one)
    assert found["update of the policy"] == pytest.approx(3 * one)


def test_a_frozen_tower_has_no_backward_pass():
    frozen = Trained(MODEL, "policy", 4, 2000, frozen_vision=True, checkpointing=False)
    found = seconds(step_time(run(trained=(frozen,)), SIZES, CARD, cache=10**9))
    tower = 2 * 200_000 * 4 * 0.5
    expected = 40_000 * (3 * FORWARD - 2 * tower) / (4e12 * TRAINING)
    assert found["update of the policy"] == pytest.approx(expected)


def test_searches_count_if_their_time_is_known():
    sizes = replace(SIZES, searches=4, search_s=0.25)
    assert seconds(step_time(run(), sizes, CARD, cache=10**9))["searches"] == 40 * 4 * 0.25
    assert "searches" not in seconds(step_time(run(), SIZES, CARD, cache=10**9))


def test_adapters_are_all_that_is_sent():
    server = replace(run().server, adapters=10_000)
    found = seconds(step_time(run(server=server), SIZES, CARD, cache=10**9))
    assert found["weight sync"] == pytest.approx(20_000 / SYNC)


def test_shares_add_up():
    table = time_markdown(step_time(run(), SIZES, CARD, cache=10**9))
    shares = [int(row.split("|")[3].strip(" %")) for row in table.splitlines()[2:-1]]
    assert abs(sum(shares) - 100) <= len(shares) / 2
    assert table.splitlines()[-1].startswith("| whole step |")


def test_a_recipe_and_a_card_by_name():
    found = seconds(step_time_of_recipe("vrag_rl_qwen2_5_vl_7b", (), Cluster(1, 8), "80GB"))
    halved = seconds(
        step_time_of_recipe("vrag_rl_qwen2_5_vl_7b", (), Cluster(1, 8), "h100", row=5120)
    )
    assert 0.4 < halved["old log-probs"] / found["old log-probs"] < 0.55
    assert speed("H100") == speed("80 GB") == SPEEDS["h100"]
    with pytest.raises(UserError, match="choose from a10"):
        speed("96")


def test_tied_embeddings_are_multiplied_as_the_output_head():
    tied = replace(MODEL, head=0)
    assert forward(tied, SIZES) - forward(MODEL, SIZES) == pytest.approx(2 * 100_000)


def test_with_adapters_frozen_weights_have_no_gradients():
    adapted = Trained(MODEL, "policy", 4, 2000, checkpointing=True, adapters=1000)
    found = seconds(step_time(run(trained=(adapted,)), SIZES, CARD, cache=10**9))
    assert found["update of the policy"] == pytest.approx(3 * found["old log-probs"])
    lora = step_time_of_recipe("vrag_rl_qwen2_5_vl_7b", ["+lora=gpu_80"], Cluster(1, 1), "80GB")
    assert "reference log-probs" in seconds(lora)


def test_rows_of_a_trajectory_follow_each_other():
    sizes = replace(SIZES, several=4)
    (line,) = [x for x in step_time(run(), sizes, CARD, 10**9) if x.part == "sampling"]
    assert "of 5 trajectories" in line.formula
    recipe = "mm_doc_r1_qwen3_4b", (), Cluster(1, 2), "80GB"
    found = {x.part: x.formula for x in step_time_of_recipe(*recipe, searches=2, search_s=0.1)}
    config = composed_recipe("mm_doc_r1_qwen3_4b")
    trajectories = config.data.train_batch_size * config.actor_rollout_ref.rollout.n
    assert found["searches"].startswith(f"{2 * trajectories} searches")


def test_mixtures_of_experts_are_refused():
    with pytest.raises(UserError, match="mixture of experts"):
        step_time_of_recipe("vrag_rl_qwen3_vl_30b_a3b", (), Cluster(1, 8), "80GB")
