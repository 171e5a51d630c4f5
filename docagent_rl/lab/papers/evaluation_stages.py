"""The stages after training: evaluations, and a report that is compared with the printed table."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from docagent_rl.lab.papers import estimates
from docagent_rl.lab.papers.data_stages import question_count
from docagent_rl.lab.papers.machine import wanted
from docagent_rl.lab.papers.manifest import PaperEvaluation
from docagent_rl.lab.papers.setting import Setting, address
from docagent_rl.lab.papers.training_stages import playing, trained_tracker
from docagent_rl.lab.stages.stage import ChainStage, Estimate

_RELEASED = "docagent.env.variant=released"
_RULE_JUDGE = "docagent.judge.kind=rule"


def evaluation_stages(setting: Setting) -> Iterator[ChainStage]:
    """Yield one stage for each evaluation, and one that reports on all of them."""
    for each in setting.evaluations:
        yield _evaluate(setting, each)
    yield _report(setting, [each.name for each in setting.evaluations])


def _evaluate(setting: Setting, each: PaperEvaluation) -> ChainStage:
    model, inputs, overrides = _player(setting, each)
    agent = f"--agent {each.agent} " if each.agent.baseline else ""
    words = [
        f"docagent-rl eval {setting.model.recipe} --data {setting.word('data/test.parquet')}",
        f"--out {setting.word('evaluations', each.name)} {agent}--model {model} --",
        *overrides,
        *each.overrides,
    ]
    services: tuple[str, ...] = ()
    if each.agent.baseline:
        words += [_RULE_JUDGE, *playing(setting)]
    elif not setting.miniature:
        words += [*_rule_judge(setting), *setting.asking(), *playing(setting)]
        known = setting.manifest.services
        services = tuple(name for name in setting.placement.services if known[name].plays)
    number = question_count(setting, "test")
    takes = Estimate()
    if not setting.miniature:
        takes = estimates.evaluating(setting.model.recipe, number, each.contexts, setting.machine)
    return ChainStage(
        f"evaluate_{each.name}",
        f"evaluate on the test questions: {each.about}",
        " ".join(words).removesuffix(" --"),
        inputs=(setting.place("data", "test.parquet"), *inputs),
        outputs=(setting.place("evaluations", each.name, "report.json"),),
        services=services,
        environment=setting.trainer_environment(),
        estimate=takes,
    )


def _player(setting: Setting, each: PaperEvaluation) -> tuple[str, tuple[Path, ...], Sequence[str]]:
    """Return the model of an evaluation as bash reads it, its files, and overrides that it needs.

    The user's prompt and overrides of the paper's system do not fit a baseline.
    """
    if each.agent.baseline:
        return setting.baseline_model(each), (), ()
    if setting.trains:
        overrides = [*setting.literally(), *setting.overrides]
        model = setting.word("runs", setting.model.recipe)
        return model, (trained_tracker(setting),), overrides
    weights = setting.model.weights
    assert weights is not None
    overrides = [_RELEASED, *weights.overrides, *setting.overrides]
    config = setting.place("models", "weights", "config.json")
    return setting.word("models", "weights"), (config,), overrides


def _rule_judge(setting: Setting) -> list[str]:
    """Return the override for an evaluation without a judge model, which the report asks later."""
    known = setting.manifest.services.values()
    judged = any(each.in_training and not each.plays for each in known)
    return [_RULE_JUDGE] if judged else []


def _report(setting: Setting, names: list[str]) -> ChainStage:
    runs = " ".join(setting.word("evaluations", name) for name in names)
    words = [f"docagent-rl report {runs} --out {setting.word('report')} --force"]
    services: tuple[str, ...] = ()
    judge = setting.manifest.judge
    if judge is not None and not setting.miniature:
        service = setting.manifest.services[judge]
        services = tuple(name for name in setting.placement.services if name == judge)
        if services or not wanted(service):
            model = setting.served(service)
            words.append(f"--judge-base-url {address(service)} --judge-model {model}")
    if setting.miniature:
        words.append("--draws 200")
    return ChainStage(
        "report",
        "write the numbers to compare with the paper's",
        " ".join(words),
        inputs=tuple(setting.place("evaluations", name, "trajectories.jsonl") for name in names),
        outputs=(setting.place("report", "report.md"),),
        services=services,
        environment=setting.environment,
    )
