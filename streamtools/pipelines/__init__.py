"""Runs one stream and its calls in an event loop: `pipeline`, and the ways to go on after it.

entry        `pipeline`, with all of its options; `modelless` has `resume` and `run_calls`
block        `Pipeline`: the block that reads a stream, and the handle for its calls
pump         reads the source, feeds the decoder; `queues` holds the events until they are taken
step         stamps each event, tells the observers
group_exit   how a step ends, and when: its tasks, its deadlines, its outcome
hosted       a pipeline that a task group of the caller's holds open
trajectory   a run of several steps, made by hand, and what caused its events; `agent_loop` makes the requests, too
"""
