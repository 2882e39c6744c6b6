import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.support import probes, reference
from tests.support.training import forward, normalised, on_host, record, setup_for, train_all
from toppo.algos.contract import Draw
from toppo.errors import LearnerFault
from toppo.learn.loop import Loop
from toppo.learn.programs import Programs
from toppo.learn.session import open_session
from toppo.learn.setup import initial_state


@pytest.fixture(scope="module")
def toppo_run():
    """Twelve updates, steep enough that the filter has something to do."""
    return record("toppo", probes.walk, 12, learning_rate=2e-2, early_stop=False)


@pytest.fixture(scope="module")
def ppo_run():
    return record("ppo", probes.flip, 4)


def returns_to_go(rewards, gamma):
    result, later = [], 0.0
    for r in reversed(rewards):
        later = r + gamma * later
        result.append(later)
    return result


def ended_episodes(batches, reset_each_batch=False):
    """Per batch, the rewards of the episodes that ended in it, step by step."""
    envs = batches[0].reward.shape[1]
    running, per_batch = [[] for _ in range(envs)], []
    for batch in batches:
        found = []
        for e in range(envs):
            if reset_each_batch:
                running[e] = []
            for t in range(len(batch.reward)):
                running[e].append(batch.reward[t, e])
                if batch.ended[t, e]:
                    found.append(running[e])
                    running[e] = []
        per_batch.append(found)
    return per_batch


def test_statistics_are_frozen_while_a_batch_is_collected_and_move_once_after_it(toppo_run):
    run = toppo_run
    seen = [b.obs.reshape(-1, 2) for b in run.warmup]
    for k, batch in enumerate(run.batches):
        data = np.concatenate(seen).astype(np.float64)
        np.testing.assert_allclose(batch.mean, data.mean(0), rtol=1e-5)
        np.testing.assert_allclose(batch.inv_std, 1 / data.std(0, ddof=1), rtol=1e-5)
        seen.append(batch.obs.reshape(-1, 2))
        after = run.states[k + 1].obs_moments
        assert after.n == len(np.concatenate(seen))
        np.testing.assert_allclose(after.mean, np.concatenate(seen).astype(np.float64).mean(0), rtol=1e-9)


def test_a_batch_keeps_the_normaliser_it_was_collected_with(toppo_run):
    run = toppo_run
    for k, batch in enumerate(run.batches):
        for state in run.states[k + 1 :]:
            for segment in state.memory:
                if segment.iteration == k:
                    assert segment.normaliser.mean.tobytes() == batch.mean.tobytes()
                    assert segment.normaliser.inv_std.tobytes() == batch.inv_std.tobytes()
                    assert segment.obs.tobytes() == batch.obs.tobytes()


def test_no_op_batches_are_not_counted_and_thrown_away(toppo_run):
    run = toppo_run
    assert len(run.warmup) == 2
    assert [s.steps for s in run.states] == [60 * k for k in range(13)]
    assert [s.iteration for s in run.states] == list(range(13))
    assert [s.batches for s in run.states][1:] == [k + 2 for k in range(1, 13)]
    noop = {b.obs.tobytes() for b in run.warmup}
    assert all(segment.obs.tobytes() not in noop for state in run.states for segment in state.memory)
    for batch in [*run.warmup, run.batches[0]]:  # all by the initial policy
        for a, b in zip(batch.weights, run.warmup[0].weights, strict=True):
            assert a.tobytes() == b.tobytes()


def test_the_first_no_op_batch_is_seen_raw(toppo_run):
    assert toppo_run.warmup[0].mean.tolist() == [0.0, 0.0]
    assert toppo_run.warmup[0].inv_std.tolist() == [1.0, 1.0]


def test_mean_is_zero_and_deviation_one_during_the_whole_no_op_phase(toppo_run):
    assert [b.mean.tolist() for b in toppo_run.warmup] == [[0.0, 0.0]] * 2


def test_without_no_op_steps_the_first_batch_is_seen_raw():
    run = record("ppo", probes.walk, 2, warmup_steps=0)
    assert run.warmup == []
    assert run.batches[0].inv_std.tolist() == [1.0, 1.0]
    assert run.batches[1].inv_std.tolist() != [1.0, 1.0]


@pytest.mark.parametrize("reset_each_batch", [False, True])
def test_the_reward_statistic_is_the_naive_one(reset_each_batch):
    run = record("ppo", probes.walk, 4, reset_each_batch=reset_each_batch)
    episodes = ended_episodes(run.warmup + run.batches, reset_each_batch)
    for k, state in enumerate(run.states[1:]):
        seen = [g for batch in episodes[: k + 3] for rewards in batch for g in returns_to_go(rewards, 0.9)]
        assert state.return_moments.n == len(seen)
        np.testing.assert_allclose(state.return_moments.mean, np.mean(seen), rtol=1e-9)
        np.testing.assert_allclose(state.return_moments.var, np.var(seen, ddof=1), rtol=1e-9)


