import shutil
from dataclasses import replace
from types import SimpleNamespace

import psutil
import pytest
from transformers import InternVLConfig, Qwen2_5_VLConfig, Qwen3Config, Qwen3VLConfig

from docagent_rl.base.errors import UserError
from docagent_rl.checks import budget_table
from docagent_rl.checks.budget import (
    AGENT_PROCESS,
    CONTEXT,
    GIB,
    PROCESS,
    SERVER_IMAGES,
    SERVER_WORKSPACE,
    BudgetLine,
    MemoryKind,
    Run,
    Server,
    Trained,
    budget,
    total,
)
from docagent_rl.checks.budget_table import check_memory, impossible, read_run
from docagent_rl.checks.cards import CARDS, card_memory, seen, usable
from docagent_rl.checks.check import refuse_for
from docagent_rl.checks.model_sizes import sizes_of
from docagent_rl.checks.passes import (
    Model,
    Tower,
    frozen_vision,
    kept_states,
    kept_vision,
    logits,
    packed_images,
    pass_bytes,
    patches,
)
from docagent_rl.checks.recipe_check import Cluster, budget_of_recipe, composed_recipe
from docagent_rl.config import DocAgentConfig, plain_section
from docagent_rl.models.layers import LayerBytes
from docagent_rl.rollout.images import MAX_FEATURES
from docagent_rl.training.settings.models import known_model, on_meta

# 1,000 in the vision tower, 500 each in embeddings and head, 4 layers of 2,000, of which one keeps
# more
TOWER_SIZES = Tower(layers=3, hidden=8, block=LayerBytes(300, 68), outside=7, patches=4)
MODEL = Model(
    parameters=10_000, vision=1_000, head=500, embeddings=500, hidden=10, kv=5, vocabulary=50,
    states=(LayerBytes(700, 30), *3 * (LayerBytes(500, 60),)), tower=TOWER_SIZES,
)  # fmt: skip
POLICY = Trained(MODEL, "policy", shards=8, tokens=100)
CRITIC = Trained(MODEL, "critic", shards=8, tokens=100, unused_head=True)
SERVER = Server(MODEL, share=0.5, gpus=2, longest=100)
PLAIN = {"trained": [POLICY], "server": SERVER, "reference": MODEL, "gpus_per_node": 8, "nodes": 1}
SMALL = {"vocab_size": 64, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1}
SMALL |= {"num_attention_heads": 2, "num_key_value_heads": 2}
TOWER = {
    "hidden_size": 24,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
}
QWEN_TOWER = {
    "depth": 3,
    "hidden_size": 16,
    "intermediate_size": 32,
    "num_heads": 2,
    "out_hidden_size": 32,
}
PLAIN |= {"rows": 16, "image_tokens": 20, "image_unit": 28, "agents": 4, "images": 1000, "kept": 2}
FEATURES = "features of frozen vision towers"


def sizes(place, memory=GIB, **changes) -> dict[str, int]:
    lines = budget(Run(**(PLAIN | changes)), memory)
    return {line.what: line.size for line in lines if line.place is place}


def test_shards_of_float32_weights_gradients_and_moments():
    assert MODEL.layer == 2_000
    assert (POLICY.weights, POLICY.gradients, POLICY.optimizer) == (5_000, 5_000, 10_000)
    frozen = replace(POLICY, frozen_vision=True)
    assert (frozen.weights, frozen.gradients, frozen.optimizer) == (5_000, 4_500, 9_000)
    assert (CRITIC.gradients, CRITIC.optimizer) == (4_750, 9_500)
    assert (POLICY.checkpoint, frozen.checkpoint) == (120_000, 112_000)


def test_an_adapter_alone_has_gradients_and_moments():
    adapted = replace(POLICY, adapters=800)
    assert (adapted.weights, adapted.gradients, adapted.optimizer) == (5_000 + 400, 400, 800)
    half = replace(adapted, bytes_each=2)
    assert (half.weights, half.gradients, half.optimizer) == (2_500 + 400, 400, 800)
    assert half.checkpoint == 20_000 + 3 * 3_200
    found = sizes(MemoryKind.UPDATE, trained=[half])
    # the gradients of a layer are those of its adapter
    assert found["policy: gathered layers"] == 2 * (500 + 500 + 2 * 2_000) + 4 * 200


