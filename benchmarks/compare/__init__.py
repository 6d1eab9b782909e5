"""streamtools beside the libraries that people read the same streams with.

What is measured is decoding, without a network: the same bytes go to every reader, an event of the event stream per
chunk, through an in-memory transport where the reader wants an HTTP client; it ends with what the whole response
amounted to, its text and its calls with their arguments as Python values. Making the request object is part of it, as
is running the tools of `pipeline`, which no other reader here does. Every reader runs in a fresh process, in which the
limit is measured, too: split the bytes at blank lines, `orjson.loads` of each payload. The unit is an event of the
event stream, whatever the reader makes of it; for a usual run (`benchmarks.bench_runs`) it is the run, beside a loop
that is written by hand.

``python -m benchmarks.compare`` prints the table, ``python -m benchmarks.compare.plot`` draws it.
"""
