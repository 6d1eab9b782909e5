"""Translates a tool's schema into a provider's dialect, with the plan that turns the model's arguments back.

Start with `translate.make`. `state` keeps one run over a schema; `containers`, `unions` and `scalars` translate one
kind of subschema each; `verbatim` is for dialects that take a schema as it is. `plan` is the way back.
"""
