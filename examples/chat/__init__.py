"""A chat with its own page: text, calls, approvals and a timeline of a run that survives a reload."""
