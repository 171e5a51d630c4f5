"""A report of six pages."""

from tests.corpus import report_store  # noqa: F401  a fixture
