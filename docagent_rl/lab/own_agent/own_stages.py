"""The chain of an agent of one's own, from documents to a report."""

import shlex
from collections.abc import Iterator
from pathlib import Path

from docagent_rl.lab.collect.rules import AgentKind
from docagent_rl.lab.own_agent.own_agent import OwnAgent
from docagent_rl.lab.own_agent.project import OwnTeacher
from docagent_rl.lab.own_agent.recipe import sft_longest, sft_model
from docagent_rl.lab.own_agent.retriever import NeededIndex, building_command
from docagent_rl.lab.stages.chain import Chain
from docagent_rl.lab.stages.marker import marker_file
from docagent_rl.lab.stages.stage import ChainStage, EarlierWork
from docagent_rl.lab.stages.training import (
    SHORT_ROWS,
    SHORT_SHARE,
    fine_tuning_command,
    rl_command,
    rows_command,
    start_override,
    tracker,
)

_EVALUATION = "evaluations/trained"


def own_chain(agent: OwnAgent, resume_command: str) -> Chain:
    """Return the stages of an agent; `resume_command` is the command that runs them again."""
    return Chain("an agent of your own", list(_stages(agent)), agent.workspace, resume_command)


def _stages(agent: OwnAgent) -> Iterator[ChainStage]:
    yield _ingest(agent)
    for index in agent.indexes:
        yield _index(agent, index)
    yield from _questions(agent)
    yield _convert(agent)
    if agent.project.evaluation.questions is not None:
        yield _convert_test(agent, agent.own_file(agent.project.evaluation.questions))
    if agent.project.teacher is not None:
        yield from _fine_tuning(agent, agent.project.teacher)
    yield _train(agent)
    yield _evaluate(agent)
    yield _report(agent)


def _ingest(agent: OwnAgent) -> ChainStage:
    documents = shlex.quote(str(agent.documents))
    return ChainStage(
        "ingest",
        "store the pages of the documents with their text",
        f"docagent-rl ingest {documents} --store {agent.word('store')} --mirror",
        inputs=(agent.documents,),
        outputs=(agent.place("store"),),
    )


def _index(agent: OwnAgent, index: NeededIndex) -> ChainStage:
    folder = agent.place(index.folder)
    return ChainStage(
        index.folder,
        f"index the store with {index.model or 'BM25'}",
        building_command(index, agent.place("store"), folder, on_gpu=agent.has_gpu),
        inputs=(agent.place("store"),),
        outputs=(folder,),
        environment=agent.trainer_environment(),
    )


def _questions(agent: OwnAgent) -> Iterator[ChainStage]:
    """Yield the stage that writes placeholders, unless the user's own questions are there."""
    stage = ChainStage(
        "questions",
        "write true placeholders to replace with your questions",
        f"docagent-rl data template --store {agent.word('store')} "
        f"--out {shlex.quote(str(agent.questions))}",
        outputs=(agent.questions,),
    )
    if marker_file(stage, agent.workspace).exists() or not agent.questions.exists():
        yield stage


def _convert(agent: OwnAgent) -> ChainStage:
    command = (
        f"docagent-rl data convert {shlex.quote(str(agent.questions))} "
        f"--store {agent.word('store')} --out {agent.word('data')} "
        f"--split {agent.project.validation:g} --force"
    )
    if not agent.tiny:
        command += " --no-placeholders"
    return ChainStage(
        "convert",
        "check the questions, and set some aside for validation",
        command,
        inputs=(agent.questions, agent.place("store")),
        outputs=(agent.place("data", "train.parquet"), agent.place("data", "val.parquet")),
    )


def _convert_test(agent: OwnAgent, questions: Path) -> ChainStage:
    return ChainStage(
        "convert_test",
        "check the questions of the evaluation",
        f"docagent-rl data convert {shlex.quote(str(questions))} --store {agent.word('store')} "
        f"--out {agent.word('data', 'test.parquet')} --force",
        inputs=(questions, agent.place("store")),
        outputs=(agent.place("data", "test.parquet"),),
    )


def _fine_tuning(agent: OwnAgent, teacher: OwnTeacher) -> Iterator[ChainStage]:
    """Yield the stages from a teacher's trajectories to a fine-tuned model."""
    if agent.tiny and agent.project.model is None:
        yield _tiny_model(agent)
    yield _collect(agent, teacher)
    yield _rows(agent)
    yield _fine_tune(agent, teacher)


def _tiny_model(agent: OwnAgent) -> ChainStage:
    command = f"python -m docagent_rl.lab.tiny.make {agent.recipe.system} {agent.word()}"
    outputs = (Path(agent.base_model, "config.json"),)
    return ChainStage("model", "make a tiny model", command, outputs=outputs)


