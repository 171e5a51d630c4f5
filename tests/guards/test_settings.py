"""A key that is accepted has an effect; what cannot run is reported before models load, with what
to do.
"""

import dataclasses
import re

import pytest
from omegaconf import OmegaConf

from docagent_rl.base.errors import InfrastructureError, UserError
from docagent_rl.checks.cards import card_memory, usable
from docagent_rl.checks.preflight import Preflight, check, check_statically
from docagent_rl.checks.recipe_check import composed_recipe
from docagent_rl.checks.recipe_list import recipe_names
from docagent_rl.commands.recipes import app
from docagent_rl.lab.tiny.tokenizer import build_tokenizer
from docagent_rl.rollout.chat import ChatCodec, check_template
from docagent_rl.samples.parquet import write_parquet
from docagent_rl.training.settings.keys import reference, sft_reference
from docagent_rl.training.settings.ledger import RL_FILE, SFT_FILE, leaves, ledger
from tests.checks.conftest import RECIPES, checked, config, workspace  # noqa: F401  fixtures
from tests.commands.conftest import called
from tools.recipe_provenance import provenance_problems

VRAG, SPO, ALDEN = (RECIPES[name] for name in ("vrag_rl", "mm_doc_r1", "alden"))
NOBODY = "http://127.0.0.1:9/v1"


def settled(recipe, *overrides):
    return check_statically(composed_recipe(recipe, ["+profile=cpu", *overrides]))


def on_no_laptop(recipe, *overrides):
    """Return a recipe with a laptop's sizes but without the CPU profile, in which no service that
    nobody chose may silently be a rule.
    """
    bare = [
        "+profile=cpu",
        "docagent.profile=null",
        "docagent.provision=null",
        "docagent.env_cpu={}",
    ]
    room = ("prompt_length=9000", "response_length=40000")
    lengths = [
        *(f"data.max_{each}" for each in room),
        "actor_rollout_ref.rollout.max_model_len=50000",
    ]
    return composed_recipe(recipe, [*bare, *lengths, "docagent.workspace=/nowhere", *overrides])


@pytest.fixture
def changed_rows(world, tmp_path):
    """Return a function that writes the world's questions with the first of them changed, and
    returns the override that names the file.
    """

    def write(key, **changes):
        first = dataclasses.replace(world.samples[0], **changes)
        return (
            f"data.{key}={write_parquet([first, *world.samples[1:]], tmp_path / f'{key}.parquet')}"
        )

    return write


def test_a_mistyped_key_is_refused_with_the_nearest(checked):  # noqa: F811
    with pytest.raises(UserError, match=r"trainer\.sav_freq: .*trainer\.save_freq"):
        checked("+trainer.sav_freq=3")
    with pytest.raises(UserError, match=r"docagent\.env\.max_turn\b"):
        checked("+docagent.env.max_turn=3")


@pytest.mark.parametrize(
    ("key", "instead"),
    [
        ("reward.reward_manager.name=dapo", "docagent.env.reward"),
        ("data.truncation=left", "docagent.rollout.unplayable"),
        ("reward_model.enable=true", "reward.custom_reward_function"),
        ("actor_rollout_ref.rollout.name=sglang", "vLLM"),
        ("actor_rollout_ref.actor.clip_ratio=0.3", "clip_ratio_low and clip_ratio_high"),
    ],
)
def test_a_key_of_verl_that_nobody_reads_is_refused_with_its_replacement(key, instead):
    with pytest.raises(UserError, match=f"(?si){re.escape(key)}.*{instead}"):
        settled(VRAG, key)


@pytest.mark.parametrize(("file", "known"), [(RL_FILE, reference), (SFT_FILE, sft_reference)])
def test_every_key_of_verl_is_known_to_have_an_effect_or_none(file, known):
    assert [key for key, _ in leaves(known()) if ledger(file).entry(key) is None] == []


