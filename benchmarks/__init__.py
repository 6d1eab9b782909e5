"""How fast streamtools is, against what no Python program can beat: see `benchmarks.workloads.limit`.

``python -m benchmarks`` prints every figure with its bar; ``python -m benchmarks.bench_text`` one group of them.
"""
