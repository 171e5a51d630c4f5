"""The keys of every section that names a model behind an OpenAI-compatible endpoint."""

from __future__ import annotations

from pydantic import Field

from docagent_rl.section import Section


class Endpoint(Section):
    """Where a model is asked, and how patiently."""

    base_url: str | None = None
    model: str | None = None
    api_key_env: str | None = None
    """Name of the environment variable that holds the key; `null` for servers that ask for none."""
    timeout_s: float = Field(60.0, gt=0)
    """Seconds for one request."""
    attempts: int = Field(3, ge=1)
    backoff_s: float = Field(1.0, ge=0)
    """Seconds before the second attempt; doubles."""
    deadline_s: float = Field(300.0, gt=0)
    """Seconds for one reply from its first request, all attempts included; waiting for a place is not."""
    check_s: float = Field(10.0, gt=0)
    """Seconds for a sign of life before the run; a model that thinks may need more."""
    concurrency: int = Field(16, ge=1, le=1000)
    """Requests in flight at most, for every worker; a client opens up to 1,000 connections."""
    max_tokens: int = Field(512, ge=1)
    """Length of a reply, thoughts included; one that reaches it is a failure."""

    @property
    def named(self) -> bool:
        """Whether it says where to ask whom."""
        return bool(self.base_url and self.model)
