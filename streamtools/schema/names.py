"""Turns invalid names into valid ones: the same in every process, and all different."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection
from dataclasses import dataclass

from ..ground.text import PLAIN_NAME_CHARACTERS, PLAIN_NAME_LENGTH

_DIGITS = 6  # of the hash at the end of a changed name


def qualified(namespace: str | None, name: str) -> str:
    return f"{namespace}.{name}" if namespace else name


@dataclass(frozen=True, slots=True)
class NameRule:
    """Describes the names that a target accepts for tools or for properties."""

    start: str  # the first character, as the inside of a character class
    rest: str  # the characters after it, likewise
    length: int  # the number of characters that it may have

    @property
    def pattern(self) -> str:
        if self.start == self.rest:
            return f"[{self.rest}]{{1,{self.length}}}"
        return f"[{self.start}][{self.rest}]{{0,{self.length - 1}}}"

    def accepts(self, name: str) -> bool:
        return re.fullmatch(self.pattern, name) is not None

    def cleaned(self, name: str) -> str:
        """Returns a valid name for a call of a name that the model made up."""
        # No tool has the name, so it may become that of another: only the history of the call has it.
        return self._in_characters(name)[: self.length] if name else "unknown_tool"

    def fitted(self, name: str, used: Collection[str] = ()) -> str:
        """Returns a valid name that is not `used`: `name` itself, else its valid characters and a hash of the whole."""
        if self.accepts(name):
            return name
        # Of the name alone: so it is the same in every process, and does not depend on the other tools of a request.
        digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()
        plain = self._in_characters(name)
        for digits in range(_DIGITS, len(digest)):  # a longer hash where the usual one is in use
            fitted = f"{plain[: self.length - digits - 1]}_{digest[:digits]}"
            if fitted not in used:
                return fitted
        raise AssertionError("another name with all digits of the hash would have the same hash")

    def _in_characters(self, name: str) -> str:
        plain = re.sub(f"[^{self.rest}]", "_", name)
        return plain if re.match(f"[{self.start}]", plain) else f"_{plain}"


# "The name of the function to be called. Must be a-z, A-Z, 0-9, or contain underscores and dashes, with a maximum
# length of 64." https://platform.openai.com/docs/api-reference/chat/create . Mistral and Cohere take the same, as does
# Bedrock: https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ToolSpecification.html
PLAIN_NAMES = NameRule(PLAIN_NAME_CHARACTERS, PLAIN_NAME_CHARACTERS, PLAIN_NAME_LENGTH)

TOOL_NAMES = NameRule("a-zA-Z_", "a-zA-Z0-9_.-", 64)
"""The names that a tool may have in this package: short enough for every provider. A dot is replaced for some."""
