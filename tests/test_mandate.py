"""The mandate: its defaults, its hash, and every fault told in one line."""

from datetime import timedelta
from decimal import Decimal
from pathlib import Path

import pytest

from blocks.errors import UnusableInput
from blocks.mandate import Mandate, read_mandate, sample_path

pytestmark = pytest.mark.pure

LEAST = """
account = "PAPER"
base_currency = "USD"
[policy]
weights = { SPY = 0.60, AGG = 0.38 }
"""

WHOLE = """
account = "PAPER"
base_currency = "USD"
objective = "rebalance the portfolio for the coming week"
fractional = false
direction = "both"            # or buy_only, sell_only
min_trade = 100
allow_delayed = false
frozen = []                   # valued, never traded
raise_cash = 0                # keep this much more in cash: a withdrawal to come

[policy]
method = "fixed"              # equal, inverse_volatility, minimum_variance, hierarchical_risk_parity
weights = { SPY = 0.60, AGG = 0.38 }   # for other methods: the universe, with optional bounds
cash_buffer = 0.02
lookback_days = 252
max_tilt = 0.03               # how far views may move a weight

[bands]
absolute = 0.005
relative = 0.02

[limits]
max_orders = 20
max_order_notional = 50000
max_turnover = 0.50
max_weight = 1
# max_adv_fraction = 0.02    (no limit unless set; the sample data has no volumes)
collar_bps = 50
max_spread_bps = 200
max_price_jump = 0.25
restricted = []
cash_basis = "total"

[freshness]
quotes = "15m"
positions = "15m"
bars = "4d"
analysis = "1d"
notes = "7d"
proposal = "30m"
max_move_bps = 150
max_revisions = 4

[approval]
mode = "auto"                 # threshold, always
threshold = 10000
expires = "10m"
reprice_bps = 30

[submission]
submit_window = "30m"
time_in_force = "DAY"
at_window_end = "cancel"      # or leave

[paper]
latency = "0s"                # an order on paper works so long before it fills
first_fill = 1                # share of it that fills then; the rest after as long again

[models]
planner = "claude-sonnet-5-5"
executor = "claude-haiku-5-5"
reviewer = "claude-opus-5-5"
allow_same_model = false
budget_usd = 0.50
timeout = "5m"                # of one attempt of a call
fallback = "hold"             # or rules
notes = []                    # folders or files of research notes

[schedule]
calendar = "XNYS"
cadence = "weekly"            # first session of the week
after_open = "30m"

[notify]
block = ""                    # a notification block of Prefect's; empty: nobody is told
on = ["completed", "held", "failed", "unknown"]
"""

CADENCE = "should be one of session, weekly, monthly, quarterly, or a cron of five fields such as '30 15 * * 1'"

METHOD = (
    'account = "PAPER"\nbase_currency = "USD"\n[policy]\nmethod = "equal"\nweights = {}\n[limits]\nmax_weight = {}\n'
)


@pytest.fixture
def read(tmp_path: Path) -> "Read":
    return Read(tmp_path / "mandate.toml")


