import gymnasium as gym
import numpy as np
import pytest

from tests.support.collecting import batch_bytes, plan_of
from toppo.collect.episodes import advance, no_episode
from toppo.collect.faults import STRICT, FaultPolicy
from toppo.collect.pool import open_pool
from toppo.envs.check import check_env
from toppo.envs.single import open_player
from toppo.envs.source import make, resolve
from toppo.envs.vector import ResetSpec
from toppo.errors import EnvironmentFault, ToppoError
from toppo.report.atari import human_normalised
from toppo.runs.presets import PAPER_GAMES, defaults

pytest.importorskip("ale_py", reason="no ale-py")
from ale_py.vector_env import AtariVectorEnv

from toppo.envs.atari import AtariGames, fire_action

BREAKOUT = "BreakoutNoFrameskip-v4"


@pytest.mark.parametrize("env_id", PAPER_GAMES)
def test_every_game_of_the_paper_starts(env_id):
    games = AtariGames(env_id, 1)
    rows = games.reset({0: ResetSpec(3)})
    moved = games.step(np.zeros(1, np.int32))
    assert rows.shape == moved.rows.shape == (1, 4 * 84 * 84)
    assert rows.dtype == np.uint8
    assert rows.max() > 0
    games.close()


def test_the_ids_of_atari_are_known_without_an_import_by_hand():
    for env_id in (BREAKOUT, "ALE/Pong-v5"):
        source = resolve(env_id)
        assert (source.kind, source.is_registered, source.is_vector, source.address) == ("atari", True, True, None)
        assert not source.is_object
    for env in ("ALE/Nothing-v5", "NothingNoFrameskip-v4", "Pendulum-v1", lambda: None):
        assert resolve(env).kind == "other"


@pytest.mark.parametrize(
    "env_id", [f"ale_py:{BREAKOUT}", "ale_py:ALE/Breakout-v5", "ale_py:Breakout-v4", "Breakout-v4"]
)
def test_a_game_has_two_names(env_id):
    with pytest.raises(ToppoError, match=f"'{env_id}' is an Atari game .*'{BREAKOUT}', or 'ALE/Breakout-v5'"):
        resolve(env_id)  # so that nobody trains on its raw frames


def test_a_game_by_a_name_that_gymnasium_does_not_know_is_told_its_names(monkeypatch):
    monkeypatch.delitem(gym.registry, "Breakout-v4")
    with pytest.raises(ToppoError, match=f"'Breakout-v4' is not an environment .*; write '{BREAKOUT}', or"):
        make(resolve("Breakout-v4"))
    with pytest.raises(ToppoError, match=r"Environment `Brekout` doesn't exist[^;]*; one of another package is [^;]*$"):
        make(resolve("Brekout-v4"))


def test_sticky_actions_are_those_of_the_id_and_no_frame_is_skipped_twice():
    assert gym.registry["ALE/Breakout-v5"].kwargs["repeat_action_probability"] == 0.25
    sticky, obeyed = AtariGames("ALE/Breakout-v5", 1), AtariGames(BREAKOUT, 1)
    assert sticky.spaces == obeyed.spaces
    for games in (sticky, obeyed):
        games.reset({0: ResetSpec(0)})
        before = games.env.step(np.zeros(1, np.int32))[4]["episode_frame_number"][0]
        assert games.env.step(np.zeros(1, np.int32))[4]["episode_frame_number"][0] - before == 4
    same, other = AtariGames(BREAKOUT, 1), AtariGames("ALE/Breakout-v5", 1)
    rows = [[g.reset({0: ResetSpec(1)})] + [g.step(np.array([a])).rows for a in [2, 3] * 40] for g in (same, other)]
    assert any(a.tobytes() != b.tobytes() for a, b in zip(*rows, strict=True))


@pytest.mark.parametrize("env_id", PAPER_GAMES)
def test_a_game_that_follows_another_starts_the_same_whatever_was_played(env_id):
    def seen(steps):
        games, found = AtariGames(env_id, 2), []
        assert games.episodes_per_seed > 3
        games.reset({0: ResetSpec(7), 1: ResetSpec(8)})
        for nth in range(1, 3):
            for t in range(steps):
                games.step(np.full(2, t % games.spaces.action_size))
            found.append(games.reset({0: ResetSpec(7, nth)})[0])
        found += [games.step(np.array([t % games.spaces.action_size, 0])).rows[0] for t in range(20)]
        games.close()
        return np.stack(found)

    assert np.array_equal(seen(0), seen(30))


def test_with_sticky_actions_every_game_has_a_seed_of_its_own():
    games = AtariGames("ALE/Breakout-v5", 1)
    assert games.episodes_per_seed == 1
    games.close()


def test_games_that_are_asked_for_out_of_order_are_found():
    games = AtariGames(BREAKOUT, 2)
    rows = {nth: games.reset({0: ResetSpec(5, nth), 1: ResetSpec(6)})[0].copy() for nth in (2, 0, 1, 2, 3)}
    other = AtariGames(BREAKOUT, 1)
    for nth in range(4):
        assert np.array_equal(other.reset({0: ResetSpec(5, nth)})[0], rows[nth])
    for each in (games, other):
        each.close()


def test_a_game_starts_with_up_to_29_frames():
    games = AtariGames(BREAKOUT, 50)
    _, info = games.env.reset(seed=np.arange(50))
    frames = set(info["episode_frame_number"].tolist())
    assert frames <= set(range(1, 30))
    assert len(frames) > 15
    games.close()


