"""weft.torch: every operation of a process group, refusals, failures, and what torch builds on them."""

import datetime
import pathlib
import random
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import unittest.mock
import weakref

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

import numpy
import torch
import torch.distributed as dist
from job import LIMIT_S, ranks, refused, run

import weft
import weft.torch
from weft.torch.roll_call import RollCall

README = pathlib.Path(__file__).resolve().parents[2] / "README.md"


def joined(job, timeout=40, backend="weft"):
    """torch's default group, over a file that all ranks of the job know."""
    if job.rank == 0:
        job.store().set("file", tempfile.mktemp())
    job.world.barrier().wait()  # the store may have the file of a group before
    store = dist.FileStore(job.store().get("file").decode(), job.size)
    dist.init_process_group(
        backend, store=store, rank=job.rank, world_size=job.size, timeout=datetime.timedelta(seconds=timeout)
    )
    return dist.group.WORLD


def step(model, inputs):
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for data in inputs:
        optimizer.zero_grad()
        model(data).square().mean().backward()
        optimizer.step()


def model():
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))


STARTS = """
import datetime, os, sys
import torch, torch.distributed as dist
import weft.torch

rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
place = {{"rank": rank, "world_size": size}}


def started(name, backend="weft", **how):
    dist.init_process_group(backend, timeout=datetime.timedelta(seconds=60), **how)
    x = torch.full((3,), rank + 1.0)
    dist.all_reduce(x)
    assert x.tolist() == [6, 6, 6] and dist.get_rank() == rank, (name, x)
    pair = dist.new_group([0, 2])
    if rank != 1:
        dist.all_reduce(x, group=pair)
        assert x.tolist() == [12, 12, 12], (name, x)
    dist.barrier()
    dist.destroy_process_group()
    print(f"rank {{rank}}: {{name}}", flush=True)


started("env")
started("tcp", init_method="{tcp}", **place)
started("file", init_method="{file}", **place)
started("store", store=dist.FileStore("{file}2"[7:], size), **place)
started("group_name", init_method="{file}3", group_name="mine", **place)
started("device_id", init_method="{file}4", device_id=torch.device("cpu", 0), **place)
started("cpu and cuda", "cpu:weft,cuda:weft", init_method="{file}5", **place)
started("cpu", "cpu:weft", init_method="{file}6", **place)
"""

RESTARTED = """
import os
import torch, torch.distributed as dist
import weft.torch

dist.init_process_group("weft")
rank, times = dist.get_rank(), int(os.environ["TORCHELASTIC_RESTART_COUNT"])
came = torch.ones(1)
dist.all_reduce(came)
assert came.item() == 3
if rank == times and times < 2:
    os._exit(7)  # the others are in the next one
from_all = [torch.zeros(1) for _ in range(3)]
dist.all_gather(from_all, torch.full((1,), float(times)))
print(f"rank {rank} was started {times} times again, and {int(sum(from_all))} came", flush=True)
dist.destroy_process_group()
"""


def gone_within(seconds, reference):
    """Whether nobody holds it any more, or soon does not."""
    end = time.monotonic() + seconds
    while reference() is not None and time.monotonic() < end:
        time.sleep(0.01)
    return reference() is None


