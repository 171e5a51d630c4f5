import sys

import pytest

from docagent_rl.base import user_code
from docagent_rl.base.errors import UserError
from docagent_rl.base.user_code import load_modules, load_source


@pytest.mark.parametrize("form", ["{0}/mine.py", "file://{0}/mine.py", "mine.py", "./mine.py"])
def test_a_file_is_loaded_under_a_name_of_its_own(form, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text("VALUE = 3\n")
    module = load_source(form.format(tmp_path), "key=mine.py")
    assert module.VALUE == 3
    assert "mine" not in sys.modules


@pytest.mark.parametrize("path", ["pkg://loaded_of_mine.part", "pkg://loaded_of_mine/part"])
def test_a_package_is_imported_by_its_name(path, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "loaded_of_mine").mkdir(exist_ok=True)
    (tmp_path / "loaded_of_mine" / "part.py").write_text("VALUE = 4\n")
    assert load_source(path, "key").VALUE == 4
    assert load_source(path, "key") is sys.modules["loaded_of_mine.part"]
    for name in ("loaded_of_mine", "loaded_of_mine.part"):
        monkeypatch.delitem(sys.modules, name)


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("gone.py", "there is no file"),
        ("mine.txt", "must end in .py"),
        ("pkg://no_package_of_mine", "No module named"),
        ("fails.py", r"ZeroDivisionError.*fails\.py, line 2"),
    ],
)
def test_what_cannot_be_loaded_is_named_with_its_key(path, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.txt").write_text("")
    (tmp_path / "fails.py").write_text("\n1 / 0\n")
    with pytest.raises(UserError, match=f"^key=value.*{words}"):
        load_source(path, "key=value")


def test_a_module_of_the_user_that_is_not_there_is_named():
    load_modules(["json"])
    with pytest.raises(UserError, match=r"docagent\.modules: no_such_module"):
        load_modules(["no_such_module"])


def test_a_module_that_fails_fails_again(tmp_path, monkeypatch):
    (tmp_path / "good_of_two.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv(user_code.MODULES_VARIABLE, "good_of_two,missing_of_two")
    for _ in range(2):
        with pytest.raises(UserError, match=r"docagent\.modules: missing_of_two"):
            user_code.import_named_modules()
    assert user_code.waiting_modules() == ["missing_of_two"]
