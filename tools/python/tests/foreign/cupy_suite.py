"""cupy's own tests of cupyx.distributed, from its source distribution, with weft.cupyx and numpy in place of cupy.

    python cupy_suite.py SDIST [--table FILE]

SDIST is cupy-VERSION.tar.gz, or a folder that pip has put it into.  Of it run tests/cupyx_tests/distributed_tests:
test_comm.py says which cases there are, by its own decorators, and comm_runner.py is what each of them does, on two
processes.  What they import stands below: cupy is numpy, a device is nothing, cupyx.scipy.sparse is scipy's,
cupyx.distributed is weft.cupyx.  A case is an operation with a type, over a store or over MPI.  One that fails or is left
out has its reason in cupy_known.txt beside this file, else this fails: NAME: REASON.
"""

from __future__ import annotations

import argparse
import fnmatch
import importlib.util
import multiprocessing
import os
import shutil
import socket
import subprocess
import sys
import tarfile
import tempfile
import traceback
import types
import unittest
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Callable, NamedTuple, Optional

import numpy
import scipy.sparse

KNOWN = Path(__file__).with_name("cupy_known.txt")
TESTS = "tests/cupyx_tests/distributed_tests"
LIMIT_S = 60.0  # of one case

# cupy.testing's own: https://docs.cupy.dev/en/stable/reference/generated/cupy.testing.for_all_dtypes.html
ALL_TYPES = "bhilqBHILQefdFD"


# ---- what cupy's tests import --------------------------------------------------------------------------------------


class _Device:
    def __init__(self, number: int) -> None:
        pass

    def use(self) -> None:
        pass


