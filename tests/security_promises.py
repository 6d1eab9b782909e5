"""What SECURITY.md promises, threat by threat: a row of its table, and the tests that hold it.

T1 to T26 are the threats of the research that the project grew out of, T27 to T45 were found since.
`test_security_promises` holds list, page and tests together.
"""

from __future__ import annotations

__all__ = ["IN_SHORT", "PROMISES"]

PROMISES: dict[str, tuple[str, tuple[str, ...]]] = {
    "T1": (
        "endless lines and events",
        (
            "tests/security/test_bounds.py::test_a_flood_is_refused_before_it_takes_more_than_twice_the_limit",
            "tests/test_limits.py::test_in_every_framing_an_event_may_be_as_large_as_the_limit_and_no_larger",
            "benchmarks/bench_bounds.py",
        ),
    ),
    "T2": (
        "input that costs more than its length",
        (
            "tests/test_laws_sansio.py::test_cost_is_linear_on_every_wire",
            "tests/test_laws_sansio.py::test_cost_is_linear_in_every_framing_however_small_the_chunks_are",
            "tests/security/test_bounds.py"
            "::test_small_pieces_are_joined_as_they_came_and_take_little_more_room_than_their_bytes",
            "tests/framing/test_floods.py::test_lines_that_say_nothing_cost_no_step_each",
        ),
    ),
    "T3": (
        "floods: calls, blocks, arguments, white space, keep-alives",
        (
            "tests/security/test_bounds.py::test_what_says_little_without_end_ends_at_a_limit_and_runs_nothing",
            "tests/pipelines/test_limits_through_the_pipeline.py"
            "::test_a_stream_that_holds_more_raises_and_runs_nothing_that_was_held",
            "tests/pipelines/test_limits_through_the_pipeline.py"
            "::test_a_call_that_holds_more_is_observed_as_invalid_and_does_not_run",
            "tests/test_endless_streams.py::test_what_repeats_without_end_does_not_grow_or_is_ended_by_a_limit",
        ),
    ),
    "T4": (
        "deep nesting",
        (
            "tests/security/test_numbers_and_depth.py"
            "::test_in_any_place_of_any_wire_it_gives_a_turn_that_can_be_sent_on",
            "tests/stages/test_finalize.py::test_an_object_may_be_nested_as_deep_as_the_limit_and_no_deeper",
            "tests/stages/test_preview.py::test_nesting_costs_no_recursion",
        ),
    ),
    "T5": (
        "integers of thousands of digits",
        (
            "tests/security/test_numbers_and_depth.py::test_as_an_argument_it_runs_nothing_and_concerns_its_call_alone",
            "tests/stages/test_finalize.py::test_the_longest_integers_that_python_reads_are_taken",
        ),
    ),
    "T6": (
        "numbers that lose precision",
        (
            "tests/security/test_numbers_and_depth.py::test_no_digit_of_an_integer_is_lost_on_its_way_to_a_tool",
            "tests/stages/test_finalize.py::test_large_integers_keep_every_digit_also_where_the_wire_sends_an_object",
        ),
    ),
    "T7": (
        "NaN, Infinity and 1e999",
        (
            "tests/stages/test_finalize.py::test_an_object_with_a_number_that_json_does_not_have_never_runs",
            "tests/security/test_numbers_and_depth.py::test_a_result_that_is_no_json_is_not_sent_as_if_it_were",
        ),
    ),
    "T8": (
        "duplicate keys",
        (
            "tests/security/test_duplicate_keys.py::test_preview_record_and_tool_have_the_same_value_the_last_one",
            "tests/security/test_duplicate_keys.py::test_on_every_wire_the_last_one_counts",
        ),
    ),
    "T9": (
        "Python's internal names, paths into arguments",
        (
            "tests/security/test_hostile_names.py::test_a_key_that_is_called_like_something_inside_is_only_a_key",
            "tests/wires/test_gemini_pieces.py::test_a_path_is_names_and_indexes_and_nothing_else",
            "tests/wires/test_gemini_pieces.py::test_limits_hold_before_anything_is_kept",
        ),
    ),
    "T10": (
        "truncated or repaired calls that run",
        (
            "tests/test_laws_sansio.py::test_wherever_a_stream_of_any_wire_is_cut_nothing_of_it_runs",
            "tests/test_corpus.py::test_a_cut_recording_runs_only_what_had_ended",
            "tests/pipelines/test_async_laws.py"
            "::test_once_calls_of_a_turn_that_did_not_end_well_are_skipped_and_say_why",
            "tests/wires/test_arguments_of_no_call.py"
            "::test_a_call_has_the_arguments_from_before_it_if_they_can_be_its_alone_else_it_is_cut",
            "tests/test_whole_answers.py"
            "::test_an_answer_that_still_grows_in_the_background_is_pending_and_none_of_its_calls_runs",
        ),
    ),
    "T11": (
        "unregistered tools",
        (
            "tests/security/test_hostile_names.py::test_a_name_that_is_not_a_registered_one_runs_nothing_and_is_answered",
            "tests/security/test_hostile_names.py::test_the_list_of_names_that_a_model_is_told_is_bounded",
            "tests/history/test_history.py::test_a_name_that_the_model_made_up_is_made_valid",
        ),
    ),
    "T12": (
        "tools that impersonate others or change unnoticed",
        (
            "tests/tools/test_toolset.py::test_one_name_for_two_tools_is_refused",
            "tests/mcp/test_mcp_names.py::test_two_names_never_become_one",
            "tests/mcp/test_mcp_fetching.py::test_a_name_with_two_meanings_is_refused_both_times",
            "tests/mcp/test_mcp_pins.py::test_a_changed_tool_is_refused_until_somebody_agrees",
            "tests/mcp/test_mcp_pins.py::test_after_first_use_an_added_or_renamed_tool_is_a_change",
            "tests/mcp/test_mcp_pins.py::test_invisible_characters_in_what_the_model_reads_are_refused_unless_allowed",
            "tests/security/test_injection.py::test_what_comes_from_elsewhere_says_so_on_its_event",
        ),
    ),
    "T13": (
        "names that look like others",
        (
            "tests/security/test_hostile_names.py::test_a_name_beyond_ascii_cannot_be_registered",
            "tests/tools/test_tool_definition.py::test_names_that_providers_refuse_are_refused",
            "tests/mcp/test_mcp_names.py::test_a_name_that_could_deceive_is_refused_alone",
        ),
    ),
    "T14": (
        "prompt injection in tool results and text",
        (
            "tests/security/test_injection.py::test_markup_of_a_call_in_text_or_reasoning_is_text",
            "tests/security/test_injection.py::test_what_a_tool_returns_stands_in_its_calls_result_and_nowhere_else",
            "tests/modes/test_text_histories.py"
            "::test_what_the_model_reads_is_read_back_as_the_calls_and_the_results_that_were_there",
            "tests/modes/test_text_histories.py::test_a_result_that_quotes_the_words_for_waiting_is_no_call_that_waits",
            "tests/security/test_quoted_calls.py::test_a_page_that_has_a_call_pays_nobody_when_the_model_translates_it",
            "tests/security/test_quoted_calls.py"
            "::test_blanks_the_order_of_keys_escapes_and_other_notations_make_no_other_call",
            "tests/pipelines/test_limits_through_the_pipeline.py::test_a_longer_result_is_cut_and_says_so",
            "tests/dispatch/test_approval.py::test_a_call_is_validated_before_anybody_is_asked",
        ),
    ),
    "T15": (
        "forged or copied states of suspended calls",
        (
            "tests/dispatch/test_suspended.py::test_a_state_that_was_changed_is_refused",
            "tests/security/test_resumption.py::test_every_change_of_a_signed_state_is_refused",
            "tests/security/test_resumption.py"
            "::test_whatever_is_given_for_a_state_is_refused_by_its_signature_before_it_is_read",
            "tests/security/test_resumption.py"
            "::test_whatever_is_signed_and_is_not_a_state_is_refused_with_the_same_kind_of_error",
            "tests/dispatch/test_decisions.py::test_a_state_is_read_only_for_those_it_belongs_to",
            "tests/dispatch/test_decisions.py::test_a_ring_of_keys_signs_with_the_first_and_accepts_each",
        ),
    ),
    "T16": (
        "secrets in logs, spans, reprs and messages",
        (
            "tests/security/test_secrets.py::test_a_secret_of_a_call_is_told_nowhere",
            "tests/security/test_secrets.py::test_a_stream_that_breaks_in_a_call_tells_nothing_of_it",
            "tests/security/test_secrets.py::test_a_call_that_waits_for_an_approval_tells_nothing",
            "tests/security/test_secrets.py::test_what_a_provider_wants_back_is_in_no_repr",
            "tests/security/test_secrets.py::test_of_a_response_a_turns_repr_shows_the_beginning_of_its_text_alone",
            "tests/security/test_secrets.py::test_content_is_in_reprs_where_the_developers_variable_is_set_to_1_alone",
            "tests/telemetry/test_content.py::test_no_content_is_in_any_span_by_default",
            "tests/web/test_asgi_response.py::test_a_client_reads_text_calls_and_outcomes_and_nothing_private",
            "tests/mcp/test_mcp_cache.py::test_the_secret_is_nowhere_in_the_cache",
        ),
    ),
    "T17": (
        "forged log lines and terminal escapes",
        (
            "tests/security/test_wire_text.py"
            "::test_no_place_of_any_wire_brings_control_characters_into_a_message_or_a_repr",
            "tests/security/test_wire_text.py::test_no_place_of_any_wire_makes_a_message_long",
            "tests/test_display.py::test_whatever_the_peer_wrote_is_shown_on_one_bounded_line",
            "tests/security/test_wire_text.py::test_a_providers_error_is_shown_escaped_and_cut",
            "tests/security/test_wire_text.py"
            "::test_the_record_of_a_call_has_the_lines_that_it_should_and_no_forged_ones",
            "tests/security/test_wire_text.py::test_a_log_record_is_one_printable_line_whatever_the_formatter_shows",
            "tests/security/test_wire_text.py::test_the_command_line_shows_a_capture_without_obeying_it",
            "tests/security/test_foreign_text.py::test_what_is_found_in_a_history_is_told_in_printable_bounded_lines",
            "tests/mcp/test_mcp_words.py"
            "::test_no_place_of_a_list_brings_control_characters_or_endless_words_into_what_is_said_of_it",
            "tests/mcp/test_mcp_words.py"
            "::test_no_type_name_or_address_in_a_result_brings_escapes_into_what_the_model_reads",
            "tests/mcp/test_mcp_words.py::test_no_place_of_a_changed_tool_does_either",
            "tests/security/test_wire_text.py::test_the_name_of_an_exceptions_class_is_shown_escaped_and_cut",
        ),
    ),
    "T18": (
        "schemas that refer to other documents",
        (
            "tests/mcp/test_mcp_hostile.py::test_nothing_is_fetched_for_a_schema",
            "tests/tools/jsonschema/test_jsonschema_references.py::test_nothing_is_fetched",
        ),
    ),
    "T19": (
        "patterns that never stop matching",
        (
            "tests/tools/jsonschema/test_jsonschema_bounds.py::test_no_pattern_makes_a_text_take_long",
            "tests/tools/jsonschema/test_jsonschema_bounds.py"
            "::test_patterns_that_cost_much_to_compile_are_not_enforced",
            "tests/mcp/test_mcp_fetching.py::test_a_pattern_that_cannot_be_enforced_is_told",
        ),
    ),
    "T20": (
        "schema bombs",
        (
            "tests/tools/jsonschema/test_jsonschema_bounds.py"
            "::test_a_schema_beyond_a_limit_is_refused_and_the_limit_is_named",
            "tests/tools/jsonschema/test_jsonschema_bounds.py"
            "::test_work_beyond_the_limit_is_given_up_and_the_limit_is_named",
            "tests/mcp/test_mcp_hostile.py::test_a_schema_bomb_costs_little_and_nobody_else",
            "tests/mcp/test_mcp_bounds.py::test_what_is_beyond_the_bounds_of_a_whole_list_is_left_out_and_told",
            "tests/mcp/test_mcp_bounds.py::test_a_schema_is_kept_once_however_many_keep_it",
            "tests/mcp/test_mcp_bounds.py::test_the_time_of_listing_covers_making_the_tools",
            "tests/mcp/test_mcp_bounds.py::test_other_tasks_go_on_while_one_large_tool_is_made",
            "tests/mcp/test_mcp_transports.py::test_a_list_of_32_mb_in_one_line_is_refused_and_costs_little",
            "tests/exports/test_foreign_schemas_exported.py::test_references_that_multiply_are_bounded",
        ),
    ),
    "T21": (
        "deserialisation that runs code",
        (
            "tests/security/test_no_code_from_data.py"
            "::test_what_could_run_a_peers_words_stands_only_where_it_cannot_read_them",
            "tests/dispatch/test_process_executor.py::test_arguments_that_are_no_plain_json_are_not_started_and_not_told",
            "tests/dispatch/test_process_executor.py::test_a_tool_that_a_worker_would_not_find_is_refused_at_once",
        ),
    ),
    "T22": (
        "Python code in names, schemas and annotations",
        (
            "tests/security/test_no_code_from_data.py::test_python_in_any_place_of_any_wire_is_text",
            "tests/security/test_no_code_from_data.py::test_python_in_a_schema_of_somebody_elses_is_text",
            "tests/security/test_no_code_from_data.py"
            "::test_hints_are_evaluated_when_the_tool_is_registered_and_never_for_a_call",
        ),
    ),
    "T23": (
        "models that set the program's own arguments",
        (
            "tests/security/test_hostile_names.py::test_what_only_the_program_sets_cannot_be_set_by_a_model",
            "tests/tools/test_tool_definition.py::test_a_context_is_in_no_schema_and_cannot_be_sent",
            "tests/tools/test_foreign_schemas.py::test_an_open_schema_lets_nothing_set_what_is_injected_or_bound",
            "tests/tools/test_injected_parameters.py::test_a_context_of_a_framework_is_filled_and_no_model_sees_or_sets_it",
        ),
    ),
    "T24": (
        "values that are coerced to fit",
        (
            "tests/tools/test_tool_coercion.py::test_each_place_that_needed_it_is_recorded_and_strict_refuses_it",
            "tests/tools/test_tool_arguments.py::test_decoding_does_not_change_what_was_sent",
        ),
    ),
    "T25": (
        "more concurrent work than the machine can bear",
        (
            "tests/pipelines/test_limits_through_the_pipeline.py::test_no_more_tools_run_at_once",
            "tests/pipelines/test_limits_through_the_pipeline.py::test_no_more_threads_run_sync_tools_at_once",
            "tests/pipelines/test_limits_through_the_pipeline.py"
            "::test_past_so_many_threads_that_were_given_up_sync_tools_are_refused",
            "tests/pipelines/test_limits_through_the_pipeline.py::test_a_tool_that_takes_longer_is_timed_out",
            "tests/pipelines/test_limits_through_the_pipeline.py::test_the_source_is_no_further_ahead_of_the_consumer",
            "tests/pipelines/test_left_streams.py::test_a_stream_that_is_left_is_let_go_of",
            "tests/pipelines/test_left_streams.py"
            "::test_a_stream_that_is_left_while_its_tool_goes_on_in_a_thread_is_let_go_of",
        ),
    ),
    "T26": (
        "dependencies",
        (
            "tests/security/test_dependencies.py::test_the_library_needs_five_packages",
            "tests/security/test_no_code_from_data.py"
            "::test_the_library_brings_along_only_what_it_says_and_no_client_of_the_network",
        ),
    ),
    "T27": (
        "decompression bombs",
        (
            "tests/sources/test_encoded_bodies.py::test_a_bomb_ends_at_its_limit_and_takes_no_more_than_twice_that",
            "tests/sources/test_encoded_bodies.py::test_what_decodes_to_nothing_without_end_counts_as_it_comes",
            "tests/sources/test_encoded_bodies.py::test_a_window_may_be_as_large_as_http_allows_and_all_together_no_larger_than_one",
            "tests/sources/test_encoded_bodies.py::test_a_coding_whose_decoder_cannot_be_bounded_is_refused_and_the_remedy_is_told",
            "tests/integrations/test_encoded_bodies_sdk.py::test_a_bomb_over_a_connection_ends_at_its_limit",
            "benchmarks/bench_bombs.py",
        ),
    ),
    "T28": (
        "small calls that are expensive to validate",
        (
            "tests/security/test_hostile_validation.py"
            "::test_a_call_that_would_cost_much_is_judged_or_refused_for_a_bounded_price",
            "tests/security/test_validation_fuzzed.py::test_any_schema_judges_any_arguments_within_bounds",
            "tests/pipelines/test_large_calls.py::test_a_call_is_judged_outside_the_event_loop_if_that_takes_long",
            "tests/pipelines/test_large_calls.py::test_judging_counts_for_the_calls_timeout",
            "tests/tools/test_weighed_arguments.py::test_what_would_hold_up_everybody_is_refused_and_told_so",
            "tests/dispatch/test_declared_results.py"
            "::test_a_result_that_is_much_work_by_its_schema_is_judged_outside_the_event_loop",
            "benchmarks/bench_hostile.py",
        ),
    ),
    "T29": (
        "markup and scripts in texts that a page shows",
        (
            "tests/view/test_run_page.py::test_nothing_that_a_model_or_tool_wrote_runs_or_loads",
            "tests/view/test_run_page.py::test_the_policy_refuses_a_script_that_got_in_all_the_same",
            "tests/view/test_run_page.py::test_no_text_can_end_the_element_that_holds_the_data",
            "tests/view/test_run_page.py::test_no_text_turns_the_direction_of_writing_or_hides_on_the_page",
            "tests/view/test_conversation.py::test_a_call_can_be_linked_to_and_copied",
            "tests/wires/test_cited.py"
            "::test_whatever_stands_in_place_of_a_source_nothing_is_raised_and_only_addresses_are_shown",
        ),
    ),
    "T30": (
        "other users of the machine who read files",
        (
            "tests/security/test_private_files.py"
            "::test_a_file_is_its_owners_alone_from_the_start_whatever_the_umask_says",
            "tests/security/test_private_files.py::test_a_file_that_others_may_read_is_taken_away_from_them",
            "tests/security/test_private_files.py"
            "::test_a_path_that_is_a_link_or_no_file_is_refused_and_nothing_is_written_there",
            "tests/security/test_private_files.py"
            "::test_the_log_of_a_store_has_its_mode_also_where_another_process_made_it",
        ),
    ),
    "T31": (
        "pages of other hosts that read a server on this machine (DNS rebinding)",
        (
            "tests/view/test_live_view.py"
            "::test_a_page_of_another_host_cannot_read_the_run_by_letting_its_name_lead_here",
            "tests/view/test_live_page.py::test_a_page_of_another_host_that_leads_here_reads_nothing",
        ),
    ),
    "T32": (
        "pages that ask again by themselves (`EventSource`) and so start a run twice",
        (
            "tests/web/test_reconnects.py::test_an_event_source_that_nobody_closes_pays_once",
            "tests/web/test_reconnects.py::test_a_client_that_asks_again_is_told_to_stop_and_nothing_begins",
            "tests/web/test_reconnects.py::test_a_client_of_a_run_that_goes_on_has_an_id_before_the_first_event",
        ),
    ),
    "T33": (
        "one user's result for another",
        (
            "tests/web/test_tap_tools.py::test_a_call_gets_runs_of_its_own_conversation_only",
            "tests/web/test_tap_tenants.py::test_two_users_of_one_client_never_get_each_other_s_results",
            "tests/web/test_tap_tenants.py::test_a_task_that_serves_users_one_after_the_other_keeps_them_apart",
            "tests/web/test_tap_tools.py::test_a_scope_that_names_nobody_shares_nothing",
        ),
    ),
    "T34": (
        "calls by somebody who may not call the tool",
        (
            "tests/dispatch/test_callers.py"
            "::test_a_call_by_somebody_who_may_not_call_is_denied_and_answered_on_every_wire_that_names_callers",
            "tests/dispatch/test_callers.py::test_calls_at_hand_have_callers_too",
        ),
    ),
    "T35": (
        "keys in the environment of every tool",
        (
            "tests/dispatch/test_process_executor.py"
            "::test_a_worker_sees_what_programs_need_and_what_it_is_given_and_no_keys",
        ),
    ),
    "T36": (
        "arguments that a page or another result has put into the model's call",
        (
            "tests/provenance/test_policies.py::test_attacks_are_found_out_and_runs_as_users_mean_them_mostly_go_on",
            "tests/provenance/test_policies.py::test_a_strangers_attacks_are_found_out_but_for_the_named_ones",
            "tests/provenance/test_index.py"
            "::test_a_trusted_text_vouches_for_less_than_an_untrusted_one_is_suspected_of",
            "tests/provenance/test_policies.py"
            "::test_a_call_is_asked_about_or_denied_by_the_texts_that_its_arguments_come_from",
            "tests/provenance/test_policies.py::test_where_the_history_is_not_known_a_policy_is_refused",
            "tests/provenance/test_policies.py"
            "::test_a_large_page_is_indexed_while_others_go_on_and_beyond_the_limit_everything_is_asked_about",
            "benchmarks/bench_provenance.py",
        ),
    ),
    "T37": (
        "decisions that contradict each other, or what has happened",
        (
            "tests/dispatch/test_suspended.py::test_a_decision_counts_only_for_the_call_that_was_shown_not_for_its_id",
            "tests/dispatch/test_decisions.py"
            "::test_of_two_decisions_in_whatever_order_the_first_counts_and_the_second_is_told_of_it",
            "tests/dispatch/test_decisions.py"
            "::test_of_processes_that_decide_at_once_one_is_the_first_and_the_others_are_told_whose_counts",
            "tests/dispatch/test_decisions.py::test_a_run_that_died_after_the_decision_goes_on_with_it_and_runs_once",
            "tests/dispatch/test_decisions.py::test_a_call_that_has_run_is_never_denied_by_the_rules_of_today",
            "tests/dispatch/test_decisions.py::test_two_people_approve_each_by_name_and_one_denial_ends_it",
            "tests/dispatch/test_edited_calls.py"
            "::test_an_edited_call_runs_once_with_the_edits_and_the_model_reads_them",
            "tests/dispatch/test_edited_calls.py::test_edits_on_record_that_do_not_fit_deny_the_call_and_say_why",
            "tests/dispatch/test_edited_calls.py::test_a_policy_judges_edits_as_the_arguments_of_the_model",
            "tests/dispatch/test_edited_calls.py::test_a_decision_takes_only_json_as_edits",
            "tests/web/test_chat_faults.py"
            "::test_a_call_that_is_approved_with_edits_runs_with_them_once_and_is_shown_so",
            "tests/web/test_approval_page.py::test_of_two_tabs_the_first_click_counts_and_the_second_is_told_of_it",
            "tests/pipelines/test_journal_decisions.py"
            "::test_a_decision_from_elsewhere_reaches_a_run_that_waits_in_its_process",
            "tests/pipelines/test_journal_decisions.py"
            "::test_a_decision_about_a_run_that_nobody_runs_holds_when_the_line_runs_again",
            "tests/pipelines/test_journal_decisions.py::test_an_id_that_recurs_is_decided_by_the_ticket_alone",
            "tests/pipelines/test_journal_decisions.py::test_what_was_approved_is_judged_again_when_the_call_would_run",
            "tests/integrations/test_langgraph_approvals_sdk.py::"
            "test_an_answer_counts_for_the_arguments_that_were_shown_and_edited_ones_are_asked_about_again",
            "tests/integrations/test_langgraph_approvals_sdk.py::"
            "test_a_graph_that_is_resumed_again_with_another_answer_has_the_first_ones_verdict",
            "benchmarks/soak_deciders.py",
        ),
    ),
    "T38": (
        "runs and tenants that call tools and ask models without end",
        (
            "tests/dispatch/test_budgets.py"
            "::test_of_the_calls_of_a_turn_so_many_run_as_there_are_left_in_their_order_however_they_start",
            "tests/dispatch/test_budgets.py::test_all_steps_of_a_run_and_the_pipelines_in_its_tools_count_together",
            "tests/dispatch/test_budgets.py::test_a_run_that_was_suspended_goes_on_with_what_it_had_spent",
            "tests/dispatch/test_budgets.py"
            "::test_runs_that_share_a_pool_share_its_budget_in_whatever_event_loops_and_threads_they_are",
            "tests/dispatch/test_budgets.py"
            "::test_once_the_tokens_are_spent_no_further_call_runs_and_what_was_released_goes_on",
            "tests/dispatch/test_budgets.py::test_a_loop_asks_no_more_once_the_tokens_are_spent",
            "tests/dispatch/test_budgets.py::test_a_run_whose_pool_has_no_tokens_left_asks_nothing",
        ),
    ),
    "T39": (
        "readers of a live view who were not given its address",
        (
            "tests/view/test_live_view.py"
            "::test_a_request_without_the_token_is_refused_without_content_and_the_token_leaves_the_scope",
            "tests/view/test_live_view.py::test_the_access_log_of_a_server_has_no_token",
        ),
    ),
    "T40": (
        "secrets in recordings, spans, pages, views, logs and web frames",
        (
            "tests/privacy/test_no_secret_in_copies.py::test_none_of_a_hundred_secrets_is_in_any_copy",
            "tests/privacy/test_no_secret_in_copies.py::test_a_stream_that_fails_or_is_left_shows_no_secret_either",
            "tests/privacy/test_no_secret_in_copies.py::test_only_unregistered_names_of_tools_are_content",
            "tests/privacy/test_secrets_in_text.py::test_wherever_deltas_cut_a_text_they_join_to_the_masked_text",
            "tests/privacy/test_secrets_in_text.py"
            "::test_of_an_open_match_no_more_is_held_than_the_bound_however_long_it_is",
            "tests/privacy/test_secrets_in_text.py::test_hostile_text_takes_time_in_proportion_to_its_length",
            "tests/telemetry/test_approval_spans.py::test_a_redaction_that_fails_shows_nothing_and_breaks_nothing",
            "tests/record/test_redacted_recordings.py::test_a_redaction_that_fails_writes_nothing_more",
            "tests/web/test_cited_sources.py::test_a_policy_that_cannot_read_an_image_lets_none_leave",
        ),
    ),
    "T41": (
        "trace stores that lead a viewer elsewhere or never end",
        (
            "tests/test_cli_view_traces.py::test_an_address_that_gives_no_trace_is_a_mistake_of_one_line_without_its_secrets",
            "tests/test_cli_view_traces.py::test_a_jaeger_that_answers_too_much_or_for_too_long_is_left",
        ),
    ),
    "T42": (
        "a process that dies, or two that run the same run",
        (
            "tests/pipelines/test_journal.py::test_a_run_that_lost_its_connection_goes_on_by_the_same_line",
            "tests/pipelines/test_journal.py::test_a_call_begins_when_its_response_is_stored_and_not_before",
            "tests/pipelines/test_journal.py::test_a_call_whose_end_is_not_known_suspends_the_run_until_somebody_settles_it",
            "tests/pipelines/test_journal.py::test_a_run_that_was_taken_over_changes_nothing_any_more",
            "tests/pipelines/test_journal_leases.py"
            "::test_a_run_that_lost_its_lease_ends_the_call_that_had_begun_and_begins_no_other",
            "tests/pipelines/test_reviewed_runs.py::test_a_call_that_has_begun_keeps_its_end_whatever_holds_now",
            "tests/durable/test_journaled_runs.py::test_a_killed_run_goes_on_with_every_effect_once_and_its_page_has_every_event_once",
        ),
    ),
    "T43": (
        "answers from outside that contradict each other, or are not what was asked for",
        (
            "tests/pipelines/test_answers.py::test_the_first_answer_counts_and_others_are_refused_in_words",
            "tests/pipelines/test_answers.py::test_an_answer_is_bounded_and_checked_as_the_result_of_any_tool",
            "tests/pipelines/test_answers.py::test_a_call_is_approved_first_and_then_done_outside",
            "tests/pipelines/test_answers.py"
            "::test_an_answer_reaches_a_run_on_record_from_elsewhere_and_outlives_its_process",
            "tests/pipelines/test_answers.py::test_the_first_of_two_answers_from_two_places_counts",
            "tests/mcp/test_mcp_elicitation.py"
            "::test_questions_outside_a_call_or_beyond_the_bounds_are_cancelled_and_addresses_shown_as_text",
        ),
    ),
    "T44": (
        "clients of a chat that invent a history, or send what nobody can bear",
        (
            "tests/web/test_requests_in.py::test_nothing_that_a_client_has_invented_is_taken",
            "tests/web/test_requests_in.py::test_hostile_bodies_are_refused",
            "tests/web/test_requests_in.py"
            "::test_each_value_of_a_request_may_be_anything_and_only_one_error_comes_of_it",
            "tests/web/test_requests_in.py::test_files_and_tools_of_clients_are_bounded",
            "tests/web/test_chat_completions_app.py"
            "::test_an_old_result_answers_no_later_call_and_one_of_a_dead_process_goes_on_in_another",
            "tests/web/test_chat_completions_app.py::test_what_cannot_be_answered_is_an_error_of_the_openai_client",
        ),
    ),
    "T45": (
        "pages that ask for others' conversations, ask twice, come back, or go",
        (
            "tests/web/test_chat_app.py::test_the_same_request_again_begins_nothing_and_is_answered_alike",
            "tests/web/test_chat_app.py::test_an_answer_that_was_made_up_runs_nothing",
            "tests/web/test_chat_app.py::test_only_those_who_may_are_answered",
            "tests/web/test_chat_app.py::test_a_decision_may_meet_a_run_that_is_being_left",
            "tests/web/test_chat_app.py::test_what_leaves_obeys_one_policy_in_the_stream_and_later",
            "tests/web/test_chat_app.py::test_a_log_in_memory_and_a_deleted_conversation",
            "tests/web/test_deleted_chats.py"
            "::test_a_removed_conversation_leaves_no_record_no_decision_no_answer_and_no_file",
            "tests/web/test_deleted_chats.py"
            "::test_what_other_processes_begin_while_a_conversation_is_removed_is_removed_too_or_does_nothing",
            "tests/web/test_equal_requests.py"
            "::test_equal_requests_at_once_begin_one_run_and_each_reads_its_whole_answer",
            "tests/durable/test_journaled_runs.py::test_a_killed_run_goes_on_with_every_effect_once_and_its_page_has_every_event_once",
        ),
    ),
}
"""By threat: its row in SECURITY.md, and what holds it."""

