import pytest

from docagent_rl.base.errors import UserError
from docagent_rl.base.user_code import load_modules


def test_a_module_of_the_user_that_is_not_there_is_named():
    load_modules(["json"])
    with pytest.raises(UserError, match=r"docagent\.modules: no_such_module"):
        load_modules(["no_such_module"])