def _collect(agent: OwnAgent, teacher: OwnTeacher) -> ChainStage:
    questions = agent.place("data", "train.parquet")
    filters = agent.own_file(teacher.filters)
    inputs = (questions, filters) if filters.is_file() else (questions,)
    preset = str(filters) if filters.is_file() else teacher.filters
    words = ["docagent-rl", "collect", agent.recipe.name, "--data", str(questions)]
    words += ["--out", str(agent.place("collected")), "--preset", preset]
    if teacher.player is AgentKind.ENDPOINT:
        words += ["--base-url", str(teacher.base_url), "--model", str(teacher.model)]
        if teacher.api_key_env is not None:
            words += ["--api-key-env", teacher.api_key_env]
    else:
        words += ["--player", teacher.player.value]
    overrides = " ".join([*agent.playing(), *agent.chosen()])
    # other filters are applied to the same trajectories
    words_of_play = [each for each in words if each != preset]
    return ChainStage(
        "collect",
        "have the teacher play the training questions, and keep what passes the filters",
        f"{shlex.join(words)} -- {overrides}",
        inputs=inputs,
        outputs=(agent.place("collected", "kept.jsonl"),),
        environment=agent.trainer_environment(),
        earlier=EarlierWork(
            agent.place("collected"), f"{shlex.join(words_of_play)} -- {overrides}", (questions,)
        ),
    )


def _rows(agent: OwnAgent) -> ChainStage:
    folder = agent.place("sft", agent.recipe.system)
    command = rows_command(
        agent.place("collected"),
        shlex.quote(agent.base_model),
        agent.place("store"),
        folder,
        share=SHORT_SHARE if agent.tiny else agent.project.validation,
        longest=SHORT_ROWS if agent.tiny else sft_longest(agent.recipe.sft),
    )
    return ChainStage(
        "sft_rows",
        "make rows of tokens of the trajectories",
        command,
        inputs=(agent.place("collected", "kept.jsonl"),),
        outputs=(folder / "train.parquet", folder / "val.parquet"),
    )


def _fine_tune(agent: OwnAgent, teacher: OwnTeacher) -> ChainStage:
    recipe = agent.recipe.sft
    rows = agent.place("sft", agent.recipe.system, "train.parquet")
    run = agent.place("runs", recipe)
    words = [fine_tuning_command(recipe, agent.gpus)]
    if agent.base_model != sft_model(recipe) and not (agent.tiny and agent.project.model is None):
        words.append(f"model.path={shlex.quote(agent.base_model)}")
    words += [shlex.quote(each) for each in teacher.overrides]
    settings = " ".join([recipe, agent.base_model, *teacher.overrides])
    return ChainStage(
        "sft",
        "fine-tune the model on them",
        " ".join(words),
        inputs=(rows,),
        outputs=(tracker(run),),
        environment=agent.trainer_environment(),
        earlier=EarlierWork(run, settings, (rows,)),
        estimate=agent.computing(),
    )


def _train(agent: OwnAgent) -> ChainStage:
    began_from: tuple[Path, ...] = ()
    basis = agent.playing()
    if agent.project.teacher is not None:
        tuned = agent.place("runs", agent.recipe.sft)
        basis.append(start_override(tuned, agent.workspace))
        began_from = (tracker(tuned),)
    elif agent.project.model is not None:
        basis.append(f"actor_rollout_ref.model.path={shlex.quote(agent.base_model)}")
    size = agent.on_node()
    if (steps := agent.project.steps) is not None:
        # an epoch has at least one step
        size += [f"trainer.total_training_steps={steps}", f"trainer.total_epochs={steps}"]
    data = tuple(agent.place("data", f"{name}.parquet") for name in ("train", "val"))
    return ChainStage(
        "rl",
        "train by reinforcement learning",
        " ".join([rl_command(agent.recipe.name), *basis, *size, *agent.chosen()]),
        inputs=(*data, *began_from),
        outputs=(tracker(agent.run),),
        environment=agent.trainer_environment(),
        earlier=EarlierWork(agent.run, " ".join([*basis, *agent.chosen()]), (data[0], *began_from)),
        estimate=agent.computing(),
    )


def _evaluate(agent: OwnAgent) -> ChainStage:
    use = "val" if agent.project.evaluation.questions is None else "test"
    questions = agent.place("data", f"{use}.parquet")
    out = agent.place(_EVALUATION)
    inputs = (questions, tracker(agent.run))
    overrides = " ".join([*agent.playing(), *agent.in_process(), *agent.chosen()])
    command = (
        f"docagent-rl eval {agent.recipe.name} --data {shlex.quote(str(questions))} "
        f"--out {shlex.quote(str(out))} --model {shlex.quote(str(agent.run))} -- {overrides}"
    )
    return ChainStage(
        "evaluate",
        "let the trained agent answer questions that it was not trained on",
        command,
        inputs=inputs,
        outputs=(out / "report.json",),
        environment=agent.trainer_environment(),
        earlier=EarlierWork(out, command, inputs),
        estimate=agent.computing(),
    )


def _report(agent: OwnAgent) -> ChainStage:
    words = ["docagent-rl", "report", str(agent.place(_EVALUATION))]
    words += ["--out", str(agent.place("report")), "--force"]
    if (judge := agent.project.judge) is not None:
        words += ["--judge-base-url", judge.base_url, "--judge-model", judge.model]
        if judge.api_key_env is not None:
            words += ["--judge-api-key-env", judge.api_key_env]
    return ChainStage(
        "report",
        "write tables of the scores, with intervals",
        shlex.join(words),
        inputs=(agent.place(_EVALUATION, "trajectories.jsonl"),),
        outputs=(agent.place("report", "report.md"),),
        environment=agent.environment,
    )