IN_SHORT: dict[str, tuple[str, ...]] = {
    "Every limit is on by default, except three timeouts and the budgets.": (
        "tests/security/test_bounds.py::test_no_limit_is_off_unless_somebody_turns_it_off",
    ),
    "Nothing from the wire is evaluated, imported, unpickled or fetched.": (
        "tests/security/test_no_code_from_data.py"
        "::test_what_could_run_a_peers_words_stands_only_where_it_cannot_read_them",
        "tests/security/test_no_code_from_data.py::test_python_in_any_place_of_any_wire_is_text",
    ),
    "Nothing from the wire is logged raw.": (
        "tests/security/test_wire_text.py::test_a_log_record_is_one_printable_line_whatever_the_formatter_shows",
        "tests/security/test_wire_text.py::test_without_a_logger_of_yours_only_a_tools_exception_is_logged_and_nothing_of_the_wire_raw",
    ),
    "Only registered tools run, and only with complete arguments that match their schema.": (
        "tests/security/test_hostile_names.py::test_a_name_that_is_not_a_registered_one_runs_nothing_and_is_answered",
        "tests/pipelines/test_any_bytes_through_the_pipeline.py"
        "::test_any_bytes_end_in_a_turn_or_a_typed_error_and_run_nothing_that_is_not_whole",
    ),
    "Every refusal is an event.": (
        "tests/test_laws_sansio.py::test_every_announced_call_ends_once_and_has_one_result_in_the_history",
    ),
    "Content is not exported unless you opt in.": (
        "tests/telemetry/test_content.py::test_no_content_is_in_any_span_by_default",
        "tests/security/test_secrets.py::test_a_secret_of_a_call_is_told_nowhere",
    ),
}
"""The promises in one sentence each."""
