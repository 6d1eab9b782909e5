"""Breaks the code on purpose, a place at a time, and reports which breaks no test notices.

    python -m benchmarks.mutants --seed 7                        25 mutants of each module
    python -m benchmarks.mutants --seed 7 --module pool --per-module 50

A mutant is one change at random: a comparison or a condition turned round, a bound moved by one, a statement deleted, a
result that is None. It goes into a copy of the package, never into the work tree. First the tests of `TESTED_BY` run
once with coverage, so that each mutant meets only those that execute its line, in the table's order, until one fails.
A test that hangs fails by its deadline. A mutant that cannot be imported is replaced by another. So is one whose tests
together take longer than `RUN_S`, as on a busy machine: it is listed as not judged.

A survivor is either a missing test or no change of behaviour at all; its diff is printed, for a person to decide.
"""

from __future__ import annotations

import argparse
import ast
import copy
import difflib
import os
import queue
import random
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from coverage import CoverageData

ROOT = Path(__file__).resolve().parent.parent

_TABLE = """
    stages/accumulate:
        wires/test_odd_streams stages/test_accumulate wires/test_openai_chat wires/test_gemini_pieces
        wires/test_arguments_of_no_call wires/test_disorder wires/test_openai_responses wires/test_check_wire
        test_limits test_continued_turns wires/test_reviewed
    wires/growing:
        wires/test_odd_streams wires/test_disorder wires/test_anthropic wires/test_bedrock wires/test_reviewed
        wires/test_arguments_of_no_call wires/test_check_wire test_limits test_quirks test_endless_streams
    wires/cursors:
        wires/test_cursors wires/test_disorder test_continued_turns test_endless_streams
    stages/arguments:
        stages/test_finalize security/test_numbers_and_depth security/test_duplicate_keys stages/test_moments
        tools/test_hostile_calls tools/test_namespaces tools/test_weighed_arguments pipelines/test_large_calls
        dispatch/test_dispatch wires/test_odd_streams pipelines/test_given_calls
        pipelines/test_limits_through_the_pipeline dispatch/test_suspended
    dispatch/pool:
        dispatch/test_scheduler dispatch/test_conflicts dispatch/test_budgets dispatch/test_cancel_one
        dispatch/test_dispatch dispatch/test_stragglers dispatch/test_waits dispatch/test_model
    dispatch/states:
        dispatch/test_states dispatch/test_dispatch dispatch/test_progress dispatch/test_waits
        dispatch/test_second_chances dispatch/test_conflicts dispatch/test_cancel_one dispatch/test_stragglers
        dispatch/test_model dispatch/test_approval dispatch/test_resumed dispatch/test_own_arguments
        dispatch/test_calls_once pipelines/test_left_streams dispatch/test_middleware pipelines/test_answers
        pipelines/test_retry dispatch/test_executors_in_a_pipeline
    dispatch/middleware:
        dispatch/test_middleware
    dispatch/attempts:
        dispatch/test_second_chances dispatch/test_dispatch dispatch/test_run_once dispatch/test_on_tool_error
        dispatch/test_misbehaving_tools dispatch/test_calls_once dispatch/test_cancel_one dispatch/test_stragglers
        dispatch/test_middleware dispatch/test_store dispatch/test_operations dispatch/test_executors_in_a_pipeline
        dispatch/test_waits dispatch/test_suspended pipelines/test_answers pipelines/test_retry
    durable/claims:
        dispatch/test_store_times dispatch/test_run_once dispatch/test_store dispatch/test_calls_once
        dispatch/test_cancel_one dispatch/test_second_chances dispatch/test_suspended dispatch/test_operations
        dispatch/test_store_sqlite simulation/test_simulation
    wires/anthropic/decoder:
        wires/test_odd_streams wires/test_anthropic wires/test_every_wire wires/test_plain_deltas wires/test_reviewed
        wires/test_usage wires/test_nothing_is_lost test_limits test_quirks test_endless_streams test_continued_turns
    wires/openai_chat/decoder:
        wires/test_odd_streams wires/test_openai_chat wires/test_every_wire wires/test_fields_beside
        wires/test_plain_deltas wires/test_usage wires/test_nothing_is_lost test_limits test_quirks test_endless_streams
    history/repairing:
        history/test_repair history/test_refused_shapes history/test_system_prompts history/test_tool_results
        history/test_messages_of_sdk_objects history/test_convert history/test_repair_laws history/test_with_results
    history/linting:
        history/test_refused_shapes history/test_repair history/test_any_messages history/test_anthropic_history
        history/test_bedrock_history history/test_chat_family_history history/test_system_prompts
        history/test_tool_results history/test_gemini_contents_history history/test_responses_history
        history/test_history history/test_read_back
    framing/sse:
        framing/test_sse framing/test_floods test_limits
    pipelines/step:
        test_causality pipelines/test_async_faults telemetry/test_content pipelines/test_misuse
        pipelines/test_async_laws pipelines/test_traces pipelines/test_usage_of_a_run pipelines/test_given_calls
        dispatch/test_dispatch dispatch/test_progress pipelines/test_continued_pipelines pipelines/test_lifetimes
        pipelines/test_limits_through_the_pipeline pipelines/test_branches privacy/test_policy_everywhere
        dispatch/test_developer_log pipelines/test_retry pipelines/test_attempts pipelines/test_any_exit
"""
TESTED_BY = {
    f"streamtools/{module.strip()}.py": tuple(f"tests/{test}.py" for test in tests.split())
    for module, tests in re.findall(r"(\S+):\n((?: {8}.+\n)+)", _TABLE)
}
"""The tests of each module, those that notice most in the least time first."""