class _ExceptionAwareProcess(multiprocessing.get_context("fork").Process):  # type: ignore[misc]
    """A process whose failure is that of whoever joins it, as cupy's own."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._ours, self._its = multiprocessing.Pipe()

    def run(self) -> None:
        try:
            super().run()
            self._its.send(None)
        except BaseException as error:
            traceback.print_exc()
            self._its.send(RuntimeError(f"{type(error).__name__}: {error}"))

    def join(self, timeout: Optional[float] = None) -> None:
        super().join(LIMIT_S)
        if self.is_alive():
            self.kill()
            super().join()
            raise RuntimeError(f"not over after {LIMIT_S:.0f} s")
        if not self._ours.poll():
            raise RuntimeError(f"it ended with {self.exitcode} and said nothing")
        error = self._ours.recv()
        if error is not None:
            raise error


def _for_dtypes(kinds: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        def each(self: Any) -> None:
            for kind in kinds:
                test(self, numpy.dtype(kind).type)

        return each

    return decorate


def _nothing(*_: object, **__: object) -> Callable[[Any], Any]:
    return lambda decorated: decorated


def _module(name: str, **contents: object) -> types.ModuleType:
    made = types.ModuleType(name)
    made.__dict__.update(contents)
    sys.modules[name] = made
    return made


def _stand_in() -> None:
    """cupy, cupyx and pytest, as far as these tests look at them."""
    from weft import cupyx

    nccl = _module("cupy.cuda.nccl", available=True)
    cuda = _module("cupy.cuda", nccl=nccl, Device=_Device)
    testing = _module(
        "cupy.testing",
        assert_allclose=numpy.testing.assert_allclose,
        multi_gpu=_nothing,
        for_dtypes=_for_dtypes,
        for_all_dtypes=lambda no_bool: _for_dtypes(ALL_TYPES),
    )
    _module("cupy", **{name: getattr(numpy, name) for name in dir(numpy)} | {"cuda": cuda, "testing": testing})
    _module("cupyx")
    _module("cupyx.distributed", init_process_group=cupyx.init_process_group)
    _module("cupyx.distributed._nccl_comm", NCCLBackend=cupyx.NCCLBackend, _mpi_available=True)
    _module("cupyx.distributed._store", ExceptionAwareProcess=_ExceptionAwareProcess)
    _module("cupyx.scipy", sparse=scipy.sparse)
    _module("pytest", raises=lambda kind: unittest.TestCase().assertRaises(kind), mark=types.SimpleNamespace(skipif=_nothing))


def _load(folder: str, name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, os.path.join(folder, f"{name}.py"))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# ---- its cases -----------------------------------------------------------------------------------------------------


class Case(NamedTuple):
    over: str  # "store", "mpi", or the class of a test that starts nothing
    action: str
    char: Optional[str]  # the type
    failure: Optional[str] = None  # of a test that starts nothing

    @property
    def name(self) -> str:
        return " ".join(part for part in (self.over, self.action, self.char) if part)


def _cases(tests: Any) -> list[Case]:
    """What test_comm.py would run: its tests are called, and what they would start is taken down instead."""
    found: dict[Case, None] = {}

    def take(over: str, action: str, kind: Any) -> None:
        found[Case(over, action, None if kind is None else numpy.dtype(kind).char)] = None

    tests._run_test = lambda action, kind=None: take("store", action, kind)
    tests._run_test_with_mpi = lambda action, kind=None: take("mpi", action, kind)
    for group in (value for name, value in vars(tests).items() if name.startswith("Test")):
        for name in (name for name in dir(group) if name.startswith("test")):
            before, failure = len(found), None
            made = group(name) if issubclass(group, unittest.TestCase) else group()
            try:
                getattr(made, name)()
            except Exception as error:
                failure = f"{type(error).__name__}: {error}"
            if failure is not None or len(found) == before:
                found[Case(group.__name__, name, None, failure)] = None
    return list(found)


# For these cupy's tests return at once, since NCCL has no such type.
def _is_empty(case: Case) -> bool:
    return case.char in ("h", "H")


def _fail(why: str) -> None:
    raise AssertionError(why)


def _over_store(folder: str, action: str, char: Optional[str]) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    runner = _load(folder, "comm_runner")
    runner.NCCLBackend = _at(port)
    os.environ["CUPYX_DISTRIBUTED_PORT"] = str(port)
    getattr(runner, action)(*([] if char is None else [char]))


# cupy's tests meet at the default port each, where what another program of this machine listens at is in the way.
def _at(port: int) -> Callable[..., Any]:
    from weft.cupyx import NCCLBackend

    return lambda n, rank, use_mpi=False: NCCLBackend(n, rank, port=port, use_mpi=use_mpi)


def _over_mpi(folder: str, action: str, chars: list[Optional[str]]) -> None:
    """All types of an action, in the processes of one mpirun."""
    mpirun = shutil.which("mpirun.openmpi")
    if mpirun is None:
        raise unittest.SkipTest("no Open MPI here")
    launch = [mpirun, "--oversubscribe", "--allow-run-as-root", "--timeout", f"{len(chars) * LIMIT_S:.0f}", "-n", "2"]
    command = [*launch, sys.executable, __file__, folder, "--one", action, *(char for char in chars if char)]
    environment = {**os.environ, "MPI4PY_MPIABI": "openmpi"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.stderr.write(done.stderr)
        said = [line for line in done.stderr.splitlines() if "Error" in line]
        _fail(said[-1] if said else f"mpirun ended with {done.returncode}")


def _one_over_mpi(folder: str, action: str, chars: list[str]) -> None:
    runner = _load(folder, "comm_runner")
    for arguments in [[char] for char in chars] or [[]]:
        getattr(runner, action)(*arguments, True)


# ---- all of them ---------------------------------------------------------------------------------------------------


def _known(name: str) -> Optional[str]:
    """The reason in cupy_known.txt, whose names may be patterns."""
    lines = (line.split(": ", 1) for line in KNOWN.read_text(encoding="utf-8").splitlines() if ": " in line)
    return next((why for pattern, why in lines if fnmatch.fnmatchcase(name, pattern)), None)


def _unpacked(given: str, into: str) -> tuple[str, str]:
    """cupy's version, and the folder of its tests."""
    path = Path(given)
    archive = next(path.glob("cupy-*.tar.gz")) if path.is_dir() else path
    top = archive.name.removesuffix(".tar.gz")
    with tarfile.open(archive) as source:
        for name in ("test_comm.py", "comm_runner.py"):
            text = source.extractfile(f"{top}/{TESTS}/{name}")
            assert text is not None
            Path(into, name).write_bytes(text.read())
    return top, into


