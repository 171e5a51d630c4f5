from tests.records.conftest import make_record  # noqa: F401  a fixture