DEADLINE_S = 10
"""What a test has with a mutant: the tests listed take at most a second or two each."""
RUN_S = 300
"""What all tests of a mutant have together; beyond, it is not judged unless a test's own deadline failed."""
COVERAGE_S = 1_800
"""What the tests of all modules have together, with coverage and nothing broken."""
MAX_MEMORY_BYTES = 6 * 1024**3
QUICK = "not sweep and not thorough"
_PAST_DEADLINE = re.compile(r"expected .+ \((setup|call|teardown)\) to end within")  # by `tests/deadlines.py`


# -- mutants ---------------------------------------------------------------------------------------------------------

_COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip
_ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.FloorDiv: ast.Mult, ast.Mod: ast.Mult,
    ast.BitOr: ast.BitAnd, ast.BitAnd: ast.BitOr, ast.LShift: ast.RShift, ast.RShift: ast.LShift,
}  # fmt: skip
_DELETED = (ast.Assign, ast.AugAssign, ast.Expr, ast.Raise, ast.Delete, ast.Break, ast.Continue)


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change of a module."""

    path: str
    line: int
    lines: range
    """The lines of its statement: the head alone where the statement has a body."""
    kind: str
    source: str
    """The whole module, changed."""
    at_import: bool = False
    """It stands in no function's body: it is executed once, by whichever test imports the module first."""

    def diff(self, original: str) -> str:
        """Returns the change as a diff."""
        before, after = original.splitlines(), self.source.splitlines()
        return "\n".join(difflib.unified_diff(before, after, self.path, self.path, n=2, lineterm=""))


def mutants_of(path: str, source: str) -> list[Mutant]:
    """Returns every mutant of a module."""
    tree = ast.parse(source)
    starts = [0]
    for line in source.encode().splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    statements = [(each, _head(each)) for each in ast.walk(tree) if isinstance(each, ast.stmt)]
    functions = (each for each in ast.walk(tree) if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef))
    bodies = [range(each.body[0].lineno, (each.end_lineno or each.lineno) + 1) for each in functions]
    found = []
    for kind, node, replacement in _changes(tree):
        start = starts[node.lineno - 1] + node.col_offset
        end = starts[(node.end_lineno or 0) - 1] + (node.end_col_offset or 0)
        encoded = source.encode()
        text = ast.unparse(replacement)
        if isinstance(node, ast.expr):
            text = f"({text})"
        changed = (encoded[:start] + text.encode() + encoded[end:]).decode()
        middleware = [head for each, head in statements if each.lineno <= node.lineno <= (each.end_lineno or 0)]
        head = max(middleware, key=lambda head: head.start)
        found.append(Mutant(path, node.lineno, head, kind, changed, not any(node.lineno in one for one in bodies)))
    return found


