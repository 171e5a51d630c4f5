"""Models that turn pages and queries into vectors."""
