"""Requests: waiting, awaiting, callbacks, Ctrl-C, garbage collection, deaths."""

import asyncio
import concurrent.futures
import gc
import os
import random
import signal
import socket
import threading
import time
import unittest
import weakref

import numpy as np
from job import ranks

import weft


class Requests(unittest.TestCase):
    @ranks(2)
    def test_waiting(job):
        """done, wait and result before and after a peer comes; a deadline of the operation's own."""
        g = job.world
        if g.rank == 0:
            x = np.zeros(1)
            late = g.irecv(x, 1, 1)
            assert not late.done() and late.wait(0.01) is False
            try:
                late.result(0)
                raise AssertionError("nothing has come")
            except weft.PendingError as error:
                assert isinstance(error, TimeoutError) and "irecv" in str(error), error
            g.isend(x, 1, 2).wait()
            assert late.result()[0] == 5 and late.done() and late.exception() is None
            assert late.info.peer == 1 and late.info.tag == 1 and late.info.received_bytes == 8, late.info
            began = time.monotonic()
            try:
                g.irecv(x, 1, 9, timeout=0.2).wait()
                raise AssertionError("nobody sends")
            except weft.TimeoutError as error:
                assert error.operation == "irecv" and error.name == "WEFT_ERR_TIMEOUT", error
            assert 0.19 < time.monotonic() - began < 5
            cancelled = g.irecv(x, 1, 9)
            cancelled.cancel()
            assert isinstance(cancelled.exception(), weft.CancelledError)
        else:
            g.irecv(np.zeros(1), 0, 2).wait()
            g.isend(np.array([5.0]), 0, 1).wait()
        assert weft.wait_all([g.all_reduce(np.ones(2)) for _ in range(10)])
        job.store().set(f"rank {g.rank}", "there")
        job.store().wait(["rank 0", "rank 1"])
        assert job.store().get("rank 1") == b"there"
        assert job.store().add("n", 2) in (2, 4) and job.store().compare_set("c", None, "x") in (True, False)

    @ranks(3)
    def test_late_rank(job):
        """Who is late is told."""
        g, store = job.world, job.store()
        g.barrier().wait()
        if g.rank == 2:
            store.wait(["told 0", "told 1"])
            return
        try:
            g.all_reduce(np.ones(1), timeout=2).wait()
            raise AssertionError("rank 2 has not come")
        except weft.TimeoutError as error:
            assert (error.rank, error.operation, error.group) == (2, "all_reduce", "world"), vars(error)
        try:
            g.all_reduce(np.ones(1))
            raise AssertionError("the group is broken")
        except weft.BrokenError as error:
            assert "all_reduce" in str(error), error
        store.set(f"told {g.rank}", "")

    @ranks(2)
    def test_awaiting(job):
        """A thousand requests at once in asyncio, each awaited by a task of its own; another thread waits meanwhile."""
        g = job.world
        other = g.new_group([0, 1], label="other")

        async def one(i):
            x = np.array([i], np.int64)
            found = await g.all_reduce(x)
            assert found[0] == 2 * i, (found, i)

        async def all_of_them():
            await asyncio.gather(*(one(i) for i in range(1000)))
            assert (await other.all_reduce(np.ones(1)))[0] == 2

        def beside():
            for _ in range(300):
                other.all_reduce(np.ones(1)).wait()

        thread = threading.Thread(target=beside)
        thread.start()
        asyncio.run(asyncio.wait_for(all_of_them_after(thread, all_of_them), 40))
        asyncio.run(one(7))

    @ranks(2)
    def test_awaited_when_left(job):
        """Who awaits what will not come is told when the job is left, and the loop goes on."""

        async def main():
            waiting = asyncio.ensure_future(take())
            await asyncio.sleep(0.05)
            try:
                job.close(0.2)
                raise AssertionError("an irecv is pending")
            except weft.PendingError:
                pass
            job.abort("done")
            try:
                await asyncio.wait_for(waiting, 5)
                raise AssertionError("nobody sent")
            except (weft.StateError, weft.WeftError) as error:
                assert not isinstance(error, weft.PendingError), error
            await asyncio.sleep(0.01)

        async def take():
            return await job.world.irecv(np.zeros(1), 1, 1)

        job.world.barrier().wait()
        if job.rank == 0:
            asyncio.run(main())
        else:
            assert isinstance(job.world.irecv(np.zeros(1), 0, 2).exception(), weft.PeerError)

    @ranks(2)
    def test_callbacks(job):
        """Callbacks run on a thread, in time, also where another thread's waits look first; futures too."""
        g = job.world
        other = g.new_group([0, 1], label="other")
        told = []
        requests = [g.all_reduce(np.array([i])) for i in range(50)]
        for request in requests:
            request.add_done_callback(lambda done: told.append((done.result()[0], threading.current_thread().name)))
        for _ in range(100):
            other.barrier().wait()
        until = time.monotonic() + 10
        while len(told) < 50 and time.monotonic() < until:
            time.sleep(0.001)
        assert sorted(number for number, _ in told) == [2 * i for i in range(50)], told
        futures = [g.all_reduce(np.array([1.0])).future() for _ in range(10)]
        done, _ = concurrent.futures.wait(futures, timeout=10)
        assert len(done) == 10 and all(future.result()[0] == 2 for future in done)

    @ranks(2)
    def test_ctrl_c(job):
        """KeyboardInterrupt ends a wait on the main thread within 100 ms, whenever it comes, and the operation goes on."""
        g = job.world
        x = np.zeros(1)
        if g.rank == 1:
            g.barrier().wait()
            g.isend(np.ones(1), 0, 1).wait()
            assert isinstance(g.irecv(x, 0, 1).exception(), weft.PeerError)
            return
        request, store = g.irecv(x, 1, 1), job.store()
        waits = {
            "wait": request.wait,
            "result with time": lambda: request.result(60),
            "wait_all": lambda: weft.wait_all([request]),
            "get": lambda: store.get("never"),
            "wait for keys": lambda: store.wait(["never"], 60),
            "open": lambda: weft.Store.open(nobody_serves(), timeout=60),
            "init": lambda: weft.init(nobody_serves(), rank=1, world_size=2, timeout=60),
        }
        number = random.Random(1)
        passed = {name: [] for name in waits}
        for round in range(CTRL_C_ROUNDS_MOST):
            if round >= CTRL_C_ROUNDS and all(min(of_one) < CTRL_C_S for of_one in passed.values()):
                break
            for name, wait in waits.items():
                after = interrupted_after(number.choice((0.0003, 0.003, 0.03)) * number.random(), wait)
                assert after < CTRL_C_S + LOADED_S, f"{name}: {after} s after Ctrl-C"
                passed[name].append(after)
        for name, all_of_it in passed.items():  # a machine that does something else too may starve some of them
            assert min(all_of_it) < CTRL_C_S, f"{name}: {all_of_it} s after Ctrl-C"
        g.barrier().wait()
        assert request.result()[0] == 1
        never = g.isend(np.zeros(1 << 20), 1, 2)
        interrupted_after(0.001, lambda: store.get("never"))
        interrupted_after(1, lambda: job.close(60))
        assert not job.closed and not never.done()
        job.abort("no more is to come")
        assert job.closed

    @ranks(2)
    def test_ctrl_c_then_close(job):
        """What was interrupted holds up nothing: leaving right after it is quick, and nothing is lost."""
        told = []
        for i in range(20):
            with weft.init(bootstrap=SameStore(job, i)) as other:
                store = other.store()
                pending = other.world.irecv(np.zeros(1), 1 - other.rank, 1)
                pending.add_done_callback(told.append)
                interrupted_after(0.002 * i / 20, pending.wait)
                interrupted_after(0.002 * i / 20, lambda: store.get("never"))
                other.world.barrier().wait()
                other.world.isend(np.ones(1), 1 - other.rank, 1).wait()
                began = time.monotonic()
            passed = time.monotonic() - began
            assert passed < LOADED_S and len(told) == i + 1, (i, passed, told)

    @ranks(2)
    def test_arrays_are_kept(job):
        """A request holds its arrays until it has settled, and no longer; one that is thrown away leaves them whole."""
        g = job.world

        class Array(np.ndarray):
            pass

        kept = np.zeros(4).view(Array)
        gone = weakref.ref(kept)
        request = g.irecv(kept, 1 - g.rank, 1)
        request._result = None
        del kept
        gc.collect()
        assert gone() is not None
        g.barrier().wait()
        g.isend(np.ones(4), 1 - g.rank, 1).wait()
        assert gone()[0] in (0, 1)
        request.wait()
        gc.collect()
        assert gone() is None, "the array of a request that has settled is held"
        number = random.Random(1)
        for i in range(2000):
            request = g.all_reduce(np.full(number.choice((1, 100, 10000)), 1.0))
            if number.random() < 0.3:
                assert request.result()[0] == 2
            if number.random() < 0.01:
                gc.collect()
        del request
        g.barrier().wait()
        g.barrier().wait()
        job._bury()
        assert not job._forsaken, len(job._forsaken)

    @ranks(2)
    def test_fork_and_close(job):
        """A child of fork is told so; after close everything says so."""
        g = job.world
        x = np.ones(1)
        request = g.irecv(x, 1 - g.rank, 1)
        child = os.fork()
        if child == 0:
            try:
                for call in (lambda: g.all_reduce(x), request.wait):
                    try:
                        call()
                        os._exit(3)
                    except weft.StateError as error:
                        if "fork" not in str(error):
                            os._exit(4)
                os._exit(0)
            finally:
                os._exit(5)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        g.barrier().wait()  # a child made after the other's message came would find its request settled
        g.isend(np.ones(1), 1 - g.rank, 1)
        request.wait()
        unread = g.barrier()
        job.close()
        job.close()
        for call in (lambda: g.all_reduce(x), lambda: job.local_rank, unread.done, lambda: job.store()):
            try:
                call()
                raise AssertionError("a closed context")
            except weft.StateError as error:
                assert "closed" in str(error), error

    @ranks(3, killed=True)
    def test_killed(job):
        """kill -9 of one rank: an exception that names it, in time; the living go on training from the last step."""
        g, weights, step = job.world, np.zeros(4), 0
        store = job.store()
        while step < 20:
            if (g.size, g.rank, step) == (3, 1, 7):
                store.set("killed", repr(time.monotonic()))  # a clock that all processes have
                os.kill(os.getpid(), signal.SIGKILL)
            try:
                weights = weights + g.all_reduce(np.full(4, 1.0 + step), op="avg").result()
                step += 1
            except weft.PeerError as error:
                passed = time.monotonic() - float(store.get("killed"))
                assert (error.rank, error.group) == (1, "world"), (str(error), vars(error))
                assert isinstance(error, ConnectionError) and "has died" in str(error), error
                assert passed < DEATH_S + LOADED_S, passed
                assert g.dead() == [1], g.dead()
                print(f"rank {g.rank} was told {passed * 1e3:.1f} ms after the kill", flush=True)
                g = g.shrink()
                assert g.size == 2, g
        assert step == 20 and (weights == sum(range(21))).all(), (step, weights)
        assert g.all_gather(weights, np.zeros((2, 4))).result()[0].tolist() == weights.tolist()


