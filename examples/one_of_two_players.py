"""Train one player of a PettingZoo game: the other player moves inside step(), here at random."""

import sys

import gymnasium
import numpy as np

import toppo


class TicTacToe(gymnasium.Env):
    def __init__(self):
        from pettingzoo.classic import tictactoe_v3

        self.game = tictactoe_v3.env()
        self.player = "player_1"
        shape = self.game.observation_space(self.player)["observation"].shape
        self.observation_space = gymnasium.spaces.Box(0, 1, shape, np.int8)
        self.action_space = self.game.action_space(self.player)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.game.reset(seed=seed)
        board, _, _, _, info = self.at_our_turn()
        return board, info

    def step(self, action):
        self.game.step(int(action))
        return self.at_our_turn()

    def at_our_turn(self):
        """Let the other player move until it is our turn or the game is over."""
        while self.game.agent_selection != self.player:
            seen, _, terminated, truncated, _ = self.game.last()
            over = terminated or truncated
            self.game.step(None if over else int(self.np_random.choice(np.flatnonzero(seen["action_mask"]))))
        seen, reward, terminated, truncated, _ = self.game.last()
        return seen["observation"], float(reward), terminated, truncated, {"action_mask": seen["action_mask"]}


def one_of_two_players(steps: int = 50_000) -> None:
    agent = toppo.PPO(TicTacToe, seed=0).learn(steps)
    returns = agent.evaluate(episodes=20)
    print(f"{returns.count(1.0)} of 20 games won")


if __name__ == "__main__":
    one_of_two_players(*map(int, sys.argv[1:]))