def test_rewards_are_divided_by_the_deviation_of_their_time(toppo_run):
    run = toppo_run
    for k in range(1, 12):
        newest = [s for s in run.states[k + 1].memory if s.iteration == k]
        for segment in newest:
            deviation = np.sqrt(run.states[k].return_moments.var)
            np.testing.assert_allclose(segment.normaliser.reward_scale, 1 / deviation, rtol=1e-6)


def test_cut_episodes_serve_once_when_none_has_ended():
    run = record("ppo", lambda: probes.limited(probes.Endless(), 10**6), 2)
    # Two environments, 30 rewards of 1 in the last no-op batch each; no episode ever ends.
    seen = 2 * returns_to_go([1.0] * 30, 0.9)
    for state in run.states[1:]:
        assert state.return_moments.n == 60
        np.testing.assert_allclose(state.return_moments.var, np.var(seen, ddof=1), rtol=1e-9)
    assert all("rollout/ep_rew_mean" not in i.metrics for i in run.iterations)


def test_normalisers_can_be_switched_off():
    run = record("toppo", probes.walk, 3, normalise_obs=False, normalise_reward=False, learning_rate=1e-5)
    assert all(b.mean.tolist() == [0.0, 0.0] and b.inv_std.tolist() == [1.0, 1.0] for b in run.batches)
    assert [float(s.normaliser.reward_scale) for s in run.states[-1].memory] == [1.0] * 3


def test_the_advantage_of_mu_is_labelled_once_by_the_critic_of_its_time_and_then_frozen(toppo_run):
    run, first = toppo_run, {}
    for state in run.states:
        for segment in state.memory:
            k = int(segment.iteration)
            labels = (segment.adv.tobytes(), segment.ret.tobytes(), segment.logp.tobytes())
            assert first.setdefault(k, labels) == labels
    assert any(int(s.iteration) < k - 1 for k, state in enumerate(run.states) for s in state.memory)  # some are old
    for k, batch in enumerate(run.batches):
        for segment in [s for s in run.states[k + 1].memory if s.iteration == k]:
            critic = run.states[k].learner.params.value
            value, following = (
                forward(critic, normalised(segment, o)).reshape(batch.reward.shape) for o in (batch.obs, batch.next_obs)
            )
            reward = np.clip(batch.reward * segment.normaliser.reward_scale, -10, 10)
            ones = np.ones(reward.shape)
            adv, ret = reference.vtrace(reward, value, following, batch.terminated, batch.ended, ones, 0.9, 0.97)
            np.testing.assert_allclose(segment.adv, adv, rtol=1e-3, atol=1e-4)
            np.testing.assert_allclose(segment.ret, ret, rtol=1e-3, atol=1e-4)


def divergence(segment, policy):
    """Mean KL(mu || pi) from the stored parameters of mu."""
    mean = forward(policy.mean, normalised(segment, segment.obs))
    log_std = np.maximum(policy.log_std.astype(np.float64), np.log(1e-3))
    m, s = (x.astype(np.float64).reshape(mean.shape) for x in segment.dist)
    kl = ((m - mean) ** 2 + np.exp(2 * s)) / np.exp(2 * log_std) + 2 * log_std - 2 * s - 1
    return 0.5 * kl.sum(-1).mean()


def test_the_set_m_holds_what_is_close_and_at_most_n(toppo_run):
    run, deleted, kept = toppo_run, 0, 0
    for k in range(12):
        candidates = [int(s.iteration) for s in run.states[k].memory] + [k]
        after = run.states[k + 1]
        left = {int(s.iteration): s for s in after.memory}
        metrics = run.iterations[k].metrics
        assert len(candidates) <= 5
        assert metrics["memory/size"] == len(candidates)
        assert metrics["memory/kept"] == len(left) <= 4
        assert metrics["memory/ages"] == [k + 1 - i for i in left]
        assert list(left) == sorted(left)
        assert set(left) <= set(candidates)
        distances = {i: divergence(s, after.learner.params.policy) for i, s in left.items()}
        np.testing.assert_allclose(metrics["memory/kl"], list(distances.values()), rtol=1e-3, atol=1e-6)
        assert all(d <= 0.03 for d in distances.values())
        for segment in run.states[k].memory:
            if int(segment.iteration) not in left:
                deleted += 1
                full = len(candidates) == 5 and int(segment.iteration) == candidates[0]
                assert full or divergence(segment, after.learner.params.policy) > 0.03
        kept += len(left)
    assert deleted > 0
    assert kept > 0


