"""Builds, checks and compares a release; nothing of it is shipped. The Makefile says how each part is run."""
