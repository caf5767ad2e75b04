"""Round every trade to the nearest step, and take back at most a step each until the budgets hold."""

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal

from tasks.executors.nearness import gain, keeps_budgets
from tasks.executors.sharing import Budgets, Lot, hand_out, left_over


def nearest_within(lots: Sequence[Lot], budgets: Budgets) -> dict[str, int] | None:
    """Return the nearest steps less those that the budgets lack, or nothing where more than rounding is in the way."""
    chosen = sorted(lots, key=lambda lot: (-gain(lot, lot.most), lot.symbol))[: budgets.orders]
    given = {lot.symbol: lot.most for lot in chosen}
    turnover, cash = left_over(chosen, given, budgets)
    for lot in _by_what_it_costs_to_lack(chosen):
        # A sell taken back brings the turnover down and the cash with it: only buys help both.
        if (cash < 0 and lot.side == "buy") or turnover < 0:
            given[lot.symbol] -= 1
            turnover += lot.price
            cash += lot.price if lot.side == "buy" else -lot.price if budgets.recycles else Decimal(0)
    given = {symbol: steps for symbol, steps in given.items() if steps}
    if not keeps_budgets(lots, given, budgets):
        return None
    hand_out([lot for lot in chosen if lot.symbol in given], given, budgets)
    return given


def _by_what_it_costs_to_lack(lots: Sequence[Lot]) -> Iterator[Lot]:
    """Yield the lots that can spare a step, buys first, then by what is lost for the money that comes free."""
    spare = [lot for lot in lots if lot.most > lot.least or lot.most == 1]
    lost = {lot.symbol: (gain(lot, lot.most) - gain(lot, lot.most - 1)) / lot.price for lot in spare}
    yield from sorted(spare, key=lambda lot: (lot.side == "sell", lost[lot.symbol], lot.symbol))


def mended(lots: Sequence[Lot], given: Mapping[str, int], budgets: Budgets) -> dict[str, int] | None:
    """Return these steps brought within limits and budgets by taking some back; nothing if that does not help."""
    of = {lot.symbol: lot for lot in lots}
    kept = {symbol: min(steps, of[symbol].most) for symbol, steps in given.items() if steps >= of[symbol].least}
    for _ in range(2 * len(lots) + 1):
        if keeps_budgets(lots, kept, budgets):
            return kept
        traded = [of[symbol] for symbol in kept]
        buys = [lot for lot in traded if lot.side == "buy"]
        lack = -min(left_over(traded, kept, budgets))
        if not (buys or traded) or len(kept) > budgets.orders:
            return None
        # The cheapest step that is enough, or else the dearest there is.
        lot = min(buys or traded, key=lambda lot: (lot.price < lack, abs(lot.price - lack), lot.symbol))
        kept[lot.symbol] -= 1
        if kept[lot.symbol] < lot.least:
            del kept[lot.symbol]
    return None
