"""Backend "weft" of torch.distributed, for tensors of the host and of CUDA.

    import torch.distributed as dist
    import weft.torch

    dist.init_process_group("weft")

The ranks meet over torch's own store, so each of its ways to start works: environment, tcp, file, a store, torchrun.  dist.new_group makes a group of Weft.  Between hosts a secret is needed, in WEFT_SECRET.
"""

from weft.torch.process_group import ProcessGroup
from weft.torch.registration import register
from weft.torch.work import Work

__all__ = ["ProcessGroup", "Work"]

register()
