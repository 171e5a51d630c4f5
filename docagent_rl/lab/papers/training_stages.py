"""The stages that fine-tune a model, choose questions for it, and train it by RL."""

from collections.abc import Iterator
from pathlib import Path

from docagent_rl.lab.papers import estimates
from docagent_rl.lab.papers.data_stages import needed_questions, question_count
from docagent_rl.lab.papers.machine import trainer_size
from docagent_rl.lab.papers.manifest import UNKNOWN, Collection, Curation
from docagent_rl.lab.papers.setting import Beginning, Setting
from docagent_rl.lab.stages.stage import ChainStage, Estimate
from docagent_rl.lab.stages.training import (
    RETRIEVER_ON_GPU,
    SHORT_ROWS,
    SHORT_SHARE,
    engine_overrides,
    exported_model,
    fine_tuning_command,
    rl_command,
    rows_command,
    tracker,
)

_SFT_EPOCHS = 3
"""The number of epochs that all three papers with a supervised stage print."""
_SFT_SHARE = 0.05
"""The share of rows that validates the supervised stage."""
_SHORT_RL = (
    "trainer.total_training_steps=2 trainer.save_freq=2 trainer.test_freq=-1 "
    "trainer.val_before_train=false docagent.rollout.unplayable=mask"
)
"""Overrides at miniature size."""


def model_stages(setting: Setting) -> Iterator[ChainStage]:
    """Yield the stages that download models."""
    if setting.miniature:
        path = setting.place("models", f"tiny_{setting.manifest.system}_{_family(setting)}")
        command = f"python -m docagent_rl.lab.tiny.make {setting.manifest.system} {setting.word()}"
        outputs = (path / "config.json",)
        yield ChainStage("model_base", "make a tiny model", command, (), outputs)
        return
    size = estimates.sizes(setting.model.recipe)["parameters"]
    weights = setting.model.weights
    downloads_base = setting.trains and (
        setting.beginning is Beginning.SCRATCH or not setting.tuned
    )
    if not setting.trains:
        assert weights is not None
        command = f"hf download {weights.hub} --local-dir {setting.word('models', 'weights')}"
        if weights.revision != UNKNOWN:
            command += f" --revision {weights.revision}"
        outputs = (setting.place("models", "weights", "config.json"),)
        takes = estimates.weights(size)
        title = f"download the authors' {weights.hub}"
        yield ChainStage("model_weights", title, command, outputs=outputs, estimate=takes)
    elif downloads_base:
        title = f"download {setting.model.base} into the hub's cache"
        command = f"hf download {setting.model.base}"
        yield ChainStage("model_base", title, command, estimate=estimates.weights(size))
    else:
        yield ChainStage(
            "model_sft",
            "put a fine-tuned model into the workspace",
            None,
            outputs=(setting.place("models", "sft", "config.json"),),
            by_hand=f"put a model that was fine-tuned for {setting.manifest.title}, in "
            f"transformers' format, into {setting.place('models', 'sft')}: the authors published "
            "none, and --from scratch makes one",
            estimate=estimates.weights(size),
        )
    hubs = [hub for index in setting.indexes for hub in index.hub]
    hubs += setting.manifest.hubs
    known = setting.manifest.services
    hubs += [setting.served(known[name]) for name in setting.placement.services]
    hubs += [setting.baseline_model(each) for each in setting.evaluations if each.agent.baseline]
    own = {setting.model.base} if downloads_base else set()
    hubs = [hub for hub in dict.fromkeys(hubs) if hub not in own]
    if hubs:
        command = " && ".join(f"hf download {hub}" for hub in hubs)
        title = "download the models of retriever, services and baselines into the hub's cache"
        yield ChainStage("model_others", title, command, estimate=Estimate(0, None))


def training_stages(setting: Setting) -> Iterator[ChainStage]:
    """Yield the stages from a teacher's trajectories to a trained model."""
    manifest = setting.manifest
    collects = manifest.collection is not None and _fine_tunes(setting)
    if collects:
        assert manifest.collection is not None
        yield _collect(setting, manifest.collection)
        yield _rows(setting, manifest.collection)
        yield _fine_tune(setting, manifest.collection)
    if (rule := _curation(setting)) is not None:
        yield from _curate(setting, rule)
    yield _train(setting)


