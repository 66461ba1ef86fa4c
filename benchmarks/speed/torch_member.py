"""One network in plain PyTorch: nn.Module, autograd, fused Adam, foreach Polyak; eager or as a captured CUDA graph."""

from __future__ import annotations

from collections.abc import Callable

import torch
from shapes import FLAT, HEADS, TARGETS, Arrays, Data, Shape, synthetic
from torch import nn
from torch.nn import functional as F

NAMES = {"s1": "trunk.0", "s2": "trunk.2"} | {f"{h}{i + 1}": f"heads.{h}.{2 * i}" for h in HEADS for i in (0, 1)}
WARM_UP = 11


def use_precision(precision: str) -> None:
    """Exact products with "float32"; with "tf32" and "bf16" float32 products run in TF32."""
    torch.set_float32_matmul_precision("highest" if precision == "float32" else "high")


def to_device(replay: Arrays, device: torch.device) -> dict[str, torch.Tensor]:
    """Integers as int64, the only kind that `gather` takes."""
    tensors = {name: torch.from_numpy(values).to(device) for name, values in replay.items()}
    return {name: t if t.is_floating_point() else t.long() for name, t in tensors.items()}


class Network(nn.Module):
    """Trunk and three heads; returns the logits `[B, 3, atoms]` of both branches."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        first, second = shape.trunk
        self.trunk = nn.Sequential(nn.Linear(shape.observation, first), nn.ReLU(), nn.Linear(first, second), nn.ReLU())
        self.heads = nn.ModuleDict(
            {
                name: nn.Sequential(
                    nn.Linear(second, shape.head), nn.ReLU(), nn.Linear(shape.head, actions * shape.atoms)
                )
                for name, actions in HEADS.items()
            }
        )
        self.atoms = shape.atoms

    def forward(self, observation: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        trunk = self.trunk(observation)
        value, *branches = (self.heads[h](trunk).unflatten(-1, (-1, self.atoms)) for h in HEADS)
        direction, magnitude = (value + x - x.mean(1, keepdim=True) for x in branches)
        return direction, magnitude

    @torch.no_grad()
    def load(self, params: Arrays) -> None:
        """Copy the trainer's `[1, inputs, outputs]` arrays."""
        for name, module in NAMES.items():
            layer = self.get_submodule(module)
            layer.weight.copy_(torch.from_numpy(params[f"w_{name}"][0].T))
            layer.bias.copy_(torch.from_numpy(params[f"b_{name}"][0, 0]))

    def dump(self) -> Arrays:
        """Undo `load`."""
        found = {}
        for name, module in NAMES.items():
            layer = self.get_submodule(module)
            found[f"w_{name}"] = layer.weight.detach().t().cpu().numpy()[None]
            found[f"b_{name}"] = layer.bias.detach().cpu().numpy()[None, None]
        return found


def chosen(logits: torch.Tensor, action: torch.Tensor) -> torch.Tensor:
    """`[B, 3, K]` and int64 `[B]` -> `[B, K]`."""
    return logits.gather(1, action[:, None, None].expand(-1, 1, logits.shape[-1])).squeeze(1)


class Member:
    """One network with its target, optimiser and replay on `device`."""

    def __init__(self, shape: Shape, device: torch.device, precision: str, data: Data | None = None) -> None:
        use_precision(precision)
        self.shape, self.device, self.bf16 = shape, device, precision == "bf16"
        data = (data or synthetic(shape)).member(0)
        self.features = torch.from_numpy(data.features).to(device)
        self.replay = {name: values[0] for name, values in to_device(data.replay, device).items()}
        self.support = torch.from_numpy(data.support).to(device)
        self.online, self.target = (Network(shape).to(device) for _ in range(2))
        for network in (self.online, self.target):
            network.load(data.params)
        self.target.requires_grad_(False)
        self.optimiser = torch.optim.Adam(
            self.online.parameters(),
            lr=shape.learning_rate,
            betas=(shape.beta1, shape.beta2),
            eps=shape.epsilon,
            fused=True,
            capturable=device.type == "cuda",
        )
        self.pairs = list(self.target.parameters()), list(self.online.parameters())
        self.loss = torch.zeros((), device=device)

    def logits(self, network: Network, observation: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.bf16):
            direction, magnitude = network(observation)
        return direction.float(), magnitude.float()

    def observe(self, row: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return torch.cat((self.features[row], F.one_hot(target, TARGETS).float()), 1)

    @torch.no_grad()
    def project(self, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        """The target distribution `[B, K]`: double DQN in each branch, both branches mixed, put on the support."""
        observation = self.observe(batch["later_row"], batch["later_target"])
        greedy = [(x.softmax(-1) @ self.support).argmax(1) for x in self.logits(self.online, observation)]
        p_direction, p_magnitude = (
            chosen(x, a).softmax(-1) for x, a in zip(self.logits(self.target, observation), greedy, strict=True)
        )
        p = torch.where((greedy[0] == FLAT)[:, None], p_direction, 0.5 * (p_direction + p_magnitude))
        shifted = torch.addcmul(batch["returns"][:, None], batch["discount"][:, None], self.support)
        last = self.shape.atoms - 1
        position = ((shifted + self.shape.v_max) / self.shape.spacing).clamp(0, last)
        lower = position.long().clamp(max=last - 1)
        upper_share = (position - lower) * p
        return torch.zeros_like(p).scatter_add_(1, lower, p - upper_share).scatter_add_(1, lower + 1, upper_share)

    def step(self, index: torch.Tensor | None = None) -> None:
        """One update; `index` int64 `[B]` replaces the draw."""
        shape = self.shape
        if index is None:
            index = torch.randint(shape.capacity, (shape.batch,), device=self.device)
        batch = {name: values[index] for name, values in self.replay.items()}
        m = self.project(batch)
        logits = self.logits(self.online, self.observe(batch["row"], batch["target"]))
        loss_d, loss_m = (
            -(m * chosen(x, batch[name]).log_softmax(-1)).sum(1)
            for x, name in zip(logits, ("direction", "magnitude"), strict=True)
        )
        loss = 0.5 * (loss_d + loss_m.masked_fill(batch["direction"] == FLAT, 0.0)).mean()
        self.optimiser.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(self.pairs[1], shape.clip_norm)
        self.optimiser.step()
        with torch.no_grad():
            torch._foreach_lerp_(*self.pairs, shape.target_rate)
            self.loss.copy_(loss)

    def dump(self) -> Arrays:
        """The online parameters under the trainer's names."""
        return self.online.dump()


def capture(step: Callable[[], None], unroll: int = 1) -> Callable[[], None]:
    """`unroll` calls of `step` as one CUDA graph; what is returned keeps `step`, whose tensors the graph uses."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(WARM_UP):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(unroll):
            step()

    def replay(kept: Callable[[], None] = step) -> None:
        graph.replay()

    return replay


def make(shape: Shape, device: torch.device, precision: str = "tf32", captured: bool = False) -> Callable[[], None]:
    """`step()` does one update of one network. On the CPU `captured` changes nothing."""
    member = Member(shape, device, precision)
    return capture(member.step) if captured and device.type == "cuda" else member.step
