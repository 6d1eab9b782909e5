"""Lets calls wait for people and programs: for an approval, for an answer, for what the gate knows of earlier runs.

calls.Waiting      the calls that wait: the first response counts
approval           asks an approver, and reads its verdict
answers            an answer as bytes, and the ending of a call that has none
edits.Edits        applies the arguments that a person has edited
looking            looks up how calls that may have run before ended, before anything is done about them
"""
