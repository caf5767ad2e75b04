"""The Prefect Blocks of Tradewright: connections and secrets that are kept by the Prefect server, not in files."""

import os
from typing import ClassVar, cast

import httpx
from prefect.blocks.core import Block
from prefect.exceptions import PrefectException
from pydantic import Field, SecretStr

from blocks.errors import ModelUnavailable
from blocks.models.anthropic import Access

MODEL_ACCESS = "default"
"""The name of the Block that runs use."""


class ModelAccess(Block):
    """The key to the language models, for planner, executors and reviewer."""

    _block_type_name: ClassVar[str | None] = "Tradewright model access"
    _block_type_slug: ClassVar[str | None] = "tradewright-model-access"
    _description: ClassVar[str | None] = "Key and address of the Messages API that Tradewright's models are asked by."

    api_key: SecretStr = Field(description="kept secret: it is in no log, artifact, ledger or parameter")
    base_url: str | None = Field(None, description="a compatible server's address; none: the service's own")


def model_access() -> Access:
    """Return the way to the models: the environment's (ANTHROPIC_API_KEY, ANTHROPIC_BASE_URL), else the Block's.

    Raises ModelUnavailable where neither names a key.
    """
    key = os.environ.get("ANTHROPIC_API_KEY", "").strip()
    if key:
        return Access(SecretStr(key), os.environ.get("ANTHROPIC_BASE_URL", "").strip() or None)
    try:
        block = cast("ModelAccess", ModelAccess.load(MODEL_ACCESS, _sync=True))  # type: ignore[call-arg]
    except (ValueError, PrefectException, httpx.HTTPError) as error:
        raise ModelUnavailable(
            "there is no key: set ANTHROPIC_API_KEY where the run is carried out, or save a Block of the type"
            f" 'Tradewright model access' under the name {MODEL_ACCESS!r} ({type(error).__name__})"
        ) from None
    return Access(block.api_key, block.base_url)