def test_mus_distribution_is_the_policy_that_collected_the_batch(toppo_run):
    for k, state in enumerate(toppo_run.states[1:]):
        for segment in [s for s in state.memory if s.iteration == k]:
            policy = toppo_run.states[k].learner.params.policy
            mean = forward(policy.mean, normalised(segment, segment.obs))
            np.testing.assert_allclose(segment.dist.mean.reshape(mean.shape), mean, atol=1e-4)
            assert divergence(segment, policy) < 1e-6


def test_without_selection_the_oldest_is_dropped():
    run = record("toppo", probes.walk, 6, select=False, n_policies=3, learning_rate=2e-2)
    ages = [[int(s.iteration) for s in state.memory] for state in run.states]
    assert ages == [[], [0], [0, 1], [1, 2], [2, 3], [3, 4], [4, 5]]
    assert [i.metrics["memory/size"] for i in run.iterations] == [1, 2, 3, 3, 3, 3]


def test_ppo_keeps_nothing(ppo_run):
    assert all(state.memory == () for state in ppo_run.states)


def test_the_centre_is_exactly_one_on_the_newest_batch_and_pi_k_over_mu_on_an_old_one(toppo_run):
    run = toppo_run
    state, old = next((s, s.memory[0]) for s in run.states if s.memory and s.memory[0].iteration < s.iteration - 1)
    newest = state.memory[-1]
    setup = setup_for("toppo", n_steps=60)
    programs = Programs(setup)
    learner = jax.tree.map(jnp.asarray, state.learner)
    # Whatever rounding does to its log-probabilities, on its own batch the policy is the one that acted.
    segments = jax.tree.map(jnp.asarray, (newest._replace(logp=newest.logp + np.float32(1e-3)), old))
    sample = programs.concatenate(
        tuple(
            programs.prepare(learner.params, s, jnp.ones(()), None if i else jnp.zeros((60, 1)))
            for i, s in enumerate(segments)
        )
    )
    centre, is_newest = np.asarray(sample.centre), np.asarray(sample.newest)
    assert is_newest.tolist() == [1.0] * 60 + [0.0] * 60
    assert np.all(centre[:60] == 1.0)
    mean = forward(state.learner.params.policy.mean, normalised(old, old.obs))
    std = np.exp(state.learner.params.policy.log_std.astype(np.float64))
    z = (old.action.reshape(mean.shape) - mean) / std
    logp = (-0.5 * z**2 - 0.5 * np.log(2 * np.pi) - np.log(std)).sum(-1)
    np.testing.assert_allclose(centre[60:], np.exp(logp - old.logp.ravel()), rtol=1e-3)
    assert not np.any(centre[60:] == 1.0)


@pytest.mark.parametrize("algo", ["ppo", "toppo"])
def test_early_stop_ends_the_epochs_of_policy_and_critic(algo):
    run = record(algo, probes.walk, 4, learning_rate=5e-2, n_epochs=6, early_stop=True)
    epochs = [i.metrics["train/epochs"] for i in run.iterations]
    assert min(epochs) < 6
    total = 0
    for k, iteration in enumerate(run.iterations):
        metrics = iteration.metrics
        total += 4 * epochs[k]
        assert metrics["train/n_updates"] == 4 * epochs[k]
        learner = run.states[k + 1].learner
        assert int(learner.policy_opt.count) == int(learner.value_opt.count) == total
        if epochs[k] < 6:
            assert metrics["train/tv"] > metrics["train/clip_range"] / 2


def test_without_early_stop_every_epoch_is_run(toppo_run):
    assert [i.metrics["train/epochs"] for i in toppo_run.iterations] == [3] * 12
    assert any(i.metrics["train/tv"] > 0.05 for i in toppo_run.iterations)


def assert_same_bytes(a, b):
    for x, y in zip(jax.tree.leaves(on_host(a.states[1:])), jax.tree.leaves(on_host(b.states[1:])), strict=True):
        assert np.asarray(x).tobytes() == np.asarray(y).tobytes()
    assert [i.metrics for i in a.iterations] == [i.metrics for i in b.iterations]
    assert [i.episodes for i in a.iterations] == [i.episodes for i in b.iterations]


def test_the_same_seed_gives_the_same_bytes_with_any_number_of_workers(toppo_run):
    assert_same_bytes(toppo_run, record("toppo", probes.walk, 12, workers=2, learning_rate=2e-2, early_stop=False))