DEATH_S = 0.05
CTRL_C_S = 0.1
LOADED_S = 5  # a machine that does something else too; what is waited for would come after a minute
CTRL_C_ROUNDS = int(os.environ.get("CTRL_C_ROUNDS", "3"))
CTRL_C_ROUNDS_MOST = CTRL_C_ROUNDS + 20


def interrupted_after(seconds, wait):
    """Has the system send SIGINT that long after `wait` began, and gives the seconds from then to KeyboardInterrupt."""
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        began = time.monotonic()
        try:
            signal.setitimer(signal.ITIMER_REAL, max(seconds, 1e-6))
            wait()
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    except KeyboardInterrupt:
        return time.monotonic() - began - seconds
    raise AssertionError("nothing has come")


def nobody_serves():
    """The address of a port that is bound here, where nobody listens."""
    if not unheard:
        unheard.append(socket.socket())
        unheard[0].bind(("127.0.0.1", 0))
    return f"tcp://127.0.0.1:{unheard[0].getsockname()[1]}"


unheard = []


class SameStore:
    """A bootstrap over the store of a job that both ranks are in."""

    def __init__(self, job, turn):
        self.rank, self.size = job.rank, job.size
        self._store, self._calls, self._turn = job.store(), 0, turn

    def all_gather(self, own):
        self._calls += 1
        self._store.set(f"{self._turn} {self._calls} {self.rank}", own)
        return [self._store.get(f"{self._turn} {self._calls} {rank}") for rank in range(self.size)]


async def all_of_them_after(thread, function):
    await function()
    while thread.is_alive():
        await asyncio.sleep(0.001)


if __name__ == "__main__":
    unittest.main()