def test_a_server_gets_the_adapter_beside_its_weights_which_sleep_in_host_memory():
    adapted, server = replace(POLICY, adapters=800), replace(SERVER, adapters=800)
    changes = {"trained": [adapted], "server": server, "reference": None}
    found = sizes(MemoryKind.ROLLOUT, 8 * GIB, **changes)
    assert (found["server: weights"], found["server: adapter"]) == (10_000, 1_600)
    assert sizes(MemoryKind.HOST, **changes)["server: weights, asleep"] == 8 * 10_000
    awake = changes | {"server": replace(server, sleeps=False)}
    assert "server: weights, asleep" not in sizes(MemoryKind.HOST, **awake)


def test_an_offloaded_model_is_back_while_its_adapter_is_read():
    away = replace(POLICY, adapters=800, offloaded=True)
    expected = {"policy: weights": 5_400, "server: weights": 10_000, "contexts": CONTEXT}
    assert sizes(MemoryKind.SYNC, trained=[away]) == expected
    assert sizes(MemoryKind.SYNC, trained=[replace(POLICY, offloaded=True)]) == {}


def test_states_of_layers():
    # a token: the last norm's 100, what layers keep, and what the busiest holds on top
    assert kept_states(MODEL, 100, checkpointing=False) == 100 * (100 + 700 + 3 * 500 + 60)
    # of the layer that is computed again the most counts, 730; an input is 20
    assert kept_states(MODEL, 100, checkpointing=True) == 100 * (100 + 4 * 20 + 730)
    # a patch: 7 outside the layers, an input 16; four patches a token
    assert kept_vision(MODEL, 10, 0, checkpointing=False) == 40 * (7 + 3 * 300 + 68)
    assert kept_vision(MODEL, 10, 0, checkpointing=True) == 40 * (7 + 3 * 16 + 368)
    # the language model's states are freed before a layer of the tower is computed again
    assert kept_vision(MODEL, 10, 40 * 300, checkpointing=True) == 40 * (7 + 3 * 16 + 68)
    assert kept_vision(MODEL, 10, 40 * 900, checkpointing=True) == 40 * (7 + 3 * 16)
    assert kept_vision(replace(MODEL, tower=None), 10, 0, checkpointing=True) == 0
    assert pass_bytes(1, 28) == 4 * 1176 * 4 == 8 * patches(1, 28)
    assert patches(10, 32) == 10 * 3 * 32 * 32


def test_a_frozen_tower_is_done_before_the_language_model_begins():
    several = replace(MODEL, tower=replace(TOWER_SIZES, outputs=3))
    assert frozen_vision(several, 10, states=40 * 300) == 10 * 3 * 2 * 10  # its output stays
    assert frozen_vision(several, 10, states=1_000) == 40 * 300 - 1_000  # one layer alone is larger
    assert frozen_vision(replace(MODEL, tower=None), 10, states=0) == 0


@pytest.mark.parametrize(
    ("row", "tokens", "found"),
    [
        (2_048, 20_480, 12_288),  # VRAG-RL: two rows of 10,240, or more that are shorter
        (16_000, 19_000, 16_000),  # ALDEN: one row with all its images
        (16_000, 10_000, 10_000),
        (0, 18_432, 0),  # MM-Doc-R1 shows none
    ],
)
def test_a_pack_holds_the_images_of_several_rows(row, tokens, found):
    assert packed_images(row, tokens) == found


def test_logits_of_all_positions_and_of_512_at_a_time():
    head = 2 * 50 * 10
    assert logits(MODEL, 1000, fused=False) == 1000 * 50 * 12 + head
    assert logits(MODEL, 1000, fused=True) == 512 * 50 * 22 + head
    assert logits(MODEL, 100, fused=True) == 100 * 50 * 22 + head


def test_the_update_holds_the_shards_of_all_and_the_work_of_one():
    assert sizes(MemoryKind.UPDATE, trained=[POLICY, CRITIC]) == {
        "policy: weights": 5_000,
        "policy: optimizer": 10_000,
        "critic: weights": 5_000,
        "critic: optimizer": 9_500,
        "policy: gradients": 5_000,
        "policy: gathered layers": 2 * (500 + 500 + 2 * 2_000) + 4 * 2_000,
        "policy: states of 100 tokens": 91_000,
        "policy: states of 60 visual tokens": 240 * (7 + 48) + pass_bytes(60, 28),
        "policy: logits, fused": 100 * 50 * 22 + 1_000,
        "contexts": CONTEXT,
    }