def _fine_tunes(setting: Setting) -> bool:
    """Return whether the supervised stage is part of the chain."""
    return setting.tuned and (setting.beginning is Beginning.SCRATCH)


def _curation(setting: Setting) -> Curation | None:
    rule = setting.manifest.curation
    return rule if rule and rule.only in (None, setting.beginning.value) else None


def _family(setting: Setting) -> str:
    return "qwen3" if "qwen3_" in setting.model.recipe else "qwen2_5_vl"


def base_model(setting: Setting) -> str:
    """Return the model that a supervised stage, or RL without one, starts from."""
    if setting.miniature:
        return setting.word("models", f"tiny_{setting.manifest.system}_{_family(setting)}")
    return setting.model.base


def start_model(setting: Setting) -> str:
    """Return the model that RL starts from, as bash reads it."""
    if _fine_tunes(setting):
        assert setting.model.sft is not None
        return exported_model(_run(setting, setting.model.sft))
    if setting.tuned and not setting.miniature:
        return setting.word("models", "sft")
    return base_model(setting)


def start_inputs(setting: Setting) -> tuple[Path, ...]:
    """Return the files whose change means that RL starts from another model."""
    if _fine_tunes(setting):
        return (tracker(_run(setting, str(setting.model.sft))),)
    if setting.tuned and not setting.miniature:
        return (setting.place("models", "sft", "config.json"),)
    return ()


def _run(setting: Setting, recipe: str) -> Path:
    return setting.place("runs", recipe)


def trained_tracker(setting: Setting) -> Path:
    """Return the file that names the last checkpoint of RL."""
    return tracker(_run(setting, setting.model.recipe))


def _collect(setting: Setting, given: Collection) -> ChainStage:
    out = setting.place("collected")
    words = [
        f"docagent-rl collect {setting.model.recipe} --data {setting.word('data/train.parquet')}",
        f"--out {setting.word('collected')}",
    ]
    if setting.miniature:
        words.append("--player oracle")
    else:
        teacher = setting.teacher or given.teacher
        words.append(f"--preset {given.preset} --base-url {setting.teacher_url} --model {teacher}")
        if given.grounder is not None:
            words.append(
                f"--grounder-base-url {setting.teacher_url} --grounder-model {given.grounder}"
            )
    words += ["--", *setting.overrides, *setting.asking()]
    return ChainStage(
        "collect",
        f"collect a teacher's trajectories ({given.teacher} in the paper), and filter them",
        " ".join(words).removesuffix(" --"),
        inputs=(setting.place("data", "train.parquet"),),
        outputs=(out / "kept.jsonl",),
        services=_services(setting),
        environment=setting.environment,
        estimate=Estimate() if setting.miniature else _teaching(setting),
    )


def _teaching(setting: Setting) -> Estimate:
    number = question_count(setting, "train")
    asked = "unknown" if number is None else f"{number:,} questions"
    return Estimate(None, None, f"the teacher's requests: {asked}, one request per turn")


def _rows(setting: Setting, given: Collection) -> ChainStage:
    folder = setting.place("sft", setting.manifest.system)
    command = rows_command(
        setting.place("collected"),
        base_model(setting),
        setting.place("store"),
        folder,
        share=SHORT_SHARE if setting.miniature else _SFT_SHARE,
        longest=SHORT_ROWS if setting.miniature else given.max_length,
    )
    return ChainStage(
        "sft_rows",
        "turn the trajectories into rows of tokens",
        command,
        inputs=(setting.place("collected", "kept.jsonl"),),
        outputs=(folder / "train.parquet", folder / "val.parquet"),
    )


def _fine_tune(setting: Setting, given: Collection) -> ChainStage:
    recipe = str(setting.model.sft)
    gpus = 0 if setting.miniature else trainer_size(setting.machine.gpus)
    takes = Estimate()
    if not setting.miniature:
        recipe_size = setting.model.recipe
        takes = estimates.fine_tuning(
            recipe_size, given.rows, _SFT_EPOCHS, given.max_length, setting.machine
        )
    return ChainStage(
        "sft",
        "fine-tune the base model",
        fine_tuning_command(recipe, gpus),
        inputs=(setting.place("sft", setting.manifest.system, "train.parquet"),),
        outputs=(tracker(_run(setting, recipe)),),
        environment=setting.environment,
        estimate=takes,
    )