@pytest.mark.parametrize("algo", ["ppo", "toppo"])
def test_a_critic_that_learns_beside_the_policy_is_the_one_that_learns_after_it(monkeypatch, algo):
    """Where two workers take both cores it does not wait for the number of epochs."""
    runs = []
    for cores in ({0}, {0, 1}):
        monkeypatch.setattr("os.sched_getaffinity", lambda pid, cores=cores: cores)
        runs.append(record(algo, probes.walk, 8, workers=2, learning_rate=1e-2, n_epochs=9, early_stop=True))
    assert len({i.metrics["train/epochs"] for i in runs[0].iterations}) > 1
    assert_same_bytes(*runs)


def test_another_seed_gives_another_run(ppo_run):
    other = record("ppo", probes.flip, 4, seed=1)
    assert other.batches[0].obs.tobytes() != ppo_run.batches[0].obs.tobytes()
    weights = [r.states[0].learner.params.policy[0].w for r in (ppo_run, other)]
    assert weights[0].tobytes() != weights[1].tobytes()
    assert [i.metrics for i in other.iterations] != [i.metrics for i in ppo_run.iterations]


def test_episodes_are_logged_with_the_step_at_which_they_ended(toppo_run):
    run = toppo_run
    episodes = ended_episodes(run.warmup + run.batches)[2:]
    for k, (iteration, batch) in enumerate(zip(run.iterations, run.batches, strict=True)):
        ends = [(t, e) for t in range(30) for e in range(2) if batch.ended[t, e]]
        assert [(x.step, x.env) for x in iteration.episodes] == [(60 * k + 2 * t + e + 1, e) for t, e in ends]
        expected = sorted((sum(r), len(r)) for r in episodes[k])
        found = sorted((x.episode_return, x.length) for x in iteration.episodes)
        np.testing.assert_allclose(np.array(found), np.array(expected), rtol=1e-12)
        if ends:
            mean = np.mean([r for r, _ in expected])
            assert iteration.metrics["rollout/ep_rew_mean"] == pytest.approx(mean, rel=1e-6)


def test_the_learning_rate_falls_to_zero_when_asked():
    run = record("ppo", probes.walk, 4, anneal_lr=True, learning_rate=1e-3)
    rates = [i.metrics["train/learning_rate_value"] for i in run.iterations]
    assert rates == pytest.approx([1e-3, 7.5e-4, 5e-4, 2.5e-4])


@pytest.mark.parametrize("algo", ["ppo", "toppo"])
def test_a_time_limit_is_bootstrapped(algo):
    # Reward 1 for ever behind a limit of 5 steps: V = 1 / (1 - 0.8) = 5; a death at the limit would make it 3.4.
    run = record(
        algo,
        probes.endless,
        25,
        gamma=0.8,
        learning_rate=1e-2,
        normalise_obs=False,
        normalise_reward=False,
        n_epochs=6,
        warmup_steps=0,
    )
    value = forward(run.states[-1].learner.params.value, np.ones((1, 1)))[0, 0]
    assert value == pytest.approx(5.0, rel=0.1)


@pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid value")
def test_numbers_that_explode_stop_the_run_with_a_sentence():
    with pytest.raises(LearnerFault, match=r"iteration \d+: .* lower --learning-rate or check the rewards") as fault:
        record("ppo", probes.walk, 6, learning_rate=1e30, max_grad_norm=0.0)
    assert "\n" not in str(fault.value)


@pytest.mark.parametrize(("critic_on_old", "rows"), [(True, 128), (False, 64)])
def test_the_critic_trains_on_all_that_was_drawn_or_on_the_newest_batch_alone(critic_on_old, rows):
    setup = setup_for("toppo", alpha=99.0, critic_on_old=critic_on_old)
    state = train_all(setup)[-1].state
    newest = state.memory[-1]
    draw = Draw((newest, state.memory[0]), (1.0, 1.0), 0.1)
    with open_session(setup, probes.walk) as session:
        sample, of_critic = Loop(setup, session.collector).samples(state, draw, jnp.zeros_like(newest.adv))
    assert len(sample.ret) == 128
    assert len(of_critic.ret) == rows


def test_every_iteration_has_minibatches_of_its_own():
    setup = setup_for("ppo")
    with open_session(setup, probes.walk) as session:
        loop = Loop(setup, session.collector)
        first, again, second = (loop.minibatches(k, (1.0,)) for k in (0, 0, 1))
    assert first.tolist() == again.tolist()
    assert first.tolist() != second.tolist()


def test_open_episodes_do_not_count_in_the_warm_up_if_others_ended():
    setup = setup_for("ppo")
    with open_session(setup, probes.walk) as session:
        state = Loop(setup, session.collector).warm_up(initial_state(setup))
        ended = np.flatnonzero(session.collector.batch().ended[:, 0])
    assert state.return_moments.n == ended[-1] + 1 < 64