def _head(statement: ast.stmt) -> range:
    body = getattr(statement, "body", None)
    end = body[0].lineno - 1 if body else statement.end_lineno or statement.lineno
    return range(statement.lineno, max(end, statement.lineno) + 1)


def pick(mutants: Sequence[Mutant], seed: str) -> Iterator[Mutant]:
    """Yields the mutants in random order, each kind as often as the others while it lasts."""
    dice = random.Random(seed)
    by_kind: dict[str, list[Mutant]] = {}
    for mutant in mutants:
        by_kind.setdefault(mutant.kind, []).append(mutant)
    while by_kind:
        kind = dice.choice(sorted(by_kind))
        yield by_kind[kind].pop(dice.randrange(len(by_kind[kind])))
        if not by_kind[kind]:
            del by_kind[kind]


def _changes(tree: ast.Module) -> Iterator[tuple[str, ast.expr | ast.stmt, ast.AST]]:
    """Yields what may be put in the place of a node: the kind of the change, the node, the replacement."""
    for node in _executed(tree):
        match node:
            case ast.Compare():
                for at, operator in enumerate(node.ops):
                    changed = copy.deepcopy(node)
                    changed.ops[at] = _COMPARISONS[type(operator)]()
                    yield "comparison", node, changed
            case ast.BoolOp():
                other = ast.Or() if isinstance(node.op, ast.And) else ast.And()
                yield "and/or", node, ast.BoolOp(other, node.values)
            case ast.UnaryOp(op=ast.Not()):
                yield "not removed", node, node.operand
            case ast.BinOp() if type(node.op) in _ARITHMETIC:
                yield "arithmetic", node, ast.BinOp(node.left, _ARITHMETIC[type(node.op)](), node.right)
            case ast.Constant(value=bool() as value):
                yield "constant", node, ast.Constant(not value)
            case ast.Constant(value=int() as value):
                yield "off by one", node, ast.Constant(value + 1)
                yield "off by one", node, ast.Constant(value - 1)
            case ast.Constant(value=str() as value) if " " not in value:  # a text for people may be worded anyhow
                yield "constant", node, ast.Constant(f"{value}?")
            case ast.IfExp():
                yield "negation", node.test, ast.UnaryOp(ast.Not(), node.test)
            case ast.Return(value=ast.expr() as value) if ast.unparse(value) != "None":
                yield "None returned", node, ast.Return(ast.Constant(None))
        if isinstance(node, ast.If | ast.While) and not isinstance(node.test, ast.Constant):
            yield "negation", node.test, ast.UnaryOp(ast.Not(), node.test)
        if isinstance(node, _DELETED) and not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
            yield "deletion", node, ast.Pass()


def _executed(node: ast.AST) -> Iterator[ast.AST]:
    """Yields the nodes below this one whose change may be noticed: without annotations, docstrings, imports and
    decorators, what only type checkers read, `__all__`, text in f-strings, our own invariants and their messages."""
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list", "type_params", "bases"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if not isinstance(child, ast.AST) or isinstance(child, ast.Import | ast.ImportFrom | ast.Assert):
                continue
            if isinstance(child, ast.JoinedStr | ast.arg) or _is_left_alone(child):
                continue
            yield child
            yield from _executed(child)


def _is_left_alone(node: ast.AST) -> bool:
    match node:
        case ast.Expr(value=ast.Constant()):  # a docstring
            return True
        case ast.Assign(targets=[ast.Name(id="__all__" | "__slots__")]):
            return True
        case ast.If(test=ast.Name(id="TYPE_CHECKING")) | ast.AnnAssign(annotation=ast.Name(id="TypeAlias")):
            return True
        case ast.keyword(arg="init" | "repr" | "compare"):  # of a dataclass's field
            return True
        case ast.Raise(exc=ast.Call(func=ast.Name(id="AssertionError"))):
            return True
    return False


# -- tests -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Ran:
    """How pytest ended."""

    code: int | None
    """The exit status; None past the bound."""
    output: str


