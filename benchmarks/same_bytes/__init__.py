"""What several loops do with the same bytes, for the table of README: ``docs/same_bytes.py`` writes it."""
