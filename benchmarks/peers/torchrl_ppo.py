"""Steps per second of TorchRL's PPO, updates included.  Runs in an environment of its own."""

import argparse
import json
import time
import warnings

import torch
from tensordict.nn import AddStateIndependentNormalScale, TensorDictModule
from torchrl.collectors import Collector
from torchrl.data import LazyTensorStorage, ReplayBuffer
from torchrl.data.replay_buffers.samplers import SamplerWithoutReplacement
from torchrl.envs import (
    ClipTransform,
    DoubleToFloat,
    GymEnv,
    RewardSum,
    SerialEnv,
    StepCounter,
    TransformedEnv,
    VecNorm,
)
from torchrl.modules import MLP, ProbabilisticActor, TanhNormal, ValueOperator
from torchrl.objectives import ClipPPOLoss
from torchrl.objectives.value import GAE

BATCH = 2048
EPOCHS = 10
MINIBATCH = 64


def environment(name: str, count: int) -> TransformedEnv:
    """Normalised observations and rewards, as the other peers have them."""
    env = GymEnv(name) if count == 1 else SerialEnv(count, lambda: GymEnv(name))
    env = TransformedEnv(env, VecNorm(in_keys=["observation", "reward"], decay=0.99999, eps=1e-2))
    env.append_transform(ClipTransform(in_keys=["observation"], low=-10, high=10))
    env.append_transform(RewardSum())
    env.append_transform(StepCounter())
    env.append_transform(DoubleToFloat(in_keys=["observation"]))
    return env


def network(size_in: int, size_out: int) -> MLP:
    """Two hidden layers of 64."""
    return MLP(in_features=size_in, out_features=size_out, num_cells=[64, 64], activation_class=torch.nn.Tanh)


def main() -> None:
    """Measure one setting and print it as JSON."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--library")
    parser.add_argument("--env", default="HalfCheetah-v5")
    parser.add_argument("--n-envs", type=int, default=1)
    parser.add_argument("--batches", type=int, default=4)
    a = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)  # faster than two for networks of this size
    env = environment(a.env, a.n_envs)
    seen = env.observation_spec["observation"].shape[-1]
    acted = env.action_spec.shape[-1]
    mean = torch.nn.Sequential(network(seen, acted), AddStateIndependentNormalScale(acted))
    actor = ProbabilisticActor(
        TensorDictModule(mean, in_keys=["observation"], out_keys=["loc", "scale"]),
        in_keys=["loc", "scale"],
        spec=env.action_spec_unbatched,
        distribution_class=TanhNormal,
        distribution_kwargs={"low": -1.0, "high": 1.0},
        return_log_prob=True,
    )
    critic = ValueOperator(network(seen, 1), in_keys=["observation"])
    collector = Collector(env, actor, frames_per_batch=BATCH, total_frames=BATCH * (a.batches + 1))
    buffer = ReplayBuffer(storage=LazyTensorStorage(BATCH), sampler=SamplerWithoutReplacement(), batch_size=MINIBATCH)
    advantage = GAE(gamma=0.99, lmbda=0.95, value_network=critic)
    loss = ClipPPOLoss(actor, critic, clip_epsilon=0.2, entropy_bonus=False, normalize_advantage=True)
    optimiser = torch.optim.Adam(loss.parameters(), lr=3e-4)
    began = 0.0
    for i, batch in enumerate(collector):
        with torch.no_grad():
            advantage(batch)
        for _ in range(EPOCHS):
            buffer.extend(batch.reshape(-1))
            for part in buffer:
                losses = loss(part)
                (losses["loss_objective"] + losses["loss_critic"]).backward()
                torch.nn.utils.clip_grad_norm_(loss.parameters(), 0.5)
                optimiser.step()
                optimiser.zero_grad()
        if i == 0:
            began = time.perf_counter()
    collector.shutdown()
    print(json.dumps({"steps_per_second": BATCH * a.batches / (time.perf_counter() - began)}))


if __name__ == "__main__":
    main()