def by_noise(mean, inv_std, weights, rows):
    """Random actions: the policy plays no part here."""
    return lambda obs, noise: noise.argmax(-1)


def plan(n_envs=3, steps=120):
    spaces, _ = check_env(resolve(BREAKOUT))
    return plan_of(spaces, n_envs, steps, seed=1, weight_shapes=())


def test_a_lost_life_ends_an_episode_for_the_learner_and_not_the_game():
    pool = open_pool(plan(), BREAKOUT, 2, STRICT, by_noise)
    episodes, finished, lost = (no_episode(plan()),) * 3, [], 0
    for batch in range(3):
        pool.start(batch, episodes)
        pool.finish()
        b = pool.buffers
        assert np.all(b.ended | ~b.over)
        lost += int((b.terminated & ~b.over).sum())
        episodes, ended = advance(episodes, b, False)
        finished += ended
    pool.close()
    assert finished
    assert lost >= 3 * len(finished)  # five lives in a game
    assert {float(r) for f in finished for r in f.rewards} <= {0.0, 1.0, 4.0, 7.0}  # scores, not their signs


def test_games_are_brought_back_by_replay():
    shape = plan(steps=60)
    pool = open_pool(shape, BREAKOUT, 0, STRICT, by_noise)
    episodes = (no_episode(shape),) * 3
    for batch in range(10):
        pool.start(batch, episodes)
        pool.finish()
        episodes, _ = advance(episodes, pool.buffers, False)
    assert min(episode.started for episode in episodes) > 2  # none is the first game of its seed
    again = open_pool(shape, BREAKOUT, 0, STRICT, by_noise)
    assert again.restore(episodes) == {}
    for p in (pool, again):
        p.start(10, episodes)
        p.finish()
    assert batch_bytes(pool.buffers) == batch_bytes(again.buffers)
    pool.close()
    again.close()


def test_an_emulator_that_fails_for_a_moment_leaves_no_trace(monkeypatch):
    shape = plan(steps=20)

    def batches(tolerance=STRICT):
        pool, episodes, found = open_pool(shape, BREAKOUT, 0, tolerance, by_noise), (no_episode(shape),) * 3, []
        for batch in range(3):
            pool.start(batch, episodes)
            notices = pool.finish()
            found.append(batch_bytes(pool.buffers))
            episodes, _ = advance(episodes, pool.buffers, False)
        pool.close()
        return found, notices

    expected, steps = batches(), AtariVectorEnv.step
    calls = iter(range(10**6))

    def fail_once(self, actions):
        if next(calls) == 50:
            raise RuntimeError("a cartridge came loose")
        return steps(self, actions)

    monkeypatch.setattr(AtariVectorEnv, "step", fail_once)
    found, (notice,) = batches(FaultPolicy(env_restarts=1))
    assert (found, notice.exact) == (expected[0], True)
    assert "NoFrameskip-v4: step raised RuntimeError: a cartridge came loose" in notice.sentence
    calls = iter(range(10**6))
    with pytest.raises(EnvironmentFault, match="a cartridge came loose"):
        batches()


def test_a_game_is_played_to_its_end():
    player, lives = open_player(resolve(BREAKOUT)), 0
    player.reset(0)
    rng = np.random.default_rng(0)
    for _ in range(2000):
        _, terminated, truncated = player.step(rng.integers(4))
        lives += 1
        if terminated or truncated:
            break
    assert terminated
    assert lives > 100
    player.close()


def test_the_preset_is_the_common_one():
    common, config = defaults("ppo", BREAKOUT)
    assert (
        common.gamma,
        common.gae_lambda,
        common.learning_rate,
        common.n_envs,
        common.n_epochs,
        common.n_minibatches,
    ) == (
        *(0.99, 0.95, 2.5e-4),
        *(8, 4, 4),
    )
    assert (config.n_steps, config.clip_range) == (1024, 0.1)
    assert common.shared_trunk
    assert not defaults("trpo", BREAKOUT)[0].shared_trunk
    assert not defaults("toppo", BREAKOUT)[1].early_stop


def test_scores_are_normalised_by_random_and_human_play():
    assert human_normalised(BREAKOUT, 1.7) == 0.0
    assert human_normalised("ALE/Breakout-v5", 30.5) == pytest.approx(1.0)
    assert human_normalised("CarnivalNoFrameskip-v4", 500.0) is None
    assert human_normalised("Pendulum-v1", 1.0) is None


def test_every_life_begins_with_fire_so_that_a_policy_that_never_presses_it_loses():
    games = AtariGames(BREAKOUT, 2)
    games.reset({0: ResetSpec(0), 1: ResetSpec(1)})
    lives = np.zeros(2, int)
    for _ in range(1000):
        moved = games.step(np.zeros(2, int))
        lives += moved.terminated
        if moved.over.any():
            break
    assert moved.over.any()
    assert lives[moved.over] == 5
    games.reset(dict.fromkeys(range(2), ResetSpec(0)))
    assert not games._lost_life.any()


@pytest.mark.parametrize(("game", "fire"), [("breakout", 1), ("freeway", None), ("ms_pacman", None)])
def test_fire_is_known_where_a_game_has_it(game, fire):
    assert fire_action(AtariVectorEnv(game, 1, full_action_space=False)) == fire
    assert fire_action(AtariVectorEnv(game, 1, full_action_space=True)) == 1
