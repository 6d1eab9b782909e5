"""Lists every limit on the peer: its default, and the origin of the number.

Each field is checked before the copy it guards. Exceeding it is a `LimitExceeded` (the stream) or an `Observation` (one
call) that names the field.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

from .ground.text import shown_by

__all__ = ["Limits", "checked_bound"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits of one stream. Sizes are bytes, times are seconds; pass only the fields that you want to change.

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
    """Calls in one turn."""
    max_argument_bytes: int = 1 << 20
    """One call's arguments, counted in characters. The call becomes ``invalid`` (``argument_too_large``)."""
    max_total_argument_bytes: int = 8 << 20
    """The arguments of all calls of a turn in total."""
    max_json_depth: int = 64
    """Nesting of one call's arguments. The call becomes ``invalid`` (``too_deep``)."""
    max_argument_containers: int = 50_000
    """Objects and arrays in one call's arguments. Python's garbage collector visits each of them while nothing else
    runs. The call becomes ``invalid`` (``argument_too_large``)."""
    max_id_bytes: int = 8 << 10
    """A call id, which some gateways combine with a signature. A longer one is replaced by a generated id."""
    max_name_bytes: int = 128
    """A tool name; a call with a longer one becomes ``invalid`` (``name_too_long``)."""
    # -- its blocks, and connections with several responses --
    max_open_blocks: int = 1024
    """Content blocks of one message."""
    max_open_responses: int = 64
    """Responses of one connection (`streamtools.sources.responses`) that have not ended or have not been read (OpenAI
    allows 16 active ones on 32 lanes)."""
    max_waiting_bytes: int = 16 << 20
    """Raw events of such responses that wait for their reader, and chunks of a tapped response
    (`streamtools.integrations.httpx`) that wait for the decoder. Beyond that, the tap drops its copy."""
    max_path_depth: int = 64
    """Steps of a path into arguments that arrive in pieces (Gemini). The call becomes ``invalid`` (``bad_path``)."""
    max_array_index: int = 10_000
    """The largest list index in such a path. The call becomes ``invalid`` (``bad_path``)."""
    # -- results and errors --
    max_result_bytes: int = 1 << 20
    """One result's text for the model; a longer one is cut, with a note."""
    max_indexed_bytes: int = 32 << 20
    """Text of a run that is searched for the values of arguments (``policy=``), counted in characters. Beyond that, a
    value that the user did not give needs approval."""
    max_result_media_bytes: int = 20 << 20
    """Images and files of one result in total, as base64; any beyond that become placeholders (Anthropic takes 32 MB a
    request, OpenAI 50 MB)."""
    max_error_excerpt: int = 512
    """Characters of the peer's bytes that an error message may quote."""
    # -- foreign tools, and their lists --
    max_schema_bytes: int = 256 << 10
    """A foreign JSON Schema (`Tool.from_schema`, MCP), serialised. A larger one is refused (`SchemaError`)."""
    max_schema_nodes: int = 10_000
    """Subschemas of a foreign schema (Notion's and GitHub's tools have several hundred)."""
    max_schema_values: int = 30_000
    """JSON values anywhere in a foreign schema, even outside subschemas, such as in a ``default`` (an empty list takes
    20 times the memory of its text; an ``enum`` of all airports has about 10,000 values)."""
    max_schema_depth: int = 64
    """Nesting of a foreign schema, and of the values that a validator may follow through its references."""
    max_pattern_chars: int = 1024
    """One ``pattern`` of a foreign schema."""
    max_validation_steps: int = 4_000_000
    """Steps needed to validate one call's arguments against a foreign schema, estimated beforehand. In a step, a schema
    is applied to a value (a usual call takes tens of steps; the limit takes about 0.2 s at worst). A call beyond that
    becomes ``invalid``; a schema that needs more for one small value is refused (`SchemaError`)."""
    max_message_bytes: int = 1 << 20
    """One message of an MCP server, over the transports of `streamtools.mcp` (the MCP SDK has the same limit for an
    event, and none for a line or body). Each JSON value counts as at least 20 bytes. A larger answer is an error."""
    max_listed_tools: int = 1_000
    """Tools taken from one MCP server's list; any beyond that are omitted and listed as refused."""
    max_list_bytes: int = 8 << 20
    """Descriptions and schemas of one such list in total, as JSON (GitHub's hundred tools take a quarter of a million
    bytes; no model accepts 8 MiB of tools). Tools beyond that are left out and listed as refused."""
    max_list_values: int = 50_000
    """JSON values in all schemas of one such list (a hundred tools of real servers have about 20,000); each takes up to
    a kilobyte once compiled. Tools beyond that are left out and listed as refused."""
    max_list_pages: int = 100
    """Pages of one such list, which a server could make endless."""
    max_description_chars: int = 16_384
    """One foreign tool's description. A longer one is refused instead of cut, because a warning may be at its end."""
    # -- what runs at once, and how often --
    max_progress_events: int = 1_000
    """Progress reports of an MCP server about one call; later ones are dropped."""
    max_waiting_progress: int = 1_000
    """Events waiting for the consumer, or for a branch that must not lose any. At that number, progress
    reports of tools are dropped and counted (``progress_dropped``)."""
    max_concurrency: int = 16
    """Tools running at once in one pipeline, or in all that share a `CallPool`; further calls wait."""
    max_repeated_calls: int | None = 32
    """Calls of one tool with the same arguments, valid or not, within a run (trajectory). Further calls are
    ``denied``, and the model is told that it repeats itself. None: no limit."""
    max_model_retries: int = 3
    """Unusable calls of one tool within a run: the arguments were invalid, the call was repeated too often, or the tool
    asked for better arguments (`ModelRetry`). Calls of unknown tools are counted together. After that many, the model
    is told not to call again."""
    call_budget: int | None = None
    """Calls that a run (trajectory) may execute over all its steps; further calls are ``over_budget``. A call counts
    as soon as it is admitted, unless it ends before it begins. None: no limit."""
    token_budget: int | None = None
    """Input and output tokens of a run, as reported at the end of its responses. Once they are spent, no further call
    runs (``over_budget``), and `agent_loop` makes no further request (``budget``). None: no limit."""
    max_background_jobs: int = 8
    """Calls of ``background=True`` tools that run at once in one run; further calls are ``failed``."""
    max_threads: int = 8
    """Threads that run sync tools at once in one pipeline; further calls wait."""
    max_abandoned_threads: int = 8
    """Threads of the process that are still busy with an abandoned sync tool. At that number no further sync tool is
    started; those that are running may still be abandoned: at most `max_threads` more. Threads that wait for an
    abandoned sync stream are counted separately, up to the same number."""
    # -- times --
    tool_timeout: float | None = 120.0
    """Seconds that a tool without a ``timeout`` of its own may run. None: no limit."""
    cancel_grace: float = 5.0
    """Seconds for closing the source, and for a cancelled tool's own cleanup. A tool that runs longer than that after
    it was cancelled or timed out is reported (``tool_unresponsive``); its end is still awaited."""
    first_chunk_timeout: float | None = None
    """Seconds within which the first chunk must arrive, from the request (``requested_at=``), or from entering the
    block if that is unknown; then `DeadlineExceeded`. None: no limit."""
    step_timeout: float | None = None
    """Seconds for the whole step, including its calls and approvals; then `DeadlineExceeded`, and running calls are
    ``cancelled``. None: no limit."""
    run_timeout: float | None = None
    """The same for a whole run (trajectory), from the start of its first step; the requests of `agent_loop` count
    too. None: no limit."""
    idle_timeout: float | None = 120.0
    """Seconds that the source may be silent; then `TruncatedStream`. Any data ends the silence, even a keep-alive.
    Time in which the consumer is behind or the process is stopped does not count. None: no limit."""
    # -- files and queues --
    max_recording_bytes: int = 256 << 20
    """One file of `streamtools.record.record`. A full recording ends with a note; the run continues."""
    event_buffer: int = 256
    """Events that may wait for the consumer before the source has to wait. Each switch between the two costs about 20
    µs, shared by 256 events; a source on a network hardly ever gets that far ahead."""

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
