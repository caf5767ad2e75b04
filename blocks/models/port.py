"""The models door: ask a model for one object, and let it look things up with exactly the tools it is offered."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeVar

from pydantic import BaseModel

Role = Literal["planner", "executor", "reviewer"]
T = TypeVar("T", bound=BaseModel)


@dataclass(frozen=True)
class Prompt:
    """What a model is told: `stable` first, ours alone and the same in every call of a kind, so that it is cached."""

    stable: str
    question: str


@dataclass(frozen=True)
class Lookup:
    """A tool that a model may call while it answers: it reads, it changes nothing.

    `read` gets checked arguments and returns text. What it raises as ValueError is told to the model as its mistake.
    """

    name: str
    summary: str
    arguments: type[BaseModel]
    read: Callable[[BaseModel], str]


class ModelDoor(Protocol):
    """Ask a language model. A step that holds this door can spend its budget, and nothing else."""

    async def ask(
        self,
        role: Role,
        prompt: Prompt,
        schema: type[T],
        *,
        judge: Callable[[T], str] = ...,
        rounds: int = ...,
        lookups: Sequence[Lookup] = ...,
        max_lookups: int = ...,
    ) -> T:
        """Return the model's answer as an object of the schema.

        An answer that is none goes back once with the exact complaint; one that `judge` complains of (it returns the
        complaint, or nothing) goes back at most `rounds` times. Raises ModelError: ModelUnavailable where nothing
        answers, AnswerUnusable where nothing usable does, BudgetSpent before a call that does not fit.
        """
        ...
