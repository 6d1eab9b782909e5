"""What the project was begun for, item by item: the capability, and the tests that show it (files below ``tests/``).

The items come from the five documents that the project grew out of: S1 to S25 the Tool Adapter pattern, S26 to S49 the
architecture of tools, S50 to S67 adapters for models without native calls, S68 to S97 the interop of schemas, calls and
results, S98 to S108 exports. `test_seed_checklist` holds this list to the tests.
"""

from __future__ import annotations

__all__ = ["CHECKLIST"]

CHECKLIST: dict[str, tuple[str, tuple[str, ...]]] = {
    "S1": (
        "a tool is registered with name, description, callable and return type; a duplicate name is refused",
        (
            "tools/test_tool_definition.py::test_a_tool_says_what_the_function_says",
            "tools/test_type_map.py::test_two_tools_of_one_name_are_refused",
            "tools/test_type_map.py::test_the_output_schema_is_that_of_the_return_type_where_there_is_one",
        ),
    ),
    "S2": (
        "the schema is derived from the typed signature",
        ("tools/test_type_map.py::test_descriptions_defaults_and_required_come_from_the_function",),
    ),
    "S3": (
        "the schema of an external protocol's tool is fetched, into the same shape",
        (
            "mcp/test_mcp_fetching.py::test_a_servers_tool_has_the_shape_of_any_tool",
            "mcp/test_mcp_fetching.py::test_the_observation_says_where_the_schema_comes_from",
        ),
    ),
    "S4": (
        "the contract that the model sees is stable: the same bytes in every process",
        ("exports/test_export_oracles.py::test_payloads_are_the_same_in_every_process",),
    ),
    "S5": (
        "a missing field is rejected before the function runs",
        (
            "pipelines/test_run_calls.py::test_the_record_is_that_of_the_pipeline",
            "test_testing.py::test_a_call_that_is_refused_leaves_no_trace_on_a_fake_tool",
        ),
    ),
    "S6": (
        "an unexpected field is rejected before the function runs",
        ("test_testing.py::test_a_call_that_is_refused_leaves_no_trace_on_a_fake_tool",),
    ),
    "S7": (
        "a value of the wrong type is rejected, and the error names parameter and type",
        (
            "tools/test_foreign_schemas.py::test_the_arguments_are_enforced_before_the_function_runs",
            "pipelines/test_run_calls.py::test_run_raises_what_the_tool_raised_or_why_it_did_not_run",
        ),
    ),
    "S8": (
        "the function gets typed arguments",
        (
            "tools/test_models_as_arguments.py::test_the_function_gets_the_instance",
            "tools/test_tool_arguments.py::test_values_reach_the_function_with_their_types",
        ),
    ),
    "S9": (
        "the observation is frozen",
        ("test_vocabulary.py::test_an_observation_cannot_be_changed",),
    ),
    "S10": (
        "each call leaves a record that can be printed",
        (
            "tools/test_call_report.py::test_a_good_call_is_reported_in_the_eight_lines_and_what_follows",
            "tools/test_call_report.py::test_a_bad_call_is_reported_with_what_is_wrong_and_without_the_values",
        ),
    ),
    "S11": (
        "a tool runs a call from its JSON, with the outcome that a pipeline would give",
        (
            "pipelines/test_run_calls.py::test_a_dict_runs_as_its_text_does",
            "pipelines/test_run_calls.py::test_the_record_is_that_of_the_pipeline",
        ),
    ),
    "S12": (
        "a rejected call leaves no trace on the tool",
        ("test_testing.py::test_a_call_that_is_refused_leaves_no_trace_on_a_fake_tool",),
    ),
    "S13": (
        "a protocol's schema is enforced whole; what cannot be enforced is told",
        (
            "mcp/test_mcp_fetching.py::test_every_keyword_of_the_servers_schema_is_enforced_and_none_is_lost",
            "mcp/test_mcp_fetching.py::test_a_pattern_that_cannot_be_enforced_is_told",
            "tools/test_foreign_schemas.py::test_arguments_come_out_as_they_went_in_but_for_what_is_recorded",
            "tools/test_foreign_schemas.py::test_check_tells_what_of_a_schema_is_not_enforced",
        ),
    ),
    "S14": (
        "fetched schemas are cached by server (and credentials)",
        (
            "mcp/test_mcp_cache.py::test_two_resolves_ask_once",
            "mcp/test_mcp_cache.py::test_lists_are_kept_apart",
        ),
    ),
    "S15": (
        "a stale schema is fetched again: by time, by notification, on request, by version",
        (
            "mcp/test_mcp_cache.py::test_a_list_holds_as_long_as_the_server_says_or_for_the_default",
            "mcp/test_mcp_sessions.py::test_a_change_on_the_server_is_seen_by_the_next_resolve",
            "mcp/test_mcp_cache.py::test_a_list_is_given_up_by_name_or_all_at_once",
            "mcp/test_mcp_cache.py::test_a_session_of_another_server_version_asks_again",
        ),
    ),
    "S16": (
        "one schema feeds export, validation and record",
        ("tools/test_type_map.py::test_a_schema_is_made_once_and_serves_all",),
    ),
    "S17": (
        "calls found in text pass the same boundary",
        ("modes/test_payload_streams.py::test_bad_arguments_are_rejected_as_native_ones_are",),
    ),
    "S18": (
        "strict or permissive is a named policy, and coercions are recorded",
        ("tools/test_tool_coercion.py::test_each_place_that_needed_it_is_recorded_and_strict_refuses_it",),
    ),
    "S19": (
        "a schema written by hand has an owner, and drift is reported",
        (
            "tools/test_foreign_schemas.py::test_a_tool_keeps_the_schema_as_it_was_written",
            "tools/test_foreign_schemas.py::test_check_tells_where_the_schema_has_drifted_from_the_function",
        ),
    ),
    "S20": (
        "a boundary without validation is labelled advisory, and a downstream check runs",
        ("tools/test_foreign_schemas.py::test_without_a_schema_the_boundary_is_advisory_and_every_record_says_so",),
    ),
    "S21": (
        "policy is separate from the adapter",
        (
            "pipelines/test_policy.py::test_a_policy_stage_refuses_a_call_that_the_schema_allows_and_the_tool_knows_nothing_of_it",
        ),
    ),
    "S22": (
        "a call carries the same ids in event, log record and span",
        ("pipelines/test_cursor.py::test_a_call_has_the_same_ids_in_event_log_record_and_span",),
    ),
    "S23": (
        "tool boundaries are points of a cursor over the run",
        (
            "pipelines/test_cursor.py::test_a_call_is_a_point_between_what_came_before_and_after_it",
            "pipelines/test_cursor.py::test_reading_goes_on_from_any_place",
        ),
    ),
    "S24": (
        "validation is a named operator",
        ("tools/test_foreign_schemas.py::test_a_validator_of_ones_own_judges_instead_and_is_named_in_the_record",),
    ),
    "S25": (
        "a tool is not wrapped twice",
        ("tools/test_type_map.py::test_a_tool_that_is_one_already_comes_back_as_it_is",),
    ),
    "S26": (
        "a tool without a docstring is refused at definition",
        ("tools/test_tool_definition.py::test_what_cannot_be_a_tool_is_refused_at_once",),
    ),
    "S27": (
        "a parameter without a hint is refused by name",
        ("tools/test_tool_definition.py::test_what_cannot_be_a_tool_is_refused_at_once",),
    ),
    "S28": (
        "a missing return annotation is refused",
        ("tools/test_tool_definition.py::test_what_cannot_be_a_tool_is_refused_at_once",),
    ),
    "S29": (
        "a parameter that JSON cannot say is refused",
        ("tools/test_type_map.py::test_a_parameter_that_no_json_can_say_is_refused_at_definition",),
    ),
    "S30": (
        "a tool is callable, and runs validated",
        ("pipelines/test_run_calls.py::test_run_gives_the_value_that_a_direct_call_gives",),
    ),
    "S31": (
        "sync tools run in a thread, with the caller's context",
        (
            "pipelines/test_run_calls.py::test_a_sync_tool_runs_in_a_thread_with_the_callers_context_while_the_loop_goes_on",
        ),
    ),
    "S32": (
        "types, descriptions from the docstring, defaults and required",
        ("tools/test_type_map.py::test_descriptions_defaults_and_required_come_from_the_function",),
    ),
    "S33": (
        "all types that a schema can say",
        ("tools/test_type_map.py::test_a_type_has_its_schema_and_its_values",),
    ),
    "S34": (
        "any object with the three methods is an adapter",
        ("modes/test_model_rules.py::test_an_object_with_three_methods_is_an_adapter",),
    ),
    "S35": (
        "the native adapter",
        (
            "modes/test_requests.py::test_native_tools_are_functions_of_the_request",
            "modes/test_payloads.py::test_native_calls_come_before_content_and_content_is_the_answer",
        ),
    ),
    "S36": (
        "the JSON-object adapter",
        (
            "modes/test_requests.py::test_json_mode_puts_the_tools_into_the_system_prompt",
            "modes/test_payloads.py::test_a_text_holds_this_payload",
        ),
    ),
    "S37": (
        "validation wraps any adapter",
        (
            "modes/test_validation.py::test_validation_around_it_rejects_what_it_lets_pass",
            "modes/test_validation.py::test_validation_wraps_an_adapter_of_the_users",
        ),
    ),
    "S38": (
        "a factory by mode, with a fallback",
        (
            "modes/test_model_rules.py::test_a_mode_that_is_given_is_taken_whatever_the_name_says",
            "modes/test_model_rules.py::test_what_no_rule_knows_gets_json_mode_and_validation",
        ),
    ),
    "S39": (
        "extract, look up, run, give back",
        ("modes/test_loops.py::test_a_loop_over_whole_responses_runs_tools_and_survives_their_failures",),
    ),
    "S40": (
        "an exception and a validation error become results",
        ("modes/test_loops.py::test_a_loop_over_whole_responses_runs_tools_and_survives_their_failures",),
    ),
    "S41": (
        "tools are found by name; what cannot be one is refused",
        (
            "tools/test_toolset.py::test_tools_functions_and_bare_names_are_found_by_name",
            "tools/test_toolset.py::test_a_function_that_cannot_be_a_tool_is_refused",
        ),
    ),
    "S42": (
        "a loop until the answer, bounded in steps",
        (
            "modes/test_loops.py::test_a_loop_goes_on_until_the_answer",
            "modes/test_loops.py::test_a_loop_ends_after_its_last_step_without_an_answer",
        ),
    ),
    "S43": (
        "simple, async, with context, multi-step tools",
        (
            "pipelines/test_run_calls.py::test_steps_of_one_tool_may_run_others",
            "tools/test_tool_definition.py::test_a_context_is_in_no_schema_and_cannot_be_sent",
        ),
    ),
    "S44": (
        "static analysis of tool classes",
        (
            "tools/test_tool_methods.py::test_the_audit_lists_every_issue",
            "tools/test_tool_methods.py::test_the_audit_may_raise",
        ),
    ),
    "S45": (
        "a call is judged without being run",
        ("pipelines/test_run_calls.py::test_a_call_is_valid_if_name_and_arguments_are_the_tools",),
    ),
    "S46": (
        "a schema is made once",
        ("tools/test_type_map.py::test_a_schema_is_made_once_and_serves_all",),
    ),
    "S47": (
        "a batch of calls runs at once",
        (
            "pipelines/test_run_calls.py::test_calls_may_run_at_once",
            "dispatch/test_dispatch.py::test_calls_run_at_the_same_time",
        ),
    ),
    "S48": (
        "heavy tools are loaded at the first call, once",
        (
            "tools/test_lazy_tools.py::test_nothing_is_loaded_before_the_first_call_and_once_then_in_a_thread",
            "tools/test_lazy_tools.py::test_calls_that_come_while_another_loads_wait_for_it",
        ),
    ),
    "S49": (
        "one tool serves models that call in five ways",
        ("modes/test_loops.py::test_five_models_that_call_one_tool_give_one_record",),
    ),
    "S50": (
        "five modes with their values",
        ("modes/test_model_rules.py::test_the_modes_have_the_values_that_configuration_files_use",),
    ),
    "S51": (
        "the mode by the model's name",
        ("modes/test_model_rules.py::test_a_name_leads_to_a_mode",),
    ),
    "S52": (
        "an explicit mode wins",
        ("modes/test_model_rules.py::test_a_mode_that_is_given_is_taken_whatever_the_name_says",),
    ),
    "S53": (
        "the table of models is the user's to extend",
        ("modes/test_model_rules.py::test_a_rule_of_the_users_wins_over_the_defaults",),
    ),
    "S54": (
        "the adapter is a protocol that can be checked at run time",
        (
            "modes/test_model_rules.py::test_an_object_with_three_methods_is_an_adapter",
            "modes/test_model_rules.py::test_every_adapter_serves_streams_and_whole_responses",
        ),
    ),
    "S55": (
        "a verdict is frozen",
        ("modes/test_validation.py::test_a_verdict_cannot_be_changed",),
    ),
    "S56": (
        "structured: one closed, strict-legal variant per tool, an answer and a scratchpad",
        (
            "modes/test_requests.py::test_the_answer_is_held_to_one_closed_variant_per_tool_an_answer_and_a_scratchpad",
            "modes/test_requests.py::test_definitions_of_several_tools_stand_together_without_mixing",
        ),
    ),
    "S57": (
        "native: content is the answer where there are no calls",
        ("modes/test_payloads.py::test_native_calls_come_before_content_and_content_is_the_answer",),
    ),
    "S58": (
        "validated: nothing in the request, JSON found in the text, arguments normalised",
        (
            "modes/test_requests.py::test_parsing_asks_nothing_of_the_provider",
            "modes/test_payloads.py::test_a_text_holds_this_payload",
            "modes/test_validation.py::test_good_arguments_come_back_typed_and_with_defaults",
        ),
    ),
    "S59": (
        "parsed: unvalidated, and the record says so",
        (
            "modes/test_validation.py::test_parsed_arguments_pass_as_they_are_and_the_record_says_so",
            "modes/test_loops.py::test_parsed_calls_run_unvalidated_and_their_record_says_so",
        ),
    ),
    "S60": (
        "the three shapes of a payload",
        ("modes/test_payloads.py::test_a_text_holds_this_payload",),
    ),
    "S61": (
        "the error's words",
        ("modes/test_validation.py::test_what_is_wrong_is_said_in_pydantics_words",),
    ),
    "S62": (
        "retries with the error fed back, within a budget",
        ("modes/test_validation.py::test_a_scripted_model_corrects_itself_or_the_budgets_end_is_reported",),
    ),
    "S63": (
        "extract and validate are separate",
        ("modes/test_validation.py::test_what_is_wrong_is_said_in_pydantics_words",),
    ),
    "S64": (
        "choosing asks nobody",
        ("modes/test_model_rules.py::test_choosing_asks_nobody",),
    ),
    "S65": (
        "an adapter serves without an agent",
        ("modes/test_loops.py::test_an_adapter_serves_without_an_agent",),
    ),
    "S66": (
        "all adapters stream",
        (
            "modes/test_payload_streams.py::test_a_stream_and_a_whole_response_give_equal_payloads",
            "modes/test_payload_streams.py::test_a_payload_that_was_cut_anywhere_is_never_dispatchable",
        ),
    ),
    "S67": (
        "histories of text",
        ("modes/test_text_histories.py::test_what_was_said_stays_as_it_was_and_results_are_observations",),
    ),
    "S68": (
        "schemas, calls and results are three flows",
        (
            "interop/test_interop_registry.py::test_each_flow_knows_its_own_objects_only",
            "interop/test_interop_registry.py::test_no_flow_takes_what_belongs_to_another",
        ),
    ),
    "S69": (
        "every format converts to every other",
        (
            "interop/test_interop_schemas.py::test_a_function_says_the_same_in_every_format",
            "interop/test_interop_schemas.py::test_a_freeform_tool_says_the_same_in_every_format",
            "interop/test_interop_calls.py::test_a_call_of_a_function_says_the_same_in_every_format",
        ),
    ),
    "S70": (
        "a target is a value",
        ("interop/test_interop_schemas.py::test_a_target_is_its_wire",),
    ),
    "S71": (
        "config goes before provider, extension, tool and what is built in",
        ("interop/test_interop_registry.py::test_config_goes_before_provider_extension_tool_and_what_is_built_in",),
    ),
    "S72": (
        "what the provider accepts passes untouched",
        (
            "interop/test_interop_registry.py::test_the_stack_says_which_formats_a_request_may_hold",
            "interop/test_interop_schemas.py::test_an_accepted_format_goes_through_as_the_same_object",
        ),
    ),
    "S73": (
        "the request's context carries registry and formats",
        (
            "interop/test_interop_registry.py::test_the_context_carries_registry_and_formats",
            "interop/test_interop_registry.py::test_without_a_request_there_is_the_default",
        ),
    ),
    "S74": (
        "the default registry is the last resort, and warns",
        ("interop/test_interop_registry.py::test_using_the_default_within_a_request_warns_where_it_is_used",),
    ),
    "S75": (
        "a registry is never stored",
        ("interop/test_interop_registry.py::test_a_registry_is_neither_copied_nor_stored",),
    ),
    "S76": (
        "the source schema stays as authored",
        ("interop/test_interop_registry.py::test_a_descriptor_keeps_the_schema_as_its_author_wrote_it",),
    ),
    "S77": (
        "conversion happens when the request is made",
        (
            "interop/test_interop_requests.py::test_source_schemas_are_converted_when_the_request_is_made",
            "interop/test_interop_requests.py::test_tools_that_are_there_already_stay",
            "interop/test_interop_requests.py::test_a_choice_of_tools_stays",
        ),
    ),
    "S78": (
        "what is no dict is skipped",
        ("interop/test_interop_schemas.py::test_what_is_no_dict_is_left_out",),
    ),
    "S79": (
        "a freeform tool becomes a function with one text",
        ("interop/test_interop_schemas.py::test_a_freeform_tool_becomes_a_function_with_one_text",),
    ),
    "S80": (
        "and back",
        (
            "interop/test_interop_calls.py::test_the_tool_gets_the_text_of_a_wrapped_call",
            "interop/test_interop_calls.py::test_a_wrapped_call_of_a_freeform_tool_becomes_raw_again",
            "tools/test_freeform_tools.py::test_a_custom_call_and_a_function_call_run_alike",
        ),
    ),
    "S81": (
        "accessors tell what a call means",
        ("interop/test_interop_calls.py::test_a_call_tells_its_tool_id_and_payload",),
    ),
    "S82": (
        "adapters write a call in another format",
        ("interop/test_interop_calls.py::test_a_responses_call_becomes_a_chat_call",),
    ),
    "S83": (
        "a custom call stays raw",
        ("interop/test_interop_calls.py::test_a_custom_call_stays_raw",),
    ),
    "S84": (
        "the stored form of an answer with calls",
        ("interop/test_interop_history.py::test_an_answer_is_stored_with_its_calls",),
    ),
    "S85": (
        "corrupt arguments become empty ones; valid ones are untouched",
        (
            "interop/test_interop_calls.py::test_corrupt_arguments_become_empty_ones",
            "interop/test_interop_calls.py::test_a_cleaned_call_is_always_an_object_and_stays_as_it_is",
        ),
    ),
    "S86": (
        "calls of a stream are cleaned in its state",
        ("interop/test_interop_requests.py::test_the_calls_of_a_stream_are_cleaned_in_its_state",),
    ),
    "S87": (
        "cleaned before they are kept",
        ("interop/test_interop_requests.py::test_a_corrupt_fragment_is_nowhere_in_the_next_request",),
    ),
    "S88": (
        "a cleaned call never runs, and its text is kept apart",
        (
            "interop/test_interop_flow.py::test_a_call_that_was_cleaned_runs_nothing_and_its_text_stays_on_the_turn",
            "interop/test_interop_calls.py::test_a_stored_answer_tells_which_of_its_calls_must_not_run",
        ),
    ),
    "S89": (
        "tools of objects and of raw text side by side",
        ("interop/test_interop_flow.py::test_tools_of_objects_and_of_raw_text_run_in_one_pipeline",),
    ),
    "S90": (
        "the stored form of a result",
        ("interop/test_interop_results.py::test_a_value_is_stored_as_its_json",),
    ),
    "S91": (
        "what a person is shown is never sent",
        (
            "interop/test_interop_results.py::test_what_a_person_is_shown_is_never_sent",
            "dispatch/test_blocks_of_a_result.py::test_without_a_value_the_program_gets_the_whole_result",
        ),
    ),
    "S92": (
        "content in one provider's own shape goes there, and nowhere else",
        (
            "interop/test_interop_results.py::test_an_envelope_stays_a_structure_for_its_own_provider_only",
            "dispatch/test_blocks_of_a_result.py::test_a_native_content_goes_to_its_own_wire_and_to_no_other",
        ),
    ),
    "S93": (
        "accessors and adapters of results",
        (
            "interop/test_interop_results.py::test_an_adapter_writes_the_content_and_the_wire_its_place",
            "interop/test_interop_results.py::test_a_native_result_is_understood_and_written_for_another",
        ),
    ),
    "S94": (
        "results for every provider",
        (
            "interop/test_interop_results.py::test_a_chat_provider_gets_a_tool_message",
            "interop/test_interop_results.py::test_a_responses_provider_gets_an_output_item",
            "interop/test_interop_results.py::test_a_failure_says_so_where_the_wire_can",
        ),
    ),
    "S95": (
        "native histories from stored ones, and back",
        (
            "interop/test_interop_history.py::test_a_stored_history_is_rebuilt_from_each_native_one",
            "interop/test_interop_history.py::test_a_history_moves_from_one_provider_to_another",
        ),
    ),
    "S96": (
        "attachments are expanded when the request is made, and never stored",
        (
            "interop/test_interop_results.py::test_no_base64_is_stored_and_the_request_has_it_again",
            "interop/test_interop_requests.py::test_attachments_are_expanded_in_the_payload_only",
        ),
    ),
    "S97": (
        "tools, providers and extensions contribute; a provider steps in where no extension does",
        (
            "interop/test_interop_registry.py::test_contributions_are_asked_of_objects_functions_and_tools",
            "interop/test_interop_requests.py::test_the_provider_puts_the_tools_in_where_no_extension_did",
            "interop/test_interop_requests.py::test_what_an_extension_put_in_is_left_as_it_is",
        ),
    ),
    "S98": (
        "a definition of a function, a tool or a model",
        ("exports/test_tool_definitions.py::test_a_definition_is_made_of_a_function_a_tool_or_a_model",),
    ),
    "S99": (
        "the canonical schema is a closed object of 2020-12",
        ("exports/test_tool_definitions.py::test_the_canonical_schema_is_a_closed_object_of_2020_12",),
    ),
    "S100": (
        "name, description, parameters, and output where it is known",
        (
            "exports/test_tool_definitions.py::test_the_methods_give_what_export_gives",
            "exports/test_tool_definitions.py::test_a_definition_without_a_result_says_none",
        ),
    ),
    "S101": (
        "OpenAI's shape",
        (
            "exports/test_export_payloads.py::test_the_payloads_carry_the_tools_own_schema",
            "exports/test_export_payloads.py::test_a_payload_is_what_the_providers_package_types",
        ),
    ),
    "S102": (
        "OpenAI's strict shape, nested, optional and recursive",
        (
            "exports/test_export_oracles.py::test_strict_schemas_of_openai_keep_to_the_documented_subset",
            "exports/test_way_back.py::test_null_leaves_out_what_may_be_left_out",
        ),
    ),
    "S103": (
        "the flat shape of Responses",
        ("exports/test_export_payloads.py::test_the_payloads_carry_the_tools_own_schema",),
    ),
    "S104": (
        "Anthropic's: bounds in descriptions, at every depth, or kept",
        (
            "exports/test_tool_definitions.py::test_anthropic_reads_bounds_in_descriptions_at_every_depth_unless_they_are_kept",
        ),
    ),
    "S105": (
        "MCP's: result schema, references inlined unless they recur",
        (
            "exports/test_export_payloads.py::test_mcp_tells_title_result_and_hints",
            "exports/test_export_payloads.py::test_mcp_inlines_definitions_unless_they_contain_themselves",
        ),
    ),
    "S106": (
        "Gemini's: upper-case types, and no keyword that it refuses",
        (
            "exports/test_export_payloads.py::test_what_gemini_and_ollama_do_not_know_is_told_in_the_description",
            "exports/test_export_oracles.py::test_every_tool_is_carried_and_what_a_model_says_arrives",
        ),
    ),
    "S107": (
        "the difference between targets on the command line, with an exit status",
        (
            "test_cli_schema.py::test_diff_names_each_place_and_how_it_differs",
            "test_cli_schema.py::test_diff_with_check_exits_with_1_on_a_difference",
        ),
    ),
    "S108": (
        "the table of targets is made of the code",
        (
            "test_docs.py::test_the_tables_of_the_pages_are_those_of_the_code",
            "exports/test_tool_definitions.py::test_the_tables_name_every_target_and_every_keyword",
        ),
    ),
}
