"""A chat and its pages: text, calls, approvals and a timeline of a run that survives a reload."""
