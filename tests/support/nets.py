"""Two separate tanh networks on vectors."""

from collections.abc import Sequence

from toppo.algos.contract import Net
from toppo.learn.nets import actor_critic, mlp_body
from toppo.maths.moments import normalise


def gaussian_net(obs_size: int, action_size: int, hidden: Sequence[int], log_std: float) -> Net:
    return actor_critic(mlp_body(obs_size, hidden), normalise, action_size, (), log_std)


def categorical_net(obs_size: int, actions: int, hidden: Sequence[int]) -> Net:
    return actor_critic(mlp_body(obs_size, hidden), normalise, actions, (actions,))
