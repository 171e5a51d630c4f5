import pytest

from docagent_rl.base.errors import UserError
from docagent_rl.base.prompts import PromptSpec, load_prompt

SPEC = PromptSpec(frozenset({"user"}), frozenset({"system"}), frozenset({"question", "turns"}))


@pytest.fixture
def write(tmp_path):
    def write(text):
        path = tmp_path / "mine.yaml"
        path.write_text(text, encoding="utf-8")
        return str(path)

    return write


def test_renders_and_strips(write):
    prompt = load_prompt(
        write("user: |\n  Q: {{ question }}{% if turns > 1 %} ({{ turns }}){% endif %}\n\n"), SPEC
    )
    assert prompt.render("user", question="why?", turns=3) == "Q: why? (3)"
    assert "user" in prompt
    assert "system" not in prompt


def test_what_is_filled_in_is_never_a_template(write):
    prompt = load_prompt(write("user: 'Q: {{ question }}'"), SPEC)
    assert prompt.render("user", question="{{ 7 * 7 }}{% raw %}") == "Q: {{ 7 * 7 }}{% raw %}"


def test_fences_are_a_filter(write):
    prompt = load_prompt(write("user: '{{ question | delimited }}'"), SPEC)
    begin, text, end = prompt.render("user", question="why?").splitlines()
    assert text == "why?"
    assert begin.replace("begin", "end") == end


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("system: hi", "'user'"),
        ("user: hi\nuzer: ho", "'uzer'"),
        ("user: no", "False"),
        ("- user", ""),
        ("user: 'a", ""),
        ("user: '{{ question '", "line 1"),
        ("user: '{{ questoin }}'", "'questoin'"),
        ("user: !!python/object/apply:os.getcwd []", ""),
    ],
)
def test_mistakes_are_named(write, text, message):
    path = write(text)
    with pytest.raises(UserError) as error:
        load_prompt(path, SPEC)
    assert message in str(error.value)
    assert path in str(error.value)


def test_missing_variables_are_named(write):
    prompt = load_prompt(write("user: '{{ question }} {{ turns }}'"), SPEC)
    with pytest.raises(UserError, match=r"mine\.yaml, .*'turns'"):
        prompt.render("user", question="?")


def test_templates_cannot_reach_into_python(write):
    prompt = load_prompt(write("user: '{{ question.__class__.__mro__ }}'"), SPEC)
    with pytest.raises(UserError, match="unsafe"):
        prompt.render("user", question="?")


@pytest.mark.parametrize("name", ["no_such_prompt", "../secret", "", "judge/../judge", "none.yaml"])
def test_unknown_names(name):
    with pytest.raises(UserError, match=name if name == "none.yaml" else "vrag_rl_paper"):
        load_prompt(name, SPEC)


QUESTION = frozenset({"question"})
ASKING = PromptSpec(frozenset({"user"}), frozenset({"system"}), variables=QUESTION, shown=QUESTION)


def test_a_prompt_that_never_shows_the_question_is_refused(write):
    with pytest.raises(UserError, match=r"\{\{ question \}\}"):
        load_prompt(write("user: Answer {question}.\nsystem: You read."), ASKING)


def test_any_part_may_show_the_question(write):
    prompt = load_prompt(write("user: Begin.\nsystem: 'Q: {{ question }}, as {question}'"), ASKING)
    assert prompt.used == {"user": frozenset(), "system": frozenset({"question"})}
