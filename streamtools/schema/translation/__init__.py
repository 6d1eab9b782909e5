"""A tool's schema in a provider's dialect, and the plan by which the model's arguments find their way back.

`translate.make` is the entry. `state` holds one run over a schema; `objects`, `arrays`, `unions`, `scalars` and
`references` translate one kind of subschema each into `said`; `verbatim` is for dialects that take a schema as it is.
"""
