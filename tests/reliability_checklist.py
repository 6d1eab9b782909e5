"""What is promised of lifetimes and of calls, promise by promise, and the tests that hold it (files below ``tests/``).

`PROMISES` are the laws of asynchronous life, `NEEDS` what users of agents have asked for in public issue trackers,
clause by clause. ``file.py::*`` means all of a file; ``benchmarks/...`` a script that measures what would take a test
too long. `OTHERWISE` says of each clause that is not met as it was asked for what there is instead, and why.
`test_reliability_checklist` holds all of it to the tests.
"""

from __future__ import annotations

from typing import TypeAlias

__all__ = ["NEEDS", "OTHERWISE", "PROMISES"]

Tests: TypeAlias = tuple[str, ...]

LAWS = "pipelines/test_async_laws.py::"
LIFE = "pipelines/test_lifetimes.py::"
CALLS = "dispatch/test_promises.py::"
EXITS = "pipelines/test_any_exit.py::"
EVERYWHERE = "pipelines/test_cancel_everywhere.py::"
FAULTS = "pipelines/test_async_faults.py::"
BOUNDS = "pipelines/test_limits_through_the_pipeline.py::"
SILENT = "pipelines/test_idle_timeout.py::"
TRACES = "pipelines/test_traces.py::"
DISPATCH = "dispatch/test_dispatch.py::"
AGAIN = "dispatch/test_second_chances.py::"
KEYS = "dispatch/test_conflicts.py::"
LATE = "dispatch/test_stragglers.py::"
SPANS = "telemetry/test_tracing.py::"
STORE = "dispatch/test_store.py::"
BLOCKS = "dispatch/test_blocks_of_a_result.py::"
RESULTS = "history/test_tool_results.py::"
OPENED = "web/test_open.py::"
ASKED = "dispatch/test_approval.py::"
LATER = "dispatch/test_suspended.py::"
ONCE = "dispatch/test_calls_once.py::"
REPORTS = "dispatch/test_progress.py::"
BRANCHES = "pipelines/test_branches.py::"
SANSIO = "test_laws_sansio.py::"