class Read:
    """Reads a mandate from text, through a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __call__(self, text: str) -> Mandate:
        self.path.write_text(text)
        return read_mandate(self.path)

    def complaint(self, text: str) -> str:
        with pytest.raises(UnusableInput) as caught:
            self(text)
        said = str(caught.value)
        assert said.startswith(f"{self.path}: ")
        assert 1 == len(said.splitlines())
        return said.removeprefix(f"{self.path}: ")


def test_a_mandate_that_leaves_everything_out_has_the_defaults_written_here(read: Read) -> None:
    whole, least = read(WHOLE), read(LEAST)

    assert whole == least
    assert whole.hash == least.hash


def test_every_key_there_is_is_written_here_but_the_one_without_a_default(read: Read) -> None:
    written = read(WHOLE)
    left_out = [
        f"{name}.{key}"
        for name, part in written
        if hasattr(part, "model_fields_set")
        for key in type(part).model_fields.keys() - part.model_fields_set
    ]
    left_out += type(written).model_fields.keys() - written.model_fields_set

    assert ["limits.max_adv_fraction"] == left_out
    assert written.limits.max_adv_fraction is None


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ('"new-1"', ("new-1", 6000, "medium")),
        ('{ model = "new-1", effort = "default" }', ("new-1", 6000, "default")),
        ("{ max_tokens = 9000 }", ("claude-sonnet-5-5", 9000, "medium")),
    ],
)
def test_what_is_not_said_of_a_model_is_as_usual_for_its_part(
    read: Read, written: str, meant: tuple[str, int, str]
) -> None:
    planner = read(WHOLE.replace('planner = "claude-sonnet-5-5"', f"planner = {written}")).models.planner

    assert meant == (planner.model, planner.max_tokens, planner.effort)


def test_the_planners_model_reviews_where_that_is_allowed(read: Read) -> None:
    same = WHOLE.replace("claude-opus-5-5", "claude-sonnet-5-5")
    models = read(same.replace("allow_same_model = false", "allow_same_model = true")).models

    assert models.planner.model == models.reviewer.model


def test_the_universe_is_the_keys_of_the_weights_in_their_order(read: Read) -> None:
    mandate = read(LEAST.replace("SPY = 0.60, AGG = 0.38", "TLT = 0, SPY = 0.6, AGG = 0.38"))

    assert ("TLT", "SPY", "AGG") == mandate.universe
    assert {"TLT": Decimal(0), "SPY": Decimal("0.6"), "AGG": Decimal("0.38")} == mandate.policy.fixed_weights


def test_the_sample_mandate_invests_all_but_the_buffer_in_twenty_stocks() -> None:
    sample = read_mandate(sample_path())

    assert (20, Decimal("0.98"), Decimal("0.02")) == (
        len(sample.universe),
        sum(sample.policy.fixed_weights.values()),
        sample.policy.cash_buffer,
    )
    assert ("PAPER", Decimal(1), 25, "auto") == (
        sample.account,
        sample.limits.max_turnover,
        sample.limits.max_orders,
        sample.approval.mode,
    )


def test_a_symbol_without_bounds_has_all_the_room_and_a_nought_none(read: Read) -> None:
    bounds = read(METHOD.format('{ A = {}, B = 1, C = 0, D = { min = "0.1", max = 0.4 }, E = 0.3 }', 1)).policy.bounds

    assert {"A": (0, 1), "B": (0, 1), "C": (0, 0), "D": (Decimal("0.1"), Decimal("0.4")), "E": (0, 1)} == {
        symbol: (room.min, room.max) for symbol, room in bounds.items()
    }


@pytest.mark.parametrize("latency", ["0s", "00 m", "2s", "5m"])
def test_a_mandate_reads_the_same_when_it_comes_back_from_the_ledger(read: Read, latency: str) -> None:
    mandate = read(f'{LEAST}[paper]\nlatency = "{latency}"\nfirst_fill = "0.4"\n')

    assert mandate == Mandate.model_validate(mandate.model_dump(mode="json"))
    assert Decimal("0.4") == mandate.paper.first_fill
    assert (latency in {"0s", "00 m"}) == (timedelta(0) == mandate.paper.latency)


# The hash


def test_the_hash_does_not_depend_on_how_the_file_is_written(read: Read) -> None:
    policy = '[policy]\nweights = { AGG = 3.8e-1, SPY = "0.6" }\ncash_buffer = "0.0200"\n'
    other = f'base_currency = "USD"\naccount = "PAPER"\n{policy}'

    assert read(LEAST).hash == read(other).hash


@pytest.mark.parametrize(
    "change", [("0.38", "0.37"), ("USD", "EUR"), ("AGG", "AGGG"), ("[policy]", "min_trade = 99\n[policy]")]
)
def test_the_hash_depends_on_what_the_mandate_says(read: Read, change: tuple[str, str]) -> None:
    assert read(LEAST).hash != read(LEAST.replace(*change)).hash


# Faults: the change to the whole mandate, and all that is said


TOP_KEYS = (
    "account, base_currency, objective, fractional, direction, min_trade, allow_delayed, frozen, raise_cash, "
    "policy, bands, limits, freshness, approval, submission, paper, models, schedule, "
    "notify"
)
NUMBER = "should be a number, or a number in quotes"
DURATION = 'should be a number and a unit (s, m, h, d, w), such as "15m"'

FAULTS = [
    # unknown keys
    ("min_trade", "min_trad", f"min_trad: unknown key (did you mean 'min_trade'?); allowed: {TOP_KEYS}"),
    ("[bands]", "[colour]", f"colour: unknown key; allowed: {TOP_KEYS}"),
    ("relative", "relativ", "bands.relativ: unknown key (did you mean 'relative'?); allowed: absolute, relative"),
    (
        "[policy]",
        "[plolicy]",
        f"policy: missing, and it has no default; plolicy: unknown key (did you mean 'policy'?); allowed: {TOP_KEYS}",
    ),
    (
        "SPY = 0.60,",
        "SPY = { min = 0, mx = 1 },",
        "policy.weights.SPY.mx: unknown key (did you mean 'max'?); allowed: min, max",
    ),
    # missing
    ('account = "PAPER"', "", "account: missing, and it has no default"),
    ('base_currency = "USD"', "", "base_currency: missing, and it has no default"),
    (
        "weights =",
        "wights =",
        (
            "policy.weights: missing, and it has no default; policy.wights: unknown key (did you mean 'weights'?); "
            "allowed: method, weights, cash_buffer, lookback_days, max_tilt"
        ),
    ),
    # types
    ('"PAPER"', "5", "account: 5: should be text"),
    ('"PAPER"', '""', "account: '': should have at least 1 character"),
    ("frozen = []", "frozen = 5", "frozen: 5: should be a list"),
    (
        "max_orders = 20",
        'max_orders = "many"',
        "limits.max_orders: 'many': should be a whole number",
    ),
    (
        "max_orders = 20",
        "max_orders = 2.5",
        "limits.max_orders: 2.5: should be a valid integer, got a number with a fractional part",
    ),
    ("max_orders = 20", 'max_orders = "1_0"', "limits.max_orders: '1_0': should be a whole number"),
    ("fractional = false", 'fractional = "yes"', "fractional: 'yes': should be true or false"),
    ('"PAPER"', '" "', "account: ' ': should be 1 to 200 visible characters, with no blank at either end"),
    ('"PAPER"', '"PAPER "', "account: 'PAPER ': should be 1 to 200 visible characters, with no blank at either end"),
    (
        '"PAPER"',
        '"PA\\u0007PER"',
        "account: 'PA\\x07PER': should be 1 to 200 visible characters, with no blank at either end",
    ),
    ("max_orders = 20", "max_orders = true", "limits.max_orders: True: should be a whole number"),
    ("max_orders = 20", "max_orders = 0", "limits.max_orders: 0: should be greater than or equal to 1"),
    ("min_trade = 100", "min_trade = true", f"min_trade: True: {NUMBER}"),
    ("min_trade = 100", 'min_trade = "1_000"', f"min_trade: '1_000': {NUMBER}"),
    (
        "fractional = false",
        'fractional = "perhaps"',
        "fractional: 'perhaps': should be true or false",
    ),
    ("weights = { SPY = 0.60, AGG = 0.38 }", "weights = []", "policy.weights: []: should be a table"),
    (
        "weights = { SPY = 0.60, AGG = 0.38 }",
        "weights = {}",
        "policy.weights: Dictionary should have at least 1 item after validation, not 0",
    ),
    ("SPY = 0.60", "SPY = [0.60]", f"policy.weights.SPY: [Decimal('0.60')]: {NUMBER}"),
    (
        'planner = "claude-sonnet-5-5"',
        "planner = 5",
        "models.planner: 5: should be a model's name, or a table with its keys",
    ),
    (
        'planner = "claude-sonnet-5-5"',
        "planner = { max_tokens = 100 }",
        "models.planner.max_tokens: 100: should be greater than or equal to 256",
    ),
    (
        'planner = "claude-sonnet-5-5"',
        'planner = { model = "claude-opus-5-5" }',
        (
            "models: reviewer: 'claude-opus-5-5': is the planner's model, which agrees with itself; name another, or "
            "set allow_same_model = true"
        ),
    ),
    # words
    ('"both"', '"up"', "direction: 'up': should be 'both', 'buy_only' or 'sell_only'"),
    (
        '"fixed"',
        '"fxied"',
        (
            "policy.method: 'fxied': should be 'fixed', 'equal', 'inverse_volatility', "
            "'minimum_variance' or 'hierarchical_risk_parity'"
        ),
    ),
    ('"total"', '"all"', "limits.cash_basis: 'all': should be 'total' or 'settled'"),
    ('"auto"', '"never"', "approval.mode: 'never': should be 'auto', 'threshold' or 'always'"),
    ('"USD"', '"usd"', "base_currency: 'usd': should match pattern '^[A-Z]{3}$'"),
    ('"USD"', '"DOLLAR"', "base_currency: 'DOLLAR': should match pattern '^[A-Z]{3}$'"),
    # numbers
    ("SPY = 0.60", "SPY = -0.60", "policy.weights.SPY: -0.60: should be zero or more"),
    ("SPY = 0.60", "SPY = nan", "policy.weights.SPY: NaN: should be a finite number"),
    ("SPY = 0.60", "SPY = inf", "policy.weights.SPY: Infinity: should be a finite number"),
    ("min_trade = 100", "min_trade = -inf", "min_trade: -Infinity: should be a finite number"),
    (
        "min_trade = 100",
        "min_trade = 1e13",
        "min_trade: 1E+13: should be below 10000000000000 in size and have at most 20 decimals",
    ),
    ("max_turnover = 0.50", "max_turnover = nan", "limits.max_turnover: NaN: should be a finite number"),
    ("max_weight = 1", "max_weight = 1.5", "limits.max_weight: 1.5: should be less than or equal to 1"),
    ("collar_bps = 50", "collar_bps = 10001", "limits.collar_bps: 10001: should be less than or equal to 10000"),
    ("cash_buffer = 0.02", "cash_buffer = 1", "policy.cash_buffer: 1: should be less than 1"),
    ("first_fill = 1", "first_fill = 0", "paper.first_fill: 0: should be greater than 0"),
    ("first_fill = 1", "first_fill = 1.5", "paper.first_fill: 1.5: should be less than or equal to 1"),
    ("first_fill = 1", "first_fill = nan", "paper.first_fill: NaN: should be a finite number"),
    # durations
    ('quotes = "15m"', 'quotes = "15"', f"freshness.quotes: '15': {DURATION}"),
    ('quotes = "15m"', "quotes = 15", f"freshness.quotes: 15: {DURATION}"),
    ('quotes = "15m"', 'quotes = "0m"', "freshness.quotes: '0m': should be more than nothing and at most ten years"),
    ('latency = "0s"', 'latency = "-1s"', f"paper.latency: '-1s': {DURATION}"),
    ('latency = "0s"', "latency = 0", f"paper.latency: 0: {DURATION}"),
    ('after_open = "30m"', 'after_open = "-30m"', f"schedule.after_open: '-30m': {DURATION}"),
    (
        'cadence = "weekly"',
        'cadence = "daily"',
        f"schedule.cadence: 'daily': {CADENCE}",
    ),
    *(
        ('cadence = "weekly"', f'cadence = "{cron}"', f"schedule.cadence: {cron!r}: {CADENCE}")
        for cron in (
            *("@weekly", "30 15 * *", "0 30 15 * * 1", " 30 15 * * 1"),  # no five fields
            *("60 15 * * 1", "0 24 * * 1", "0 9 0 * *", "0 9 32 * *", "0 9 * 13 *", "0 9 * * 8"),  # no such time
            *("H 9 * * 1", "a b c d e", "0 9 * * monday", "*/0 * * * *", "0 9, * * 1", "0 9 - * *", "0 9 * * 1,2#1"),
        )
    ),
    # parts that do not agree
    ("SPY = 0.60", "SPY = 0.61", "policy: weights sum to 0.99 and cash_buffer is 0.02: together at most 1 is allowed"),
    ("SPY = 0.60", "SPY = 1.2", "policy: weights sum to 1.58 and cash_buffer is 0.02: together at most 1 is allowed"),
    ("SPY = 0.60", "SPY = { min = 0.1 }", "policy: weights.SPY: method 'fixed' takes a number, not bounds"),
    ("SPY = 0.60", "SPY = { min = 0.2, max = 0.1 }", "policy.weights.SPY: min 0.2 is above max 0.1"),
    ("max_weight = 1", "max_weight = 0.5", "policy.weights.SPY: 0.6 is above limits.max_weight 0.5"),
    ("frozen = []", 'frozen = ["SPYY"]', "frozen: 'SPYY' is not a key of policy.weights (did you mean 'SPY'?)"),
    ("frozen = []", 'frozen = ["GOLD"]', "frozen: 'GOLD' is not a key of policy.weights"),
]


@pytest.mark.parametrize(("was", "put", "said"), FAULTS)
def test_a_fault_is_told_in_one_line(read: Read, was: str, put: str, said: str) -> None:
    assert 1 == WHOLE.count(was)

    assert said == read.complaint(WHOLE.replace(was, put))


@pytest.mark.parametrize(
    ("weights", "most", "said"),
    [
        (
            "{ A = { min = 0.6 }, B = { min = 0.5 } }",
            1,
            "policy: the least weights sum to 1.1: at most 0.98 (1 - cash_buffer) is allowed",
        ),
        (
            "{ A = { max = 0.4 }, B = { max = 0.4 } }",
            1,
            "policy: the largest weights sum to 0.8: method 'equal' invests 0.98 (1 - cash_buffer)",
        ),
        ("{ A = 0, B = 0 }", 1, "policy: the largest weights sum to 0: method 'equal' invests 0.98 (1 - cash_buffer)"),
        ("{ A = { max = 1.1 } }", 1, "policy.weights.A.max: 1.1: should be less than or equal to 1"),
        ("{ A = { min = -0.1 } }", 1, "policy.weights.A.min: -0.1: should be zero or more"),
        ("{ A = { min = 0.5 }, B = {} }", 0.4, "policy.weights.A.min: 0.5 is above limits.max_weight 0.4"),
    ],
)
def test_bounds_that_cannot_be_kept_are_told_in_one_line(read: Read, weights: str, most: float, said: str) -> None:
    assert said == read.complaint(METHOD.format(weights, most))


@pytest.mark.parametrize(
    "cadence",
    [
        *("session", "weekly", "monthly", "quarterly"),
        *("30 15 * * 1", "0,30 9-15/2 * * MON-FRI", "0 9 1,15 jan-mar *", "*/15 * ? * 7"),
        *("0 9 L * *", "05 09 * * fri#2", "0 9 * * mon#1,3#3"),
    ],
)
def test_a_cadence_is_a_word_or_a_cron(read: Read, cadence: str) -> None:
    assert cadence == read(WHOLE.replace('cadence = "weekly"', f'cadence = "{cadence}"')).schedule.cadence


def test_a_bad_symbol_is_named(read: Read) -> None:
    assert "'A&B'" in read.complaint(WHOLE.replace("SPY =", '"A&B" ='))


def test_a_key_that_stands_twice_is_told(read: Read) -> None:
    assert "not TOML that can be used: " in read.complaint(f"account = 'X'\n{WHOLE}")


def test_a_mandate_is_a_toml_file(tmp_path: Path) -> None:
    with pytest.raises(UnusableInput, match=r"a mandate is a TOML file, its name ends in \.toml"):
        read_mandate(tmp_path / "mandate.json")


def test_a_mandate_cannot_be_changed_once_read(read: Read) -> None:
    mandate = read(LEAST)

    with pytest.raises(ValueError, match="frozen"):
        mandate.account = "OTHER"  # type: ignore[misc]
