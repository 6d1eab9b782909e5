"""The names of the library's wires, for tests that are about one of them."""

from __future__ import annotations

__all__ = ["ANTHROPIC", "BEDROCK", "CHAT", "COHERE", "GEMINI", "MISTRAL", "OLLAMA", "RESPONSES"]

CHAT = "openai.chat_completions"
RESPONSES = "openai.responses"
ANTHROPIC = "anthropic.messages"
GEMINI = "gemini.generate_content"
MISTRAL = "mistral.chat"
COHERE = "cohere.chat"
OLLAMA = "ollama.chat"
BEDROCK = "bedrock.converse_stream"
