"""The world a run works in: its state folder, its market, its broker and its moment."""

from dataclasses import dataclass
from datetime import date, datetime, timedelta
from pathlib import Path

from blocks.brokers.paper import PaperBroker
from blocks.brokers.paper_fills import Pace
from blocks.brokers.port import Broker
from blocks.clock import wall
from blocks.errors import UnusableInput
from blocks.ledger import Ledger
from blocks.mandate import Mandate
from blocks.market.calendar import TradingCalendar
from blocks.market.door import StoreMarket, seed_sample
from blocks.market.quotes import Quote
from blocks.market.store import MarketStore
from tasks.intents import book_of

AFTER_CLOSE = timedelta(minutes=1)


@dataclass(frozen=True)
class World:
    """Ledger and store under one state folder."""

    ledger: Ledger
    store: MarketStore

    def market(self, mandate: Mandate, *, pinned: bool = True) -> StoreMarket:
        """Return the market door over stored prices, pinned to what is stored now, or showing whatever is stored."""
        calendar, until = TradingCalendar(mandate.schedule.calendar), self.ledger.pin() if pinned else None
        return StoreMarket(self.store, calendar, mandate.base_currency, until, mandate.frozen)

    def paper(self, mandate: Mandate, market: StoreMarket) -> Broker:
        """Return the embedded paper broker, which trades at the market's quotes."""

        async def quotes(symbols: tuple[str, ...], now: datetime) -> tuple[Quote, ...]:
            return market.seen(symbols, now)

        age, pace = mandate.freshness.quotes, Pace(mandate.paper.latency, mandate.paper.first_fill)
        return PaperBroker(self.ledger, mandate.account, mandate.base_currency, quotes, max_quote_age=age, pace=pace)


def open_world(home: Path) -> World:
    """Open the state folder, with the sample prices in it."""
    ledger = Ledger(home / "ledger.db", wall)
    store = MarketStore(home, ledger)
    store.tidy(wall())
    seed_sample(store)
    return World(ledger, store)


def moment_of(world: World, mandate: Mandate, as_of: date | datetime | None, wall: datetime) -> datetime:
    """Return the moment a run starts at: a date means a minute after that session's close, none the newest stored.

    Prices of a session that has not closed by the `wall` clock do not count. Where no moment is asked for, the newest
    have to be of the session that has closed last: last week's are no answer. Only the sample is let off, whose prices
    end in 2022. Raises UnusableInput for a date that is no session, or a moment with no prices.
    """
    calendar = TradingCalendar(mandate.schedule.calendar)
    last = world.store.last_session(mandate.universe, world.ledger.pin())
    if not last:
        raise UnusableInput(
            f"no prices are stored for {', '.join(mandate.universe[:5])}: bring some in with `tradewright ingest FILE`"
        )
    closed = calendar.last_session_at(wall)
    newest = min(max(last.values()), closed)
    if not calendar.is_session(newest):  # a file may hold the price of a Saturday: no run is for that
        newest = calendar.session_before(newest)
    if as_of is None:
        if newest < closed and not world.store.only_sample(mandate.universe, world.ledger.pin()):
            raise UnusableInput(
                f"the newest prices are of {newest}, and {closed} has closed since: bring newer ones in with"
                f" `tradewright ingest FILE`, or rehearse that day with --as-of {newest}"
            )
        return calendar.close_of(newest) + AFTER_CLOSE
    session = calendar.last_session_at(as_of) if isinstance(as_of, datetime) else as_of
    if not calendar.is_session(session):
        before = calendar.session_before(session)
        raise UnusableInput(f"--as-of {session}: no session of {mandate.schedule.calendar}; the one before is {before}")
    first = min(world.store.first_session(mandate.universe, world.ledger.pin()).values())
    if not first < session <= newest:
        allowed = calendar.sessions_between(first, newest)[1:]  # the first has no close before it
        span = f"{allowed[0]} to {newest}" if allowed else f"none: they begin with {first}"
        raise UnusableInput(f"--as-of {session}: outside the stored prices, which allow {span}")
    return as_of if isinstance(as_of, datetime) else calendar.close_of(session) + AFTER_CLOSE


def refuse_to_trade_the_past(world: World, mandate: Mandate, broker: str, start: datetime) -> None:
    """Refuse orders in a past from before the account's last fill: it would trade today's holdings at old prices.

    With the sample's prices every run is a rehearsal, and may be. Raises UnusableInput.
    """
    if world.store.only_sample(mandate.universe, world.ledger.pin()):
        return
    fills = world.ledger.all("fill", book_of(broker, mandate.account))
    last = max((datetime.fromisoformat(entry.body["at"]) for entry in fills), default=None)
    if last and last.date() > start.date():
        raise UnusableInput(
            f"--as-of {start.date()}: account {mandate.account} has traded on {last.date()} already, and its holdings"
            " are those of that day: use --dry-run"
        )