PROMISES: dict[str, tuple[str, Tests]] = {
    "AT-1": (
        "leaving the block cancels every call that runs, and waits for it",
        (
            LAWS + "test_at_1_breaking_out_cancels_both_sleeping_tools_before_the_line_after_the_block",
            EVERYWHERE + "test_leaving_at_any_event_leaves_nothing_behind",
        ),
    ),
    "AT-2": (
        "an error of the source comes out as it was, once, after the last event",
        (
            LAWS + "test_at_2_an_error_of_the_source_is_raised_once_with_its_own_type_after_all_events",
            LAWS + "test_at_2_calls_that_run_when_the_source_fails_are_cancelled_or_drained_as_asked",
            "sources/test_every_kind.py::test_it_is_closed_when_it_fails_and_its_error_comes_out_as_it_was",
        ),
    ),
    "AT-3": (
        "an error of the block's body leaves it unwrapped",
        (LAWS + "test_at_3_an_error_of_the_body_leaves_the_block_unwrapped",),
    ),
    "AT-4": (
        "a time-out around the block leaves the scopes intact, so that a second block works",
        (LAWS + "test_at_4_an_outer_timeout_leaves_the_scopes_intact",),
    ),
    "AT-5": (
        "the source is closed by the task that reads it, which may await there, also where that task waits for room",
        (
            LAWS + "test_at_5_the_sources_finally_runs_in_the_task_that_iterates_and_may_await",
            LIFE + "test_a_source_that_waits_for_room_is_closed_in_the_task_that_reads_it_and_its_finally_may_await",
            "sources/test_every_kind.py::test_it_is_closed_however_the_block_is_left",
        ),
    ),
    "AT-6": (
        "closing a source that hangs ends after the grace, with an event",
        (
            LAWS + "test_at_6_a_source_whose_closing_hangs_is_given_up_after_the_grace_with_an_event",
            BOUNDS + "test_closing_a_source_that_takes_longer_is_given_up",
            "sources/test_blocking.py::test_a_silent_stream_is_given_up_after_the_grace_and_closes_when_it_can",
        ),
    ),
    "AT-7": (
        "no more is read than was consumed, what waits for the consumer, and two more",
        (
            BOUNDS + "test_the_source_is_no_further_ahead_of_the_consumer",
            LIFE + "test_a_consumer_that_stalls_stops_the_reading_of_a_source_that_never_ends",
        ),
    ),
    "AT-8": (
        "events do not pile up, however many there are; of a delta nothing stays but its text, in the turn",
        (
            LIFE + "test_a_hundred_thousand_deltas_leave_no_more_behind_than_twenty_thousand",
            "pipelines/test_endless_streams_through_the_pipeline.py::"
            "test_what_says_nothing_costs_no_memory_however_often_it_comes",
            "benchmarks/load.py",
        ),
    ),
    "AT-9": (
        "a tool that ends while the consumer waits and the outbox is full is no deadlock",
        (LAWS + "test_at_9_a_tool_that_finishes_while_the_outbox_is_full_does_not_deadlock",),
    ),
    "AT-10": (
        "while the consumer is slow tools go on; time-outs count the tool's own time",
        (
            LIFE + "test_while_the_consumer_is_slow_tools_run_on_and_only_their_own_time_counts",
            DISPATCH + "test_the_time_in_the_queue_is_not_the_tools_time",
            FAULTS + "test_a_sync_tools_time_does_not_run_while_it_waits_for_a_thread",
            SILENT + "test_a_consumer_who_takes_long_is_not_the_sources_silence",
        ),
    ),
    "AT-11": (
        "left with calls done, running, queued and cut: one observation each, and one result each in the history",
        (
            LAWS + "test_at_11_leaving_with_calls_done_running_queued_and_cut_observes_each_once",
            EXITS + "test_after_any_exit_each_call_has_one_observation_and_every_provider_takes_the_history",
        ),
    ),
    "AT-12": (
        "the same where the stream fails",
        (
            CALLS + "test_a_stream_that_fails_with_calls_done_running_queued_and_cut_observes_each_once",
            EVERYWHERE + "test_a_source_that_breaks_or_ends_anywhere_leaves_nothing_behind",
        ),
    ),
    "AT-13": (
        "what spends starts when its turn has ended well; started early, it may have a result in a turn that fails",
        (
            CALLS + "test_a_turn_that_fails_has_started_what_spends_only_if_that_was_asked_for_and_its_result_stays",
            CALLS + "test_a_call_that_nothing_but_a_bad_end_of_its_turn_has_ended_does_not_start",
            LAWS + "test_pure_calls_start_at_their_own_end_and_once_calls_when_the_turn_has_ended_well",
            LAWS + "test_once_calls_of_a_turn_that_did_not_end_well_are_skipped_and_say_why",
        ),
    ),
    "AT-14": (
        "a call that fails leaves its siblings alone, unless they are to be cancelled with it",
        (
            DISPATCH + "test_one_tool_that_fails_leaves_its_siblings_alone_and_says_only_its_type",
            "dispatch/test_on_tool_error.py::test_a_failure_cancels_the_siblings_if_that_is_wanted",
        ),
    ),
    "AT-15": (
        "a tool that swallows its cancellation is told of after the grace, and the block waits for its end",
        (
            LATE + "test_a_tool_that_swallows_its_cancellation_is_told_of_after_the_grace_and_waited_for",
            CALLS + "test_a_tool_that_swallows_its_cancellation_is_waited_for_before_the_line_after_the_block",
            LATE + "test_a_tool_that_stops_when_it_should_is_not_told_of",
        ),
    ),
    "AT-16": (
        "threads of sync tools that were given up are bounded; past the bound the call is refused, which is a result",
        (
            CALLS + "test_of_thirty_sync_tools_that_time_out_few_threads_are_left_and_the_rest_is_refused",
            BOUNDS + "test_past_so_many_threads_that_were_given_up_sync_tools_are_refused",
            FAULTS + "test_no_more_threads_are_abandoned_than_the_limit_allows_however_many_calls_wait",
        ),
    ),
    "AT-17": (
        "whether a thread is given up is for its own call alone: not for one inside, around or beside it",
        (CALLS + "test_whether_a_thread_is_given_up_is_for_its_own_call_alone",),
    ),
    "AT-18": (
        "a cancellation that a tool itself lets out is the tool's failure",
        (
            LAWS + "test_at_18_a_cancellation_that_the_tool_itself_lets_out_is_its_failure",
            LAWS + "test_at_18_a_scope_that_the_tool_cancels_itself_is_its_own_affair",
            "dispatch/test_local_executor.py::test_a_cancellation_that_nobody_asked_for_is_the_tools_failure",
        ),
    ),
    "AT-19": (
        "a single error comes out by itself, several as a group; `except*` takes both",
        (
            LIFE + "test_an_error_comes_out_as_it_was_raised_and_except_star_takes_single_ones_and_groups",
            LIFE + "test_what_is_fatal_ends_the_block_by_itself_and_several_as_a_group",
            FAULTS + "test_a_tool_whose_own_task_group_fails_while_it_is_cancelled_harms_nobody_else",
        ),
    ),
    "AT-20": (
        "tools see the context variables as they were where the block was entered; what they set stays theirs",
        (
            CALLS + "test_tools_see_the_context_in_which_the_block_was_entered_and_what_they_set_stays_theirs",
            FAULTS + "test_a_tool_sees_the_callers_context_and_not_what_the_source_sets_in_its_own",
        ),
    ),
    "AT-21": (
        "so do tools in threads",
        (
            CALLS + "test_tools_see_the_context_in_which_the_block_was_entered_and_what_they_set_stays_theirs",
            DISPATCH + "test_sync_tools_run_in_threads_with_the_callers_context",
        ),
    ),
    "AT-22": (
        "no exit makes OpenTelemetry's context complain",
        (TRACES + "test_at_22_no_exit_leaves_a_word_in_the_log_of_the_context",),
    ),
    "AT-23": (
        "the current span of the loop's body is the caller's, before, inside and after",
        (
            TRACES + "test_at_23_the_current_span_in_the_loop_is_the_callers_and_stays_it",
            "telemetry/test_current_span.py::test_a_generator_that_emits_events_leaks_nothing_into_its_consumer",
        ),
    ),
    "AT-24": (
        "every span that began ends once, inside its parent, wherever the consumer is cancelled, and says how it ended",
        (
            TRACES + "test_at_24_every_span_that_started_has_ended_wherever_the_consumer_is_cancelled",
            EVERYWHERE + "test_a_cancellation_at_any_checkpoint_leaves_nothing_behind",
            LIFE + "test_spans_of_a_stream_that_was_left_end_inside_their_parents_and_tell_what_was_cancelled",
            SPANS + "test_whatever_happens_every_call_has_one_span_and_every_span_one_end",
            SPANS + "test_every_outcome_of_a_call_has_its_span",
        ),
    ),
    "AT-25": (
        "a pipeline that is not entered holds nothing; one that was entered cannot be lost",
        (
            LIFE + "test_a_pipeline_that_is_never_entered_starts_nothing_and_holds_nothing",
            LIFE + "test_who_forgets_the_pipeline_inside_its_block_still_leaves_the_block",
            OPENED + "test_one_that_is_dropped_is_closed_and_told_about",
        ),
    ),
    "AT-26": (
        "nothing depends on one event loop: the tests run on asyncio and on trio",
        (
            "test_reliability_checklist.py::test_async_tests_run_on_asyncio_and_on_trio",
            "test_reliability_checklist.py::test_nothing_but_joining_and_what_runs_in_ray_imports_one_event_loop",
        ),
    ),
    "AT-27": (
        "no stream is read a second time; an error that comes first is raised before anything was said, and the turn"
        " tells which calls had been started",
        (
            LIFE + "test_an_error_that_comes_first_is_raised_before_anything_was_said_and_nothing_is_tried_again",
            LIFE + "test_a_stream_that_failed_is_not_read_again_and_its_turn_tells_which_calls_were_started",
        ),
    ),
    "AT-28": (
        "reading ends at the wire's end marker, whatever the server does then",
        (
            LIFE + "test_a_server_that_hangs_after_the_end_marker_is_not_waited_for",
            "sources/test_every_kind.py::test_it_is_closed_at_the_end_marker_and_not_read_past_it",
            "sources/test_every_kind.py::test_a_body_that_does_not_end_is_not_waited_for",
        ),
    ),
    "AT-29": (
        "a silent server is cut; comments and pings are signs of life",
        (
            SILENT + "test_a_source_that_falls_silent_is_truncated_and_closed",
            SILENT + "test_silence_is_allowed_up_to_the_limit",
            LIFE + "test_signs_of_life_keep_a_silent_server_from_being_cut_and_without_them_it_is",
        ),
    ),
    "AT-30": (
        "all of this holds wherever the consumer is cancelled",
        (
            LAWS + "test_at_30_the_invariants_hold_wherever_the_consumer_is_cancelled",
            EVERYWHERE + "test_a_cancellation_at_any_checkpoint_leaves_nothing_behind",
            EVERYWHERE + "test_a_cancellation_in_any_round_of_the_event_loop_leaves_nothing_behind",
        ),
    ),
    "AT-31": (
        "a pipeline is entered once, and closed as often as one likes",
        (
            LAWS + "test_at_31_a_pipeline_is_entered_once",
            LAWS + "test_at_31_aclose_may_be_called_again_and_again_and_stops_everything",
            FAULTS + "test_two_tasks_may_close_at_once_while_a_tool_cleans_up",
        ),
    ),
    "AT-32": (
        "of several who iterate one pipeline each event goes to one; who wants all has a branch",
        (
            LIFE + "test_of_several_who_iterate_one_pipeline_each_event_goes_to_one",
            BRANCHES + "test_a_branch_does_not_change_what_the_consumer_and_the_turn_get",
        ),
    ),
}

