"""Lists every bound on the peer: its default, and where the number comes from.

Each field is checked before the copy it guards. Exceeding it is a `LimitExceeded` (the stream) or an `Observation` (one
call) that names the field.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

from .ground.text import shown_by

__all__ = ["Limits", "checked_bound"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds for one stream. Sizes are bytes, times are seconds; pass only what you want to change.

    >>> Limits(max_concurrency=4).max_concurrency
    4
    """

    # -- the stream --
    max_event_bytes: int = 8 << 20
    """One event-stream line or joined event (openai-node caps a frame at 8 MiB since openai/openai-node#2411)."""
    max_stream_bytes: int = 256 << 20
    """The whole response body."""
    max_text_bytes: int = 16 << 20
    """Text, reasoning and refusal kept in the turn, counted in characters."""
    # -- its calls --
    max_tool_calls: int = 128
    """Calls announced in one turn."""
    max_argument_bytes: int = 1 << 20
    """One call's arguments, counted in characters. The call becomes ``invalid`` (``argument_too_large``)."""
    max_total_argument_bytes: int = 8 << 20
    """The arguments of all calls of a turn together."""
    max_json_depth: int = 64
    """Nesting of one call's arguments. The call becomes ``invalid`` (``too_deep``)."""
    max_argument_containers: int = 50_000
    """Objects and arrays in one call's arguments: Python's garbage collector looks at each of them, and nothing else
    runs meanwhile. The call becomes ``invalid`` (``argument_too_large``)."""
    max_id_bytes: int = 8 << 10
    """A call id, with a signature in it at some gateways; a longer one is replaced by a synthesised id."""
    max_name_bytes: int = 128
    """A tool name; a call with a longer one becomes ``invalid`` (``name_too_long``)."""
    # -- its blocks, and connections with several responses --
    max_open_blocks: int = 1024
    """Content blocks of one message."""
    max_open_responses: int = 64
    """Responses of one connection (`streamtools.sources.responses`) that have not ended, or were not taken yet (OpenAI
    has 16 active ones on 32 lanes)."""
    max_waiting_bytes: int = 16 << 20
    """Events of such responses, as they came, that wait until they are read; and chunks of a tapped response
    (`streamtools.integrations.httpx`) that wait to be decoded; beyond that its copy is dropped."""
    max_path_depth: int = 64
    """Steps of a path into arguments that come piece by piece (Gemini). The call becomes ``invalid`` (``bad_path``)."""
    max_array_index: int = 10_000
    """The greatest list index in such a path. The call becomes ``invalid`` (``bad_path``)."""
    # -- results and errors --
    max_result_bytes: int = 1 << 20
    """One result's text for the model; a longer one is cut, with a note."""
    max_indexed_bytes: int = 32 << 20
    """Text of a run in which the values of arguments are looked for (``policy=``), counted in characters. If there is
    more, values that are not the user's are asked about."""
    max_result_media_bytes: int = 20 << 20
    """Images and files of one result together, as base64; any beyond that become placeholders (Anthropic takes 32 MB a
    request, OpenAI 50 MB)."""
    max_error_excerpt: int = 512
    """Characters of the peer's bytes that an error message may quote."""
    # -- foreign tools, and their lists --
    max_schema_bytes: int = 256 << 10
    """A foreign tool's JSON Schema, written as JSON. A larger one is refused (`SchemaError`)."""
    max_schema_nodes: int = 10_000
    """Subschemas of a foreign schema (Notion's and GitHub's tools have some hundreds)."""
    max_schema_values: int = 30_000
    """JSON values in a foreign schema, whatever holds them: a ``default`` is not a subschema and costs memory, too, an
    empty list 20 times its text (an ``enum`` of all airports has some 10,000)."""
    max_schema_depth: int = 64
    """Nesting of a foreign schema, and of the values that its references may make a validator follow."""
    max_pattern_chars: int = 1024
    """One ``pattern`` of a foreign schema."""
    max_validation_steps: int = 4_000_000
    """Schemas applied to values while one call's arguments are checked by a foreign schema, or as much other work (some
    0.2 s at the worst; a call needs tens), counted before it begins. The call becomes ``invalid``; a schema of which
    one small value can take more is refused (`SchemaError`)."""
    max_message_bytes: int = 1 << 20
    """One message of an MCP server, over the transports of `streamtools.mcp` (the MCP SDK has as much for an event, and
    no bound for a line or body); a JSON value counts as at least 20. The request is answered with an error instead."""
    max_listed_tools: int = 1_000
    """Tools taken from one MCP server's list; any beyond that are left out and listed as refused."""
    max_list_bytes: int = 8 << 20
    """Descriptions and schemas of one such list together, as JSON (GitHub's hundred tools have a quarter of a million
    bytes; no model takes 8 MiB of tools). Tools beyond that are left out and listed as refused."""
    max_list_values: int = 50_000
    """JSON values in all schemas of one such list (a hundred tools of real servers have some 20,000); each costs up to
    some kilobyte, once compiled. Tools beyond that are left out and listed as refused."""
    max_list_pages: int = 100
    """Pages of one such list, which may have no end."""
    max_description_chars: int = 16_384
    """One foreign tool's description. A longer one is refused, not cut: the end may hold the warning."""
    # -- what runs at once, and how often --
    max_progress_events: int = 1_000
    """Progress that an MCP server may report about one call; later reports are dropped."""
    max_waiting_progress: int = 1_000
    """Events waiting for the consumer, or for a branch that is waited for; while there are that many, tools' reports
    are dropped, and counted (``progress_dropped``)."""
    max_concurrency: int = 16
    """Tools running at once in one pipeline, or in all that share a `CallPool`; more wait."""
    max_repeated_calls: int | None = 32
    """Times that one tool is called with the same arguments within a run (trajectory), whether they are valid or not;
    the next calls are ``denied``, so that a model learns that it goes in circles. None: no limit."""
    max_model_retries: int = 3
    """Calls of one tool within a run that could not be used: their arguments were invalid, they were repeated too
    often, or the tool asked for better arguments (`ModelRetry`). Calls of tools that do not exist are counted together.
    After that many, the model reads that it is not to call again."""
    call_budget: int | None = None
    """Calls that a run (trajectory) may run, over all its steps; the next calls are ``over_budget``. A call counts once
    it is to run, and no more if it ends without having begun. None: no limit."""
    token_budget: int | None = None
    """Tokens of a run, as its responses count them when they end: input and output. Once so many are spent, no further
    call runs (``over_budget``), and `agent_loop` asks no more (``budget``). None: no limit."""
    max_background_jobs: int = 8
    """Calls of ``background=True`` tools that go on at once in one run; the next ones ``failed``."""
    max_threads: int = 8
    """Threads that run sync tools at once in one pipeline; more wait."""
    max_abandoned_threads: int = 8
    """Threads of the process still busy with a sync tool that was given up; from that number on no sync tool is
    started. Those that run then may be given up, too: `max_threads` more at most. Threads that wait for an abandoned
    sync stream are counted apart, and bounded alike."""
    # -- times --
    tool_timeout: float | None = 120.0
    """Seconds that a tool may run if it has no ``timeout`` of its own. None: no limit."""
    cancel_grace: float = 5.0
    """Seconds for closing the source, and for a cancelled tool's own cleanup. A tool that goes on for longer after it
    was cancelled or timed out is waited for without bound, and reported (``tool_unresponsive``)."""
    first_chunk_timeout: float | None = None
    """Seconds until the source must have brought something, from the request (``requested_at=``), else from the block's
    entry; then it is a `DeadlineExceeded`. None: no limit."""
    step_timeout: float | None = None
    """Seconds for the whole step, its calls and approvals included; then it is a `DeadlineExceeded`, and calls that run
    are ``cancelled``. None: no limit."""
    run_timeout: float | None = None
    """The same for all steps of a run (trajectory), from the first one's beginning; requests that `agent_loop` makes
    count, too. None: no limit."""
    idle_timeout: float | None = 120.0
    """Seconds that the source may be silent; then it is a `TruncatedStream`. Anything that comes counts, keep-alives
    too; while the consumer is behind nothing is expected, and time in which the process is stopped does not count.
    None: no limit."""
    # -- files and queues --
    max_recording_bytes: int = 256 << 20
    """One file of `streamtools.record.record`. A recording ends where it is full, with a note; the run goes on."""
    event_buffer: int = 256
    """Events that wait for the consumer before the source is made to wait. Each change between the two costs some
    20 µs, which 256 events share; a source on a network hardly ever gets that far ahead."""

    __repr__ = shown_by()

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if value is None and str(field.type).endswith("| None"):
                continue
            # A truth value is an `int` in Python, and NaN is not greater than 0: both are mistakes.
            kinds = int if str(field.type).startswith("int") else (int, float)
            if isinstance(value, bool) or not isinstance(value, kinds) or not value > 0:
                what = "an integer" if kinds is int else "a number"
                raise ValueError(f"Limits({field.name}={value!r}): must be {what} greater than 0")


def checked_bound(name: str, value: int) -> int:
    """Returns a bound that is an argument of its own, not a field of `Limits`.

    Raises:
        ValueError: it is not an integer greater than 0.
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"{name}={value!r}: must be an integer greater than 0")
    return value
