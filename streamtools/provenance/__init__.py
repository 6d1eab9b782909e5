"""Knows from which texts of a run a value comes.

index.Index              the texts of a run by origin, and the search for a value
"""
