"""The way to Claude, on the anthropic package: its retries, its time limits, its schemas."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from pydantic import BaseModel, SecretStr

from blocks.errors import ModelUnavailable
from blocks.models.calls import Meter, Request

_RETRIES = 2
_WAITS = 120  # seconds between the attempts, at most: the package waits up to a minute where a service asks it to


@dataclass(frozen=True)
class Access:
    """The key to the service, and where that is if not at its own address."""

    api_key: SecretStr
    base_url: str | None = None


class AnthropicWire:
    """The Messages API over HTTP. One client a call: each step has an event loop of its own."""

    def __init__(self, access: Callable[[], Access], timeout: timedelta) -> None:
        """Set the limit of one attempt; the package tries an attempt that failed in passing twice again.

        The key is asked for when something is to be sent: a replay needs none.
        """
        self._access = access
        self._timeout = timeout.total_seconds()

    def spelled(self, schema: type[BaseModel]) -> dict[str, Any]:
        """Return the JSON schema of an answer, closed and without what the API does not know."""
        from anthropic import transform_schema  # noqa: PLC0415  a second to import

        return transform_schema(schema)

    async def send(self, request: Request, meter: Meter) -> str:
        """Send a request. Raises ModelUnavailable, and what the meter raises."""
        answers: list[str] = []
        access = self._access()

        async def metered(attempt: Any, call_next: Any) -> Any:
            name, began = meter.leaves(), time.monotonic()
            response = await call_next(attempt)
            raw = response.http_response
            text = _without_key(access, raw.text)
            if raw.is_success:
                meter.answered(name, text, int((time.monotonic() - began) * 1000))
                answers.append(text)
            else:
                meter.failed(name, raw.status_code, text[:500])
            return response

        # Not `parse`: an answer that does not fit its schema would be an exception there, without what was said.
        await self._asked(access, "create", request, [metered])
        return answers[-1]

    async def count(self, request: Request) -> int:
        """Return the prompt's tokens by the service's own count. Raises ModelUnavailable."""
        countable = {name: value for name, value in request.items() if name != "max_tokens"}
        found = await self._asked(self._access(), "count_tokens", countable, [])
        return int(found.input_tokens)

    async def _asked(self, access: Access, method: str, request: Request, middleware: list[Any]) -> Any:
        import anthropic  # noqa: PLC0415  a second to import

        try:
            async with (
                asyncio.timeout(self._timeout * (_RETRIES + 1) + _WAITS),
                anthropic.AsyncAnthropic(
                    api_key=access.api_key.get_secret_value(),
                    base_url=access.base_url,
                    timeout=self._timeout,
                    max_retries=_RETRIES,
                    middleware=middleware,
                ) as client,
            ):
                return await getattr(client.messages, method)(**request)
        except anthropic.APIStatusError as error:
            raise ModelUnavailable(
                _without_key(access, f"the service answers {error.status_code}: {_said(error)}")
            ) from None
        except anthropic.APITimeoutError:
            raise ModelUnavailable(f"no answer within {self._timeout:g} s, {_RETRIES + 1} times") from None
        except TimeoutError:
            raise ModelUnavailable(
                f"no answer in {_RETRIES + 1} attempts of {self._timeout:g} s and their waits"
            ) from None
        except anthropic.APIConnectionError as error:
            raise ModelUnavailable(f"the connection failed: {type(error.__cause__ or error).__name__}") from None
        except anthropic.AnthropicError as error:
            raise ModelUnavailable(_without_key(access, str(error))) from None


def _without_key(access: Access, text: str) -> str:
    """Return a text without the key, should a service ever say it back."""
    return text.replace(access.api_key.get_secret_value(), "[key]")


def _said(error: Any) -> str:
    body = error.body if isinstance(error.body, dict) else {}
    inner = body.get("error")
    return str(inner.get("message") if isinstance(inner, dict) else error.message)[:300]
