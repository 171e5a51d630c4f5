"""Work that a stage resumes, and work that it sets aside."""

import pytest

from docagent_rl.base.errors import UserError
from docagent_rl.lab.stages.chain import Chain
from docagent_rl.lab.stages.marker import StageState, state
from docagent_rl.lab.stages.stage import ChainStage, EarlierWork

RESUME = "docagent-rl run W"


@pytest.fixture
def chain(tmp_path):
    """A stage that adds a line to a log in its folder, as a trainer adds steps to its run."""
    workspace = tmp_path / "w"
    workspace.mkdir()
    (workspace / "data").write_text("questions")

    def make(settings: str = "a recipe", steps: int = 2, end: str = "true", at=workspace) -> Chain:
        run = at / "runs"
        command = f"mkdir -p {run}; echo {steps} >> {run}/log; {end}  # {settings}"
        stage = ChainStage(
            "rl",
            "trains",
            command,
            inputs=(at / "data",),
            outputs=(run / "log",),
            earlier=EarlierWork(run, settings, (at / "data",)),
        )
        return Chain("own", [stage], at, RESUME)

    return make


def logged(folder):
    return (folder / "log").read_text().split()


def test_more_steps_resume_the_run(chain, tmp_path):
    chain().run()
    chain(steps=4).run()
    assert logged(tmp_path / "w" / "runs") == ["2", "4"]


def test_other_settings_set_the_run_aside(chain, tmp_path, capfd):
    chain().run()
    chain("another recipe").run()
    chain("a third").run()
    assert logged(tmp_path / "w" / "runs") == ["2"]
    assert logged(tmp_path / "w" / "runs.2") == ["2"]
    assert f"is now in {tmp_path / 'w' / 'runs.1'}\n" in capfd.readouterr().out


def test_other_questions_set_the_run_aside_once(chain, tmp_path):
    chain().run()
    (tmp_path / "w" / "data").write_text("other questions")
    with pytest.raises(UserError, match="ended with status 1"):
        chain(end="false").run()
    chain().run()
    assert logged(tmp_path / "w" / "runs") == ["2", "2"]
    assert logged(tmp_path / "w" / "runs.1") == ["2"]
    assert not (tmp_path / "w" / "runs.2").exists()


def test_a_moved_workspace_is_as_it_was(chain, tmp_path):
    chain().run()
    moved = tmp_path / "elsewhere"
    (tmp_path / "w").rename(moved)
    found = chain(at=moved)
    assert state(found.stages[0], moved) is StageState.DONE
    chain(steps=4, at=moved).run()
    assert logged(moved / "runs") == ["2", "4"]


def test_work_with_a_damaged_note_is_set_aside(chain, tmp_path):
    chain(steps=2).run()
    (tmp_path / "w" / ".stages" / "rl.began.json").write_text('{"settings"')
    chain(steps=3).run()
    assert logged(tmp_path / "w" / "runs") == ["3"]
    assert logged(tmp_path / "w" / "runs.1") == ["2"]


def test_a_damaged_owner_is_named(chain, tmp_path):
    chain().run()
    owner = tmp_path / "w" / ".stages" / "chain.json"
    owner.write_text("")
    with pytest.raises(UserError, match=r"chain\.json is damaged: .*write \S+ \S+ to it") as told:
        chain().run()
    owner.write_text(str(told.value).partition("write ")[2].removesuffix(" to it"))
    chain().run()
