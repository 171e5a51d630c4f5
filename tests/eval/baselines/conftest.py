"""A report of six pages, and services over it."""

from tests.corpus import play, report_question, report_services, report_store, truncated  # noqa: F401  fixtures
