from __future__ import annotations

import pytest

from docagent_rl.base.errors import UserError
from docagent_rl.base.outputs import check_output, write_output, write_page, written_before


def test_other_files_are_left_alone(tmp_path):
    path = tmp_path / "new" / "x.txt"
    assert write_output(path, "one")
    assert not write_output(path, "one")
    with pytest.raises(UserError, match="holds something else"):
        write_output(path, "two")
    assert path.read_text() == "one"
    assert write_output(path, "two", force=True)
    assert path.read_text() == "two"
    with pytest.raises(UserError):
        check_output(tmp_path, "x")
    with pytest.raises(UserError, match=r"x\.txt"):
        check_output(path / "page.html", "x")


def test_pages_know_their_earlier_editions(tmp_path):
    page, picture = tmp_path / "page.md", tmp_path / "page.svg"
    write_page(page, "# Card\n\none", picture, "<svg>1")
    write_page(page, "# Card\n\ntwo", picture, "<svg>2")
    assert (page.read_text(), picture.read_text()) == ("# Card\n\ntwo", "<svg>2")
    page.write_text("# My notes\n")
    with pytest.raises(UserError, match="holds something else"):
        write_page(page, "# Card\n\nthree", picture, "<svg>3")
    assert (page.read_text(), picture.read_text()) == ("# My notes\n", "<svg>2")
    write_page(page, "# Card\n\nthree", picture, "<svg>3", force=True)
    assert (page.read_text(), picture.read_text()) == ("# Card\n\nthree", "<svg>3")
    picture.unlink()
    page.unlink()
    picture.write_text("mine")
    with pytest.raises(UserError, match=r"page\.svg"):
        write_page(page, "# Card\n", picture, "<svg>")


@pytest.mark.parametrize(("content", "ours"), [(b'{"mark": 1}', True), (b"[]", False), (b"\xff", False)])
def test_a_file_of_ours_is_known_by_its_mark(tmp_path, content, ours):
    assert written_before(tmp_path / "data.json", "mark") is None
    (tmp_path / "data.json").write_bytes(content)
    assert (written_before(tmp_path / "data.json", "mark") is not None) is ours
