"""Describes, as data, a provider's own rules for a history, and the words in which it refuses one."""

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
    """A reason for which a provider would refuse a history."""

    code: ViolationCode
    path: str
    """The place: ``messages[3].tool_calls[0].id``."""
    message: str
    """The fault in words, with no content of the history but ids, names and roles."""
    provider_text: str = ""
    """The provider's own words, if they are known; their ids and positions are those of the report."""

    def __str__(self) -> str:
        return f"{self.path}: {self.message} ({self.code})"


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryRules:
    """The rules of one wire for a history."""

    list_name: str = "messages"
    """The request's name for the history (``messages``, ``input``, ``contents``), for paths."""
    role_key: str = "role"
    """The field of a message that contains its role."""
    system: Literal["inline", "apart"] = "inline"
    """The place of a system prompt: a message among the others, or a field of the request."""
    first_user: bool = False
    """True if the first message (after system ones) has to be the user's."""
    results_in_one_message: bool = False
    """True if all results of a turn have to be in the one message after it."""
    results_apart: bool = False
    """True if a message of results may contain nothing else."""
    answers_no_answer: Callable[[str], bool] = lambda model: False
    """Returns whether the named model refuses a history that ends with its own words."""
    binds: Callable[[str], bool] = lambda model: False
    """Returns whether the named model refuses its own thinking after a change of anything before it."""
    answer_before_user: bool = False
    """True if the model has to speak between results and the user (Mistral)."""
    system_stands: Literal["anywhere", "not_behind_answer", "before_answer"] = "anywhere"
    """The allowed places of a system prompt among the messages: not directly after the model or its results (Mistral),
    or only alone between the user and the model (Anthropic)."""
    system_text: str = ""
    """The words in which the provider refuses one in another place."""
    alternate: bool = False
    """True if two messages of one role in a row are refused, or joined with a different meaning."""
    names: NameRule = PLAIN_NAMES
    """The allowed names of a called tool."""
    namespaces: bool = False
    """True if a call has a separate field for its tool's namespace."""
    call_path: str = ""
    """The path of the calls in a message (``tool_calls[{}]``); ``""`` where calls are mixed with other content."""
    result_names: bool = False
    """True if a result names its tool, which has to be the name in its call."""
    call_ids_optional: bool = False
    """True if calls and results may lack ids, and are then paired by name and order (Gemini, Ollama)."""
    texts: Mapping[str, str] = field(default_factory=dict)
    """The provider's words for each `ViolationCode`, with their source in a comment beside them."""
    unanswered_texts: Mapping[str, str] = field(default_factory=dict)
    """The provider's words for a call without a result, by the name of the tool, where they differ."""
    awaits: Callable[[Sequence[Mapping[str, Any]]], tuple[str, ...] | None] = lambda messages: None
    """Returns the fields of `Wire.carries` that a request needs while the provider's own work waits for results of
    calls, and accepts nothing else; otherwise None."""
    check: Callable[[Sequence[Mapping[str, Any]]], Iterable[Violation]] | None = None
    """Checks rules that no other wire has, on the native messages."""
    mend: Callable[[list[Any]], list[Any]] | None = None
    """Repairs the findings of `check`. Returns the same list if there are none, keeps unchanged messages, and changes
    none in place."""
    join: Callable[[Sequence[Mapping[str, Any]]], dict[str, Any]] | None = None
    """Joins messages of one role, where `alternate` requires it."""
    for_model: Callable[[str], HistoryRules] | None = None
    """Returns the rules of the named model, where an endpoint has models with more rules (Bedrock)."""

    def accepts_name(self, call: ToolCall) -> bool:
        """Returns whether the name of a call in the history may stay unchanged."""
        return self.names.accepts(call.local_name if self.namespaces else call.name)

    def violation(self, code: ViolationCode, path: str, message: str, text: str | None = None) -> Violation:
        """Returns a violation of these rules, in the provider's words: those of `texts`, unless you pass others."""
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
