"""Two separate networks on vectors."""

from collections.abc import Sequence

from toppo.algos.contract import Net
from toppo.learn.nets import Head, actor_critic, mlp_body
from toppo.maths.moments import normalise


def gaussian_net(
    obs_size: int, action_size: int, hidden: Sequence[int], log_std: float, activation: str = "tanh"
) -> Net:
    body = mlp_body(obs_size, hidden, activation)
    return actor_critic(body, body, normalise, Head(action_size, (), log_std))


def categorical_net(obs_size: int, actions: int, hidden: Sequence[int]) -> Net:
    body = mlp_body(obs_size, hidden)
    return actor_critic(body, body, normalise, Head(actions, (actions,)))
