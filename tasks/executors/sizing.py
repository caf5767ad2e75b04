"""Size one trade: its limit price, and the shares to its target that its own limits allow."""

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal

from blocks.brokers.port import Side
from blocks.mandate import Mandate
from blocks.market.quotes import Quote
from blocks.values import plain
from tasks.executors.sharing import Lot
from tasks.executors.valuing import TEN_THOUSAND, Line, positive

BEYOND = Decimal("1e13")  # where the figures an order may hold end

_TEN_THOUSANDTH = Decimal("0.0001")


@dataclass(frozen=True, slots=True)
class Aim:
    """Where one symbol should go."""

    line: Line
    target: Decimal  # money
    equity: Decimal
    mandate: Mandate

    @property
    def gap(self) -> Decimal:
        """Return the money to the target: above zero to buy, below to sell."""
        return self.target - self.line.value

    @property
    def side(self) -> Side:
        """Return what brings the symbol nearer."""
        return "buy" if self.gap > 0 else "sell"

    @property
    def weights(self) -> str:
        """Return the weight there is and the one to have, in words."""
        return f"weight {_share(self.line.value, self.equity)}, target {_share(self.target, self.equity)}"


def step_of(mandate: Mandate) -> Decimal:
    """Return the smallest part of a share that may be ordered."""
    return _TEN_THOUSANDTH if mandate.fractional else Decimal(1)


def size(aim: Aim) -> Lot | str:
    """Return the trade that goes to the target, or why there is none."""
    reason = _not_traded(aim)
    if reason:
        return reason
    limit = limit_price(aim.line.quote, aim.side, aim.mandate.limits.collar_bps)
    if limit is None:
        return "no limit price: no multiple of the tick lies within the collar"
    return _lot(aim, limit)


def limit_price(quote: Quote | None, side: Side, collar_bps: Decimal) -> Decimal | None:
    """Return the far side on the tick, a buy rounded down and a sell up; the other way if that leaves the collar."""
    far = None if quote is None else quote.ask if side == "buy" else quote.bid
    if quote is None or far is None:
        return None
    tick = quote.tick.normalize()
    below = far // tick * tick + Decimal(0)  # adding 0 writes 500 where the tick 1E+2 would write 5E+2
    above = below if below == far else below + tick
    for limit in (below, above) if side == "buy" else (above, below):
        if 0 < limit < BEYOND and abs(limit - far) * TEN_THOUSAND <= far * collar_bps:
            return limit
    return None


def half_spread(quote: Quote | None) -> Decimal:
    """Return what trading a share at the far side costs against the middle."""
    return Decimal(0) if quote is None or quote.bid is None or quote.ask is None else (quote.ask - quote.bid) / 2


def _share(money: Decimal, equity: Decimal) -> str:
    return plain((money / equity).quantize(_TEN_THOUSANDTH))


def cents(money: Decimal) -> str:
    """Write money to the cent."""
    return f"{money.quantize(Decimal('0.01')):f}"


def _is_frozen(aim: Aim) -> str:
    return f"frozen: counted at its last close and never traded; {aim.weights}" if aim.line.frozen else ""


def _has_no_usable_quote(aim: Aim) -> str:
    return f"no usable quote: {aim.line.fault}" if aim.line.fault else ""


def _is_within_its_band(aim: Aim) -> str:
    bands = aim.mandate.bands
    within = abs(aim.gap) <= max(bands.absolute * aim.equity, bands.relative * aim.target)
    return f"within its band: {aim.weights}" if within else ""


def _is_against_the_direction(aim: Aim) -> str:
    direction = aim.mandate.direction
    return "" if direction in {"both", f"{aim.side}_only"} else f"direction is {direction}: {aim.weights}"


def _is_restricted(aim: Aim) -> str:
    return f"restricted: {aim.weights}" if aim.line.restricted else ""


def _is_against_a_working_order(aim: Aim) -> str:
    other, shares = ("sell", aim.line.selling) if aim.side == "buy" else ("buy", aim.line.buying)
    text = f"a {other} of {plain(shares)} is working, a {aim.side} would go against it; {aim.weights}"
    return text if shares else ""


def _has_no_known_volume(aim: Aim) -> str:
    fraction, quote = aim.mandate.limits.max_adv_fraction, aim.line.quote
    if fraction is None or (quote is not None and positive(quote.adv)):
        return ""
    return f"max_adv_fraction is {plain(fraction)} and the average daily volume is not known"


_OBSTACLES: tuple[Callable[[Aim], str], ...] = (
    _is_frozen,
    _has_no_usable_quote,
    _is_within_its_band,
    _is_against_the_direction,
    _is_restricted,
    _is_against_a_working_order,
    _has_no_known_volume,
)


def _not_traded(aim: Aim) -> str:
    return next((reason for obstacle in _OBSTACLES if (reason := obstacle(aim))), "")


def _lot(aim: Aim, limit: Decimal) -> Lot | str:
    step = step_of(aim.mandate)
    price, worth = limit * step, aim.line.price * step
    cost = half_spread(aim.line.quote) * step
    wanted = _nearest(abs(aim.gap), worth, cost)
    binding, most = min(_ceilings(aim, limit, step), key=lambda ceiling: ceiling[1])
    least = max(_up(aim.mandate.min_trade, price), 1)
    if wanted < least:
        figures = f"{plain(wanted * step)} at {plain(limit)} would go to the target"
        return f"below min_trade: {figures}, {plain(least * step)} make the {plain(aim.mandate.min_trade)} needed"
    if most < least:
        figures = f"at most {plain(most * step)} of {plain(wanted * step)} at {plain(limit)}"
        return f"{binding}: {figures}, an order takes {plain(least * step)}"
    return Lot(aim.line.symbol, aim.side, limit, price, worth, abs(aim.gap), least, min(wanted, most), cost)


def _ceilings(aim: Aim, limit: Decimal, step: Decimal) -> tuple[tuple[str, int], ...]:
    """Return what stops this one order, and after how many steps."""
    line, limits = aim.line, aim.mandate.limits
    room = limits.max_weight * aim.equity - line.value
    own = ("max_weight", room / line.price) if aim.side == "buy" else ("sellable", line.sellable)
    ceilings = [own, ("max_order_notional", limits.max_order_notional / limit), ("largest quantity", BEYOND - 1)]
    if limits.max_adv_fraction is not None and line.quote and line.quote.adv is not None:
        ceilings.append(("max_adv_fraction", limits.max_adv_fraction * line.quote.adv))
    return tuple((name, max(int(shares // step), 0)) for name, shares in ceilings)


def _nearest(gap: Decimal, worth: Decimal, cost: Decimal) -> int:
    """Return the nearest steps: one goes beyond the target only if that brings nearer by more than it costs."""
    steps, rest = divmod(gap, worth)
    return int(steps) + (2 * rest - worth > cost)


def _up(money: Decimal, price: Decimal) -> int:
    steps, rest = divmod(money, price)
    return int(steps) + (rest > 0)
