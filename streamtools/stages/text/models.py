"""Finds the dialect of a model by its name.

The names are those of model hubs and servers (``Qwen/Qwen3-8B``, ``qwen3:8b``, ``qwen.qwen3-32b-v1:0``): only the part
behind the last slash counts, without a tag, in lower case, with hyphens for blanks and underscores.
"""

from __future__ import annotations

import re
from typing import NamedTuple

__all__ = ["FAMILIES", "Family", "dialect_of"]


class Family(NamedTuple):
    """Models that write calls in the same dialect."""

    models: str
    """Their names, for people."""
    dialect: str
    pattern: str
    """A regular expression that is found in their names."""


FAMILIES = (
    Family("DeepSeek V3 to V4.1, R1", "deepseek", r"deepseek"),
    Family("Kimi K3", "kimi_k3", r"kimi-?k3"),
    Family("Kimi K2", "kimi", r"kimi"),
    Family("Hermes 2 to 4", "hermes", r"hermes"),
    Family("xLAM", "xlam", r"xlam"),
    Family("ToolACE", "pythonic", r"toolace"),
    Family("Qwen3-Coder, Qwen 3.5 and later", "qwen3_coder", r"qwen-?3-coder|qwen-?3\.[5-9]|qwen-?[4-9]\b"),
    Family("Nemotron 3", "qwen3_coder", r"nemotron-?3"),
    Family("Step 3.5 and later", "qwen3_coder", r"step-?(3\.[5-9]|[4-9])"),
    Family("MiMo", "qwen3_coder", r"mimo"),
    Family("Seed-OSS", "qwen3_coder", r"seed-?oss"),
    Family("Qwen 2.5 and 3, QwQ", "hermes", r"qwen|qwq"),
    Family("Granite 4", "hermes", r"granite-?[4-9]"),
    Family("ERNIE 4.5", "hermes", r"ernie"),
    Family("GLM 4.5 and later", "glm", r"glm-?(4\.[5-9]|[5-9])"),
    Family("Ling 3", "glm", r"ling-?3"),
    Family("Laguna", "glm", r"laguna"),
    Family("MiniMax M3", "minimax_m3", r"minimax-?m3"),
    Family("MiniMax M2", "minimax", r"minimax"),
    Family("Gemma 4, FunctionGemma", "gemma", r"gemma-?4|function-?gemma"),
    Family("gpt-oss", "harmony", r"gpt-?oss"),
    Family("Llama 3.2 and 4", "pythonic", r"llama-?(3[.-]2|4)\b"),
    Family("LFM2, LFM2.5", "pythonic", r"lfm-?2"),
    Family("Llama 3.1, 3.3", "llama3", r"llama-?3"),
    Family(
        "Mistral, Ministral, Devstral, Magistral", "mistral", r"mistral|ministral|devstral|magistral|codestral|mixtral"
    ),
    Family("Command R to 4", "cohere", r"command-|c4ai"),
    Family("Hunyuan A13B, HY V3 and V4", "hunyuan", r"hunyuan|^hy-?v?[34]"),
    Family("Jamba", "hunyuan", r"jamba"),
    Family("Granite 3, Granite 20B", "granite", r"granite"),
    Family("Phi-4-mini", "phi4_mini", r"phi-?4-mini"),
    Family("InternLM 2.5, 3", "internlm", r"internlm"),
    Family("MiniCPM5", "minicpm", r"minicpm-?5"),
    Family("Step 3", "step3", r"step-?3"),
    Family("dots", "dots", r"^dots\b"),
    Family("GigaChat 3", "gigachat", r"gigachat-?3"),
    Family("Apertus", "apertus", r"apertus"),
    Family("LongCat", "longcat", r"longcat"),
    Family("OLMo 3", "olmo3", r"olmo-?3"),
    Family("Inkling", "inkling", r"inkling"),
    Family("Muse, Glimmer", "muse", r"^muse\b|glimmer"),
    Family("K2 Horizon", "k2_horizon", r"k2-horizon"),
)
"""All families; the first one whose pattern is found in a name counts."""

_PATTERNS = tuple((re.compile(family.pattern), family.dialect) for family in FAMILIES)


def dialect_of(model: str | None) -> str | None:
    """Returns the name of the dialect in which a model writes calls; None if the model is not known.

    >>> dialect_of("Qwen/Qwen3-Coder-480B-A35B-Instruct"), dialect_of("llama3.1:8b"), dialect_of("gpt-5")
    ('qwen3_coder', 'llama3', None)
    """
    if model is None:
        return None
    name = re.sub(r"[\s_]+", "-", model.rpartition("/")[2].partition(":")[0].lower())
    return next((dialect for pattern, dialect in _PATTERNS if pattern.search(name)), None)
