"""Asking: one conversation until its answer can be used, with the complaints and look-ups that takes."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from pydantic import BaseModel, ValidationError

from blocks.errors import AnswerUnusable, ModelError
from blocks.mandate import Models
from blocks.models.calls import Calls, Request
from blocks.models.port import Lookup, Prompt, Role
from blocks.models.reply import Reply
from blocks.reading import complaint

T = TypeVar("T", bound=BaseModel)
_NO_ANSWER = {
    "refusal": "it was declined (refusal): answer the question as it stands, with nothing but figures and reasons",
    "max_tokens": "it was cut off (max_tokens): be shorter",
    "model_context_window_exceeded": "it was cut off (model_context_window_exceeded): be shorter",
}
_CACHED = {"cache_control": {"type": "ephemeral"}}


def satisfied(_: BaseModel) -> str:
    """Find nothing to complain of."""
    return ""


@dataclass(frozen=True)
class Asking:
    """The models of one mandate, asked by one step of one run."""

    calls: Calls
    models: Models
    step: str

    async def ask(
        self,
        role: Role,
        prompt: Prompt,
        schema: type[T],
        *,
        judge: Callable[[T], str] = satisfied,
        rounds: int = 0,
        lookups: Sequence[Lookup] = (),
        max_lookups: int = 0,
    ) -> T:
        """Return the model's answer as an object of the schema; see `ModelDoor.ask`."""
        talk = _Talk(self, role, schema, {each.name: each for each in lookups}, max_lookups)
        talk.begin(prompt)
        try:
            return await talk.answer(judge, rounds)
        except ModelError:
            self.calls.drop(talk.made)
            raise


@dataclass
class _Talk(Generic[T]):
    """One conversation: what has been said, and how much more may be."""

    asking: Asking
    role: Role
    schema: type[T]
    lookups: Mapping[str, Lookup]
    left: int
    made: list[str] = field(default_factory=list)
    system: list[dict[str, Any]] = field(default_factory=list)
    messages: list[dict[str, Any]] = field(default_factory=list)

    def begin(self, prompt: Prompt) -> None:
        again = _CACHED if self.lookups else {}  # each look-up sends the question once more
        self.system = [{"type": "text", "text": prompt.stable, **_CACHED}]
        self.messages = [{"role": "user", "content": [{"type": "text", "text": prompt.question, **again}]}]

    async def answer(self, judge: Callable[[T], str], rounds: int) -> T:
        """Go on until an answer satisfies. Raises ModelError."""
        repairs = 1
        while True:
            reply = await self._next()
            found, fault = self._read(reply)
            if found is not None:
                fault = judge(found)
                if not fault:
                    return found
                rounds -= 1
            else:
                repairs -= 1
            if min(repairs, rounds) < 0:
                name = getattr(self.asking.models, self.role).model
                raise AnswerUnusable(f"{self.role} {name}: its answer cannot be used: {fault}")
            self._complain(reply, fault)

    async def _next(self) -> Reply:
        """Return the next reply that wants nothing looked up."""
        turns = self.left + 1  # the last look-up, and one more turn in which it hears that there are none left
        while True:
            answer = await self.asking.calls.answer(self.role, self.asking.step, self._request())
            self.made.append(answer.call)
            if not answer.reply.wanted or answer.reply.stop_reason != "tool_use":
                return answer.reply
            turns -= 1
            if turns < 0:
                raise AnswerUnusable(f"{self.role}: goes on calling tools after its last look-up")
            results = [self._looked_up(block) for block in answer.reply.wanted]
            self.messages.append({"role": "assistant", "content": list(answer.reply.content)})
            self.messages.append({"role": "user", "content": results})

    def _request(self) -> Request:
        choice, wire = getattr(self.asking.models, self.role), self.asking.calls.wire
        schema = {"format": {"type": "json_schema", "schema": wire.spelled(self.schema)}}
        effort = {} if choice.effort == "default" else {"effort": choice.effort}
        tools = [
            {"name": each.name, "description": each.summary, "input_schema": wire.spelled(each.arguments)}
            for each in self.lookups.values()
        ]
        return {
            "model": choice.model,
            "max_tokens": choice.max_tokens,
            "system": self.system,
            "messages": self.messages,
            "output_config": schema | effort,
            **({"tools": tools} if tools else {}),
        }

    def _looked_up(self, wanted: Mapping[str, Any]) -> dict[str, Any]:
        text, fault = self._read_one(wanted)
        result = {"type": "tool_result", "tool_use_id": wanted.get("id"), "content": fault or text}
        return result | ({"is_error": True} if fault else {})

    def _read_one(self, wanted: Mapping[str, Any]) -> tuple[str, str]:
        """Return what a look-up found, or why there was none; a tool that it was not offered is on record."""
        name = str(wanted.get("name"))
        lookup = self.lookups.get(name)
        if lookup is None:
            self._record_attempt(name, wanted.get("input"))
            return "", f"there is no tool {name!r}; there are: {', '.join(self.lookups) or 'none'}"
        if self.left <= 0:
            return "", "no look-ups are left: answer with what you know"
        self.left -= 1
        try:
            return lookup.read(lookup.arguments.model_validate(wanted.get("input"))), ""
        except ValidationError as error:
            return "", complaint(error, lookup.arguments)
        except ValueError as error:
            return "", str(error)

    def _record_attempt(self, name: str, arguments: Any) -> None:
        calls = self.asking.calls
        body = {"run": calls.run, "step": self.asking.step, "role": self.role, "tool": name[:200]}
        calls.ledger.append(
            "model.attempt",
            body | {"arguments": json.dumps(arguments)[:2000], "offered": list(self.lookups)},
            subject=calls.scope,
        )

    def _read(self, reply: Reply) -> tuple[T | None, str]:
        """Return the object that was answered, or what is wrong with the answer."""
        if reply.stop_reason in _NO_ANSWER:
            return None, _NO_ANSWER[reply.stop_reason]
        if not reply.text.strip():
            return None, "it was empty"
        try:
            return self.schema.model_validate_json(reply.text), ""
        except ValidationError as error:
            return None, complaint(error, self.schema)

    def _complain(self, reply: Reply, fault: str) -> None:
        """Send a complaint back; a refusal, a torso or nothing is not repeated to the model as its own words."""
        said = {"type": "text", "text": f"That answer cannot be used: {fault}. Answer again, whole."}
        if reply.stop_reason not in _NO_ANSWER and reply.text.strip():
            self.messages.append({"role": "assistant", "content": list(reply.content)})
            self.messages.append({"role": "user", "content": [said]})
        else:
            self.messages[-1] = {**self.messages[-1], "content": [*self.messages[-1]["content"], said]}