def run(given: str) -> tuple[str, dict[str, tuple[str, str]]]:
    """cupy's version, and what came of each case."""
    outcomes: dict[str, tuple[str, str]] = {}
    with tempfile.TemporaryDirectory() as into:
        version, folder = _unpacked(given, into)
        cases = _cases(_load(folder, "test_comm"))
        for case in cases:
            outcomes[case.name] = ("left out", "cupy's test returns at once") if _is_empty(case) else ("", "")
        over_mpi: dict[str, list[Case]] = {}
        for case in (each for each in cases if not _is_empty(each)):
            if case.over == "mpi":
                over_mpi.setdefault(case.action, []).append(case)
            elif case.over == "store":
                outcomes[case.name] = _outcome(_over_store, folder, case.action, case.char)
            else:
                outcomes[case.name] = ("failed", case.failure) if case.failure else ("passed", "")
        for action, together in over_mpi.items():
            came = _outcome(_over_mpi, folder, action, [case.char for case in together])
            outcomes.update({case.name: came for case in together})
    return version, outcomes


def _outcome(run_it: Callable[..., None], *arguments: object) -> tuple[str, str]:
    print(*arguments[1:], file=sys.stderr, flush=True)
    try:
        run_it(*arguments)
    except unittest.SkipTest as skip:
        return "left out", str(skip)
    except BaseException as error:
        return "failed", str(error).splitlines()[0][:200]
    return "passed", ""


def _table(version: str, outcomes: dict[str, tuple[str, str]]) -> str:
    lines = [
        f"{version}, numpy {numpy.__version__}, scipy {scipy.__version__}, Python {sys.version.split()[0]}, "
        f"{datetime.now(timezone.utc):%Y-%m-%d}",
        "",
        "| operation | over | passed | failed | left out |",
        "|---|---|---|---|---|",
    ]
    groups: dict[tuple[str, str], list[str]] = {}
    for name, (outcome, _) in outcomes.items():
        over, action = name.split()[:2]
        groups.setdefault((action, over), []).append(outcome)
    for (action, over), kinds in sorted(groups.items()):
        lines.append(f"| {action} | {over} | " + " | ".join(str(kinds.count(k)) for k in ("passed", "failed", "left out")) + " |")
    lines += ["", "| failed or left out | reason |", "|---|---|"]
    told: dict[str, list[str]] = {}
    for name, (outcome, why) in outcomes.items():
        if outcome != "passed":
            told.setdefault(f"{outcome}: {_known(name) or why}", []).append(name)
    lines += [f"| {len(named)}: {', '.join(named)} | {why} |" for why, named in told.items()]
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sdist")
    parser.add_argument("--table", help="write what came of it to this file")
    parser.add_argument("--one", nargs="+", help=argparse.SUPPRESS)
    given = parser.parse_args()
    _stand_in()
    if given.one:
        _one_over_mpi(given.sdist, given.one[0], given.one[1:])
        return 0
    version, outcomes = run(given.sdist)
    table = _table(version, outcomes)
    print(table)
    if given.table:
        Path(given.table).write_text(table, encoding="utf-8")
    wrong = [name for name, (outcome, _) in outcomes.items() if outcome != "passed" and _known(name) is None]
    for name in wrong:
        print(f"{name}: {': '.join(outcomes[name])}, and cupy_known.txt has no reason", file=sys.stderr)
    print(f"{sum(outcome == 'passed' for outcome, _ in outcomes.values())} passed, {len(wrong)} failed")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
