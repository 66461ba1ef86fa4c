"""One C51 update of each library that `cpu_libraries.py` times: makers of a call, with the count of its parameters.

Neither library branches: both choose among 9 = 3 x 3 flat actions of 51 atoms. Tianshou has its own dueling `Net`,
trunk 256-256 and two heads with 128 hidden units; TorchRL an `MLP` 256-256-128. An update draws a batch from the
library's own replay of 16384 transitions, forms the target, steps Adam and moves the target network in the library's
own way: Tianshou copies it every 100 updates and forms 3-step returns as it samples; TorchRL is given the returns and
moves it by Polyak. All but Tianshou clip the gradient. Tianshou reads the loss back to the host.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from shapes import ACTIONS, TARGETS, Data, Shape
from torch import nn

CHOICES = ACTIONS * ACTIONS
COPY_EVERY = 100

Update = Callable[[], object]


def observations(data: Data, row: str, target: str) -> np.ndarray:
    """float32 `[capacity, observation]` of the first member's transitions."""
    one_hot = np.eye(TARGETS, dtype=np.float32)[data.replay[target][0]]
    return np.concatenate((data.features[data.replay[row][0]], one_hot), 1)


def flat_actions(data: Data) -> np.ndarray:
    return data.replay["direction"][0].astype(np.int64) * ACTIONS + data.replay["magnitude"][0]


def count(module: nn.Module) -> int:
    return sum(p.numel() for p in module.parameters() if p.requires_grad)


def tianshou_update(shape: Shape, data: Data) -> tuple[Update, int]:
    import gymnasium as gym
    from tianshou.algorithm.modelfree.c51 import C51, C51Policy
    from tianshou.algorithm.optim import AdamOptimizerFactory
    from tianshou.data import Batch, ReplayBuffer
    from tianshou.utils.net.common import Net
    from tianshou.utils.torch_utils import policy_within_training_step, torch_train_mode

    head: dict[str, Any] = {"hidden_sizes": [shape.head]}
    model = Net(
        state_shape=(shape.observation,),
        action_shape=CHOICES,
        hidden_sizes=shape.trunk,
        num_atoms=shape.atoms,
        softmax=True,
        dueling_param=(head, head),
    )
    policy = C51Policy(
        model=model,
        action_space=gym.spaces.Discrete(CHOICES),
        observation_space=gym.spaces.Box(-np.inf, np.inf, (shape.observation,), np.float32),
        num_atoms=shape.atoms,
        v_min=-shape.v_max,
        v_max=shape.v_max,
    )
    betas = shape.beta1, shape.beta2
    algorithm = C51(
        policy=policy,
        optim=AdamOptimizerFactory(lr=shape.learning_rate, betas=betas, eps=shape.epsilon),
        gamma=shape.discount,
        n_step_return_horizon=shape.n_step,
        target_update_freq=COPY_EVERY,
    )
    replay = ReplayBuffer(shape.capacity)
    before, after = observations(data, "row", "target"), observations(data, "later_row", "later_target")
    ended, actions = data.replay["discount"][0] == 0.0, flat_actions(data)
    for i in range(shape.capacity):
        replay.add(
            Batch(
                obs=before[i],
                act=actions[i],
                rew=data.replay["returns"][0, i],
                terminated=ended[i],
                truncated=False,
                obs_next=after[i],
            )
        )

    def update() -> None:
        with policy_within_training_step(policy), torch_train_mode(policy):
            algorithm.update(replay, sample_size=shape.batch)

    return update, count(model)


def torchrl_update(shape: Shape, data: Data) -> tuple[Update, int]:
    from tensordict import TensorDict
    from torchrl.data import LazyTensorStorage, TensorDictReplayBuffer
    from torchrl.modules import MLP, DistributionalQValueActor
    from torchrl.objectives import DistributionalDQNLoss, SoftUpdate

    cells = [*shape.trunk, shape.head]
    model = MLP(shape.observation, (shape.atoms, CHOICES), num_cells=cells, activation_class=nn.ReLU)
    support = torch.from_numpy(data.support)
    actor = DistributionalQValueActor(model, support=support, action_space="categorical", in_keys=["observation"])
    objective = DistributionalDQNLoss(actor, gamma=shape.discount, delay_value=True)
    mover = SoftUpdate(objective, tau=shape.target_rate)
    parameters = [p for p in objective.parameters() if p.requires_grad]
    adam = torch.optim.Adam(parameters, shape.learning_rate, (shape.beta1, shape.beta2), shape.epsilon, fused=True)
    ended = torch.from_numpy(data.replay["discount"][0] == 0.0)[:, None]
    stored = {
        "observation": torch.from_numpy(observations(data, "row", "target")),
        "action": torch.from_numpy(flat_actions(data)),
        "steps_to_next_obs": torch.full((shape.capacity, 1), shape.n_step),
        "next": {
            "observation": torch.from_numpy(observations(data, "later_row", "later_target")),
            "reward": torch.from_numpy(data.replay["returns"][0])[:, None],
            "done": ended,
            "terminated": ended,
        },
    }
    replay = TensorDictReplayBuffer(storage=LazyTensorStorage(shape.capacity), batch_size=shape.batch)
    replay.extend(TensorDict(stored, [shape.capacity]))

    def update() -> None:
        adam.zero_grad(set_to_none=True)
        objective(replay.sample())["loss"].backward()
        nn.utils.clip_grad_norm_(parameters, shape.clip_norm)
        adam.step()
        mover.step()

    return update, sum(p.numel() for p in parameters)


def torch_update(shape: Shape, data: Data) -> tuple[Update, int]:
    from torch_member import Member

    member = Member(shape, torch.device("cpu"), "float32", data)
    return member.step, count(member.online)


def ours_update(shape: Shape, data: Data) -> tuple[Update, int]:
    """gemsweep's own update of a pack of one, on bars of its own market; the data of the others is not read."""
    from ours import C51_ONLY, make, update

    return make(shape, torch.device("cpu"), C51_ONLY, update, captured=False), shape.parameters


def products_only(shape: Shape, data: Data) -> tuple[Update, int]:
    """The matrix products of an update alone, three forwards and a backward: the floor of ours and torch-member."""
    layers = [tuple(torch.randn(size) for size in sizes) for sizes in _products(shape)]

    def update() -> None:
        for left, right in layers:
            torch.mm(left, right)

    return update, shape.parameters


def _products(shape: Shape) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Sizes of both factors of every product; the observation's gradient is not needed."""
    batch, found = shape.batch, []
    for name, (inputs, outputs) in shape.layers().items():
        found += [((batch, inputs), (inputs, outputs))] * 3 + [((inputs, batch), (batch, outputs))]
        found += [((batch, outputs), (outputs, inputs))] * (name != "s1")
    return found


MAKERS = {
    "ours": ours_update,
    "tianshou": tianshou_update,
    "torchrl": torchrl_update,
    "torch-member": torch_update,
    "products": products_only,
}