NEEDS: dict[str, tuple[tuple[str, Tests], ...]] = {
    "2.2": (
        (
            "a call starts at its own end marker, while the stream goes on; on wires without one when the response has"
            " ended",
            (
                CALLS + "test_a_call_starts_at_its_own_end_marker_and_not_an_event_before",
                CALLS + "test_a_call_starts_before_more_is_read_however_fast_the_source_is",
                CALLS + "test_where_calls_have_no_end_marker_they_start_when_the_response_says_that_it_has_ended",
            ),
        ),
        (
            "never because its JSON parses",
            (
                SANSIO + "test_a_call_ends_when_the_wire_says_so_never_because_its_json_parses",
                SANSIO + "test_on_no_wire_with_deltas_does_a_call_end_with_its_json",
                CALLS + "test_a_call_that_nothing_but_a_bad_end_of_its_turn_has_ended_does_not_start",
            ),
        ),
        (
            "by default only where the tool was declared harmless",
            (
                LAWS + "test_pure_calls_start_at_their_own_end_and_once_calls_when_the_turn_has_ended_well",
                DISPATCH + "test_turn_end_holds_pure_calls_and_early_lets_once_calls_start_at_once",
            ),
        ),
        (
            "arguments and policy are checked before",
            (
                CALLS + "test_a_call_whose_arguments_do_not_fit_does_not_start_early_either",
                "pipelines/test_policy.py::"
                "test_a_policy_stage_refuses_a_call_that_the_schema_allows_and_the_tool_knows_nothing_of_it",
                ASKED + "test_a_call_is_validated_before_anybody_is_asked",
            ),
        ),
        (
            "a turn that fails later does not undo it, and says that it failed",
            (CALLS + "test_a_turn_that_fails_has_started_what_spends_only_if_that_was_asked_for_and_its_result_stays",),
        ),
        (
            "a slow stream with two calls takes as long as the longer of them, not as both",
            (CALLS + "test_calls_run_while_the_stream_goes_on_so_that_the_longest_decides_and_not_the_sum",),
        ),
    ),
    "2.3": (
        (
            "what is shown of a growing call is a preview and never runs",
            (
                SANSIO + "test_preview_history_form_and_arguments_are_three_values",
                SANSIO + "test_wherever_a_stream_of_any_wire_is_cut_nothing_of_it_runs",
            ),
        ),
        (
            "a response that ended by its length, or was lost, starts nothing more",
            (
                CALLS + "test_a_call_that_nothing_but_a_bad_end_of_its_turn_has_ended_does_not_start",
                LAWS + "test_once_calls_of_a_turn_that_did_not_end_well_are_skipped_and_say_why",
                SANSIO + "test_a_whole_call_does_not_run_unless_its_turn_ended_well",
            ),
        ),
        (
            "a call that was cut is truncated: the model is told so, and what to do; the program keeps the text, the"
            " history is valid;"
            " also where the finish reason says that there are calls",
            (
                CALLS + "test_a_call_that_was_cut_runs_nothing_tells_the_model_so_and_keeps_its_text_for_the_program",
                CALLS + "test_a_connection_that_is_lost_inside_a_call_truncates_it_on_every_wire",
                SANSIO + "test_a_cut_calls_error_says_that_it_was_cut",
                SANSIO + "test_a_finish_reason_does_not_make_a_cut_call_whole",
            ),
        ),
    ),
    "2.4": (
        (
            "after any exit the history is one that the provider takes, whichever it is: one result for each call,"
            " right behind it, in call order, the same bytes each time",
            (
                EXITS + "test_after_any_exit_each_call_has_one_observation_and_every_provider_takes_the_history",
                EVERYWHERE + "test_a_cancellation_at_any_checkpoint_leaves_nothing_behind",
                "pipelines/test_trajectory_loop.py::test_a_cancellation_from_outside_leaves_a_history_that_can_be_sent",
                SANSIO + "test_the_same_bytes_give_the_same_turn_in_every_process",
            ),
        ),
        (
            "a result that stands in for one that is missing blames nobody, and tells whether the call may have run",
            (EXITS + "test_what_a_history_says_of_a_call_without_a_result_blames_nobody",),
        ),
        (
            "a history that is broken already is mended in both directions, alike each time",
            (
                "history/test_repair_laws.py::test_a_repaired_history_is_taken",
                "history/test_repair.py::test_an_interrupted_call_is_told_alike_in_every_process",
            ),
        ),
    ),
    "2.6": (
        (
            "no span is current across a yield; its parent is the caller's span",
            (
                TRACES + "test_at_23_the_current_span_in_the_loop_is_the_callers_and_stays_it",
                SPANS + "test_a_step_begins_where_the_caller_is",
            ),
        ),
        (
            "a tool's span is current inside its body, in a task and in a thread",
            (
                TRACES + "test_spans_made_inside_a_tool_are_children_of_its_span",
                "telemetry/test_current_span.py::test_spans_of_a_tool_in_a_thread_become_children_of_its_call",
            ),
        ),
        (
            "it ends once, with its status, however the call and the stream end",
            (
                TRACES + "test_at_24_every_span_that_started_has_ended_wherever_the_consumer_is_cancelled",
                SPANS + "test_every_outcome_of_a_call_has_its_span",
                SPANS + "test_every_exit_of_a_stream_ends_its_spans_and_says_how",
            ),
        ),
        (
            "nothing is logged about contexts on any exit",
            (TRACES + "test_at_22_no_exit_leaves_a_word_in_the_log_of_the_context",),
        ),
        (
            "arguments and results are in no span unless they are asked for",
            (
                TRACES + "test_no_argument_result_or_text_is_in_any_span_by_default",
                "telemetry/test_content.py::test_no_content_is_in_any_span_by_default",
            ),
        ),
        (
            "who captures content may redact it before it is in a span",
            (
                "telemetry/test_approval_spans.py::test_captured_content_is_redacted_before_it_is_in_a_span",
                "telemetry/test_approval_spans.py::test_a_redaction_that_fails_shows_nothing_and_breaks_nothing",
            ),
        ),
    ),
    "2.7": (
        (
            "what one holds is an async context manager, and says so to who does not enter it",
            (
                LAWS + "test_iterating_without_the_block_says_what_to_write",
                LAWS + "test_at_31_a_pipeline_is_entered_once",
            ),
        ),
        (
            "nothing starts before it is entered",
            (LIFE + "test_a_pipeline_that_is_never_entered_starts_nothing_and_holds_nothing",),
        ),
        (
            "no generator yields inside a task group or a scope",
            (
                "test_architecture.py::test_every_module_keeps_the_rule",
                "test_architecture.py::test_a_violation_is_seen",
            ),
        ),
        (
            "closing from another task, a break, and the loop's end leave no task, no thread and no word in a log",
            (
                OPENED + "test_another_task_may_close_it_while_it_is_read",
                EVERYWHERE + "test_leaving_at_any_event_leaves_nothing_behind",
                LIFE + "test_a_program_that_ends_while_a_task_reads_leaves_that_block_as_any_other",
                LAWS + "test_no_task_thread_or_generator_is_left_behind",
            ),
        ),
        (
            "tools are cancelled and waited for; who does not stop within the grace is told of",
            (
                LAWS + "test_at_1_breaking_out_cancels_both_sleeping_tools_before_the_line_after_the_block",
                LATE + "test_a_tool_that_swallows_its_cancellation_is_told_of_after_the_grace_and_waited_for",
            ),
        ),
    ),
    "2.8": (
        (
            "so many calls at once, in all and of one tool",
            (
                DISPATCH + "test_no_more_calls_run_at_once_than_the_limit_allows",
                KEYS + "test_no_more_calls_of_one_tool_run_at_once_than_it_allows",
            ),
        ),
        ("a call may run alone", (KEYS + "test_an_exclusive_call_runs_alone_and_what_came_later_waits_for_it",)),
        (
            "calls with one key run in call order, readers side by side, others at the same time",
            (
                KEYS + "test_calls_with_one_key_run_one_at_a_time_in_call_order_and_readers_side_by_side",
                "dispatch/test_scheduler.py::*",
            ),
        ),
        (
            "limits hold across turns and pipelines that share a dispatcher",
            (
                KEYS + "test_the_limits_of_a_shared_dispatcher_hold_across_its_pipelines_and_they_take_turns",
                KEYS + "test_a_pipeline_that_is_left_gives_its_places_in_a_shared_dispatcher_to_the_others",
            ),
        ),
    ),
    "2.9": (
        (
            "a time-out of one tool, and one for all; its outcome is its own",
            (
                DISPATCH + "test_a_tool_that_takes_too_long_is_timed_out_and_the_others_are_not",
                BOUNDS + "test_a_tool_that_takes_longer_is_timed_out",
            ),
        ),
        (
            "a sync tool that goes on in its thread is marked, and counted until it ends",
            (
                DISPATCH + "test_a_sync_tool_that_is_given_up_is_marked_as_still_running_and_counted_until_it_ends",
                CALLS + "test_of_thirty_sync_tools_that_time_out_few_threads_are_left_and_the_rest_is_refused",
            ),
        ),
        (
            "what it returns late is an event and no result",
            (LATE + "test_what_a_thread_returns_after_it_was_given_up_is_a_warning_and_no_result",),
        ),
        (
            "a tool can ask whether anybody still waits",
            (
                DISPATCH + "test_leaving_the_block_does_not_wait_for_a_sync_tool",
                AGAIN + "test_a_sync_attempt_that_was_given_up_reports_nothing_into_the_next",
            ),
        ),
        (
            "a call of an MCP server is cancelled there",
            (
                "mcp/test_mcp_sessions.py::test_a_call_that_times_out_is_cancelled_on_the_server",
                "mcp/test_mcp_sessions.py::test_a_call_whose_consumer_leaves_is_cancelled_on_the_server",
            ),
        ),
    ),
    "2.10": (
        (
            "what a generator yields, and what a tool reports, are events at once",
            (
                "dispatch/test_generators.py::test_what_is_yielded_is_progress_at_once_and_the_result_is_the_result",
                DISPATCH + "test_progress_is_an_event_between_start_and_observation",
                FAULTS + "test_progress_may_be_reported_from_any_thread",
            ),
        ),
        (
            "the model never reads it, and no call waits for another's",
            (
                CALLS + "test_the_progress_of_one_call_waits_for_no_other_and_no_model_reads_it",
                REPORTS + "test_the_reports_of_one_call_are_not_held_up_by_another_call",
            ),
        ),
        (
            "the last value is a result only if it says so",
            ("dispatch/test_generators.py::test_without_a_result_the_call_has_failed_and_no_value_is_taken_for_it",),
        ),
        (
            "it is bounded where the consumer is slow, and no tool waits for a consumer",
            (
                REPORTS + "test_a_consumer_that_takes_nothing_neither_blocks_a_tool_nor_lets_its_reports_pile_up",
                REPORTS + "test_a_consumer_that_keeps_up_gets_every_report",
            ),
        ),
    ),
    "2.11": (
        (
            "calls that need no approval run beside those that do, and keep their results",
            (
                ASKED + "test_calls_that_need_none_run_meanwhile_and_a_loop_ends_when_only_approvals_are_left",
                LATER + "test_the_history_gets_the_results_where_the_calls_are",
            ),
        ),
        (
            "what waits is listed, and decided in any order, one by one or all at once, also after a restart",
            (
                ASKED + "test_each_of_many_approved_calls_runs_exactly_once_in_whatever_order_they_are_approved",
                LATER + "test_a_suspended_call_says_what_it_would_do_and_is_the_same_after_a_round_trip",
                LATER + "test_decisions_are_taken_and_what_is_not_decided_stays_suspended",
                LATER + "test_resumed_calls_are_decided_one_by_one_as_well",
            ),
        ),
        (
            "what was approved runs once",
            (
                ASKED + "test_the_first_word_counts",
                LATER + "test_a_call_that_is_resumed_twice_runs_once_and_has_the_same_result",
                LATER + "test_a_call_that_was_approved_before_it_was_suspended_does_not_run_again",
            ),
        ),
        (
            "what was denied has a result, and so has what nobody decided",
            (
                ASKED + "test_a_call_that_is_denied_does_not_run_and_the_model_is_told_why",
                ASKED + "test_what_nobody_has_decided_is_skipped_when_the_block_is_left_and_says_so",
            ),
        ),
        (
            "who is asked sees arguments that have been validated, and those run",
            (
                ASKED + "test_a_call_is_validated_before_anybody_is_asked",
                ASKED + "test_the_request_has_just_the_arguments_that_would_run_and_does_not_show_them_by_itself",
                LATER + "test_resumed_calls_are_validated_again",
            ),
        ),
        (
            "an approval is bound to call and arguments, and what is kept for later is signed",
            (
                ASKED + "test_what_was_approved_has_to_be_what_would_run",
                LATER + "test_a_state_that_was_changed_is_refused",
                LATER + "test_a_state_that_was_signed_with_another_key_is_refused",
            ),
        ),
    ),
    "2.12": (
        (
            "one call has one key, over retries, time-outs and restarts, and no other call has it",
            (
                LATER + "test_the_run_goes_on_with_its_id_its_step_its_numbers_and_the_calls_keys",
                ONCE + "test_each_call_of_each_step_of_each_run_is_a_call_of_its_own",
                CALLS + "test_a_key_is_the_same_after_a_time_out_and_another_for_every_other_call",
                AGAIN + "test_a_call_that_raised_is_tried_again_under_the_same_key_and_every_attempt_is_told",
            ),
        ),
        (
            "a key that comes with other arguments is refused",
            (
                ONCE + "test_other_arguments_under_the_same_key_are_refused",
                STORE + "test_a_key_with_another_fingerprint_is_refused",
            ),
        ),
        (
            "a store gives the recorded result instead of running the call again",
            (
                ONCE + "test_a_call_that_has_run_is_answered_from_the_record",
                ONCE + "test_of_pipelines_that_make_the_same_call_at_once_one_runs_it",
                ONCE + "test_wherever_a_call_is_cancelled_it_runs_once_or_is_not_claimed",
            ),
        ),
    ),
    "2.14": (
        (
            "an unknown name is answered with the list and the closest",
            (AGAIN + "test_an_unknown_tool_is_answered_with_the_list_and_the_closest_name",),
        ),
        (
            "a call that comes too often with the same arguments is denied; how often that is, the user says",
            (
                AGAIN + "test_a_call_that_is_made_too_often_with_the_same_arguments_is_denied_and_told_why",
                AGAIN + "test_the_guard_against_repeated_calls_can_be_turned_off",
                AGAIN + "test_only_so_many_different_calls_are_remembered",
            ),
        ),
        ("what becomes of it can be chosen", ()),
    ),
    "2.18": (
        (
            "events come as calls end, with the call's place; histories are in call order",
            (
                CALLS + "test_events_come_in_the_order_of_completion_with_the_calls_place_and_histories_in_call_order",
                DISPATCH + "test_events_come_as_calls_end_and_messages_in_call_order",
            ),
        ),
        (
            "text that is too long is cut and says so; an image is left out whole, never cut",
            (
                BLOCKS + "test_text_beyond_the_limit_is_cut_and_says_so",
                BLOCKS + "test_an_image_beyond_the_limit_is_left_out_whole",
            ),
        ),
        (
            "images and files go in the shapes that the target takes, else a placeholder stands for them",
            (
                RESULTS + "test_chat_gets_images_in_one_users_message_behind_all_results",
                RESULTS + "test_what_only_a_placeholder_can_stand_for_brings_no_message",
                RESULTS + "test_cohere_gets_text_alone",
                BLOCKS + "test_a_native_content_goes_to_its_own_wire_and_to_no_other",
            ),
        ),
    ),
    "2.19": (
        (
            "whatever waits inside is bounded, and a slow consumer makes the provider wait",
            (
                BOUNDS + "test_the_source_is_no_further_ahead_of_the_consumer",
                LIFE + "test_a_consumer_that_stalls_stops_the_reading_of_a_source_that_never_ends",
                "sources/test_blocking.py::test_nothing_is_pulled_before_it_is_wanted",
                "web/test_real_server.py::"
                "test_a_client_that_does_not_read_makes_the_source_wait_and_gets_all_when_it_does",
                REPORTS + "test_a_consumer_that_takes_nothing_neither_blocks_a_tool_nor_lets_its_reports_pile_up",
            ),
        ),
        (
            "several consumers, each with its own rule for being slow",
            (
                BRANCHES + "test_the_source_is_not_read_on_while_a_branch_that_is_waited_for_is_full",
                BRANCHES + "test_a_reader_that_is_behind_finds_a_gap_and_what_is_new",
                BRANCHES + "test_a_branch_that_disconnects_gives_what_waited_and_says_what_it_does_not_have",
                BRANCHES + "test_a_consumer_that_reads_nothing_holds_a_bounded_number_of_events",
            ),
        ),
        (
            "a stalled consumer costs no memory",
            (
                LIFE + "test_a_consumer_that_stalls_stops_the_reading_of_a_source_that_never_ends",
                LIFE + "test_a_hundred_thousand_deltas_leave_no_more_behind_than_twenty_thousand",
            ),
        ),
    ),
}

OTHERWISE: dict[str, str] = {
    "AT-27: the error says whether to try again": (
        "its `kind` and, of a provider's, `code` and `type` do; whether it is safe to, the turn tells: which calls "
        "were started (`attempts`), and how they ended"
    ),
    "2.14: what becomes of it can be chosen": (
        "the model is told that the call was denied, and why, which ends most circles; any other action is the loop's "
        "own: the observation says `denied` and the limit is 1 or more, or none"
    ),
}
"""By promise or need, and clause: what has no tests above."""