def test_what_is_offloaded_waits_in_host_memory_and_a_server_that_does_not_sleep_keeps_its_share():
    away = [replace(POLICY, offloaded=True), replace(CRITIC, offloaded=True)]
    update = sizes(MemoryKind.UPDATE, 8 * GIB, trained=away, server=replace(SERVER, sleeps=False))
    assert "critic: weights" not in update
    assert (update["policy: weights"], update["rollout server, awake"]) == (5_000, 4 * GIB)
    assert not any("policy" in what for what in sizes(MemoryKind.ROLLOUT, trained=away))
    assert sizes(MemoryKind.HOST, trained=away)["policy: weights and optimizer"] == 8 * 15_000


def test_the_servers_cache_is_what_its_share_leaves_and_one_trajectory_at_least():
    assert SERVER.trajectory == 2 * 2 * 4 * 5 * 100 // 2
    linear = replace(SERVER, model=replace(MODEL, linear_layers=3))
    assert linear.trajectory == SERVER.trajectory // 4
    found = sizes(MemoryKind.ROLLOUT, 8 * GIB)
    cache = 4 * GIB - 10_000 - SERVER_WORKSPACE
    assert (
        found[f"server: cache for {cache // 4_000} longest trajectories (100 tokens each)"] == cache
    )
    assert sum(found.values()) == 15_000 + 4 * GIB + CONTEXT
    assert (
        sizes(MemoryKind.ROLLOUT)["server: cache for 0 longest trajectories (100 tokens each)"]
        == 4_000
    )


def test_a_node_holds_its_part_of_the_reference_and_of_the_features():
    one, two = (
        sizes(MemoryKind.HOST, nodes=n, trained=[replace(POLICY, shards=8 * n)]) for n in (1, 2)
    )
    rows = "images of 16 rows, queue and workers"
    assert (one["reference, float32"], two["reference, float32"]) == (40_000, 20_000)
    assert (one[rows], two[rows]) == (32 * patches(20, 28), 16 * patches(20, 28))
    assert one["image caches of the servers"] == 4 * SERVER_IMAGES
    # a reference's tower is frozen
    assert one[FEATURES] == 8 * MAX_FEATURES
    alone = sizes(MemoryKind.HOST, reference=None)
    assert FEATURES not in alone
    frozen = [replace(POLICY, frozen_vision=True)]
    assert FEATURES in sizes(MemoryKind.HOST, reference=None, trained=frozen)
    assert one["processes"] == 16 * PROCESS + 4 * AGENT_PROCESS
    assert one["largest model while it loads"] == 40_000


@pytest.mark.parametrize(
    ("kept", "best", "number"), [(1, 0, 2), (2, 0, 2), (3, 0, 3), (None, 0, 1), (2, 1, 3)]
)
def test_checkpoints_on_disk_while_one_replaces_another_and_the_best(kept, best, number):
    assert sum(sizes(MemoryKind.DISK, kept=kept, best=bool(best)).values()) == number * 120_000


ALDEN, DOC, SEEKER = "alden_qwen2_5_vl_7b", "doc_v_star_qwen2_5_vl_7b", "mm_doc_r1_qwen3_4b"
VRAG = "vrag_rl_qwen2_5_vl_7b"
ACTOR = "actor_rollout_ref.actor"


def with_section(recipe: str, *overrides: str):
    config = composed_recipe(recipe, overrides)
    return config, DocAgentConfig.parse(plain_section(config.docagent))


def run_of(recipe: str, *overrides: str):
    return read_run(*with_section(recipe, *overrides))


def test_parts_of_a_model_are_counted():
    found = sizes_of(known_model("Qwen/Qwen2.5-VL-7B-Instruct"))
    assert found.parameters == 8_292_166_656
    assert found.head == found.embeddings == 152064 * 3584
    # q, k, v with biases, o, three of the MLP, two norms; the last norm is spread over the layers
    layer = 3584 * 3584 * 2 + 2 * 3584 * 512 + 3584 + 2 * 512 + 3 * 3584 * 18944 + 2 * 3584
    assert found.layer == layer + 3584 // 28
    assert (found.kv, found.vision, found.layers, found.tower.layers) == (512, 676_550_144, 28, 32)
    tied = on_meta(
        Qwen3Config(vocab_size=64, hidden_size=32, num_hidden_layers=1, tie_word_embeddings=True)
    )
    assert (sizes_of(tied).head, sizes_of(tied).embeddings) == (0, 64 * 32)