def _pytest(arguments: Sequence[str], bound_s: float, package: Path | None = None) -> _Ran:
    """Runs pytest; with the package of another folder, also in the processes that tests start."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("STREAMTOOLS_", "COV_"))}
    environment |= {"PYTHONUNBUFFERED": "1", "COLUMNS": "1000"}  # for the last words of a run that is ended, uncut
    options = ["-q", "-p", "no:cacheprovider", "-m", QUICK]
    if package is not None:
        options += ["--deadline", str(DEADLINE_S)]
        environment |= {"PYTHONPATH": str(package), "PYTHONDONTWRITEBYTECODE": "1"}
        options += ["-x", "-n", "0", "--tb=no", "-o", f"pythonpath={package} . tests"]
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "pytest", *options, *arguments],
            cwd=ROOT,
            env=environment,
            stdout=output,
            stderr=subprocess.STDOUT,
            preexec_fn=_limit_memory,
        )
        code = None
        with process:
            try:
                code = process.wait(bound_s)
            except subprocess.TimeoutExpired:
                process.kill()
        output.seek(0)
        return _Ran(code, output.read())


def _limit_memory() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY_BYTES, MAX_MEMORY_BYTES))


def executing(paths: Iterable[str], jobs: int) -> dict[str, dict[int, list[str]]]:
    """Runs the tests of these modules once, and returns the tests that execute each line, in the table's order."""
    chosen = list(dict.fromkeys(test for path in paths for test in TESTED_BY[path]))
    with tempfile.TemporaryDirectory() as folder:
        data_file = Path(folder, "coverage")
        settings = Path(folder, "coveragerc")
        settings.write_text(f"[run]\ndata_file = {data_file}\nsource = streamtools\n", encoding="utf-8")
        coverage = ["--cov", f"--cov-config={settings}", "--cov-context=test", "--cov-report="]
        began = time.monotonic()
        _say(f"Running {len(chosen)} files of tests once, with coverage, for at most {COVERAGE_S} s ...")
        done = _pytest(["-n", str(jobs), *coverage, *chosen], COVERAGE_S)
        if done.code is None:
            raise SystemExit(f"expected the tests to end within {COVERAGE_S} s:\n{done.output[-3000:]}")
        if done.code:
            raise SystemExit(f"the tests have to pass before anything is broken:\n{done.output[-3000:]}")
        _say(f"They passed in {time.monotonic() - began:.0f} s.")
        data = CoverageData(str(data_file))
        data.read()
        return {path: _ordered(data.contexts_by_lineno(str(ROOT / path)), TESTED_BY[path]) for path in paths}


def _ordered(contexts: Mapping[int, Iterable[str]], files: Sequence[str]) -> dict[int, list[str]]:
    """The tests of each line; of a line that runs at the import as well, all of the module's own."""
    found = {}
    for line, names in contexts.items():
        tests = {name.rpartition("|")[0] for name in names if name}
        found[line] = list(files) if "" in names else [test for test in sorted(tests) if _file(test) in files]
    return found


def chosen_for(mutant: Mutant, lines: Mapping[int, Sequence[str]]) -> list[str]:
    """Returns the tests that execute the mutant's statement, in the table's order."""
    files = TESTED_BY[mutant.path]
    tests = dict.fromkeys(test for line in mutant.lines for test in lines.get(line, ()))
    if mutant.at_import or any(test in files for test in tests):
        return list(files)
    return sorted(tests, key=lambda test: files.index(_file(test)))


def _file(test: str) -> str:
    return test.partition("::")[0]


class _Workshop:
    """A copy of the package in which one mutant at a time stands."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        shutil.copytree(ROOT / "streamtools", folder / "streamtools")

    def judge(self, mutant: Mutant, tests: Sequence[str]) -> str:
        """Returns ``killed``, ``survived``, ``broken`` where the mutant cannot be imported, or ``not judged`` where its
        tests took longer than `RUN_S` though each kept its own deadline."""
        if not tests:
            return "survived"
        place = self.folder / mutant.path
        original = place.read_bytes()
        for compiled in (place.parent / "__pycache__").glob(f"{place.stem}.*.pyc"):
            compiled.unlink()  # its time stamp has whole seconds only
        arguments = self.folder / "tests.txt"
        arguments.write_text("\n".join(tests), encoding="utf-8")
        place.write_text(mutant.source, encoding="utf-8")
        try:
            ran = _pytest([f"@{arguments}"], RUN_S, self.folder)
        finally:
            place.write_bytes(original)
        return verdict_of(ran.code, ran.output)


def verdict_of(code: int | None, output: str) -> str:
    """Returns what pytest's exit status, None past its bound, and its output say of a mutant."""
    if code is None:
        return "killed" if _PAST_DEADLINE.search(output) else "not judged"
    if code in (2, 3, 4):  # errors while collecting
        return "broken"
    return "survived" if code in (0, 5) else "killed"


