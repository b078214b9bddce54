"""torch's own tests of torch.distributed, which ship in its wheel, with backend "weft" beside gloo.

    python torch_suite.py [--ranks 2] [--backends gloo,weft] [--only PATTERN] [--table FILE]

Every test of torch.testing._internal.distributed.distributed_test that needs a process group runs on that many
processes, each test with a process group of its own.  A test counts as failed if one rank has failed it, else as
skipped if one rank has skipped it, and as passed if it has passed on every rank.  torch's own harness tells a skip by
rank 0; what its tests skip by is the same on every rank, and a rank outside a test's subgroup passes it, so that
nothing is lost by the stricter order.

torch marks tests that are for some other backend, or world size, to be left out before their ranks start.  These
marks are not followed: such a test runs with both backends, and whoever can do what it asks for passes.

Fails if a test passes with gloo and not with weft, unless torch_known.txt beside this file has its name
and the reason: NAME: REASON.  A reason that begins with "as with gloo" or "gloo alone" only explains,
and excuses nothing.
"""

from __future__ import annotations

import argparse
import fnmatch
import os
import re
import subprocess
import sys
import tempfile
import time
import traceback
import unittest
from datetime import datetime, timedelta, timezone
from pathlib import Path

KNOWN = Path(__file__).with_name("torch_known.txt")

_ONLY_EXPLAIN = ("as with gloo", "gloo alone")  # how reasons begin that excuse nothing

# What torch says where it skips, in one of several forms each, and what is meant.
_SKIPS = (
    ("accelerator", "need an accelerator, or one for each rank"),
    ("world size", "are for a larger world"),
    ("https://", "are switched off by an issue of torch's own"),
)

_PASSED_OVER = """\
Passed over: `ddp_under_dist_autograd_test`, `rpc/` and `nn/api/`, the other tests of torch.distributed in the wheel.
They are tests of the RPC framework: each runs under its fixture (`RpcAgentTestFixture`), where init_rpc makes a group
of gloo by itself, and those that start a process group too ask for gloo in their own text. Of `distributed_test`
itself the classes `TestBucketCapacityConfig*` are passed over, which have no group at all."""

LIMIT_S = 200.0  # of one test
JOIN_S = 30


# ---- one rank ------------------------------------------------------------------------------------------------------


class _Backend(str):
    """A backend's name that counts as gloo's where tests ask what they may do."""

    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        return other == "gloo" or str.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        return not self == other


def _suite(backend: str) -> type:
    import torch.testing._internal.common_distributed as common

    # torch's list of what its backends can do; what gloo does there, weft is asked for too.
    for able in common.DistTestCases.backend_feature.values():
        if "gloo" in able:
            able.add("weft")
    if backend == "weft":
        import weft.torch  # noqa: F401
    from torch.testing._internal.distributed import distributed_test

    distributed_test.BACKEND = _Backend(backend)

    class Suite(distributed_test.TestDistBackend, distributed_test.DistributedTest._DistTestBase):
        def setUp(self) -> None:
            pass

        def tearDown(self) -> None:
            pass

    return Suite


def _one(suite: type, name: str, backend: str, rank: int, size: int, folder: str) -> tuple[str, str]:
    import torch.distributed as dist
    from torch.testing._internal.common_utils import set_rng_seed

    set_rng_seed()
    case = suite(name)
    case.rank, case.file_name = rank, f"{folder}/{name}.other"
    try:
        dist.init_process_group(
            backend,
            init_method=f"file://{folder}/{name}",
            world_size=size,
            rank=rank,
            timeout=timedelta(seconds=JOIN_S),
        )
        case._barrier()
        getattr(case, name)()
        case._barrier()
        dist.destroy_process_group()
    except unittest.SkipTest as skip:
        return "skipped", str(skip)
    except SystemExit as left:  # how torch's decorators skip on a rank
        return ("passed", "") if not left.code else ("skipped", _why_left(left.code))
    except BaseException as error:
        traceback.print_exc()
        return "failed", f"{type(error).__name__}: {error}".splitlines()[0][:300]
    return "passed", ""


def _why_left(code: object) -> str:
    from torch.testing._internal.common_distributed import TEST_SKIPS

    return next((skip.message for skip in TEST_SKIPS.values() if skip.exit_code == code), f"exit code {code}")


# After a failure, or what may have left a group behind, the ranks do not stand at one place any more: new processes
# go on with the rest.
def _rank(backend: str, rank: int, size: int, folder: str, names: list[str]) -> None:
    import torch.distributed as dist

    suite = _suite(backend)
    with open(f"{folder}/{rank}.results", "w", encoding="utf-8", buffering=1) as results:
        for name in names:
            outcome, why = _one(suite, name, backend, rank, size, folder)
            results.write(f"{name}\t{outcome}\t{why}\n")
            if outcome == "failed":
                os._exit(1)
            if dist.is_initialized():
                dist.destroy_process_group()
    os._exit(0)