def _curate(setting: Setting, rule: Curation) -> Iterator[ChainStage]:
    pool = setting.place("data", "train.parquet")
    player = f"--model {start_model(setting)} --temperature 1"
    if setting.miniature:
        player = "--agent random"
    words = [
        f"docagent-rl eval {setting.model.recipe} --data {setting.word('data/train.parquet')}",
        f"--out {setting.word('pool')} --trajectories {rule.trajectories} {player}",
        "--",
        *setting.overrides,
        *setting.asking(),
        *playing(setting),
    ]
    number = question_count(setting, "train")
    takes = Estimate()
    if not setting.miniature:
        recipe = setting.model.recipe
        takes = estimates.evaluating(recipe, number, rule.trajectories, setting.machine)
    yield ChainStage(
        "pool",
        f"sample {rule.trajectories} trajectories of each question",
        " ".join(words).removesuffix(" --"),
        inputs=(pool, *start_inputs(setting)),
        outputs=(setting.place("pool", "trajectories.jsonl"),),
        services=_services(setting),
        environment=setting.trainer_environment(),
        estimate=takes,
    )
    options = rule.miniature if setting.miniature else rule.options
    options = options.format(workspace=setting.word())
    command = (
        f"docagent-rl data curate {setting.word('pool')} --out {setting.word('data/rl.parquet')} "
        f"--rule {rule.rule} {options} --force"
    )
    if _fine_tunes(setting) and not setting.miniature:
        command += f" --without {setting.word('collected', 'kept.jsonl')}"
    yield ChainStage(
        "curate",
        "choose questions for RL by their share of right answers",
        command,
        inputs=(setting.place("pool", "trajectories.jsonl"),),
        outputs=(setting.place("data", "rl.parquet"),),
    )


def _train(setting: Setting) -> ChainStage:
    recipe = setting.model.recipe
    data = "rl.parquet" if _curation(setting) else "train.parquet"
    files = ["data.train_files=" + setting.word("data", data)]
    files.append("data.val_files=" + setting.word("data", _validation(setting)))
    model = f"actor_rollout_ref.model.path={start_model(setting)}"
    words = [rl_command(recipe), *setting.literally()]
    words += [*setting.overrides, *files, model]
    if setting.miniature:
        words.append(_SHORT_RL)
    else:
        words += [*setting.asking(), *setting.manifest.rl.overrides, *_gpus(setting)]
    takes = Estimate()
    if not setting.miniature:
        gpus = len(setting.placement.trainer)
        questions = setting.manifest.rl.questions
        takes = estimates.training(recipe, questions, setting.machine, gpus)
    return ChainStage(
        "rl",
        "train by reinforcement learning",
        " ".join(words),
        inputs=(setting.place("data", data), *start_inputs(setting)),
        outputs=(trained_tracker(setting),),
        services=_services(setting),
        environment=setting.trainer_environment(),
        estimate=takes,
    )


def _validation(setting: Setting) -> str:
    """Return the file of validation; it is that of the test if the manifest has none."""
    uses = {each.use for each in needed_questions(setting).values()}
    return "val.parquet" if "val" in uses else "test.parquet"


def _gpus(setting: Setting) -> list[str]:
    found = setting.placement
    words = ["trainer.nnodes=1", f"trainer.n_gpus_per_node={len(found.trainer)}"]
    words += found.overrides or engine(setting)
    if found.retriever:
        words.append(RETRIEVER_ON_GPU)
    return words


def _tensor_parallel(setting: Setting) -> int:
    return int(estimates.sizes(setting.model.recipe)["tensor_parallel"])


def engine(setting: Setting) -> list[str]:
    """Return the override that reduces the GPUs of a rollout server to those that there are."""
    if setting.miniature:
        return []
    return engine_overrides(len(setting.placement.trainer), _tensor_parallel(setting))


def playing(setting: Setting) -> list[str]:
    """Return the overrides of a command that runs the model and the retriever in its process."""
    words = engine(setting)
    if setting.machine.gpus and not setting.miniature and setting.indexes[0].model is not None:
        words.append("docagent.retriever.encoder.device=cuda")
    return words


def _services(setting: Setting) -> tuple[str, ...]:
    if setting.miniature:
        return ()
    known = setting.manifest.services
    return tuple(name for name in setting.placement.services if known[name].in_training)