@pytest.mark.parametrize(
    ("recipe", "value"),
    [
        (VRAG, "+docagent.advantage.options.eps=-1"),
        (VRAG, "+docagent.advantage.options.sdt=none"),
        (VRAG, "docagent.env.display.min_pixels=nan"),
        (ALDEN, "docagent.advantage.gamma_turn=1.5"),
        (VRAG, "actor_rollout_ref.actor.optim.lr=-1"),
        (VRAG, "actor_rollout_ref.rollout.temperature=0"),
    ],
)
def test_a_value_that_no_run_can_have_is_named_with_its_key(recipe, value):
    name = value.lstrip("+").partition("=")[0].rpartition(".")[2]
    with pytest.raises(UserError, match=name):
        settled(recipe, value)


@pytest.mark.parametrize("estimator", ["trajectory_grpo", "grpo"])
def test_one_trajectory_of_a_question_is_no_group(estimator):
    chosen = [f"algorithm.adv_estimator={estimator}", "docagent.advantage.options=null"]
    settled(VRAG, *chosen)
    with pytest.raises(UserError, match=r"rollout\.n to 2 or more"):
        settled(VRAG, *chosen, "actor_rollout_ref.rollout.n=1")


def test_roles_and_judges_that_nobody_chose_are_not_rules_without_a_word():
    with pytest.raises(
        UserError, match=r"(?s)docagent\.roles\.reader\.(base_url=|backend=embedded)"
    ):
        check(on_no_laptop("mm_doc_r1_qwen3_4b"))
    with pytest.raises(UserError, match=r"docagent\.judge\.kind=openai"):
        check(on_no_laptop(VRAG, "docagent.judge.kind=null"))


def test_two_rankings_need_two_indexes():
    with pytest.raises(UserError, match=r"docagent\.text_retriever"):
        check_statically(
            composed_recipe("alden_hybrid_qwen2_5_vl_7b", ["docagent.text_retriever=null"])
        )


def test_servers_of_their_own_are_told_all_that_is_missing_at_once():
    with pytest.raises(
        UserError, match=r"(?s)parameter_sync_step.*rollout\.nnodes=0.*backend=naive"
    ):
        settled(VRAG, "trainer.v1.trainer_mode=docagent_separate_async")


def test_a_service_that_is_not_there_is_told_before_models_load(checked):  # noqa: F811
    judge_at = (
        "docagent.judge.kind=openai",
        f"docagent.judge.base_url={NOBODY}",
        "docagent.judge.attempts=1",
    )
    search_at = ("docagent.retriever.backend=http", f"docagent.retriever.service.url={NOBODY}")
    for overrides in (judge_at, search_at):
        with pytest.raises((UserError, InfrastructureError), match=NOBODY):
            checked(*overrides)


def test_a_batch_larger_than_the_questions_is_refused_with_both_numbers(checked, world):  # noqa: F811
    with pytest.raises(UserError, match=r"data\.train_batch_size=4 .* 2 questions"):
        checked("data.train_max_samples=2")


def test_a_row_that_cannot_be_played_is_named_before_the_run(checked, changed_rows, world):  # noqa: F811
    for changes in ({"answers": (), "answerable": None}, {"question": "Which page? " * 5000}):
        with pytest.raises(UserError, match=f"(?s)train_files.*{world.samples[0].question_id}"):
            checked(changed_rows("train_files", **changes))


def test_a_validation_row_that_cannot_be_played_is_told_and_kept(
    checked,  # noqa: F811
    changed_rows,
    world,
    capsys,
):
    checked(changed_rows("val_files", question="Which page? " * 5000))
    assert re.search(
        rf"(?s)val_files: 1 of .*{world.samples[0].question_id}", capsys.readouterr().err
    )