# What came of each test, by backend and number of ranks, and why.
Found = dict[tuple[str, int], dict[str, tuple[str, str]]]


# ---- all ranks -----------------------------------------------------------------------------------------------------


def _results(folder: str, rank: int) -> list[list[str]]:
    path = Path(folder, f"{rank}.results")
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return [line.split("\t") for line in lines]


def _outcome(of_ranks: list[list[str]]) -> tuple[str, str]:
    for wanted in ("failed", "skipped", "passed"):
        for _, outcome, why in of_ranks:
            if outcome == wanted:
                return outcome, why
    return "failed", "no rank has ended it"


def _some(backend: str, size: int, names: list[str]) -> dict[str, tuple[str, str]]:
    """Starts the ranks and gives what came of the tests that they got to; at least of one."""
    with tempfile.TemporaryDirectory() as folder:
        os.makedirs(f"{folder}/barrier")
        os.makedirs(f"{folder}/test_dir")
        environment = {
            **os.environ,
            "BACKEND": backend,
            "WORLD_SIZE": str(size),
            "TEMP_DIR": folder,
            "INIT_METHOD": f"file://{folder}/init",
            "MASTER_ADDR": "127.0.0.1",
            "OMP_NUM_THREADS": "1",
        }
        logs = [open(f"{folder}/{rank}.log", "w", encoding="utf-8") for rank in range(size)]
        ranks = [
            subprocess.Popen(
                [sys.executable, __file__, "--rank", str(rank), "--ranks", str(size), "--backends", backend]
                + ["--folder", folder, *names],
                env={**environment, "RANK": str(rank)},
                stdin=subprocess.DEVNULL,
                stdout=logs[rank],
                stderr=subprocess.STDOUT,
            )
            for rank in range(size)
        ]
        _await(ranks, folder, size)
        for log in logs:
            log.close()
        got = [_results(folder, rank) for rank in range(size)]
        ended = max(len(lines) for lines in got)
        outcomes = {
            names[i]: _outcome([lines[i] for lines in got if len(lines) > i]) for i in range(min(map(len, got)))
        }
        if len(outcomes) < max(1, ended):  # not every rank has ended the last one
            last = names[len(outcomes)]
            known = [lines[len(outcomes)] for lines in got if len(lines) > len(outcomes)]
            why = next((line[2] for line in known if line[1] == "failed"), f"not over after {LIMIT_S:.0f} s, or died")
            outcomes[last] = ("failed", why)
        if any(outcome == "failed" for outcome, _ in outcomes.values()):
            for rank in range(size):
                sys.stderr.write("".join(f"[{rank}] {line}" for line in open(f"{folder}/{rank}.log").readlines()[-40:]))
        return outcomes


def _await(ranks: list[subprocess.Popen[bytes]], folder: str, size: int) -> None:
    seen, since = -1, time.monotonic()
    while any(rank.poll() is None for rank in ranks):
        time.sleep(0.05)
        done = sum(len(_results(folder, rank)) for rank in range(size))
        if done != seen:
            seen, since = done, time.monotonic()
        limit = 10.0 if any(rank.poll() for rank in ranks) else LIMIT_S  # one has failed: the others wait for it
        if time.monotonic() - since > limit:
            break
    for rank in ranks:
        rank.kill()
        rank.wait()


def run(backend: str, size: int, names: list[str]) -> dict[str, tuple[str, str]]:
    """What came of each test."""
    outcomes: dict[str, tuple[str, str]] = {}
    while len(outcomes) < len(names):
        outcomes.update(_some(backend, size, names[len(outcomes) :]))
        print(f"{backend}, {size} ranks: {len(outcomes)} of {len(names)}", file=sys.stderr, flush=True)
    return outcomes


def _names(pattern: str) -> list[str]:
    os.environ.setdefault("BACKEND", "gloo")
    os.environ.setdefault("WORLD_SIZE", "2")
    os.environ.setdefault("TEMP_DIR", tempfile.gettempdir())
    from torch.testing._internal.distributed.distributed_test import DistributedTest

    return sorted(n for n in dir(DistributedTest._DistTestBase) if n.startswith("test") and fnmatch.fnmatch(n, pattern))


def _known() -> dict[str, str]:
    text = KNOWN.read_text(encoding="utf-8") if KNOWN.exists() else ""
    lines = (line.split(": ", 1) for line in text.splitlines() if ": " in line)
    return {name: why for name, why in lines}


