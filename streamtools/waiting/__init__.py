"""Lets calls wait for people and programs: for an approval, for an answer, for the gate's word on what has begun.

calls.Waiting      the calls that wait: the first response counts
approval           asks an approver, and reads its verdict
answers            an answer as bytes, and the ending of a call that has none
edits.Edits        applies the arguments that a person has edited
looking            looks how calls ended that may have run before, before anything is done about them
"""
