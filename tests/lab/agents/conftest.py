from tests.corpus import make_sample  # noqa: F401  a fixture
