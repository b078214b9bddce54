"""What a job, its groups and a store are asked besides operations, how they are left, and the exceptions."""

import inspect
import os
import pathlib
import tempfile
import unittest

import numpy as np
from job import OverStore, ranks, refused
from test_cupyx import place

import weft
from weft import errors
from weft._weft import lib


class Stores(unittest.TestCase):
    @ranks(2)
    def test_opened(job):
        """A store of one's own: keys that both see, one that is deleted, and a job that meets through it."""
        if job.rank == 0:
            with tempfile.TemporaryDirectory() as folder:
                job.store().set("folder", folder)
                own_store(job)
                job.world.barrier().wait()
        else:
            own_store(job)
            job.world.barrier().wait()

    @ranks(2)
    def test_secrets(job):
        """A store asks for the secret that it was opened with: who has another is told so."""
        os.environ.update(OWN="what both ranks of this test have", ANOTHER="what one rank of this test has")
        url = f"tcp://127.0.0.1:{place(job)}"
        if job.rank == 0:
            with weft.Store.open(url, secret="env:OWN") as store:
                job.world.barrier().wait()
                assert store.get("of rank 1") == b"there"
                job.world.barrier().wait()
            return
        job.world.barrier().wait()
        refused(weft.AuthError, "secret", lambda: weft.Store.open(url, secret="env:ANOTHER"))
        with weft.Store.open(url, secret="env:OWN") as store:
            store.set("of rank 1", "there")
        job.world.barrier().wait()


def own_store(job):
    url = pathlib.Path(job.store().get("folder").decode(), "store").as_uri()
    with weft.Store.open(url) as store:
        if job.rank == 0:
            store.set("key", "value")
        assert store.get("key") == b"value"
        job.world.barrier().wait()
        deleted = np.array([store.delete("key")], np.int32)
        assert job.world.all_reduce(deleted).result()[0] == 1, "one of the two has found it"
        assert not store.delete("key")
        refused(weft.TimeoutError, "key", lambda: store.get("key", timeout=0))
        with weft.init(store=store, world_size=2) as other:
            assert (other.size, other.world.all_reduce(np.ones(1)).result()[0]) == (2, 2)
        assert store.add("number") in (1, 2)  # the job that met through it has left it open
    refused(weft.StateError, "this store is closed", lambda: store.delete("key"))


class Groups(unittest.TestCase):
    @ranks(2)
    def test_asked(job):
        """The ranks of this host, a report, a time of the group's own, and what has broken it."""
        world, host, own = job.world, job.host_group, job.world.new_group([0, 1], label="own")
        assert (host.label, host.rank, host.size) == ("host", job.rank, 2), host
        assert host.all_reduce(np.ones(1)).result()[0] == 2
        for _ in range(20):  # who gets no processor for a second does not answer
            report = own.report()
            if "does not answer" not in report:
                break
        lines = report.splitlines()
        assert [line[:7] for line in lines] == ["rank 0 ", "rank 1 "] and "submitted nothing" in lines[1], lines
        own.check()
        if job.rank == 0:
            own.set_timeout(0.2)
            refused(weft.TimeoutError, " s passed; rank 1 ", own.barrier().wait)
            refused(weft.TimeoutError, "barrier #1 on group own", own.check)
        world.barrier().wait()

    @ranks(2)
    def test_too_much(job):
        """A message longer than the room for it, and memory that there is not."""
        world = job.world
        own = world.new_group([0, 1])
        if job.rank == 0:
            world.isend(np.ones(4), 1, 3)
        else:
            refused(weft.TruncatedError, "32 bytes, there is room for 16", world.irecv(np.ones(2), 0, 3).wait)
        refused(weft.OutOfMemoryError, "no memory", lambda: own.mem_alloc_bytes(1 << 60))
        world.barrier().wait()


class Left(unittest.TestCase):
    @ranks(2)
    def test_aborted(job):
        """An exception that leaves `with` ends the job for all, and the others are told what it was."""
        try:
            with weft.init(bootstrap=OverStore(job)) as other:
                if job.rank == 0:
                    raise LookupError("there is no such thing")
                other.world.irecv(np.ones(1), 0, 1, timeout=60).wait()
        except (LookupError, weft.WeftError) as error:
            assert isinstance(error, LookupError) == (job.rank == 0), error
            assert "there is no such thing" in str(error) and other.closed, error
        else:
            raise AssertionError("rank 0 has aborted")
        assert job.world.all_reduce(np.ones(1)).result()[0] == 2


class Exceptions(unittest.TestCase):
    def test_complete(self):
        """Each failure of weft.h has a class of its own, which weft shows."""
        names = {name for name in dir(lib) if name.startswith("WEFT_ERR_")} | {"WEFT_PENDING"}
        self.assertGreater(len(names), 10)
        self.assertEqual({getattr(lib, name) for name in names}, set(errors.BY_STATUS))
        made = [error for _, error in inspect.getmembers(weft, inspect.isclass) if issubclass(error, weft.WeftError)]
        self.assertEqual({error.status for error in made} - {0}, set(errors.BY_STATUS))
        for status, error in errors.BY_STATUS.items():
            self.assertIn(error("").name, names)
            self.assertEqual(getattr(lib, error("").name), status)


if __name__ == "__main__":
    unittest.main()
