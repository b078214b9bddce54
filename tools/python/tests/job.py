"""Tests whose body runs on each rank of a job.

    class Requests(unittest.TestCase):
        @ranks(2)
        def test_it(job):
            ...

The test starts the ranks, as processes under weft-run, and fails with what they printed if one of them has failed.
With killed=True they are started one by one instead: weft-run would end the others with the one that was killed.  With
emulated=True each has a device of its own, on tests/emulation of the build that JOB_BUILD_DIR names.
"""

from __future__ import annotations

import importlib.util
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import unittest
from typing import Callable, Optional

import weft
from weft.tool import NATIVE

LIMIT_S = int(os.environ.get("JOB_LIMIT_S", "60"))


def _command(body: Callable[[weft.Context], object]) -> list[str]:
    return [sys.executable, "-X", "faulthandler", __file__, body.__code__.co_filename, body.__qualname__]


_EMULATION = pathlib.Path(os.environ.get("JOB_BUILD_DIR", "/none"), "lib", "weft", "emulation")


def ranks(n: int, *, killed: bool = False, emulated: bool = False) -> Callable[[Callable[[weft.Context], object]], object]:
    """Runs the decorated function, which takes the Context, on n ranks."""

    def decorate(body: Callable[[weft.Context], object]) -> object:
        def test(case: unittest.TestCase) -> None:
            if emulated and not _EMULATION.exists():
                case.skipTest("no emulated devices: JOB_BUILD_DIR names no build that has them")
            more = {"LD_LIBRARY_PATH": str(_EMULATION), "CUDA_EMULATION_DEVICES": str(n)} if emulated else {}
            _run_killed(case, n, body) if killed else run(case, n, _command(body), more)

        test.body = body  # type: ignore[attr-defined]
        test.__doc__ = body.__doc__
        return test

    return decorate


def run(case: unittest.TestCase, n: int, command: list[str], more: Optional[dict[str, str]] = None) -> str:
    """Runs a command as n ranks, with more in their environment, and gives what they printed."""
    launch = [str(NATIVE / "bin" / "weft-run"), "-n", str(n), "--timeout", str(LIMIT_S), *command]
    environment = {**os.environ, **(more or {})}
    done = subprocess.run(
        launch, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    case.assertEqual(done.returncode, 0, f"\n{done.stdout}{done.stderr}")
    return done.stdout


def refused(error: type[BaseException], sentence: str, call: Callable[[], object]) -> None:
    """Fails unless the call raises that, with a text that has the sentence in it."""
    try:
        call()
    except error as told:
        assert sentence in str(told), told
    else:
        raise AssertionError(f"not refused: {sentence}")


# Ranks of Open MPI's mpirun run a program's text, where that and mpi4py are there.
MPIRUN = shutil.which("mpirun.openmpi")
over_mpi = unittest.skipUnless(importlib.util.find_spec("mpi4py") and MPIRUN, "no mpi4py or no Open MPI here")


def run_over_mpi(case: unittest.TestCase, n: int, program: str) -> None:
    """Runs a program's text as n ranks of one mpirun."""
    launch = [str(MPIRUN), "--oversubscribe", "--allow-run-as-root", "--timeout", str(LIMIT_S), "-n", str(n)]
    command = [*launch, sys.executable, "-c", program]
    environment = {**os.environ, "MPI4PY_MPIABI": "openmpi"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    case.assertEqual(done.returncode, 0, done.stdout + done.stderr)


# A rank that was killed is expected; every other one must end well.
def _run_killed(case: unittest.TestCase, n: int, body: Callable[[weft.Context], object]) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    place = {"WORLD_SIZE": str(n), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    processes = [
        subprocess.Popen(
            _command(body),
            env={**os.environ, **place, "RANK": str(rank)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(n)
    ]
    try:
        said = [process.communicate(timeout=LIMIT_S)[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.wait()
    for rank, process in enumerate(processes):
        case.assertIn(process.returncode, (0, -9), f"\nrank {rank}: {said[rank]}")
    case.assertIn(0, [process.returncode for process in processes])


def _main(path: str, qualname: str) -> None:
    spec = importlib.util.spec_from_file_location("of_rank", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found: object = module
    for name in qualname.split("."):
        found = getattr(found, name)
    with weft.init(timeout=LIMIT_S) as job:
        found.body(job)  # type: ignore[attr-defined]


class OverStore:
    """A bootstrap over the store of another job."""

    def __init__(self, job: weft.Context) -> None:
        self.rank, self.size = job.rank, job.size
        self._store, self._calls = job.store(), 0

    def all_gather(self, own: bytes) -> list[bytes]:
        self._calls += 1
        self._store.set(f"bootstrap {self._calls} {self.rank}", own)
        return [self._store.get(f"bootstrap {self._calls} {rank}") for rank in range(self.size)]


if __name__ == "__main__":
    _main(sys.argv[1], sys.argv[2])