@pytest.mark.parametrize(
    ("config", "tower"),
    [
        (Qwen2_5_VLConfig(text_config=SMALL, vision_config=QWEN_TOWER), (3, 16, 4, 1)),
        (Qwen3VLConfig(text_config=SMALL, vision_config={**QWEN_TOWER,
        "deepstack_visual_indexes": [0, 1]}),
         (3, 16, 4, 3)),
        (Qwen3Config(**SMALL), None),
        (InternVLConfig(text_config={**SMALL, "model_type": "qwen2"}, vision_config=TOWER), (2, 24,
        4, 1)),
    ],
    ids=lambda each: getattr(each, "model_type", None),
)  # fmt: skip
def test_families_name_their_sizes_differently(config, tower):
    found = sizes_of(on_meta(config))
    sizes = found.tower and (
        found.tower.layers,
        found.tower.hidden,
        found.tower.patches,
        found.tower.outputs,
    )
    assert (sizes, found.vision > 0) == (tower, tower is not None)
    assert found.layers == 1
    assert found.kv > 0


def test_hybrids_keep_by_the_kind_of_layer():
    found = sizes_of(known_model("Qwen/Qwen3.5-9B"))
    assert (found.layers, found.linear_layers) == (32, 24)
    assert sorted({layer.kept for layer in found.states}) == [266_648, 728_936]
    # a layer of the delta net keeps .72 MB a token, where the formula for attention alone had .20
    assert kept_states(found, 1, checkpointing=True) > 720_000


def test_towers_references_and_rows_differ(monkeypatch):
    run = run_of(DOC)
    assert (run.trained[0].frozen_vision, run.reference) == (True, None)
    assert run_of(DOC, "+ablations=doc_v_star/unfrozen_vision").trained[0].frozen_vision is False
    seeker = run_of(SEEKER)
    assert (seeker.rows, seeker.image_tokens) == (64, 0)
    fixed = run_of(DOC, f"{ACTOR}.use_dynamic_bsz=false", f"{ACTOR}.ppo_micro_batch_size_per_gpu=2")
    assert fixed.trained[0].tokens == 2 * 45056
    # a model that only the hub knows has no budget
    assert run_of(DOC, "actor_rollout_ref.model.path=somebody/model") is None
    with pytest.raises(UserError, match=rf"{DOC}: .*somebody/model"):
        budget_of_recipe(
            DOC, ["actor_rollout_ref.model.path=somebody/model"], Cluster(), card_memory("80GB")
        )
    assert budget_table.gpu_memory() is None or budget_table.gpu_memory() > GIB
    monkeypatch.setattr(budget_table, "read_run", lambda *_: pytest.fail("read"))
    refuse_for(check_memory(*with_section(DOC, "+profile=cpu")))  # which has no budget


def test_lora_is_read_and_fits_the_gpu_of_its_overlay():
    (policy,) = run_of(VRAG, "+lora=language").trained
    assert (policy.adapters, policy.bytes_each, policy.frozen_vision) == (80_740_352, 4, True)
    run = run_of(VRAG, "+lora=gpu_48")
    assert (run.trained[0].bytes_each, run.trained[0].offloaded, run.reference) == (2, True, None)
    assert run.server.adapters == 80_740_352
    assert (
        run_of(VRAG, "+lora=gpu_48", "actor_rollout_ref.model.lora.merge=true").server.adapters == 0
    )
    gpu = (MemoryKind.UPDATE, MemoryKind.SYNC, MemoryKind.ROLLOUT)
    fits = {
        24: ("vrag_rl_qwen2_5_vl_3b", "vrag_rl_qwen3_vl_4b", SEEKER),
        48: (VRAG, "mm_doc_r1_qwen3_8b", "vrag_rl_qwen3_5_9b"),
        80: (VRAG, DOC, "mm_doc_r1_qwen3_8b", "unidoc_rl_qwen2_5_vl_7b"),
    }
    for size, recipes in fits.items():
        memory = card_memory(f"{size}GB")
        for recipe in recipes:
            lines = budget(run_of(recipe, f"+lora=gpu_{size}"), seen(memory))
            assert max(total(lines, place) for place in gpu) <= usable(memory), (recipe, size)
    lines = budget(run_of(VRAG, "+lora=gpu_24"), 24 * GIB)
    assert list(impossible(lines, {MemoryKind.SYNC: 24 * GIB}))


