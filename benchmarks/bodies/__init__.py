"""Response bodies of eight wires, composed, with the fields and the spelling that the providers send.

A body is a list of `bytes`, one event each: text, then calls, then more text, then the end of the response. A wire that
sends arguments in pieces gets them in pieces of five characters; Gemini, Mistral and Ollama send a call whole. Each
delta of text is an event, also on wires whose providers put several words into one: that is the worst case.
"""

from __future__ import annotations

from .anthropic import anthropic
from .bedrock import bedrock
from .cohere import cohere
from .gemini import gemini
from .mistral import mistral
from .ollama import ollama
from .openai import chat, responses
from .spelling import Body, Call, pieces

__all__ = ["ANTHROPIC", "BEDROCK", "BODIES", "CHAT", "GEMINI", "OLLAMA", "Call", "pieces"]

CHAT = "openai.chat_completions"
ANTHROPIC = "anthropic.messages"
GEMINI = "gemini.generate_content"
OLLAMA = "ollama.chat"
BEDROCK = "bedrock.converse_stream"

BODIES: dict[str, Body] = {
    CHAT: chat,
    ANTHROPIC: anthropic,
    "openai.responses": responses,
    GEMINI: gemini,
    "mistral.chat": mistral,
    "cohere.chat": cohere,
    OLLAMA: ollama,
    BEDROCK: bedrock,
}