def _failures(found: Found, known: dict[str, str]) -> list[str]:
    """A table of the tests that have failed with some backend, or that another skips and gloo passes."""
    backends = list(dict.fromkeys(backend for backend, _ in found))
    rows = []
    for name in dict.fromkeys(name for outcomes in found.values() for name in outcomes):
        sizes: dict[str, dict[str, list[str]]] = {backend: {} for backend in backends}  # by outcome
        whys = []
        for (backend, size), outcomes in found.items():
            outcome, why = outcomes[name]
            sizes[backend].setdefault(outcome, []).append(str(size))
            if outcome == "failed" or _worse(found, backend, size, name):
                whys.append((_worse(found, backend, size, name), backend != "gloo", why))
        if whys:
            worse, _, why = max(whys)
            cells = " | ".join(_cell(sizes[backend]) for backend in backends)
            rows.append(f"| {name} | {cells} | {known[name] if _explains(known, name, worse) else why} |")
    if not rows:
        return []
    title = "Failed with one of them on some number of ranks, or skipped where gloo passes:"
    return ["", title, "", f"| test | {' | '.join(backends)} | reason |", "|---" * (len(backends) + 2) + "|", *rows]


def _cell(sizes: dict[str, list[str]]) -> str:
    if len(sizes) == 1:
        return next(iter(sizes))
    return "; ".join(f"{outcome} on {', '.join(of)}" for outcome, of in sizes.items())


def _worse(found: Found, backend: str, size: int, name: str) -> bool:
    beside = found.get(("gloo", size), {}).get(name, ("",))[0]
    return backend != "gloo" and beside == "passed" and found[backend, size][name][0] != "passed"


def _explains(known: dict[str, str], name: str, worse: bool) -> bool:
    return name in known and not (worse and known[name].startswith(_ONLY_EXPLAIN))


def _skips(found: Found) -> list[str]:
    """The names of what was skipped, by the reason, once for all backends and numbers of ranks that skip the same."""
    places: dict[str, list[str]] = {}
    for (backend, size), outcomes in found.items():
        names: dict[str, list[str]] = {}
        for name, (outcome, why) in outcomes.items():
            if outcome == "skipped":
                kind = next((meant for part, meant in _SKIPS if part in why), why)
                issue = re.search(r"https://\S+", why)
                names.setdefault(kind, []).append(f"{name} ({issue[0]})" if issue else name)
        text = "\n".join(f"- {len(of)} {kind}: {', '.join(of)}" for kind, of in names.items())
        places.setdefault(text, []).append(f"{backend} on {size}")
    return [
        line
        for text, of in places.items()
        if text
        for line in ("", f"Skipped with {', '.join(of)} ranks:", "", text)
    ]


def _table(found: Found, known: dict[str, str]) -> str:
    import torch

    lines = [
        f"torch {torch.__version__}, Python {sys.version.split()[0]}, {datetime.now(timezone.utc):%Y-%m-%d}",
        "",
        "| backend | ranks | passed | failed | skipped |",
        "|---|---|---|---|---|",
    ]
    for (backend, size), outcomes in found.items():
        kinds = [outcome for outcome, _ in outcomes.values()]
        numbers = " | ".join(str(kinds.count(kind)) for kind in ("passed", "failed", "skipped"))
        lines.append(f"| {backend} | {size} | {numbers} |")
    lines += ["", _PASSED_OVER, *_failures(found, known), *_skips(found)]
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", default="2")
    parser.add_argument("--backends", default="gloo,weft")
    parser.add_argument("--only", default="*")
    parser.add_argument("--table", help="write what came of it to this file")
    parser.add_argument("--verbose", action="store_true", help="print what came of each test")
    parser.add_argument("--rank", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    parser.add_argument("names", nargs="*", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.rank is not None:
        _rank(given.backends, given.rank, int(given.ranks), given.folder, given.names)
    names, known = _names(given.only), _known()
    found: Found = {
        (backend, int(size)): run(backend, int(size), names)
        for size in given.ranks.split(",")
        for backend in given.backends.split(",")
    }
    for (backend, size), outcomes in found.items() if given.verbose else ():
        for name, (outcome, why) in outcomes.items():
            print(f"{backend}\t{size}\t{name}\t{outcome}\t{why}")
    table = _table(found, known)
    print(table)
    if given.table:
        Path(given.table).write_text(table, encoding="utf-8")
    bad = 0
    for (backend, size), outcomes in found.items():
        for name, (outcome, _) in outcomes.items():
            if _worse(found, backend, size, name) and not _explains(known, name, worse=True):
                print(f"{name} passes with gloo and has {outcome} with {backend} on {size} ranks", file=sys.stderr)
                bad += 1
    passed = sum(outcome == "passed" for (backend, _), of in found.items() if backend != "gloo" for outcome, _ in of.values())
    print(f"{passed} passed, {bad} failed")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
