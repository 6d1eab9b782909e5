"""The demands of a provider on a history, as data: those that `streamtools.history` does not make everywhere, and in
which words the provider refuses.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from ..parts import ToolCall
from ..schema.names import PLAIN_NAMES, NameRule

ViolationCode: TypeAlias = Literal[
    "unanswered_call",  # a call without a result before the next answer of the model
    "orphan_result",  # a result that answers no call before it
    "duplicate_result",  # a second result for one call
    "results_out_of_order",  # not in the order of the calls, or not all together
    "content_before_results",  # user content between the calls and their results
    "bad_result",  # a result in a shape that the provider does not take
    "missing_field",  # a field without which the provider does not take a message or block
    "surplus_field",  # a field with which it does not
    "result_count",  # as many results as calls are wanted in one message
    "bad_id",  # the provider does not take this call id
    "duplicate_id",  # two calls with one id
    "bad_name",  # the provider does not take this tool name
    "arguments_not_object",  # neither a JSON object nor the text of one
    "empty_message",  # a message or block that says nothing
    "first_not_user",  # the first message has to be the user's
    "last_not_user",  # the model may not have the last word
    "role_order",  # a role that may not follow the one before
    "mixed_results",  # results and other content in one message that may hold one kind only
    "missing_signature",  # a call or thought without the signature that has to go back with it
    "reasoning_apart",  # a reasoning item without its call or message, or the other way round
    "missing_tools",  # the request has to declare tools when its history uses them
    "not_a_message",  # nothing that the wire knows
    "changed_prefix",  # something is not as it was in the request before
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """One reason for which a provider would refuse a history."""

    code: ViolationCode
    path: str
    """Where: ``messages[3].tool_calls[0].id``."""
    message: str
    """The fault, in words for people. No content of the history but ids, names and roles."""
    provider_text: str = ""
    """How the provider says it, as far as it was seen; ids and positions in it are those of the report."""

    def __str__(self) -> str:
        return f"{self.path}: {self.message} ({self.code})"


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryRules:
    """One wire's own demands on a history."""

    list_name: str = "messages"
    """The request's name for it (``messages``, ``input``, ``contents``), for paths."""
    role_key: str = "role"
    """The field of a message that says whose it is."""
    system: Literal["inline", "apart"] = "inline"
    """The place of a system prompt: a message among the others, or a field of the request beside them."""
    first_user: bool = False
    """The first message (after system ones) has to be the user's."""
    results_in_one_message: bool = False
    """All results of a turn stand in the one message after it."""
    results_apart: bool = False
    """A message of results holds nothing else."""
    answers_no_answer: Callable[[str], bool] = lambda model: False
    """Returns whether the model of that name refuses a history that ends with words of its own."""
    binds: Callable[[str], bool] = lambda model: False
    """Returns whether the model of that name refuses thinking of its own before which anything has changed."""
    answer_before_user: bool = False
    """After results the model has to speak before the user may (Mistral)."""
    system_stands: Literal["anywhere", "not_behind_answer", "before_answer"] = "anywhere"
    """Where a system prompt among the messages may stand: not right behind what the model said or its calls came to
    (Mistral), or only right before the model speaks, behind the user, and alone there (Anthropic)."""
    system_text: str = ""
    """In which words the provider refuses one that stands elsewhere."""
    alternate: bool = False
    """Two messages of one role in a row are refused, or joined with other meaning."""
    names: NameRule = PLAIN_NAMES
    """The names that a called tool may have."""
    namespaces: bool = False
    """A call names the namespace of its tool in a field of its own."""
    call_path: str = ""
    """Where a message has its calls, for paths (``tool_calls[{}]``); ``""`` where they stand among other things."""
    result_names: bool = False
    """A result names its tool, and has to name it as its call does."""
    call_ids_optional: bool = False
    """Calls and results may come without ids, and are then paired by name and order (Gemini, Ollama)."""
    texts: Mapping[str, str] = field(default_factory=dict)
    """By `ViolationCode`: the words in which the provider refuses, with their source in a comment beside them."""
    unanswered_texts: Mapping[str, str] = field(default_factory=dict)
    """Likewise for a call without a result, by the name of the tool, where the words differ."""
    awaits: Callable[[Sequence[Mapping[str, Any]]], tuple[str, ...] | None] = lambda messages: None
    """Returns None, unless the provider's own work waits for the results of calls, and takes nothing else with them;
    then the fields of `Wire.carries` without which such a request is refused."""
    check: Callable[[Sequence[Mapping[str, Any]]], Iterable[Violation]] | None = None
    """Rules that no other wire has, on the native messages."""
    mend: Callable[[list[Any]], list[Any]] | None = None
    """Mends what `check` finds. It returns the same list if there is nothing to do, keeps the messages that
    it does not change, and changes none in place."""
    join: Callable[[Sequence[Mapping[str, Any]]], dict[str, Any]] | None = None
    """Messages of one role as one, where `alternate` asks for it."""
    for_model: Callable[[str], HistoryRules] | None = None
    """The rules of one model, by its name, where an endpoint has models that demand more (Bedrock)."""

    def accepts_name(self, call: ToolCall) -> bool:
        """Returns whether the name of a call that stands in such a history may stay as it is."""
        return self.names.accepts(call.local_name if self.namespaces else call.name)

    def violation(self, code: ViolationCode, path: str, message: str, text: str | None = None) -> Violation:
        """Returns a violation of these rules, in the provider's words: those of `texts` unless others are given."""
        said = self.texts.get(code, "") if text is None else text
        return Violation(code=code, path=path, message=message, provider_text=said)


_CLAUDE = re.compile(r"claude-(?:[a-z]+-)?(\d{1,2})(?:[-.](\d{1,2}))?(?!\d)")  # `claude-sonnet-4-20250514` is 4.0


def claude_since(major: int, minor: int) -> Callable[[str], bool]:
    """Returns a function that says whether a model is Claude of that version or later, on whatever endpoint.

    Since 4.6 it takes no unfinished answer, and since 5.1 it binds thinking to all that stands before it:
    https://platform.claude.com/docs/en/about-claude/models/whats-new-claude-4-6#prefill-removal
    https://platform.claude.com/docs/en/build-with-claude/preserved-thinking/prefix-checks
    """

    def is_later(model: str) -> bool:
        found = _CLAUDE.search(model.lower())
        return found is not None and (int(found[1]), int(found[2] or 0)) >= (major, minor)

    return is_later


def joined(messages: Sequence[Mapping[str, Any]], key: str) -> dict[str, Any]:
    lists = (message.get(key) for message in messages)
    return {**messages[0], key: [item for found in lists if isinstance(found, list) for item in found]}
