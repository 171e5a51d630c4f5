"""What each model was asked and what it cost."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from docagent_rl.endpoints.price import Price
from docagent_rl.endpoints.usage import Usage

if TYPE_CHECKING:
    from rich.table import Table


@dataclass(frozen=True, slots=True)
class Account:
    """One model's.

    Args:
        requests: sent.
        failed: of them, those without a reply that could be used.
        cached: replies from the cache, which cost nothing.
        prompt_tokens: sent.
        completion_tokens: sampled.
        estimated: requests whose tokens the server did not tell.
        cost: `None` without a price.
        currency: of the cost.
    """

    requests: int = 0
    failed: int = 0
    cached: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    estimated: int = 0
    cost: float | None = None
    currency: str = ""


class Ledger:
    """Accounts by model. Threads may share one."""

    def __init__(self) -> None:
        self._accounts: dict[str, Account] = {}
        self._lock = threading.Lock()

    @property
    def accounts(self) -> Mapping[str, Account]:
        """By model, in alphabetical order."""
        with self._lock:
            return dict(sorted(self._accounts.items()))

    def sent(self, model: str) -> None:
        """A request was sent."""
        self._add(model, requests=1)

    def failed(self, model: str) -> None:
        """It brought no reply that could be used."""
        self._add(model, failed=1)

    def from_cache(self, model: str) -> None:
        """A reply was there already."""
        self._add(model, cached=1)

    def used(self, model: str, usage: Usage, price: Price | None) -> None:
        """A request's tokens."""
        self._add(
            model,
            prompt_tokens=usage.prompt_tokens,
            completion_tokens=usage.completion_tokens,
            estimated=int(usage.estimated),
        )
        if price is not None:
            cost = price.of_tokens(usage.prompt_tokens, usage.completion_tokens)
            with self._lock:
                account = self._accounts[model]
                self._accounts[model] = replace(
                    account, cost=(account.cost or 0.0) + cost, currency=price.currency
                )

    def to_dict(self) -> dict[str, dict[str, Any]]:
        """Accounts as JSON takes them."""
        return {model: asdict(account) for model, account in self.accounts.items()}

    def table(self) -> Table:
        """Accounts as a table for the terminal."""
        from rich.table import Table

        from docagent_rl.base.terminal import shown

        table = Table(title="Models asked")
        table.add_column("model")
        for heading in ("requests", "failed", "from cache", "tokens in", "tokens out", "cost"):
            table.add_column(heading, justify="right")
        for model, account in self.accounts.items():
            about = "~" if account.estimated else ""
            counts = (account.requests, account.failed, account.cached)
            tokens = (account.prompt_tokens, account.completion_tokens)
            cost = "-" if account.cost is None else f"{about}{account.cost:,.4f} {account.currency}"
            table.add_row(
                shown(model),
                *(f"{count:,}" for count in counts),
                *(f"{about}{count:,}" for count in tokens),
                shown(cost),
            )
        return table

    def _add(self, model: str, **counts: int) -> None:
        with self._lock:
            account = self._accounts.get(model, Account())
            changed = {name: getattr(account, name) + count for name, count in counts.items()}
            self._accounts[model] = replace(account, **changed)
