"""How fast streamtools is, against what no Python program can beat: see `benchmarks.workloads.limit`.

``python -m benchmarks`` prints every figure with its target; ``python -m benchmarks text`` one group of them.

Tried and left: a core compiled by mypyc 2.4, as an optional wheel, which was to make a usual run 1.5 times cheaper. It
had framing, `wires/plain`, two wires' decoders, `decode`, the stages, step, pump and queues. Thousands of instructions
on Python 3.11, Chat Completions; deltas of Responses and Anthropic gain as much:

                                     interpreted     compiled  times cheaper
    delta of text: parse, pipeline    14.9, 22.5    9.1, 14.9     1.64, 1.51
    delta of reasoning                16.6, 22.6   10.7, 15.1     1.55, 1.50
    delta of arguments                19.0, 25.7   11.3, 16.2     1.69, 1.59
    a turn without calls                   1,523        1,370           1.11
    its first call                         1,099          932           1.18
    one more call                            971          813           1.20
    a run of 3 steps and 6 calls          22,635       19,055           1.19

A third of a run's instructions interpret this package. Compiling saved three quarters of that share where it was
applied, so that all of it would come to about 1.3. The price: mypyc has no async generators; the base of decoders that
users derive must be marked; types are enforced, also where mypy is wrong (``frozenset | dict.keys()`` makes a set);
each platform needs a wheel and its tests.
"""
