"""Lists the ways in which a model may call tools, and chooses one by an ordered table of model names.

A name is compared in lower case and without the parts before the model: the vendor (``openai/gpt-4o``,
``anthropic.claude-...``), a region (``us.``), a path (``accounts/fireworks/models/``); for a fine-tune, the model
behind ``ft:`` counts. Ollama's ``mistral:7b`` is ``mistral-7b``. The first rule that fits decides. No request is made.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import Enum

from .adapter import StreamingAdapter
from .native import NativeToolAdapter
from .text_modes import JSONObjectAdapter, OpenAIStructuredAdapter, ParsedAdapter, ValidatedAdapter

__all__ = ["DEFAULT_RULES", "ModelRule", "ToolCallingMode", "get_adapter", "mode_for"]


class ToolCallingMode(Enum):
    """The way in which a model calls tools."""

    AUTO = "auto"
    """Chosen by the model's name: see `streamtools.modes.DEFAULT_RULES`."""
    NATIVE = "native"
    """The API's own tool calling."""
    STRUCTURED = "structured"
    """A JSON Schema that the provider enforces for the whole answer."""
    VALIDATED = "validated"
    """JSON in the text, validated by the tool before it may run."""
    PARSED = "parsed"
    """JSON in the text as it comes. Nothing is validated, and the record of each call says so."""


NATIVE, STRUCTURED, VALIDATED = ToolCallingMode.NATIVE, ToolCallingMode.STRUCTURED, ToolCallingMode.VALIDATED


