"""Executors that gather: what the world looks like now, recorded as snapshots."""

from datetime import datetime
from typing import Annotated

from pydantic import Field

from blocks.brokers.doors import at_rest
from blocks.brokers.port import AccountDoor
from blocks.mandate import Mandate
from blocks.market.port import MarketDoor
from tasks.situation import Account, Bars, Quotes
from tasks.tool import Params, UniverseSymbol, tool


class QuotesWanted(Params):
    """Which symbols to quote; none named means the whole universe."""

    symbols: Annotated[tuple[UniverseSymbol, ...], Field(min_length=1)] | None = None


class BarsWanted(Params):
    """How much history to gather; none said means the policy's."""

    lookback_days: int | None = Field(None, ge=20, le=2520, description="sessions")


@tool(freshness="quotes")
async def gather_quotes(params: QuotesWanted, market: MarketDoor, mandate: Mandate, now: datetime) -> Quotes:
    """Gather a quote for each symbol."""
    found = await market.quotes(params.symbols or mandate.universe, now)
    return Quotes(snapshot=found.snapshot, as_of=found.as_of, quotes=found.quotes)


@tool(freshness="bars")
async def gather_bars(params: BarsWanted, market: MarketDoor, mandate: Mandate, now: datetime) -> Bars:
    """Gather daily closes of the whole universe."""
    sessions = (params.lookback_days or mandate.policy.lookback_days) + 1  # n returns need n + 1 closes
    found = await market.bars(mandate.universe, sessions, now)
    return Bars(snapshot=found.snapshot, as_of=found.as_of, sessions=found.sessions, closes=found.closes)


@tool(freshness="positions")
async def gather_positions(account: AccountDoor, now: datetime) -> Account:
    """Gather cash, positions and working orders of the account."""
    state, open_orders = await at_rest(account, now)
    return Account(snapshot="", as_of=state.as_of, state=state, open_orders=open_orders)
