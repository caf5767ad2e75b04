"""What a model's service answers, as far as it is looked at; the rest is kept and handed back unchanged."""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from blocks.errors import ModelUnavailable
from blocks.models.prices import Tokens


class _Usage(BaseModel):
    model_config = ConfigDict(frozen=True)

    input_tokens: int = Field(ge=0)
    output_tokens: int = Field(ge=0)
    cache_creation_input_tokens: int | None = Field(None, ge=0)
    cache_read_input_tokens: int | None = Field(None, ge=0)


class Reply(BaseModel):
    """A message as the Messages API sends it."""

    model_config = ConfigDict(frozen=True)

    content: tuple[dict[str, Any], ...]
    stop_reason: str | None = None
    usage: _Usage

    @property
    def text(self) -> str:
        """Return what was said, thoughts left out."""
        return "".join(str(block.get("text", "")) for block in self.content if block.get("type") == "text")

    @property
    def wanted(self) -> tuple[dict[str, Any], ...]:
        """Return the tools that were called for."""
        return tuple(block for block in self.content if block.get("type") == "tool_use")

    @property
    def tokens(self) -> Tokens:
        """Return what the call used."""
        usage = self.usage
        return Tokens(
            usage.input_tokens,
            usage.cache_read_input_tokens or 0,
            usage.cache_creation_input_tokens or 0,
            usage.output_tokens,
        )


def read_reply(text: str) -> Reply:
    """Read an answer. Raises ModelUnavailable for one that is no message: then nobody knows what it cost either."""
    try:
        return Reply.model_validate_json(text)
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        where = ".".join(map(str, fault["loc"]))
        raise ModelUnavailable(f"what was answered is no message ({where or 'as a whole'}: {fault['msg']})") from None