# -- the report ------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Tally:
    """What became of a module's mutants."""

    killed: int = 0
    survivors: list[Mutant] = field(default_factory=list)
    not_judged: list[Mutant] = field(default_factory=list)

    @property
    def judged(self) -> int:
        """How many were killed or survived."""
        return self.killed + len(self.survivors)

    @property
    def share(self) -> float:
        """The killed ones among those judged; 1 where there are none."""
        return self.killed / self.judged if self.judged else 1.0


def _hunt(path: str, seed: int, count: int, lines: Mapping[int, list[str]], shops: queue.Queue[_Workshop]) -> Tally:
    """Judges so many mutants of a module."""
    source = (ROOT / path).read_text(encoding="utf-8")
    tally = Tally()
    candidates = pick(mutants_of(path, source), f"{seed} {path}")
    while tally.judged < count and (mutant := next(candidates, None)) is not None:
        shop = shops.get()
        tests = chosen_for(mutant, lines)
        began = time.monotonic()
        try:
            verdict = shop.judge(mutant, tests)
        finally:
            shops.put(shop)
        match verdict:
            case "killed":
                tally.killed += 1
            case "survived":
                tally.survivors.append(mutant)
            case "not judged":
                tally.not_judged.append(mutant)
        took = f"{verdict:10} {time.monotonic() - began:5.1f} s"
        _say(f"{path} {tally.judged:2} of {count}: {took}  line {mutant.line}, {mutant.kind} ({_amount(tests)})")
    _say(f"{path}: {tally.killed} of {tally.judged} killed")
    return tally


def _amount(tests: Sequence[str]) -> str:
    if not tests:
        return "no test executes it"
    return f"{len(tests)} {'tests' if '::' in tests[0] else 'files of tests'}"


def _say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def _report(tallies: Mapping[str, Tally]) -> None:
    for path, tally in tallies.items():
        original = (ROOT / path).read_text(encoding="utf-8")
        for fate, mutants in (("survived", tally.survivors), ("not judged", tally.not_judged)):
            for mutant in mutants:
                print(f"\n{path}:{mutant.line} {fate}: {mutant.kind}\n{mutant.diff(original)}")
    print(f"\n{'module':42} {'mutants':>8} {'killed':>8} {'survived':>9} {'share':>7} {'not judged':>11}")
    for path, tally in tallies.items():
        counts = f"{tally.judged:8} {tally.killed:8} {len(tally.survivors):9} {tally.share:7.0%}"
        print(f"{path:42} {counts} {len(tally.not_judged):11}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Breaks modules, and returns 1 where fewer of their mutants were killed than `--least` asks for."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.mutants", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="another seed, other mutants (default: 1)")
    parser.add_argument("--per-module", type=int, default=25, metavar="N", help="mutants of each (default: 25)")
    parser.add_argument("--module", action="append", metavar="NAME", help="a part of a module's path; may be repeated")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="mutants at a time (default: 2)")
    parser.add_argument("--least", type=float, default=0, metavar="PERCENT", help="fail if a module's share is less")
    options = parser.parse_args(arguments)
    paths = [path for path in TESTED_BY if any(name in path for name in options.module or [path])]
    if not paths:
        parser.error(f"expected a part of one of {', '.join(TESTED_BY)}; got {', '.join(options.module)}")
    lines = executing(paths, options.jobs)
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(options.jobs) as pool:
        shops: queue.Queue[_Workshop] = queue.Queue()
        for number in range(options.jobs):
            shops.put(_Workshop(Path(folder, str(number))))
        tasks = {path: pool.submit(_hunt, path, options.seed, options.per_module, lines[path], shops) for path in paths}
        tallies = {path: task.result() for path, task in tasks.items()}
    _report(tallies)
    return int(any(100 * tally.share < options.least for tally in tallies.values()))


if __name__ == "__main__":
    sys.exit(main())
