"""Every error Tradewright raises on purpose, as one tree."""


class TradewrightError(Exception):
    """Something the user should read; its text is the whole message."""


class UnusableInput(TradewrightError):
    """What was handed in cannot be used: the command line answers with exit 2."""


class PlanError(TradewrightError):
    """The plan cannot be carried out as written."""


class NothingToReplan(TradewrightError):
    """The plan needs no further revision, or another run has claimed it."""


class StalePlan(TradewrightError):
    """The world has left the plan's assumptions."""


class MarketError(TradewrightError):
    """The market data that was asked for is missing or cannot be trusted."""


class LedgerError(TradewrightError):
    """The ledger refuses: what was asked would contradict what it holds."""


class LeaseTaken(LedgerError):
    """Another run holds the account."""


class BrokerError(TradewrightError):
    """The broker could not do what was asked."""


class BrokerUnavailable(BrokerError):
    """No answer: look the order up by its reference before trying again."""


class OrderRefused(BrokerError):
    """The broker said no to this order: trying again will not help."""


class ModelError(TradewrightError):
    """A language model gave no answer that can be used: whatever hung on it holds."""


class ModelUnavailable(ModelError):
    """Nothing answered: the service is down, too busy, too slow, or refuses the key or the request."""


class AnswerUnusable(ModelError):
    """It answered, and what it said cannot be used even after the complaint was sent back."""


class BudgetSpent(ModelError):
    """The call might cost more than is left of the objective's budget: it was not sent."""
