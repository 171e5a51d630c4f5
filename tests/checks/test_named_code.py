import pytest
from omegaconf import OmegaConf

from docagent_rl.base.errors import UserError
from docagent_rl.checks.named_code import AGENT_LOOPS, named_code_problems
from docagent_rl.checks.recipe_check import check_overridden

RECIPE = "vrag_rl_qwen2_5_vl_7b"
CODE = "class Mine: ...\n"
SAMPLER = "trainer.v1.sampler.custom_sampler"


def problems(overrides: dict[str, object]) -> str:
    """Return what is said about a configuration with only these keys."""
    config = OmegaConf.create({})
    for key, value in overrides.items():
        OmegaConf.update(config, key, value)
    try:
        return "; ".join(named_code_problems(config))
    except UserError as error:
        return str(error)


@pytest.fixture(autouse=True)
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "named_code_of_mine.py").write_text(CODE)
    (tmp_path / "fails.py").write_text("1 / 0\n")
    (tmp_path / "loops.yaml").write_text("- {name: m, _target_: named_code_of_mine.Mine}\n")
    (tmp_path / "gone.yaml").write_text("- {name: m, _target_: no_module_of_mine.Mine}\n")
    (tmp_path / "other.yaml").write_text("- {name: m, _target_: named_code_of_mine.Yours}\n")
    (tmp_path / "junk.yaml").write_bytes(b"\x00\x01 {[")
    (tmp_path / "empty.yaml").write_text("")


@pytest.mark.parametrize("path", ["named_code_of_mine.py", "pkg://named_code_of_mine"])
def test_what_can_be_imported_is_accepted(path):
    classes = ("data.custom_cls", SAMPLER)
    paths = {f"{section}.path": path for section in classes}
    names = {f"{section}.name": "Mine" for section in classes}
    others = {
        AGENT_LOOPS: "loops.yaml",
        "trainer.checkpoint_callback_class": "named_code_of_mine.Mine",
        "actor_rollout_ref.model.external_lib": "named_code_of_mine",
        "critic.model.external_lib": ["named_code_of_mine"],
    }
    assert problems({**paths, **names, **others}) == ""


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (
            {"data.custom_cls.path": "pkg://no_module_of_mine", "data.custom_cls.name": "Mine"},
            ("data.custom_cls.path=pkg://no_module_of_mine", "No module", "PYTHONPATH"),
        ),
        (
            {"data.custom_cls.path": "missing.py", "data.custom_cls.name": "Mine"},
            ("data.custom_cls.path=missing.py", "there is no file"),
        ),
        (
            {f"{SAMPLER}.path": "fails.py", f"{SAMPLER}.name": "Mine"},
            (f"{SAMPLER}.path=fails.py", "ZeroDivisionError", "line 1"),
        ),
        (
            {f"{SAMPLER}.path": "named_code_of_mine.py", f"{SAMPLER}.name": "Yours"},
            (f"{SAMPLER}.name=Yours", "it has Mine"),
        ),
        ({f"{SAMPLER}.path": "named_code_of_mine.py"}, (f"without {SAMPLER}.name",)),
        (
            {"trainer.checkpoint_callback_class": "named_code_of_mine.Yours"},
            ("checkpoint_callback_class", "does not define Yours"),
        ),
        (
            {"actor_rollout_ref.model.external_lib": "no_module_of_mine"},
            ("external_lib=no_module_of_mine", "No module"),
        ),
        ({AGENT_LOOPS: "none.yaml"}, (f"{AGENT_LOOPS}=none.yaml", "no such file")),
        ({AGENT_LOOPS: "gone.yaml"}, ("agent loop m", "no_module_of_mine")),
        ({AGENT_LOOPS: "other.yaml"}, ("agent loop m", "does not define Yours")),
        ({AGENT_LOOPS: "junk.yaml"}, ("junk.yaml", "cannot be read as YAML")),
        ({AGENT_LOOPS: "empty.yaml"}, ("empty.yaml", "expected a list")),
    ],
)
def test_what_cannot_be_imported_is_named_in_one_line_with_its_key(overrides, words):
    said = problems(overrides)
    assert all(word in said for word in words), said
    assert "\n" not in said


def test_recipes_check_looks_at_named_code_and_at_the_workspace(tmp_path):
    def said(*overrides: str) -> str | None:
        return check_overridden(RECIPE, overrides).problem

    assert "no_module_of_mine" in str(said(f"{AGENT_LOOPS}=gone.yaml"))
    (tmp_path / "file").write_text("")
    assert "is a file" in str(said("docagent.workspace=file"))
    assert "is a file" in str(said("docagent.workspace=file/w", "+profile=cpu"))
    assert "no such folder" in str(said("docagent.workspace=gone"))
    # the profile makes a new workspace, and a recipe's own need not exist yet
    assert said("docagent.workspace=gone", "+profile=cpu") is None
    assert said() is None
