"""torch.py - the driver of torch.distributed over Gloo for tools/compare; see measure.h for its arguments.

The measuring is libmeasure.so's, in the folder MEASURE names; RANK, WORLD_SIZE and STORE, a file that is not there yet,
are in the environment.  all_reduce works in place, and there is no reduce_scatter.  The time of importing torch is in
no figure."""

import ctypes
import os
import sys
import traceback

if sys.path[0] == os.path.dirname(os.path.abspath(__file__)):
    sys.path.pop(0)  # this file has the name of what it imports
import torch
import torch.distributed as dist

SEND, RECEIVE, BROADCAST, ALL_REDUCE, REDUCE_SCATTER, ALL_GATHER, ALL_TO_ALL, BARRIER, ACTIONS = range(9)


class Call(ctypes.Structure):
    _fields_ = [("action", ctypes.c_int), ("peer", ctypes.c_int), ("input", ctypes.c_void_p),
                ("output", ctypes.c_void_p), ("count", ctypes.c_size_t)]


Act = ctypes.CFUNCTYPE(None, ctypes.POINTER(Call))
Finish = ctypes.CFUNCTYPE(None)
Maximum = ctypes.CFUNCTYPE(None, ctypes.POINTER(ctypes.c_double), ctypes.c_int)
Memory = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_size_t)


class Peer(ctypes.Structure):
    _fields_ = [("rank", ctypes.c_int), ("size", ctypes.c_int), ("in_place", ctypes.c_uint),
                ("blocking", ctypes.c_uint), ("request", ctypes.c_uint), ("run", Act), ("start", Act),
                ("finish", Finish), ("maximum", Maximum), ("memory", Memory)]


rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
tensors, blocks, started = {}, {}, []


def tensor(at, count):
    if (at, count) not in tensors:
        tensors[at, count] = torch.frombuffer((ctypes.c_float * count).from_address(at), dtype=torch.float32)
    return tensors[at, count]


def split(at, count):
    if (at, count) not in blocks:
        blocks[at, count] = list(tensor(at, count * size).split(count))
    return blocks[at, count]


def submit(c, later):
    action, n = c.action, c.count
    if action == SEND:
        return (dist.isend if later else dist.send)(tensor(c.input, n), c.peer)
    if action == RECEIVE:
        return (dist.irecv if later else dist.recv)(tensor(c.output, n), c.peer)
    if action == BROADCAST:
        return dist.broadcast(tensor(c.input if rank == c.peer else c.output, n), c.peer, async_op=later)
    if action == ALL_REDUCE:
        return dist.all_reduce(tensor(c.output, n), async_op=later)
    if action == ALL_GATHER:
        return dist.all_gather(split(c.output, n), tensor(c.input, n), async_op=later)
    if action == ALL_TO_ALL:
        return dist.all_to_all_single(tensor(c.output, n * size), tensor(c.input, n * size), async_op=later)
    return dist.barrier(async_op=later)


def fatal(function):
    """ctypes would print an exception and go on."""
    def guarded(*arguments):
        try:
            function(*arguments)
        except BaseException:
            traceback.print_exc()
            sys.stderr.flush()
            os._exit(3)
    return guarded


@fatal
def run(call):
    submit(call[0], False)


@fatal
def start(call):
    started.append(submit(call[0], True))


@fatal
def finish():
    for work in started:
        work.wait()
    started.clear()


@fatal
def maximum(values, n):
    own = torch.tensor(values[:n], dtype=torch.float64)
    dist.all_reduce(own, op=dist.ReduceOp.MAX)
    for i, x in enumerate(own.tolist()):
        values[i] = x


def main():
    lib = ctypes.CDLL(os.path.join(os.environ["MEASURE"], "libmeasure.so"))
    arguments = (ctypes.c_char_p * len(sys.argv))(*[os.fsencode(a) for a in sys.argv])
    can = ((1 << ACTIONS) - 1) & ~(1 << REDUCE_SCATTER)
    peer = Peer(rank, size, 1 << ALL_REDUCE, can, can, Act(run), Act(start), Finish(finish), Maximum(maximum), Memory())
    torch.set_num_threads(1)
    lib.measure_begin(len(sys.argv), arguments)
    dist.init_process_group("gloo", init_method="file://" + os.environ["STORE"], rank=rank, world_size=size)
    lib.measure(ctypes.byref(peer))
    dist.destroy_process_group()
    code = lib.measure_end()
    sys.stdout.flush()
    os._exit(code)


main()
