"""Translates a tool's schema into a provider's dialect, with the plan that decodes the model's arguments.

Start with `translate.make`: it has a translator for each kind of subschema, and one for dialects that accept a schema
as it is. `document` reads a schema and keeps one run over it, `fits` compares and merges schemas, `plan` is the way
back.
"""
