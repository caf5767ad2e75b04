"""Calls: each in the ledger before it leaves, and answered from there when the same was asked before (the cassette)."""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any, Protocol

from pydantic import BaseModel

from blocks.errors import ModelError, ModelUnavailable
from blocks.ledger import Entry, Ledger
from blocks.models.budget import reserve
from blocks.models.port import Role
from blocks.models.prices import Prices
from blocks.models.reply import Reply, read_reply

Request = Mapping[str, Any]
"""The body of a request to the Messages API."""

_HIDDEN_TOKENS = 3_000  # what a service adds to a prompt by itself, for tools and schemas: a generous guess
_COUNT_ERRS_BY = Decimal("1.05")  # its count is called an estimate


class Meter(Protocol):
    """Hears of every attempt of a call: before it leaves, and what came of it."""

    def leaves(self) -> str:
        """Return the attempt's id. Raises BudgetSpent: then it must not leave."""
        ...

    def answered(self, attempt: str, text: str, milliseconds: int) -> None:
        """Record what was answered."""
        ...

    def failed(self, attempt: str, status: int, text: str) -> None:
        """Record that the service turned the attempt down: it costs nothing."""
        ...


class Wire(Protocol):
    """The way to a model's service."""

    def spelled(self, schema: type[BaseModel]) -> dict[str, Any]:
        """Return the JSON schema of an answer as the service wants it."""
        ...

    async def send(self, request: Request, meter: Meter) -> str:
        """Send a request, with the retries that may help; return the answer's text. Raises ModelError."""
        ...

    async def count(self, request: Request) -> int:
        """Return how many tokens the request's prompt has. Raises ModelError."""
        ...


@dataclass(frozen=True)
class Answer:
    """A reply, and the call that it is on record as."""

    call: str
    reply: Reply


@dataclass(frozen=True)
class Calls:
    """The calls of one run, paid by the budget of one objective (`scope`).

    With `replay` every call is answered from that ledger's record, and none leaves.
    """

    ledger: Ledger
    wire: Wire
    prices: Prices
    scope: str
    run: str
    budget: Decimal
    wall: Callable[[], datetime]
    replay: Ledger | None = None

    async def answer(self, role: Role, step: str, request: Request) -> Answer:
        """Return the answer to a request, from the record where there is one. Raises ModelError."""
        text = spelled(request)
        name = hashlib.sha256(text.encode()).hexdigest()
        known = self._on_record(name)
        if known is not None:
            return Answer(known.key, read_reply(known.body["response"]))
        if self.replay is not None:
            raise ModelUnavailable(
                f"{role} {request['model']}: {self.replay.path} holds no answer to this request, and a replay calls"
                " nobody: the mandate, the moment, the prices or the notes are not those of the recorded run"
            )
        self.ledger.append("model.request", {"request": text}, key=name)
        call = {"run": self.run, "step": step, "role": role, "model": request["model"], "request": name}
        meter = _Attempts(self, call, await self._worst(request, text))
        try:
            reply = read_reply(await self.wire.send(request, meter))
        except ModelError as error:
            raise type(error)(f"{role} {request['model']}: {error}") from None
        return Answer(meter.attempt, reply)

    def drop(self, calls: list[str]) -> None:
        """Note that these answers came to nothing: who asks the same again is not to be given them."""
        with self.ledger.writing() as book:
            for call in calls:
                book.append("model.dropped", {}, key=call)

    def _on_record(self, name: str) -> Entry | None:
        if self.replay is not None:
            return self.replay.latest("model.answer", name)
        found = reversed(self.ledger.all("model.answer", name))
        return next((entry for entry in found if self._serves(entry)), None)

    def _serves(self, entry: Entry) -> bool:
        return entry.body["scope"] == self.scope and self.ledger.get("model.dropped", entry.key) is None

    async def _worst(self, request: Request, text: str) -> Decimal:
        """Return the most that one attempt can cost: a token has at least a byte; only if that is too much, counted."""
        model, most, today = request["model"], request["max_tokens"], self.wall().date()
        bound = self.prices.worst(model, len(text.encode()) + _HIDDEN_TOKENS, most, today)
        if bound * 2 <= self.budget:
            return bound
        try:
            counted = int(await self.wire.count(request) * _COUNT_ERRS_BY) + 1
        except ModelError:
            return bound
        return min(bound, self.prices.worst(model, counted, most, today))


@dataclass
class _Attempts:
    """The meter of one call: each attempt is reserved by itself, for a lost one may have been answered, and paid."""

    calls: Calls
    call: Mapping[str, Any]
    worst: Decimal
    attempt: str = ""

    def leaves(self) -> str:
        calls = self.calls
        self.attempt = reserve(calls.ledger, calls.scope, calls.budget, self.worst, self.call)
        return self.attempt

    def answered(self, attempt: str, text: str, milliseconds: int) -> None:
        calls, reply = self.calls, read_reply(text)
        tokens = reply.tokens
        body = {
            "scope": calls.scope, "run": calls.run, "response": text, "stop_reason": reply.stop_reason,
            "input": tokens.fresh, "cache_read": tokens.cache_read, "cache_write": tokens.cache_write,
            "output": tokens.output, "usd": calls.prices.cost(self.call["model"], tokens, calls.wall().date()),
            "milliseconds": milliseconds,
        }  # fmt: skip
        calls.ledger.append("model.answer", body, key=attempt, subject=self.call["request"])

    def failed(self, attempt: str, status: int, text: str) -> None:
        body = {"scope": self.calls.scope, "status": status, "message": text, "usd": Decimal(0)}
        self.calls.ledger.append("model.failure", body, key=attempt, subject=self.call["request"])


def spelled(request: Request) -> str:
    """Spell a request in one way, so that its hash is that of all that are alike."""
    return json.dumps(request, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
