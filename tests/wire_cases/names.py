"""The names of the library's wires, for tests that are about one of them."""

from __future__ import annotations

__all__ = [
    "ANTHROPIC", "BEDROCK", "CHAT", "COHERE", "GEMINI", "INTERACTIONS", "LIVE", "MISTRAL", "OLLAMA", "REALTIME",
    "RESPONSES",
]  # fmt: skip

CHAT = "openai.chat_completions"
REALTIME = "openai.realtime"
RESPONSES = "openai.responses"
ANTHROPIC = "anthropic.messages"
GEMINI = "gemini.generate_content"
INTERACTIONS = "gemini.interactions"
LIVE = "gemini.live"
MISTRAL = "mistral.chat"
COHERE = "cohere.chat"
OLLAMA = "ollama.chat"
BEDROCK = "bedrock.converse_stream"
