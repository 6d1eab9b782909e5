"""JSON Schema: the dialects that providers take, their bounds and names, judging values, rewriting schemas.

validation    judges values by a schema (2020-12, draft-07)
translation   rewrites a schema in a provider's dialect, with the way back for the arguments
keywords      what becomes of each keyword in each dialect; `dialects`, `names` and `bounds` have the rest of a dialect
openapi       Gemini's ``parameters`` as JSON Schema
paths         a path into a value as a person reads it
"""