@dataclass(frozen=True, slots=True)
class ModelRule:
    """A rule that models of certain names are used in a certain mode.

    >>> ModelRule("my-model", ToolCallingMode.STRUCTURED).fits("acme/my-model-v2")
    True

    Raises:
        ValueError: the pattern is no regular expression, or the mode is ``AUTO``.
    """

    pattern: str
    """A regular expression that the name has to begin with, so that a plain name is a prefix. One with a ``/`` in it
    is compared with the whole name, vendor included."""
    mode: ToolCallingMode
    why: str = field(default="", compare=False)
    """The reason, for readers of the table."""
    _match: re.Pattern[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.mode is ToolCallingMode.AUTO:
            raise ValueError(f"ModelRule({self.pattern!r}): AUTO is no mode that a rule can lead to")
        try:
            compiled = re.compile(self.pattern, re.IGNORECASE)
        except re.error as error:
            raise ValueError(f"ModelRule({self.pattern!r}): {error}") from None
        object.__setattr__(self, "_match", compiled)

    def fits(self, model: str) -> bool:
        """Returns whether the rule applies to this model."""
        name = model.strip().lower()
        return self._match.match(name if "/" in self.pattern else _bare(name)) is not None


_FINE_TUNE = re.compile(r"(?:^|/)ft:([^:/]+)")
_DOTTED_VENDOR = re.compile(
    r"(?:(?:us|eu|apac|global|jp|au|ca|us-gov)\.)?"
    r"(?:(?:ai21|amazon|anthropic|cohere|google|meta|minimax|mistral|moonshot|moonshotai|nvidia|openai|qwen|writer|zai)\."
    r"|(?=deepseek\.))"  # Bedrock's `deepseek.r1` has no more than that
)


def _bare(name: str) -> str:
    """Returns the model's name without vendor, path and region; for a fine-tune, the name of its base model."""
    tuned = _FINE_TUNE.search(name)
    name = tuned[1] if tuned else name.rpartition("/")[2]
    dotted = _DOTTED_VENDOR.match(name)
    return (name[dotted.end() :] if dotted else name).replace(":", "-")


def mode_for(model: str, rules: Iterable[ModelRule] | None = None) -> ToolCallingMode | None:
    """Returns the mode of the first rule that fits; None if none does.

    >>> mode_for("openai/gpt-4o-mini"), mode_for("mistral-7b"), mode_for("my-own")
    (<ToolCallingMode.STRUCTURED: 'structured'>, <ToolCallingMode.VALIDATED: 'validated'>, None)

    Args:
        model: the model's name as the request has it.
        rules: in order; `DEFAULT_RULES` by default.
    """
    for rule in DEFAULT_RULES if rules is None else rules:
        if rule.fits(model):
            return rule.mode
    return None


_SIZE = r".*?(?<![a-z0-9.])\d+(?:\.\d+)?(?:x\d+(?:\.\d+)?)?b(?![a-z0-9])"

_NEITHER = "takes neither tools nor a schema"

DEFAULT_RULES: tuple[ModelRule, ...] = (
    # -- OpenAI: since gpt-4o a schema for the whole answer; exceptions first
    # (https://platform.openai.com/docs/guides/structured-outputs, and the models' pages)
    ModelRule("gpt-4o-2024-05-13", NATIVE, "json_schema begins with gpt-4o-2024-08-06"),
    ModelRule("gpt-4o(-mini)?-(audio|realtime)", NATIVE, "tools, but no json_schema"),
    ModelRule("chatgpt-4o", VALIDATED, _NEITHER),
    ModelRule("o1-(mini|preview)", VALIDATED, _NEITHER),
    ModelRule("gpt-4o", STRUCTURED),
    ModelRule(r"gpt-4\.[15]", STRUCTURED),
    ModelRule(r"o[134](?![a-z0-9])", STRUCTURED),
    ModelRule(r"gpt-3\.?5", NATIVE, "Azure writes gpt-35-turbo"),
    ModelRule("gpt-(?:[5-9]|[1-9][0-9])(?![0-9b])", STRUCTURED, "GPT-5 and what follows it"),
    ModelRule("gpt-oss", STRUCTURED, "of any size; servers compile the schema to a grammar"),
    ModelRule("gpt-4", NATIVE),
    # -- open weights with calls in their own chat template (see the models' cards), whatever their size
    ModelRule(
        "(?:meta-)?llama-?v?[34](?![0-9])", NATIVE, "Llama 3 and 4; 3.0 was not trained for it, yet servers offer it"
    ),
    ModelRule(r"qwen-?(?:2\.5|[3-9](?![0-9b]))", NATIVE),
    ModelRule("qwq", NATIVE),
    ModelRule(r"deepseek[-.](?:chat|reasoner|v(?:2\.5|[3-9]))", NATIVE),
    ModelRule(r"deepseek\.r1", VALIDATED, "Bedrock's has no tool use in its Converse API"),
    ModelRule(r"deepseek-r1(?!.*(?:distill|qwen|llama|-\d+(?:\.\d+)?b))", NATIVE, "since R1-0528; not its distillates"),
    ModelRule("(?:ministral|devstral|magistral|pixtral|codestral)", NATIVE),
    ModelRule("(?:open-)?mistral-(?:small|medium|large|nemo)", NATIVE),
    ModelRule("glm-?[4-9](?![0-9b])", NATIVE),
    ModelRule("(?:kimi|moonshot)", NATIVE),
    ModelRule("minimax", NATIVE),
    ModelRule("(?:c4ai-)?command-(?:r|a)", NATIVE, "Cohere Command R, R+, R7B and A"),
    ModelRule(r"(?:functiongemma|gemma-?[4-9](?![0-9b]))", NATIVE, "calls in its template since Gemma 4"),
    ModelRule("(?:nous-)?hermes-?[2-9](?![0-9b])", NATIVE),
    ModelRule("granite-?[34](?![0-9b])", NATIVE),
    ModelRule("phi-?4-mini", NATIVE),
    ModelRule("lfm-?2(?![0-9b])", NATIVE),
    ModelRule("(?:nvidia-)?nemotron", NATIVE),
    # -- any other name with a size in it is a local model, also of a vendor whose hosted models are NATIVE: its server
    # may have no template for calls
    ModelRule(_SIZE, VALIDATED, "mistral-7b, codellama-7b, deepseek-coder-6.7b"),
    ModelRule("gemma", VALIDATED, "up to 3: no tokens for calls"),
    ModelRule("phi", VALIDATED),
    ModelRule("codellama", VALIDATED),
    # -- vendors
    ModelRule(r"claude-(?:v?[12]|instant)(?![0-9])", VALIDATED, "tools begin with Claude 3"),
    ModelRule("claude", NATIVE),
    ModelRule("gemini", NATIVE),
    ModelRule("grok", NATIVE),
    ModelRule("nova", NATIVE, "Amazon"),
    ModelRule("jamba", NATIVE),
    ModelRule("(?:mistral|mixtral)", NATIVE),
    ModelRule("llama", NATIVE),
    ModelRule("(?:qwen|qvq)", NATIVE),
    ModelRule("deepseek", NATIVE),
    ModelRule(
        "(?:openai|anthropic|google|meta-llama|mistralai|qwen|deepseek|deepseek-ai|x-ai|z-ai|moonshotai|cohere)/",
        NATIVE,
        "as OpenRouter offers any other name of these vendors",
    ),
)
"""The rules as of 2026-11-21, in order. Put yours before them: ``[ModelRule(...), *DEFAULT_RULES]``."""


_ADAPTERS: dict[ToolCallingMode, Callable[[], StreamingAdapter]] = {
    ToolCallingMode.NATIVE: NativeToolAdapter,
    ToolCallingMode.STRUCTURED: OpenAIStructuredAdapter,
    ToolCallingMode.VALIDATED: ValidatedAdapter,
    ToolCallingMode.PARSED: ParsedAdapter,
}


def get_adapter(
    model: str, mode: ToolCallingMode | str = ToolCallingMode.AUTO, *, rules: Iterable[ModelRule] | None = None
) -> StreamingAdapter:
    """Returns the adapter for a model. No request is sent: the name decides.

    >>> type(get_adapter("gpt-4o-mini")).__name__, type(get_adapter("gpt-4o", "native")).__name__
    ('OpenAIStructuredAdapter', 'NativeToolAdapter')

    Args:
        model: the model's name as the request has it.
        mode: the way its tools are called; ``AUTO`` finds it by the name. A model that no rule knows gets JSON mode,
            with the tools in the system prompt, and validation.
        rules: instead of `DEFAULT_RULES`; ``[ModelRule(...), *DEFAULT_RULES]`` puts yours before them.

    Raises:
        TypeError: `model` is no text.
        ValueError: there is no such mode.
    """
    if not isinstance(model, str):
        raise TypeError(
            f"get_adapter() needs the model's name as the request has it, not {type(model).__name__}; "
            "write get_adapter('gpt-4o-mini')"
        )
    try:
        chosen: ToolCallingMode | None = ToolCallingMode(mode)
    except ValueError:
        known = ", ".join(known.value for known in ToolCallingMode)
        raise ValueError(f"there is no mode {mode!r}; there are: {known}") from None
    if chosen is ToolCallingMode.AUTO:
        chosen = mode_for(model, rules)
    if chosen is None:
        return ValidatedAdapter(JSONObjectAdapter())
    return _ADAPTERS[chosen]()
