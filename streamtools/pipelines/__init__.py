"""Runs one stream and its calls in an event loop: `pipeline`, and the ways to go on after it.

entry        `pipeline` and `resume`, with all of their options
block        `Pipeline`: the block that reads a stream, and the handle for its calls
pump         reads the source, feeds the decoder; `queues` holds the events until they are taken
step         stamps each event, tells the observers; `causality` knows which event led to which
settling     how a step ends; `joining` waits for its tasks, `deadlines` for its time
hosted       a pipeline that a task group of the caller's holds open; `resuming` goes on with calls that waited
trajectory   a run of several steps, made by hand; `agent_loop` makes the requests, too
"""