def test_a_refusal_cannot_become_a_warning_and_a_run(config, capsys):  # noqa: F811
    with pytest.raises(SystemExit) as stop:
        Preflight().on_run_start(config("docagent.store=/nowhere"))
    told = capsys.readouterr().err
    assert (stop.value.code, told.count("docagent-rl: "), "Traceback" in told) == (2, 1, False)
    assert "/nowhere" in told


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("raise RuntimeError('no GPU here')\n", "no GPU here"),
        ("import nothing_of_this_name\n", "nothing_of_this_name"),
    ],
)
def test_a_module_of_ones_own_that_fails_is_one_message(tmp_path, monkeypatch, text, said):
    monkeypatch.syspath_prepend(tmp_path)
    name = f"users_{said.split()[0]}"
    (tmp_path / f"{name}.py").write_text(text)
    with pytest.raises(UserError, match=rf"docagent\.modules: {name}.*{said}"):
        settled(VRAG, f"docagent.modules=[{name}]")


def test_a_reward_function_of_ones_own_is_checked_and_not_called(tmp_path):
    head = "def compute_score(data_source, solution_str, ground_truth, extra_info):\n"
    (tmp_path / "mine.py").write_text(f"{head}    raise OSError\n")
    path = f"reward.custom_reward_function.path={tmp_path}/mine.py"
    assert settled(VRAG, path).reward_function.path == str(tmp_path / "mine.py")
    for more, said in (("name=score", "it has compute_score"), ("path=gone.py", "no file")):
        with pytest.raises(UserError, match=said):
            settled(VRAG, path, f"reward.custom_reward_function.{more}")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("message.content", "message.content | upper"), "text of a message"),
        (("message.role", "message.role ~ loop.index"), "position"),
    ],
)
def test_a_chat_template_that_changes_or_numbers_the_text_is_refused(change, said):
    each = "{{- '<|im_start|>' ~ message.role ~ '\n' ~ message.content ~ '<|im_end|>\n' -}}"
    tail = "{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\n' -}}{%- endif -%}"
    tokenizer = build_tokenizer()
    for text in (each, each.replace(*change)):
        tokenizer.chat_template = f"{{%- for message in messages -%}}{text}{{%- endfor -%}}{tail}"
        if text == each:
            check_template(ChatCodec(tokenizer))
            continue
        with pytest.raises(UserError, match=said):
            check_template(ChatCodec(tokenizer))


@pytest.mark.parametrize("recipe", recipe_names()[::3])
def test_every_setting_of_a_recipe_says_where_it_comes_from_and_is_what_was_printed(recipe):
    assert provenance_problems(recipe, composed_recipe(recipe)) == []


def test_a_recipe_tells_what_departs_from_its_paper_and_what_it_rewards():
    told = called(app, "show", VRAG).stdout
    for part in ("reward: 0.2 retrieval_ndcg + ", "docagent.retriever.model"):
        assert part in told


def test_a_recipe_check_names_the_recipe_and_the_key(tmp_path):
    (tmp_path / "bad.yaml").write_text(f"defaults: [{VRAG}, _self_]\ntrainer: {{sav_freq: 3}}\n")
    told = called(app, "check", tmp_path / "bad.yaml", status=1).stdout
    assert "sav_freq" in told
    assert "bad" in told


def test_the_cpu_profile_trains_in_the_layout_of_gpus():
    small = composed_recipe(VRAG, ["+profile=cpu"]).actor_rollout_ref
    whole = composed_recipe(VRAG).actor_rollout_ref
    for key in ("model.use_remove_padding", "model.use_fused_kernels", "actor.use_dynamic_bsz"):
        assert OmegaConf.select(small, key) is OmegaConf.select(whole, key) is True


def test_a_card_is_as_large_as_its_driver_reports_and_is_never_filled():
    for name, advertised in (("rtx4090", 24), ("l40s", 48), ("h100", 80)):
        memory = card_memory(name)
        assert usable(memory) < memory < advertised * 2**30


def test_a_system_of_ones_own_needs_no_change_of_the_package(monkeypatch):
    monkeypatch.syspath_prepend("examples")
    found = check_statically(
        composed_recipe("base", ["docagent.system=custom_system:SYSTEM", "+profile=cpu"])
    )
    assert found.system == "custom_system:SYSTEM"
    with pytest.raises(UserError, match=r"docagent\.system"):
        check_statically(composed_recipe("base"))
