"""The tables of README.md: each row runs, and gives what it says."""

import ast
import os
import pathlib
import re
import socket
import tempfile
import types
import unittest

import numpy
from job import OverStore, over_mpi, ranks, run_over_mpi

import weft

README = pathlib.Path(__file__).resolve().parent.parent / "README.md"


def rows(heading):
    """The code of a table's cells: of the table whose first row has that heading."""
    found = re.search(rf"\n\| {re.escape(heading)} \|[^\n]*\n\|[-|]+\|\n((?:\|[^\n]*\n)+)", README.read_text())
    for line in found.group(1).splitlines():
        yield [re.findall(r"`([^`]+)`", cell) for cell in line.replace("\\|", "\0").strip("|").split("|")]


def run(codes, names):
    """Runs the statements of a cell, and gives what its expressions give as far as it can be compared."""
    found = []
    for code in codes:
        try:
            ast.parse(code, mode="eval")
        except SyntaxError:
            exec(code, names)
            continue
        value = eval(code, names)
        if type(value) in (int, dict, list) and code.partition("(")[0] not in UNLIKE:
            found.append(value)
    return found


UNLIKE = ("MPI.Request.Waitall", "weft.wait_all")


def column(table, which, names):
    """Runs one column of a table, each row with new arrays, and gives what came of each row."""
    came = []
    make = names.get("make", numpy.asarray)
    for cells in table:
        rank = names["rank"]
        names["x"], names["y"] = make(numpy.arange(4.0) + rank), make(numpy.zeros(4))
        names["whole"], names["other"] = make(numpy.arange(8.0) * (rank + 1)), make(numpy.zeros(8))
        values = run(cells[which], names)
        arrays = [numpy.array(names[name]).tolist() for name in ("x", "y", "whole", "other")]
        came.append((values, arrays, names.get("objects")))
    return came


def common(rank):
    """What the rows of every table take for granted."""
    return {"weft": weft, "numpy": numpy, "rank": rank, "peer": 1 - rank, "obj": {"rank": rank}, "counts": [4, 4]}


def compare(heading, left, right, having=""):
    """Runs a table, or the rows whose first cell has a word, and fails where its two columns differ."""
    table = [cells for cells in rows(heading) if having in " ".join(cells[0])]
    assert table, having
    for cells, one, other in zip(table, column(table, 0, left), column(table, 1, right)):
        assert one == other, (cells, one, other)


OVER_MPI = """
import sys
sys.path.insert(0, {folder!r})
import test_tables
from mpi4py import MPI
import weft.mpi
names = test_tables.common(MPI.COMM_WORLD.rank)
test_tables.compare("mpi4py", {{**names, "MPI": MPI}}, {{**names, "comm": MPI.COMM_WORLD}})
"""


class Coming(unittest.TestCase):
    @ranks(2)
    def test_cupyx(job):
        """weft.cupyx beside what the table says that it is."""
        import weft.cupyx

        if job.rank == 0:
            with socket.socket() as free:
                free.bind(("127.0.0.1", 0))
                job.store().set("port", str(free.getsockname()[1]))
        names = common(job.rank) | {"host": "127.0.0.1", "port": int(job.store().get("port")), "stream": None}
        compare("cupyx.distributed", names | {"distributed": weft.cupyx}, names)

    @ranks(2, emulated=True)
    def test_cupyx_stream(job):
        """The row that has a stream, with arrays of a device and a stream of it."""
        import test_device

        import weft.cupyx

        class Array(test_device.Array):
            def __array__(self, dtype=None, copy=None):
                return self.get()

        def make(values):
            return stream.copy(Array.of(job.device, numpy.zeros(values.shape)), Array.of(job.device, values))

        test_device.cudart().cudaSetDevice(job.device)
        stream = test_device.Stream()
        comm = weft.cupyx.init_process_group(2, job.rank, host="127.0.0.1", port=test_device.place(job))
        names = common(job.rank) | {"world": job.world, "stream": stream, "make": make}
        compare("cupyx.distributed", names | {"comm": comm}, names, "stream")
        comm.stop()

    @ranks(2)
    def test_nvmath(job):
        """weft.nvmath beside what the table says that it is."""
        import weft.nvmath

        names = common(job.rank) | {"device_id": -1, "bootstrap": OverStore(job)}
        group = weft.nvmath.WeftProcessGroup(job.world)
        compare("nvmath.distributed", names | {"distributed": weft.nvmath, "process_group": group}, names)

    @over_mpi
    def test_mpi4py(self):
        """mpi4py over Open MPI beside Weft, in the same processes."""
        run_over_mpi(self, 2, OVER_MPI.format(folder=os.path.dirname(__file__)))

    @ranks(2)
    def test_torch(job):
        """The right column alone, on numpy's arrays; foreign/test_torch.py has both."""
        names = common(job.rank)
        with weft.init(bootstrap=OverStore(job)) as other:
            column(rows("torch.distributed"), 1, names | {"job": other, "world": other.world})


class OnDevice:
    """What cupy and others show of an array on a device."""

    def __init__(self, address=4096):
        self.__cuda_array_interface__ = {"shape": (4,), "typestr": "<f8", "data": (address, False), "version": 3}


def frozen():
    found = numpy.zeros(4)
    found.flags.writeable = False
    return found


def expect_refused(call, sentence, names):
    """Fails unless the code of a row raises what the row says."""
    try:
        eval(call, names)
    except Exception as error:
        said = f"{type(error).__name__}: {error}"
        assert said.startswith(sentence.removesuffix("...")), said
    else:
        raise AssertionError(f"not refused: {call}")


class WrongArrays(unittest.TestCase):
    def test_sentences(self):
        """Each wrong array is refused by the sentence in its row, and nothing has been sent: the group still works."""
        with tempfile.TemporaryDirectory() as folder:
            with weft.init(pathlib.Path(folder, "place").as_uri(), rank=0, world_size=1) as job:
                world, x = job.world, numpy.zeros(4)
                gone = world.mem_alloc(4)
                world.mem_free(gone)
                names = {"world": world, "numpy": numpy, "x": x, "y": numpy.zeros(8), "gone": gone}
                names |= {"frozen": frozen(), "on_device": OnDevice(), "without_memory": OnDevice(0)}
                count = 0
                for _, (call,), (sentence,) in rows("wrong"):
                    if "elsewhere" in call:
                        continue
                    with self.subTest(call):
                        expect_refused(call, sentence, names)
                    count += 1
                self.assertGreaterEqual(count, 12)
                self.assertTrue(world.all_reduce(x).wait())

    @ranks(1, emulated=True)
    def test_other_device(job):
        """The row that takes a job with a device."""
        elsewhere = OnDevice()
        elsewhere.device = types.SimpleNamespace(id=job.device + 1)
        found = [(call, sentence) for _, (call,), (sentence,) in rows("wrong") if "elsewhere" in call]
        assert len(found) == 1, found
        expect_refused(*found[0], {"world": job.world, "elsewhere": elsewhere})
        assert job.world.all_reduce(numpy.zeros(4)).wait()


if __name__ == "__main__":
    unittest.main()