class Torch(unittest.TestCase):
    @ranks(3)
    def test_sparse(job):
        """Sums of sparse tensors that have elements in common, or none at all, of other shapes refused everywhere."""
        joined(job)
        rank = dist.get_rank()

        def of(r):
            kept = torch.tensor([[r, 2], [0, 1]])[:, : 2 - (r == 1)]
            return torch.sparse_coo_tensor(kept, torch.arange(1.0, kept.shape[1] + 1)[:, None] * torch.ones(4) * (r + 1), (4, 3, 4))

        own, whole = of(rank), sum(of(r).to_dense() for r in range(3))
        dist.all_reduce(own)
        assert own.is_sparse and torch.equal(own.to_dense(), whole), own
        empty = of(rank) if rank == 2 else torch.sparse_coo_tensor(torch.zeros((2, 0), dtype=torch.int64), torch.zeros((0, 4)), (4, 3, 4))
        dist.all_reduce(empty)
        assert torch.equal(empty.to_dense(), of(2).to_dense()), empty
        refused(weft.UnsupportedError, "by a sum only", lambda: dist.all_reduce(of(0), dist.ReduceOp.MAX))
        other = of(rank) if rank else torch.sparse_coo_tensor(torch.tensor([[0], [0]]), torch.ones(1, 4), (4, 4, 4))
        refused(ValueError, "rank 0 has a sparse tensor of [4, 4, 4], rank 1 of [4, 3, 4]", lambda: dist.all_reduce(other))
        dist.destroy_process_group()

    @ranks(3)
    def test_old_forms(job):
        """Ranks that nobody has assigned, at a file and at an address, jobs kept apart by name; the backend of 2017."""
        if job.rank == 0:
            job.store().set("folder", tempfile.mkdtemp())
            with socket.socket() as free:
                free.bind(("127.0.0.1", 0))
                job.store().set("port", str(free.getsockname()[1]))
        folder, port = job.store().get("folder").decode(), job.store().get("port").decode()
        for backend, url, name in (
            ("weft", f"weft+file://{folder}/meeting?group_name=first", ""),
            ("tcp", f"weft+tcp://127.0.0.1:{port}?group_name=second", ""),
            ("weft", f"file://{folder}/another", "third"),
            ("tcp", f"tcp://127.0.0.1:{port}", "fourth"),
        ):
            limit = datetime.timedelta(seconds=40)
            dist.init_process_group(backend, init_method=url, world_size=3, timeout=limit, group_name=name)
            assert dist.get_backend() == backend and dist.get_world_size() == 3
            there = torch.zeros(3)
            there[dist.get_rank()] = 1
            dist.all_reduce(there)
            assert there.tolist() == [1, 1, 1], there
            pair = dist.new_group([0, 2])
            if dist.get_rank() != 1:
                dist.all_reduce(there, group=pair)
                assert there.tolist() == [2, 2, 2], there
            objects = [None] * 3
            dist.all_gather_object(objects, dist.get_rank())
            assert objects == [0, 1, 2], objects
            dist.destroy_process_group()
            job.world.barrier().wait()
        wrong = "weft+tcp://127.0.0.1:1?colour=3"
        refused(ValueError, "has colour, expected of rank", lambda: dist.init_process_group("weft", init_method=wrong))
        wrong = f"file://{folder}/another"  # gloo has what torch has
        refused(ValueError, "rank parameter missing", lambda: dist.init_process_group("gloo", wrong, world_size=3))

    @ranks(2)
    def test_job_store(job):
        """The store that torch has of a job that met by Weft."""
        from weft.torch.meeting import JobStore

        store = JobStore(job, datetime.timedelta(seconds=40))
        if job.rank == 0:
            prefixed = dist.PrefixStore("p", store)
            prefixed.set("key", "value")
            assert prefixed.get("key") == b"value" and store.get("p/key") == b"value"
            assert store.add("n", 2) == 2 and store.add("n", 3) == 5
            assert store.compare_set("c", "", "one") == b"one" and store.compare_set("c", "zero", "two") == b"one"
            assert store.compare_set("c", "one", "two") == b"two" and store.get("c") == b"two"
            assert store.check(["c", "n"]) and not store.check(["c", "absent"])
            assert store.delete_key("c") and not store.delete_key("c")
            refused(weft.TimeoutError, "absent", lambda: store.wait(["absent"], datetime.timedelta(milliseconds=50)))
            store.set_timeout(datetime.timedelta(milliseconds=50))
            refused(weft.TimeoutError, "absent", lambda: store.get("absent"))
        else:
            store.wait(["p/key"])
            assert store.get("p/key") == b"value"

    @ranks(2)
    def test_nvmath(job):
        """weft.nvmath over a group of torch, gloo's too; symmetric memory as tensors."""
        import weft.nvmath as distributed
        from weft.nvmath import ReductionOp, TorchProcessGroup

        refused(RuntimeError, "not initialized", lambda: TorchProcessGroup(device_id="cpu"))
        joined(job)
        refused(ValueError, "device_id is 'gpu'", lambda: TorchProcessGroup(device_id="gpu"))
        reversed_ranks = dist.new_group([1, 0], backend="gloo")
        for torch_group in (None, reversed_ranks):
            group = TorchProcessGroup(device_id="cpu", torch_process_group=torch_group)
            assert (group.rank, group.nranks, group.device_id) == (dist.get_rank(torch_group), 2, "cpu")
            a = numpy.array([group.rank + 1, 5 - group.rank])
            group.allreduce_buffer(a, op=ReductionOp.MIN)
            assert a.tolist() == [1, 4], a
            b = numpy.array([group.rank])
            group.broadcast_buffer(b, root=1)
            assert b[0] == 1 and group.allreduce_object("ab"[group.rank], op=lambda x, y: x + y) == "ab"
            distributed.initialize(-1, group, ["host"])
            t = distributed.allocate_symmetric_memory((2, 3), torch, axis_order="F", dtype=torch.bfloat16)
            assert t.shape == (2, 3) and t.stride() == (1, 2) and t.dtype == torch.bfloat16 and not t.any()
            t.fill_(group.rank + 1)
            world = distributed.get_context().weft.world
            assert world.all_reduce(t.T).result().float().sum() == 18
            distributed.free_symmetric_memory(t)
            distributed.finalize()
        dist.destroy_process_group()

    @ranks(3)
    def test_operations(job):
        """Each operation gives what torch says of it, also with tensors that are not packed."""
        group = joined(job)
        n, r = job.size, job.rank
        x = torch.full((4, 3), r + 1.0).t()  # strided
        dist.all_reduce(x)
        assert (x == 6).all(), x
        parts = [torch.zeros(r_ + 1) for r_ in range(n)]
        dist.all_gather(parts, torch.full((r + 1,), float(r)))
        assert [part.tolist() for part in parts] == [[0.0], [1.0, 1.0], [2.0, 2.0, 2.0]], parts
        out = torch.zeros(2)
        dist.reduce_scatter(out, [torch.full((2,), float(to)) for to in range(n)])
        assert (out == n * r).all(), out
        got = [torch.zeros(2) for _ in range(n)] if r == 1 else None
        dist.gather(torch.full((2,), float(r)), got, dst=1)
        assert r != 1 or [part[0].item() for part in got] == [0, 1, 2]
        dist.scatter(out, [torch.full((2,), 10.0 + to) for to in range(n)] if r == 2 else None, src=2)
        assert (out == 10 + r).all(), out
        into = torch.zeros(r * n)
        dist.all_to_all_single(into, torch.arange(3.0), [r] * n if r else [0] * n, [0, 1, 2])
        assert into.tolist() == ([0.0] * 3 if r == 1 else [1.0, 2.0] * 3 if r == 2 else []), into
        if r == 0:
            any_of = [dist.recv(torch.zeros(1), None), dist.recv(torch.zeros(1), None)]
            assert sorted(any_of) == [1, 2], any_of
        else:
            dist.send(torch.ones(1), 0)
        work = dist.all_reduce(torch.ones(2), async_op=True)
        assert work.get_future().wait()[0].tolist() == [3, 3]
        assert work.is_completed() and work.exception() is None and work.wait()
        pair = dist.new_group([0, 2], use_local_synchronization=True) if r != 1 else None
        if pair is not None:
            dist.all_reduce(out.fill_(1), group=pair)
            assert (out == 2).all()
        with dist._coalescing_manager(group, async_ops=True) as several:
            dist.all_reduce(one := torch.ones(1))
            dist.all_reduce(two := torch.full((1,), 2.0))
        several.wait()
        assert (one.item(), two.item()) == (3, 6)
        all_of, twice = torch.zeros(n), torch.zeros(2 * n)
        with dist._coalescing_manager(group, async_ops=True) as several:
            dist.all_gather_into_tensor(all_of, torch.full((1,), float(r)))
            dist.all_gather_into_tensor(twice, torch.full((2,), 10.0 + r))
        several.wait()
        assert (all_of.tolist(), twice.tolist()) == ([0, 1, 2], [10, 10, 11, 11, 12, 12]), (all_of, twice)
        with dist._coalescing_manager(group):
            dist.reduce_scatter_tensor(one, all_of)
            dist.reduce_scatter_tensor(out, twice)
        assert (one.item(), out.tolist()) == (3 * r, [30 + 3 * r] * 2), (one, out)
        dist.barrier()
        dist.monitored_barrier()
        dist.monitored_barrier(timeout=datetime.timedelta(seconds=40), wait_all_ranks=True)
        dist.destroy_process_group()

    @ranks(2)
    def test_refused(job):
        """What Weft does not have is refused by a sentence, before anything is sent."""
        joined(job)
        sparse = torch.eye(2).to_sparse()
        refused(weft.UnsupportedError, "torch.sparse_coo, expected torch.strided", lambda: dist.broadcast(sparse, 0))
        other = torch.zeros(2).to(torch.float8_e4m3fnuz)
        refused(weft.UnsupportedError, "torch.float8_e4m3fnuz, expected one of: int8", lambda: dist.broadcast(other, 0))
        quantized = torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.quint8)
        dist.all_reduce(half := torch.full((2,), 1 + 2j, dtype=torch.complex32))  # torch makes float16 of it
        assert half.tolist() == [2 + 4j] * 2, half
        refused(weft.UnsupportedError, "is quantized (torch.quint8)", lambda: dist.all_reduce(quantized))
        refused(weft.UnsupportedError, "avg", lambda: dist.all_reduce(torch.ones(2, dtype=torch.int32), dist.ReduceOp.AVG))
        freed = torch.ones(4)
        freed.untyped_storage().resize_(0)
        refused(ValueError, "a tensor has 4 elements and no memory: its storage was freed", lambda: dist.all_reduce(freed))
        odd = torch.zeros(3)
        refused(ValueError, "3 rows cannot be split evenly", lambda: dist.all_to_all_single(odd, odd.clone()))
        dist.destroy_process_group()

    @ranks(2)
    def test_table(job):
        """Both columns of the table of torch.distributed, on tensors."""
        import test_tables
        from torch.distributed.device_mesh import init_device_mesh

        joined(job)
        names = test_tables.common(job.rank) | {"make": torch.tensor}
        theirs = names | {"dist": dist, "init_device_mesh": init_device_mesh}
        with weft.init(bootstrap=test_tables.OverStore(job)) as other:
            test_tables.compare("torch.distributed", theirs, names | {"job": other, "world": other.world})

    def test_roll_call(self):
        """Ranks at a store that has what ranks before have left meet each other alone, whoever comes late."""
        number, store = random.Random(1), dist.HashStore()

        def meet(rank, seconds, delay, met):
            time.sleep(delay)
            try:
                call = RollCall(store, rank, 3, datetime.timedelta(seconds=seconds))
                met[rank] = call.all_gather(bytes([rank, len(met)]))
            except weft.TimeoutError as error:
                met[rank] = error

        def all_of(ranks, seconds, longest_delay):
            met = {}
            threads = [
                threading.Thread(target=meet, args=(rank, seconds, number.random() * longest_delay, met)) for rank in ranks
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            return met

        for _ in range(8):
            some = number.sample(range(3), number.choice((1, 2)))
            met = all_of(some, 0.1, 0.05)
            self.assertEqual({rank: type(found) for rank, found in met.items()}, dict.fromkeys(some, weft.TimeoutError))
            met = all_of(range(3), 30, 0.1)
            for rank in range(3):
                self.assertEqual(met[rank], met[0])
                self.assertEqual([told[0] for told in met[rank]], [0, 1, 2])

    def test_roll_call_fails(self):
        """The rank that has not come is named, and the store that fails, by errors of Weft."""

        class Broken(dist.HashStore):
            def wait(self, *_):
                raise RuntimeError("the connection is closed")

        short, long = datetime.timedelta(seconds=0.1), datetime.timedelta(seconds=40)
        for rank in range(2):
            sentence = f"0.1 s passed, and not all 2 ranks have met over torch's store: rank {1 - rank} has not come"
            refused(weft.TimeoutError, sentence, lambda: RollCall(dist.HashStore(), rank, 2, short))
        call = RollCall(dist.HashStore(), 0, 1, short)
        call.size = 2
        refused(weft.TimeoutError, "rank 1 has not come", lambda: call.all_gather(b"own"))
        refused(weft.SystemCallError, "torch's store failed while 2 ranks met over it: the", lambda: RollCall(Broken(), 0, 2, long))

    def test_one_deadline(self):
        """What the roll call has taken of the time to join is gone for the rest, and not for the group."""
        from weft.torch import registration

        options = unittest.mock.Mock(global_ranks_in_group=[], group_rank=0, group_size=2, store=dist.HashStore())
        options.timeout = datetime.timedelta(seconds=40)
        late = threading.Timer(0.5, lambda: RollCall(options.store, 1, 2, options.timeout))
        late.start()
        context = unittest.mock.Mock()
        context.world.rank, context.world.size = 0, 2
        with unittest.mock.patch.multiple(registration, init=unittest.mock.Mock(return_value=context), _joined=[]):
            registration._create(options, None)
            self.assertLess(registration.init.call_args.kwargs["timeout"], 39.6)
        context.world.set_timeout.assert_called_once_with(40)
        late.join()

    def test_starts(self):
        """Each way of torch to start, on three ranks that weft-run has started, one after the other."""
        with tempfile.TemporaryDirectory() as folder, socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            place = {"file": f"file://{folder}/place", "tcp": f"tcp://127.0.0.1:{free.getsockname()[1]}"}
            free.close()
            program = pathlib.Path(folder, "program.py")
            program.write_text(STARTS.format(**place))
            run(self, 3, [sys.executable, str(program)])

    def test_torchrun(self):
        """A rank that fails ends its siblings; torchrun starts all again, and they never meet the ones before."""
        with tempfile.TemporaryDirectory() as folder:
            program = pathlib.Path(folder, "program.py")
            program.write_text(RESTARTED)
            command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "3"]
            command += ["--max-restarts", "2", "--monitor-interval", "0.1", str(program)]
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=LIMIT_S)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            for rank in range(3):
                self.assertIn(f"rank {rank} was started 2 times again, and 6 came", done.stdout)

    @ranks(2)
    def test_multicast(job):
        """Two jobs at one multicast address, kept apart by group_name, with ranks that nobody has assigned or given ones."""
        if job.rank == 0:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as free:
                free.bind(("", 0))
                job.store().set("port", str(free.getsockname()[1]))
        url, limit = f"tcp://239.255.77.1:{job.store().get('port').decode()}", datetime.timedelta(seconds=40)
        for size, own, how in (
            (1, {"init_method": f"weft+{url}?group_name=alone{job.rank}"}, {}),
            (2, {"init_method": f"weft+{url}?group_name=both"}, {}),
            (1, {"init_method": url, "group_name": f"alone{job.rank}"}, {}),
            (2, {"init_method": url, "group_name": "both"}, {}),
            (2, {"init_method": url, "group_name": "given"}, {"rank": 1 - job.rank}),
        ):
            dist.init_process_group("weft", world_size=size, timeout=limit, **own, **how)
            there = torch.ones(1)
            dist.all_reduce(there)
            assert (there.item(), dist.get_world_size()) == (size, size)
            assert dist.get_rank() == how.get("rank", dist.get_rank())
            dist.destroy_process_group()

    @ranks(2)
    def test_futures(job):
        """One that waits for a message does not keep others from being set, and the thread that helps holds no tensor."""
        joined(job)
        x, late = torch.ones(1 << 20), torch.zeros(4)
        message = dist.irecv(late, 1).get_future() if job.rank == 0 else None
        for step in range(3):
            assert dist.all_reduce(x, async_op=True).get_future().wait()[0] is x
        assert x[0] == 8 and (message is None or not message.done())
        there = weakref.ref(x)
        del x
        dist.barrier()
        if job.rank == 1:
            dist.send(torch.ones(4), 0)
        else:
            assert "weft-torch" in [thread.name for thread in threading.enumerate()]
            assert message.wait()[0].tolist() == [1, 1, 1, 1]
        assert gone_within(5, there), "held"
        dist.destroy_process_group()

    @ranks(2)
    def test_late(job):
        """A rank that does not come is named."""
        joined(job)
        if job.rank == 0:
            work = dist.all_reduce(torch.ones(1), async_op=True)
            refused(weft.PendingError, "0.1 s have passed", lambda: work.wait(datetime.timedelta(seconds=0.1)))
            refused(weft.TimeoutError, "rank 1", lambda: dist.monitored_barrier(timeout=datetime.timedelta(seconds=0.2)))
        else:
            time.sleep(1)
        job.world.barrier().wait()
        dist.destroy_process_group()

    @ranks(2)
    def test_timeouts(job):
        """The time of each operation that is several in one, and of its failure: exception() and the Future have it."""
        joined(job)
        x, two, shortest = [torch.ones(1)], torch.ones(2), datetime.timedelta(seconds=0.2)
        for options, name, arguments in (
            (dist.AllreduceCoalescedOptions(), "allreduce_coalesced", (x,)),
            (dist.distributed_c10d.AllgatherOptions(), "allgather_coalesced", ([[two[:1]], [two[1:]]], x)),
            (dist.distributed_c10d.AllgatherOptions(), "all_gather_single_coalesced", ([two], x)),
            (dist.ReduceScatterOptions(), "reduce_scatter_single_coalesced", (x, [two])),
        ):
            pair = dist.new_group([0, 1])  # what comes too late ends its group
            if job.rank == 0:
                options.timeout = shortest
                work = getattr(pair, name)(*arguments, options)
                future = work.get_future()
                refused(weft.TimeoutError, "0.2 s passed; rank 1", work.wait)
                assert work.is_completed() and not work.is_success(), name
                assert isinstance(work.exception(), weft.TimeoutError) and work.exception().rank == 1, name
                refused(weft.TimeoutError, "rank 1", future.wait)
        job.world.barrier().wait()
        dist.destroy_process_group()

    @ranks(2)
    def test_abort(job):
        """Every rank counts its collectives, not its messages; an abort ends a wait on the other rank, and the next
        group starts."""
        for step in range(2):
            group = joined(job)
            assert group._get_sequence_number_for_group() == 0
            dist.barrier()
            dist.send(torch.ones(1), 1) if job.rank == 0 else dist.recv(torch.ones(1), 0)
            work = dist.all_reduce(torch.ones(1), async_op=True)
            assert group._get_sequence_number_for_group() == work._get_sequence_number() == 2
            work.wait()
            if step == 0:
                waiting = dist.barrier(async_op=True) if job.rank == 0 else None
                job.world.barrier().wait()
                if waiting is not None:
                    refused(weft.CancelledError, "rank 1 aborted the group: torch.distributed's abort", waiting.wait)
                    refused(weft.BrokenError, "torch.distributed's abort", dist.barrier)
                dist.distributed_c10d._abort_process_group()
        dist.destroy_process_group()

    @ranks(3)
    def test_under_gloo(job):
        """Groups of "weft" under a default group of gloo meet at its store, members alone too."""
        joined(job, backend="gloo")
        whole = dist.new_group(backend="weft")
        pair = dist.new_group([0, 2], backend="weft", use_local_synchronization=True) if job.rank != 1 else None
        for group, size in ((whole, 3), (pair, 2)):
            if group is not None:
                dist.all_reduce(x := torch.ones(2), group=group)
                assert x.tolist() == [size] * 2 and dist.get_backend(group) == "weft", x
        dist.all_reduce(x := torch.ones(1))
        assert x.item() == 3 and dist.get_backend() == "gloo", x
        dist.destroy_process_group()

    @ranks(2)
    def test_training(job):
        """DistributedDataParallel and FSDP2 train as one process does with all the data, and so does a tensor's mesh."""
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard
        from torch.distributed.tensor import Replicate, Shard, distribute_tensor
        from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
        from torch.nn.parallel import DistributedDataParallel

        joined(job)
        torch.manual_seed(2)
        batches = [torch.randn(8, 8) for _ in range(4)]
        own = [batch[4 * job.rank : 4 * job.rank + 4] for batch in batches]
        alone = model()
        step(alone, batches)
        expected = [p.detach() for p in alone.parameters()]
        parallel = DistributedDataParallel(model())
        step(parallel, own)
        for found, value in zip(parallel.parameters(), expected):
            torch.testing.assert_close(found.detach(), value)
        mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("dp",))
        sharded = model()
        for layer in sharded:
            fully_shard(layer, mesh=mesh)
        fully_shard(sharded, mesh=mesh)
        step(sharded, own)
        for found, value in zip(sharded.parameters(), expected):
            torch.testing.assert_close(found.full_tensor().detach(), value)
        layers = {"0": ColwiseParallel(), "2": RowwiseParallel()}
        split = parallelize_module(model(), mesh, layers)  # every rank has all the data
        step(split, batches)
        for found, value in zip(split.parameters(), expected):
            full = found.full_tensor() if hasattr(found, "full_tensor") else found
            torch.testing.assert_close(full.detach(), value)
        whole = torch.arange(8.0)
        spread = distribute_tensor(whole, mesh, [Shard(0)])
        assert torch.equal(spread.redistribute(mesh, [Replicate()]).to_local(), whole)
        dist.destroy_process_group()


    @ranks(2)
    def test_checkpoint(job):
        """A checkpoint is saved while the program goes on, and loaded."""
        import torch.distributed.checkpoint as checkpoint

        joined(job)
        if job.rank == 0:
            job.store().set("checkpoint", tempfile.mkdtemp())
        folder = job.store().get("checkpoint").decode()
        saved = {"weights": torch.full((4,), 3.0), "step": 7}
        checkpoint.async_save(saved, checkpoint_id=folder).result()
        dist.barrier()
        loaded = {"weights": torch.zeros(4), "step": 0}
        checkpoint.load(loaded, checkpoint_id=folder)
        assert loaded["weights"].tolist() == [3] * 4 and loaded["step"] == 7, loaded
        dist.destroy_process_group()

    @ranks(2)
    def test_pipeline(job):
        """A model in two stages, one on each rank, trains as it does on one."""
        from torch.distributed.pipelining import PipelineStage, ScheduleGPipe

        joined(job)
        torch.manual_seed(2)
        inputs, target = torch.randn(8, 8), torch.zeros(8, 1)
        alone = model()
        loss = torch.nn.functional.mse_loss
        loss(alone(inputs), target).backward()
        stages = (alone_part(model(), 0), alone_part(model(), 1))
        stage = PipelineStage(stages[job.rank], job.rank, 2, torch.device("cpu"))
        schedule = ScheduleGPipe(stage, n_microbatches=4, loss_fn=loss)
        losses = []
        schedule.step(inputs) if job.rank == 0 else schedule.step(target=target, losses=losses)
        expected = list(alone_part(alone, job.rank).parameters())
        for found, value in zip(stages[job.rank].parameters(), expected):
            torch.testing.assert_close(found.grad, value.grad)
        dist.destroy_process_group()


def alone_part(whole, which):
    return whole[:1] if which == 0 else whole[1:]


class Readme(unittest.TestCase):
    def test_programs(self):
        """The programs of README.md that need torch run as they stand there."""
        programs = re.findall(r"```python\n(# torch, (\d+) ranks.*?)```", README.read_text(), re.DOTALL)
        self.assertTrue(programs)
        with tempfile.TemporaryDirectory() as folder:
            for text, size in programs:
                path = pathlib.Path(folder, "program.py")
                path.write_text(text)
                run(self, int(size), [sys.executable, str(path)])


if __name__ == "__main__":
    unittest.main()