def test_cards_have_the_size_that_their_drivers_report():
    assert card_memory("h100") == card_memory(" 80GB ") == 81_559 << 20
    assert (card_memory("A100-80"), card_memory("RTX 4090")) == (81_920 << 20, 24_564 << 20)
    assert (card_memory("141gb"), card_memory("24")) == (143_771 << 20, 24 * GIB)
    for text in ("b2000", "0", "-3", "nan", "inf", ""):
        with pytest.raises(UserError, match=r"--gpu-memory .*h100.*24GB"):
            card_memory(text)
    # no card has what is printed on its box, and some of that is the driver's and some stays free
    assert 78 * GIB < seen(CARDS["h100"] << 20) < 79.65 * GIB
    assert usable(CARDS["h100"] << 20) == pytest.approx(0.95 * seen(CARDS["h100"] << 20), abs=1)


def test_what_cannot_be_is_said_with_what_to_do_and_an_estimate_alone_refuses_nothing():
    lines = budget(run_of(DOC, "trainer.n_gpus_per_node=1"), 80 * GIB)
    found = list(
        impossible(
            lines,
            {MemoryKind.UPDATE: 80 * GIB, MemoryKind.ROLLOUT: 80 * GIB, MemoryKind.DISK: 10**15},
        )
    )
    assert [line.split(":")[0] for line in found] == ["GPU, update", "GPU, rollout"]
    assert "actor_rollout_ref.rollout.tensor_model_parallel_size" in found[1]
    lines = [
        BudgetLine(MemoryKind.HOST, "a", 5),
        BudgetLine(MemoryKind.HOST, "b", 10, estimate=True),
    ]
    assert (total(lines, MemoryKind.HOST), total(lines, MemoryKind.HOST, exact=True)) == (15, 5)
    assert [len(list(impossible(lines, {MemoryKind.HOST: size}))) for size in (6, 4)] == [0, 1]


def test_a_machine_without_room_is_refused(tmp_path, monkeypatch):
    machine = SimpleNamespace(free=100 * GIB, total=10**13)
    for owner, name in ((shutil, "disk_usage"), (psutil, "virtual_memory")):
        monkeypatch.setattr(owner, name, lambda *_: machine)
    monkeypatch.setattr(budget_table, "gpu_memory", lambda: None)
    run = with_section(DOC, f"trainer.default_local_dir={tmp_path}/x/y")
    with pytest.raises(UserError, match=r"(?s)disk: .*262\.\d GiB .* 100\.0"):
        refuse_for(check_memory(*run))
    refuse_for(check_memory(*with_section(DOC, "trainer.save_freq=-1")))
    run = with_section(ALDEN, f"trainer.default_local_dir={tmp_path}", "trainer.nnodes=1")
    machine.free = 10**15
    monkeypatch.setattr(budget_table, "gpu_memory", lambda: 24 * GIB)
    with pytest.raises(UserError, match="GPU, update"):
        refuse_for(check_memory(*run))
    monkeypatch.setattr(budget_table, "gpu_memory", lambda: 80 * GIB)
    refuse_for(check_memory(*run))


def test_a_run_that_would_leave_no_room_is_warned_of(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(budget_table, "gpu_memory", lambda: card_memory("48GB"))
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(total=10**13))
    lora = (f"trainer.default_local_dir={tmp_path}", "trainer.save_freq=-1", "+lora=gpu_48")
    with caplog.at_level("WARNING"):
        refuse_for(check_memory(*with_section("vrag_rl_qwen2_5_vl_3b", *lora)))
    assert "GPU, update" not in caplog.text
    with caplog.at_level("WARNING"):
        refuse_for(check_memory(*with_section(DOC, *lora)))
    assert "GPU, update may run out" in caplog.text
