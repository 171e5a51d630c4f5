"""Messages of libraries appear in the error of the file that they are about, or nowhere."""

import os

import pytest
from PIL import Image

from docagent_rl.documents.native import native_messages
from docagent_rl.documents.settings import DocumentError


def test_messages_are_part_of_the_error_and_the_output_is_there_again(capfd):
    with native_messages():
        os.write(2, b"a warning\n")

    def fail():
        with native_messages():
            os.write(2, b"a warning\nlib:  bad strip\n\n")
            raise DocumentError("page 3 is damaged")

    with pytest.raises(DocumentError, match=r"page 3 is damaged; lib: bad strip$"):
        fail()
    os.write(2, b"afterwards")
    assert capfd.readouterr().err == "afterwards"


def test_what_libtiff_says_of_a_damaged_file_names_it(inbox, ingested, capfd):
    folder = inbox / "deck"
    folder.mkdir()
    Image.effect_noise((200, 200), 50).save(folder / "1.tif", compression="tiff_lzw")
    data = bytearray((folder / "1.tif").read_bytes())
    data[200:2000] = bytes(1800)
    (folder / "1.tif").write_bytes(data)
    (failure,) = ingested().failed
    assert "1.tif" in failure.reason
    assert capfd.readouterr().err == ""
