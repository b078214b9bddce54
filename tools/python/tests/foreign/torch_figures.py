"""What torch's operations take with gloo and with Weft, in one process, in turn.

    weft-run -n 2 --bind core python torch_figures.py [RUNS [PORT]]

all_reduce of 8 B, and a step of DistributedDataParallel with some 10 M parameters: its exposed communication is the
step's time less that of the computation alone.  The losses must be equal.  Medians and quartiles of RUNS (9), and the
median of what Weft takes over what gloo takes in the same run, with the bound that it is held to.  Some 2 minutes.

With a PORT the ranks have a link between them (torch_network.sh): then a step is held to gloo's, and to the bound of
computation and link, the time before and after backward and the longer one of backward and the link.  The link's time is
what two plain sockets take for the gradients, each way once and both ways at once, at that PORT of MASTER_ADDR.
"""

import contextlib
import os
import socket
import statistics
import sys
import threading
import time

import torch
import torch.distributed as dist
import weft.torch
from torch.nn.parallel import DistributedDataParallel

RUNS = int(sys.argv[1]) if len(sys.argv) > 1 else 9
PORT = int(sys.argv[2]) if len(sys.argv) > 2 else 0
BACKENDS = ("gloo", "weft")
SMALL_CALLS, STEPS = 1000, 4
WIDTH, LAYERS, BATCH = 1024, 10, 64  # 10 layers of 1024 x 1024 and their biases: 10.5 M parameters, 42 MB of gradients


def small(group):
    """Microseconds of an all_reduce of 8 B."""
    x = torch.ones(1, dtype=torch.float64)
    for _ in range(100):
        dist.all_reduce(x.fill_(1), group=group)
    began = time.perf_counter()
    for _ in range(SMALL_CALLS):
        dist.all_reduce(x, group=group)
        x.fill_(1)
    return (time.perf_counter() - began) / SMALL_CALLS * 1e6


def make():
    torch.manual_seed(1)
    layers = []
    for _ in range(LAYERS):
        layers += [torch.nn.Linear(WIDTH, WIDTH), torch.nn.ReLU()]
    return torch.nn.Sequential(*layers)


def steps(model, data, computation_alone):
    """Milliseconds of a step and of backward in it, and the loss after the last."""
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    backward, began = 0.0, time.perf_counter()
    for _ in range(STEPS):
        optimizer.zero_grad()
        with model.no_sync() if computation_alone else contextlib.nullcontext():
            loss = model(data).square().mean()
            since = time.perf_counter()
            loss.backward()
            backward += time.perf_counter() - since
        optimizer.step()
    return (time.perf_counter() - began) / STEPS * 1e3, backward / STEPS * 1e3, float(loss.detach())


def connected(rank):
    """The two ranks' sockets, joined over the link between them."""
    address = (os.environ["MASTER_ADDR"], PORT)
    if rank == 0:
        with socket.create_server(address) as server:
            dist.barrier()
            return server.accept()[0]
    dist.barrier()
    return socket.create_connection(address)


def link_alone(link, size):
    """Milliseconds that the link takes for as many bytes each way, both ways at once."""
    out, into = bytes(size), memoryview(bytearray(size))
    dist.barrier()
    began = time.perf_counter()
    sender = threading.Thread(target=link.sendall, args=(out,))
    sender.start()
    while into:
        arrived = link.recv_into(into)
        assert arrived, "the other rank has closed"
        into = into[arrived:]
    sender.join()
    return (time.perf_counter() - began) * 1e3


def told(name, values):
    low, middle, high = statistics.quantiles(values, n=4) if len(values) > 1 else values * 3
    return f"{name} {middle:.2f} ({low:.2f} to {high:.2f})"


def held(name, found, most):
    """A line of Weft over gloo, run by run, and over all."""
    ratios = [weft / gloo for weft, gloo in zip(found["weft"], found["gloo"])]
    whole = statistics.median(found["weft"]) / statistics.median(found["gloo"])
    print(f"{name}, Weft over gloo: {told('', ratios).strip()} run by run, {whole:.2f} of the medians; at most {most}")


def main():
    torch.set_num_threads(1)
    dist.init_process_group("weft")
    rank = dist.get_rank()
    groups = {"weft": dist.group.WORLD, "gloo": dist.new_group([0, 1], backend="gloo")}
    assert set(groups) == set(BACKENDS) and dist.get_world_size() == 2
    calls = {name: [] for name in BACKENDS}
    for _ in range(RUNS):
        for name in BACKENDS:
            dist.barrier()
            calls[name].append(small(groups[name]))
    data = torch.randn(BATCH, WIDTH, generator=torch.Generator().manual_seed(rank))
    exposed, whole, alone, bound, losses = ({name: [] for name in BACKENDS} for _ in range(5))
    size = 4 * sum(p.numel() for p in make().parameters())
    link = 0.0
    if PORT:
        with connected(rank) as peer:
            link = statistics.median(link_alone(peer, size) for _ in range(RUNS))
    for run in range(RUNS + 1):
        for name in BACKENDS:
            model = DistributedDataParallel(make(), process_group=groups[name])
            steps(model, data, False)  # buckets are made again after the first
            dist.barrier()
            computed, backward, _ = steps(model, data, True)
            dist.barrier()
            stepped, _, loss = steps(model, data, False)
            if run:
                exposed[name].append(stepped - computed)
                whole[name].append(stepped)
                alone[name].append(computed)
                bound[name].append(computed - backward + max(backward, link))
                losses[name].append(loss)
    for one, other in zip(losses["gloo"], losses["weft"]):
        assert abs(one - other) <= 1e-6 * max(1, abs(one)), (one, other)
    if rank == 0:
        print(f"{RUNS} runs in turn; medians (quartiles); batch {BATCH}, {LAYERS} layers of {WIDTH} x {WIDTH}")
        for name, values in (
            ("all_reduce of 8 B, us", calls),
            ("computation alone, ms", alone),
            ("step of DDP, ms", whole),
            ("exposed communication, ms", exposed),
        ):
            print(f"{name}: " + ", ".join(told(backend, values[backend]) for backend in BACKENDS))
        held("all_reduce of 8 B", calls, 1)
        if PORT:
            held("step of DDP", whole, 1.02)
            over = {name: [took / least for took, least in zip(whole[name], bound[name])] for name in BACKENDS}
            print(
                f"step of DDP over the bound, of which {link:.0f} ms are the link's for {size} bytes each way: "
                + ", ".join(told(name, over[name]) for name in BACKENDS)
                + "; at most 1.15"
            )
        else:
            held("exposed communication", exposed, 0.7)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
