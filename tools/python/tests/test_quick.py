"""The short way of an all_reduce: what takes it, what it leaves to the long one, and what it holds."""

import gc
import signal
import sys
import threading
import time
import unittest
import unittest.mock
import weakref

import ml_dtypes
import numpy as np
from job import ranks

import weft
from weft import _quick

KINDS = ["int8", "uint16", "int64", "float16", "float32", "float64", "complex128", ml_dtypes.bfloat16]


def know(g):
    """The long way comes first with every type."""
    for kind in KINDS:
        g.all_reduce(np.ones(1, kind)).wait()


def only_short():
    """A context in which nothing but the short way works."""
    return unittest.mock.patch.object(weft.Group, "_in_and_out", side_effect=AssertionError("the long way"))


def taken(g, *args, **others):
    """Whether the short way takes this; or what it raises."""
    try:
        with only_short():
            g.all_reduce(*args, **others).wait()
    except AssertionError:
        return False
    return True


class Quick(unittest.TestCase):
    @ranks(2)
    def test_taken(job):
        """Arrays of every type and shape, in place and not, each reduction; the sums are right."""
        g = job.world
        know(g)
        for kind in KINDS:
            for shape in ((), (3,), (2, 3)):
                with only_short():
                    x, y = np.full(shape, g.rank + 1, kind), np.zeros(shape, kind)
                    assert g.all_reduce(x, y).result() is y and (y == 3).all() and (x == g.rank + 1).all(), (x, y)
                    assert g.all_reduce(x, op="avg" if kind == "complex128" else "sum").result() is x, x
                    assert (x == (1.5 if kind == "complex128" else 3)).all(), x
        with only_short():
            own = np.arange(6.0)
            assert g.all_reduce(own[:3], own[3:], "min").result() is not own and (own[3:] == own[:3]).all(), own
            request = g.all_reduce(own)
            assert isinstance(request, weft.Request) and request.info.operation == "all_reduce"
            request.wait()
            assert request.done() and request.wait() and request.exception() is None and request.wait(0)
            many = [g.all_reduce(np.full(1, i)) for i in range(100)]
            assert weft.wait_all(many) and [r.result()[0] for r in many] == [2 * i for i in range(100)]

    @ranks(1)
    def test_left(job):
        """What is wrong or has an option goes the long way, with its sentence."""
        g, x = job.world, np.arange(4.0)
        know(g)
        frozen, wide = np.arange(4.0), np.arange(8.0)
        frozen.setflags(write=False)
        gone = g.mem_alloc(4)
        for args, sentence in (
            ((wide[::2],), "has strides"),
            ((np.ones((2, 3)).T,), "has strides"),
            ((frozen,), "read-only"),
            ((x, frozen), "read-only"),
            ((np.ones(2, ">f8"),), "in the other order"),
            ((np.ones(2, "datetime64[s]"),), "expected one of"),
            ((wide[:4], wide[2:6]), "overlap"),
            ((wide[2:6], wide[:4]), "overlap"),
            ((x, np.zeros(3)), "has 3 elements"),
            ((x, np.zeros(4, np.float32)), "expected one type"),
            ((x, None, "mean"), "no reduction"),
            ((x, None, ["sum"]), "unhashable"),
        ):
            assert not taken(g, *args), args
            try:
                g.all_reduce(*args)
                raise RuntimeError("it was accepted")
            except (TypeError, ValueError) as error:
                assert sentence in str(error), (sentence, str(error))
        assert taken(g, x) and taken(g, frozen, x) and taken(g, wide[:4], wide[4:])
        for others in ({"timeout": 5}, {"label": "name"}, {"copy": True}, {"op": "premul_sum", "scale": 2.0}):
            assert not taken(g, x, **others), others
            assert g.all_reduce(x, **others).wait()
        assert not taken(g, np.zeros(0)) and not taken(g, bytearray(8)) and not taken(g, x.view(Other))
        assert taken(g, gone)
        whole = memoryview(gone)
        g.mem_free(gone)
        for dead in (gone, np.asarray(whole)):
            assert not taken(g, dead)
        del gone, whole, dead
        gc.collect()
        assert taken(g, x)
        closed = g.new_group([0])
        closed.free()
        try:
            closed.all_reduce(x)
            raise RuntimeError("a group that is freed")
        except weft.StateError as error:
            assert "freed" in str(error), error

    @ranks(2)
    def test_held(job):
        """Both arrays and the group live until it has settled, and no longer, whoever has the request."""
        g = job.world.new_group([0, 1])
        know(g)
        x, y = np.ones(4), np.zeros(4)
        gone, out = weakref.ref(x), weakref.ref(y)
        if job.rank == 0:
            with only_short():
                request = g.all_reduce(x, y)
            request._result = None
            del x, y
            gc.collect()
            assert gone() is not None and out() is not None and not request.done()
            job.world.barrier().wait()
            assert request.wait() and gone() is None and out() is None
            counts = sys.getrefcount(g), sys.getrefcount(job)
            for i in range(1000):
                g.all_reduce(np.ones(1))
            job.world.barrier().wait()
            expect_buried(job)
            assert (sys.getrefcount(g), sys.getrefcount(job)) == counts, counts
            thrown = g.all_reduce(np.ones(1))
            loop = [thrown]
            loop.append(loop)
            del thrown, loop, g
            gc.collect()
            (left,) = job._forsaken  # the collector has ended weak references before it is asked what is left
            assert left[1][2].size == 2, left
            del left
            job.world.barrier().wait()
            job.world.barrier().wait()
            expect_buried(job)
        else:
            job.world.barrier().wait()
            g.all_reduce(x, y).wait()
            for i in range(1000):
                g.all_reduce(np.ones(1)).wait()
            job.world.barrier().wait()
            job.world.barrier().wait()
            g.all_reduce(np.ones(1)).wait()
            job.world.barrier().wait()

    @ranks(2)
    def test_failed(job):
        """A failure is raised by the same exception, at the call or at the wait; a wait lets other threads run."""
        g = job.world
        know(g)
        if g.rank == 0:
            late = g.all_reduce(np.ones(1))
            ran = threading.Thread(target=lambda: g.isend(np.ones(1), 1, 1).wait())  # rank 1 comes after that
            ran.start()
            late.wait()
            ran.join()
            broken = g.all_reduce(np.ones(1))
            g.isend(np.ones(1), 1, 2).wait()
            try:
                broken.wait()
                raise RuntimeError("rank 1 has aborted the group")
            except weft.CancelledError as error:
                assert "enough" in str(error) and broken.exception() is error, error
            try:
                broken.wait()
                raise RuntimeError("it has failed before")
            except weft.CancelledError:
                pass
        else:
            g.irecv(np.zeros(1), 0, 1).wait()
            g.all_reduce(np.ones(1)).wait()
            g.irecv(np.zeros(1), 0, 2).wait()
            g.abort("enough")
        with only_short():
            try:
                g.all_reduce(np.ones(1)).wait()
                raise RuntimeError("the group is broken")
            except weft.BrokenError as error:
                assert "enough" in str(error), error

    @ranks(2)
    def test_interrupted(job):
        """Ctrl-C ends a wait that began the short way, and another thread's wait goes on."""
        g = job.world
        know(g)
        if g.rank == 0:
            signal.signal(signal.SIGALRM, signal.default_int_handler)
            with only_short():
                request = g.all_reduce(np.ones(1))
            thread = threading.Thread(target=request.wait)
            thread.start()
            signal.setitimer(signal.ITIMER_REAL, 0.05)
            try:
                request.wait()
                raise RuntimeError("nothing was to come")
            except KeyboardInterrupt:
                pass
            g.isend(np.ones(1), 1, 1).wait()
            thread.join()
            assert request.done() and request.result()[0] == 2 and job._inside == 0
        else:
            g.irecv(np.zeros(1), 0, 1).wait()
            assert g.all_reduce(np.ones(1)).result()[0] == 2

    def test_classes(self):
        """What stands under the classes of the package cannot be misused into a crash."""
        flight = _quick.Flight.__new__(_quick.Flight)
        self.assertFalse(flight._finish())
        self.assertEqual((flight._address, flight._settled, flight._error, flight._keep), (0, False, None, None))
        with self.assertRaises(TypeError):
            _quick.Flight(object(), 0, None, None, None)
        with self.assertRaises(TypeError):
            _quick.all_reduce(1)
        self.assertIsNone(_quick.all_reduce(None, None, 0, np.ones(1), None, "sum"))
        self.assertIsNone(_quick.all_reduce(None, _quick.Job(), 0, np.ones(1), None, "sum"))
        del flight
        gc.collect()


class Other(np.ndarray):
    """numpy's, but not numpy's own."""


def expect_buried(job):
    """What nobody has any more is given back, once the others have come."""
    until = time.monotonic() + 10
    while job._forsaken and time.monotonic() < until:
        job._bury()
    assert not job._forsaken


if __name__ == "__main__":
    unittest.main()
