import pytest

from docagent_rl.base.errors import UserError
from docagent_rl.base.outputs import check_output, write_output, write_outputs, written_before


def test_other_files_are_left_alone(tmp_path):
    path = tmp_path / "new" / "x.txt"
    assert write_output(path, "one")
    assert not write_output(path, "one")
    with pytest.raises(UserError, match="exists with other content"):
        write_output(path, "two")
    assert path.read_text() == "one"
    assert write_output(path, "two", force=True)
    assert path.read_text() == "two"
    with pytest.raises(UserError):
        check_output(tmp_path, "x")
    with pytest.raises(UserError, match=r"x\.txt"):
        write_output(path / "page.html", "x")


def test_files_that_belong_together_are_written_or_left_alone_together(tmp_path):
    (tmp_path / "b").write_text("mine")
    both = {tmp_path / "a": "one", tmp_path / "b": "two"}
    with pytest.raises(UserError, match="exists with other content"):
        write_outputs(both)
    assert [path.name for path in tmp_path.iterdir()] == ["b"]
    assert write_outputs(both, force=True) == list(both)


@pytest.mark.parametrize(
    ("content", "ours"), [(b'{"mark": 1}', True), (b"[]", False), (b"\xff", False)]
)
def test_a_file_of_ours_is_known_by_its_mark(tmp_path, content, ours):
    assert written_before(tmp_path / "data.json", "mark") is None
    (tmp_path / "data.json").write_bytes(content)
    assert (written_before(tmp_path / "data.json", "mark") is not None) is ours
