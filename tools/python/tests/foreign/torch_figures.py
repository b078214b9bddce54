"""What torch's operations take with gloo and with Weft, in one process, in turn.

    weft-run -n 2 --bind core python torch_figures.py [RUNS]

all_reduce of 8 B, and a step of DistributedDataParallel with some 10 M parameters: its exposed communication is the
step's time less that of the computation alone.  The losses must be equal.  Medians of the runs, and their spread.
"""

import sys
import time

import torch
import torch.distributed as dist
import weft.torch
from torch.nn.parallel import DistributedDataParallel

RUNS = int(sys.argv[1]) if len(sys.argv) > 1 else 9
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
    """Milliseconds of a step, and the loss after the last."""
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    began = time.perf_counter()
    for _ in range(STEPS):
        optimizer.zero_grad()
        if computation_alone:
            with model.no_sync():
                loss = model(data).square().mean()
                loss.backward()
        else:
            loss = model(data).square().mean()
            loss.backward()
        optimizer.step()
    return (time.perf_counter() - began) / STEPS * 1e3, float(loss.detach())


def told(name, values):
    values = sorted(values)
    return f"{name} {values[len(values) // 2]:.1f} ({values[0]:.1f} .. {values[-1]:.1f})"


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
    exposed, whole, alone, losses = ({name: [] for name in BACKENDS} for _ in range(4))
    for run in range(RUNS + 1):
        for name in BACKENDS:
            model = DistributedDataParallel(make(), process_group=groups[name])
            steps(model, data, False)  # buckets are made again after the first
            dist.barrier()
            computed, _ = steps(model, data, True)
            dist.barrier()
            stepped, loss = steps(model, data, False)
            if run:
                exposed[name].append(stepped - computed)
                whole[name].append(stepped)
                alone[name].append(computed)
                losses[name].append(loss)
    for one, other in zip(losses["gloo"], losses["weft"]):
        assert abs(one - other) <= 1e-6 * max(1, abs(one)), (one, other)
    if rank == 0:
        print(f"{RUNS} runs in turn; medians (least .. most)")
        print("all_reduce of 8 B, us: " + ", ".join(told(name, calls[name]) for name in BACKENDS))
        print("computation alone, ms: " + ", ".join(told(name, alone[name]) for name in BACKENDS))
        print("step of DDP, ms: " + ", ".join(told(name, whole[name]) for name in BACKENDS))
        print("exposed communication, ms: " + ", ".join(told(name, exposed[name]) for name in BACKENDS))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
