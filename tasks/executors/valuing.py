"""What is held, what is working, and what it is all worth: the figures a draft starts from."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from decimal import Decimal

from blocks.market.quotes import Quote
from blocks.values import iso, plain, short
from tasks.situation import Situation

TEN_THOUSAND = Decimal(10_000)  # basis points in one

_FINEST_TICK = Decimal("0.00000001")


@dataclass(frozen=True, slots=True)
class Line:
    """One symbol of the universe, as the account and its quote show it."""

    symbol: str
    held: Decimal
    buying: Decimal  # unfilled at the broker
    selling: Decimal  # unfilled at the broker
    quote: Quote | None
    fault: str  # why the quote cannot be used; empty if it can
    frozen: bool
    restricted: bool
    price: Decimal  # what a share counts for; 0 where there is no price

    @property
    def effective(self) -> Decimal:
        """Return the shares held once all working orders are done."""
        return self.held + self.buying - self.selling

    @property
    def sellable(self) -> Decimal:
        """Return the shares that may still be sold: a working buy has not come in yet."""
        return max(self.held - self.selling, Decimal(0))

    @property
    def value(self) -> Decimal:
        """Return what the effective position is worth."""
        return self.effective * self.price


def lines_of(situation: Situation) -> tuple[Line, ...]:
    """Return one line for each symbol of the universe, in the mandate's order."""
    held, buying, selling = situation.account.held(), _unfilled(situation, "buy"), _unfilled(situation, "sell")
    frozen, restricted = set(situation.mandate.frozen), set(situation.mandate.limits.restricted)
    faults = {symbol: fault_of(situation.quote_of.get(symbol), situation) for symbol in situation.mandate.universe}
    return tuple(
        Line(
            symbol=symbol,
            held=held.get(symbol, Decimal(0)),
            buying=buying[symbol],
            selling=selling[symbol],
            quote=situation.quote_of.get(symbol),
            fault=fault,
            frozen=symbol in frozen,
            restricted=symbol in restricted,
            price=_price(situation, symbol, symbol in frozen, fault),
        )
        for symbol, fault in faults.items()
    )


def managed_equity(situation: Situation, lines: Iterable[Line]) -> Decimal:
    """Return cash in the base currency and what is held in the universe; working orders change neither."""
    return base_cash(situation) + sum((line.held * line.price for line in lines), Decimal(0))


def base_cash(situation: Situation) -> Decimal:
    """Return the cash in the base currency, as reported."""
    return situation.account.cash.get(situation.mandate.base_currency, Decimal(0))


def promised(situation: Situation) -> Decimal:
    """Return the cash that working buys may still take, in or outside the universe."""
    dearest = 1 + situation.mandate.limits.collar_bps / TEN_THOUSAND
    total = Decimal(0)
    for order in situation.open_orders:
        if order.side == "buy" and order.remaining:
            quote = situation.quote_of.get(order.symbol)
            # A broker may report 0 where there is no limit.
            total += order.remaining * (order.limit or ((quote and quote.ask) or Decimal(0)) * dearest)
    return total


def fault_of(quote: Quote | None, situation: Situation) -> str:
    """Return everything that makes a quote unusable, or nothing."""
    if quote is None:
        return "no quote"
    return "; ".join((*_price_faults(quote, situation), *_origin_faults(quote, situation)))


def positive(value: Decimal | None) -> bool:
    """Tell whether there is a figure, finite and above zero; asked in this order, as NaN cannot be compared."""
    return value is not None and value.is_finite() and value > 0


def _price(situation: Situation, symbol: str, frozen: bool, fault: str) -> Decimal:
    quote = situation.quote_of.get(symbol)
    if frozen:
        return _last_close(quote, situation)
    return _middle(quote) if quote and not fault else Decimal(0)


def _unfilled(situation: Situation, side: str) -> defaultdict[str, Decimal]:
    shares: defaultdict[str, Decimal] = defaultdict(Decimal)
    for order in situation.open_orders:
        if order.side == side:
            shares[order.symbol] += order.remaining
    return shares


def _last_close(quote: Quote | None, situation: Situation) -> Decimal:
    base = situation.mandate.base_currency
    if quote is None or quote.previous_close is None or (quote.currency or base) != base:
        return Decimal(0)
    return quote.previous_close if positive(quote.previous_close) else Decimal(0)


def _middle(quote: Quote) -> Decimal:
    return ((quote.bid or Decimal(0)) + (quote.ask or Decimal(0))) / 2


def _price_faults(quote: Quote, situation: Situation) -> Iterator[str]:
    limits = situation.mandate.limits
    if not positive(quote.bid) or not positive(quote.ask):
        yield f"bid {_shown(quote.bid)}, ask {_shown(quote.ask)}: both should be above zero"
        return
    bid, ask, middle = quote.bid or Decimal(0), quote.ask or Decimal(0), _middle(quote)
    if bid > ask:
        yield f"crossed: bid {plain(bid)} is above ask {plain(ask)}"
    if (ask - bid) * TEN_THOUSAND > limits.max_spread_bps * middle:
        yield f"spread from {plain(bid)} to {plain(ask)} is above {plain(limits.max_spread_bps)} bps of the middle"
    if quote.previous_close is None or not positive(quote.previous_close):
        yield f"previous close {_shown(quote.previous_close)}: nothing to judge the price by"
    elif abs(middle - quote.previous_close) > limits.max_price_jump * quote.previous_close:
        jump = f"{plain(middle)} against a previous close of {plain(quote.previous_close)}"
        yield f"{jump} is a jump of more than {plain(limits.max_price_jump)}"


def _origin_faults(quote: Quote, situation: Situation) -> Iterator[str]:
    mandate, now = situation.mandate, situation.now
    if quote.at is None:
        yield "the quote does not say when it was made"
    elif quote.at > now:
        yield f"made at {iso(quote.at)}, after now"
    elif now - quote.at > mandate.freshness.quotes:
        yield f"made at {iso(quote.at)}, more than {short(mandate.freshness.quotes)} ago"
    if quote.delayed and not mandate.allow_delayed:
        yield "delayed"
    if quote.currency not in {None, mandate.base_currency}:
        yield f"in {quote.currency}, not {mandate.base_currency}"
    if not quote.tick.is_finite() or quote.tick < _FINEST_TICK:
        yield f"tick {plain(quote.tick)}: should be {_FINEST_TICK:f} or more"


def _shown(value: Decimal | None) -> str:
    return "none" if value is None else plain(value)
