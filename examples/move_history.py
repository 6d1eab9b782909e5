"""Moves a conversation from one provider to another.

The history below is that of an application after a cancelled request: Claude called two tools, and only one of them
ran. It is checked, repaired, and moved to Chat Completions and to Mistral, each of which wants other ids, other places
for the results, and none of Claude's signatures.

    python examples/move_history.py
"""

from __future__ import annotations

from typing import Any

from streamtools.history import convert, lint, repair

CLAUDE = "anthropic.messages"

history: list[Any] = [
    {"role": "user", "content": "Is it warmer in Oslo or in Lima?"},
    {
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": "I need both.", "signature": "EqQBCkYIBxgC"},
            {"type": "text", "text": "Let me look."},
            {"type": "tool_use", "id": "toolu_01A", "name": "weather", "input": {"city": "Oslo"}},
            {"type": "tool_use", "id": "toolu_01B", "name": "weather", "input": {"city": "Lima"}},
        ],
    },
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_01A", "content": "4 degrees"}]},
    {"role": "user", "content": "Never mind Lima."},
]


def main() -> None:
    """Checks, repairs and moves the history."""
    for violation in lint(history, CLAUDE):
        print(f"refused: {violation}\n    {violation.provider_text}")

    whole = repair(history, CLAUDE)
    print(f"repaired: {len(lint(whole, CLAUDE))} violations left; the answer is still the same object:", end=" ")
    print(whole[1] is history[1])

    for target in ("openai.chat_completions", "mistral.chat"):
        moved = convert(whole, CLAUDE, target, system="Be brief.")
        print(f"\n{target}, without {', '.join(moved.losses)}")
        for message in moved.messages:
            calls = [f"{call['function']['name']} as {call['id']}" for call in message.get("tool_calls", [])]
            print(f"  {message['role']:9} {message.get('content')}", *calls)


if __name__ == "__main__":
    main()
