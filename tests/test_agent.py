import ast
import dataclasses
import inspect
import re
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest

import toppo
from tests.support import probes, worlds
from tests.support.settings import tiny
from tests.support.training import forward
from toppo.algos import REGISTRY
from toppo.algos.settings import automatic_of, help_texts, schedules_of
from toppo.collect.pool import open_pool
from toppo.errors import ToppoError
from toppo.learn.setup import plan
from toppo.rng import Stream, seed_for
from toppo.rundir.checkpoint import CheckpointError, read_checkpoint, write_checkpoint
from toppo.runs.presets import defaults
from toppo.runs.state_io import state_to_arrays

SOURCES = [probes.walk, probes.flip]


def small(source=probes.walk, algo=toppo.ToPPO, seed=3, **settings):
    return algo(source, seed=seed, **tiny(**{"warmup_steps": 128} | settings))


def assert_same_state(a, b):
    (arrays, facts), (others, other_facts) = (state_to_arrays(agent.state) for agent in (a, b))
    assert facts == other_facts
    assert arrays.keys() == others.keys()
    for name, array in arrays.items():
        other = others[name]
        assert (array.dtype, array.shape, array.tobytes()) == (other.dtype, other.shape, other.tobytes()), name


@pytest.fixture(scope="module", params=SOURCES, ids=lambda f: f.__name__)
def trained(request):
    return small(request.param).learn(256, workers=0)


def test_save_load_evaluate_gives_the_same_returns_bit_for_bit(trained, tmp_path):
    trained.save(tmp_path / "agent")
    loaded = toppo.load(tmp_path / "agent", env=trained.source)
    assert_same_state(trained, loaded)
    assert (loaded.spec, loaded.spaces) == (trained.spec, trained.spaces)
    for deterministic in (True, False):
        assert loaded.evaluate(5, deterministic) == trained.evaluate(5, deterministic)
    assert trained.evaluate(5, True) != trained.evaluate(5, False)


def test_evaluating_moves_neither_the_policy_nor_the_normaliser(trained):
    before = {name: a.copy() for name, a in state_to_arrays(trained.state)[0].items()}
    trained.evaluate(3)
    trained.predict(np.ones(trained.spaces.obs_size))
    for name, array in state_to_arrays(trained.state)[0].items():
        assert array.tobytes() == before[name].tobytes(), name


@pytest.mark.parametrize("algo", [toppo.PPO, toppo.ToPPO], ids=["ppo", "toppo"])
@pytest.mark.parametrize("workers", [0, 2])
def test_learning_on_after_a_load_is_learning_without_a_break(tmp_path, algo, workers):
    whole = small(algo=algo, n_envs=2).learn(384, workers=0)
    part = small(algo=algo, n_envs=2).learn(192, workers=workers)
    part.save(tmp_path / "deep" / "agent")
    again = toppo.load(tmp_path / "deep" / "agent", env=probes.walk).learn(192, workers=workers)
    assert again.num_timesteps == whole.num_timesteps == 384
    assert_same_state(whole, again)


def test_an_agent_continues_to_learn_in_an_environment_object():
    whole = small(probes.Walk()).learn(256)
    part = small(probes.Walk()).learn(128)
    assert_same_state(whole, part.learn(128))


def test_a_callback_sees_every_iteration_and_can_end_the_training():
    seen = []
    agent = small().learn(640, workers=0, callback=lambda iteration: seen.append(iteration.state.steps))
    assert seen == [64 * k for k in range(1, 11)]
    stopped = small().learn(640, workers=0, callback=lambda iteration: iteration.state.steps < 128)
    assert stopped.num_timesteps == 128
    assert agent.num_timesteps == 640


def test_predict_takes_one_observation_or_a_batch(trained):
    spaces = trained.spaces
    rows = np.random.default_rng(0).normal(size=(5, spaces.obs_size))
    batch, state = trained.predict(rows, deterministic=True)
    assert state is None
    for row, action in zip(rows, batch, strict=True):
        single, _ = trained.predict(row, deterministic=True)
        assert np.array_equal(single, action)
    env = trained.source.given()
    assert all(env.action_space.contains(a if a.shape else int(a)) for a in batch)
    again, _ = trained.predict(rows, deterministic=True)
    assert np.array_equal(batch, again)
    samples = [trained.predict(rows)[0] for _ in range(8)]
    assert any(not np.array_equal(samples[0], s) for s in samples[1:])


def test_the_most_likely_action_is_the_network_on_normalised_observations():
    agent = small(probes.walk).learn(128, workers=0)
    policy, moments = agent.state.learner.params.policy, agent.state.obs_moments
    rows = np.random.default_rng(1).normal(size=(20, 2)) * 3
    x = np.clip((rows - moments.mean) / np.sqrt(moments.var), -10, 10)
    mean = np.clip(forward([tuple(map(np.asarray, layer)) for layer in policy.mean], x), -1, 1)
    actions, _ = agent.predict(rows, deterministic=True)
    np.testing.assert_allclose(actions, mean * [1.0, 2.0] + [0.0, 2.0], atol=1e-5)  # [-1, 1] and [0, 4]


def test_actions_stay_inside_the_environments_bounds():
    agent = small(probes.walk, log_std_init=3.0)
    actions, _ = agent.predict(np.zeros((200, 2)))
    low, high = agent.source.given().action_space.low, agent.source.given().action_space.high
    assert np.all(actions >= low)
    assert np.all(actions <= high)
    assert np.any(actions == low)
    assert np.any(actions == high)
    assert actions.dtype == np.float64


def test_predict_refuses_other_shapes(trained):
    with pytest.raises(ValueError, match="observation has shape"):
        trained.predict(np.zeros((2, 9)))


def test_predict_refuses_an_observation_without_its_entries_and_too_few_masks():
    agent = small(worlds.dictionary)
    for given in ({}, np.zeros(3)):
        with pytest.raises(ValueError, match=r"observation is .*, but must have the entries '"):
            agent.predict(given)
    masked = small(worlds.masked)
    with pytest.raises(ValueError, match="action_masks cannot be used: there are 1 for 3 observations"):
        masked.predict(np.zeros((3, masked.spaces.obs_size)), action_masks=[[1] * masked.spaces.action_size])


def test_predict_takes_a_mask_as_environments_give_it():
    agent = small(worlds.masked_dials)  # dials 1, 2, 3 and 0, 1
    obs, only = np.zeros(2, np.float32), ([0, 1, 0], [0, 1])
    for mask in (only, np.concatenate(only), [np.array(part) for part in only]):
        assert agent.predict(obs, action_masks=mask)[0].tolist() == [2, 1]
    masks = [only, ([1, 0, 0], [1, 0])]
    for given in (masks, np.array([np.concatenate(mask) for mask in masks])):
        assert agent.predict(np.stack([obs, obs]), action_masks=given)[0].tolist() == [[2, 1], [1, 0]]
    with pytest.raises(
        ValueError, match="the mask of allowed actions cannot be used: it has 3 entries, but the actions have 5"
    ):
        agent.predict(obs, action_masks=[1, 0, 1])
    with pytest.raises(ValueError, match="action_masks cannot be used: this environment gives none"):
        small().predict(obs, action_masks=[1, 0])


class VectorOfOne:
    """The part of a vectorised environment that Stable-Baselines3's ``evaluate_policy`` uses."""

    def __init__(self, env):
        self.env, self.num_envs = env, 1

    def reset(self):
        return np.asarray(self.env.reset(seed=4)[0])[None]

    def step(self, actions):
        assert actions.shape[0] == 1
        obs, reward, terminated, truncated, info = self.env.step(actions[0])
        if terminated or truncated:
            obs, _ = self.env.reset()
        return np.asarray(obs)[None], np.array([reward]), np.array([terminated or truncated]), [info]


def evaluate_policy(model, env, n_eval_episodes):
    """The loop of Stable-Baselines3's function of that name, with its call of ``predict`` letter by letter."""
    returns, current, observations, states = [], 0.0, env.reset(), None
    episode_starts = np.ones((env.num_envs,), dtype=bool)
    while len(returns) < n_eval_episodes:
        actions, states = model.predict(
            observations,  # type: ignore[arg-type]
            state=states,
            episode_start=episode_starts,
            deterministic=True,
        )
        observations, rewards, dones, _ = env.step(actions)
        current += rewards[0]
        episode_starts = dones
        if dones[0]:
            returns.append(current)
            current = 0.0
    return returns


def test_stable_baselines_evaluate_policy_accepts_the_agent(trained):
    returns = evaluate_policy(trained, VectorOfOne(trained.source.given()), 3)
    assert len(returns) == 3
    names = list(inspect.signature(trained.predict).parameters)
    assert names[:4] == ["observation", "state", "episode_start", "deterministic"]


def test_the_policy_that_is_played_is_the_one_that_predicts():
    agent = small(probes.walk).learn(128, workers=0)
    [expected] = agent.evaluate(1)
    env = probes.Walk()
    obs, _ = env.reset(seed=seed_for(3, Stream.EVALUATION, 0, 0))
    total, ended = 0.0, False
    while not ended:
        action, _ = agent.predict(obs, deterministic=True)
        obs, reward, terminated, truncated, _ = env.step(action)
        total, ended = total + reward, terminated or truncated
    assert total == expected


class Unbounded(probes.Walk):
    action_space = gym.spaces.Box(-np.inf, np.inf, (2,), np.float64)


def test_an_agent_with_unbounded_actions_can_be_saved(tmp_path):
    agent = small(Unbounded)
    agent.save(tmp_path / "agent")
    assert toppo.load(tmp_path / "agent", env=Unbounded).spaces == agent.spaces


def test_an_agent_of_a_registered_environment_finds_it_again(tmp_path):
    agent = toppo.PPO("CartPole-v1", seed=1, **tiny())
    agent.save(tmp_path / "agent")
    loaded = toppo.load(tmp_path / "agent")
    assert loaded.source.given == "CartPole-v1"
    assert loaded.evaluate(2) == agent.evaluate(2)


def test_an_agent_without_an_environment_says_so(tmp_path):
    small().save(tmp_path / "agent")
    loaded = toppo.load(tmp_path / "agent")
    loaded.predict(np.zeros(2))
    with pytest.raises(ToppoError, match="no environment to learn in: load it with env="):
        loaded.learn(64)
    with pytest.raises(ToppoError, match="no environment to play in"):
        loaded.evaluate(1)


def test_saving_replaces_an_agent_but_nothing_else(tmp_path):
    agent = small()
    agent.save(tmp_path / "agent")
    agent.learn(64, workers=0)
    agent.save(tmp_path / "agent")
    assert toppo.load(tmp_path / "agent").num_timesteps == 64
    (tmp_path / "thesis").mkdir()
    with pytest.raises(ToppoError, match="exists and is not a saved agent"):
        agent.save(tmp_path / "thesis")


def change_facts(key, value):
    def change(arrays, facts):
        facts[key] = value

    return change


def change_array(name, value):
    def change(arrays, facts):
        arrays[name] = value

    return change


@pytest.mark.parametrize(
    "change",
    [
        change_facts("spec", None),
        change_facts("spaces", None),
        change_facts("spaces", {"parts": [3]}),
        change_facts("state", None),
        change_facts("state", {}),
        lambda arrays, facts: facts.pop("state"),
        lambda arrays, facts: facts["state"].update(memory=10**9),
        lambda arrays, facts: facts["state"].update(memory="x"),
        lambda arrays, facts: facts["state"].update(started=[1, 2, 3]),
        lambda arrays, facts: facts["state"].update(steps=None),
        lambda arrays, facts: facts["spec"]["common"].update(hidden=[10**6]),
        lambda arrays, facts: facts["spaces"]["parts"][0].update(shape=[10**6]),
        lambda arrays, facts: arrays.pop("learner/params/policy/log_std"),
        change_array("extra", np.zeros(3)),
        change_array("learner/params/policy/log_std", np.zeros(3, np.float32)),
        change_array("learner/params/policy/log_std", np.zeros(2, np.float64)),
        change_array("learner/params/policy/log_std", np.full(2, np.nan, np.float32)),
        change_array("moments/obs/mean", np.zeros(3)),
        change_array("moments/obs/mean", np.full(2, np.inf)),
        change_array("moments/return/var", np.array(-1.0)),
        change_array("episode/0/actions", np.zeros((4, 7), np.float32)),
    ],
)
def test_a_crafted_agent_is_refused_in_one_sentence(tmp_path, change):
    small().save(tmp_path / "agent")
    checkpoint = read_checkpoint(tmp_path / "agent")
    change(checkpoint.arrays, checkpoint.facts)
    write_checkpoint(tmp_path / "agent", checkpoint.arrays, checkpoint.facts)
    with pytest.raises(ToppoError) as refusal:
        toppo.load(tmp_path / "agent", env=probes.walk)
    assert "\n" not in str(refusal.value)


def test_loading_what_is_not_there_is_one_sentence(tmp_path):
    with pytest.raises(CheckpointError, match="is not a checkpoint directory"):
        toppo.load(tmp_path / "nothing")


def test_workers_are_used_when_the_environment_can_be_made_elsewhere():
    agent = small(n_envs=2)
    pool = open_pool(plan(agent.setup), agent.source, 2)
    assert len(pool.pids()) == 2
    pool.close()
    assert open_pool(plan(small(probes.Walk()).setup), probes.Walk(), 2).pids() == []


def test_settings_are_refused_by_name():
    with pytest.raises(ValueError, match=r"^PPO has no setting `learning_rat`: did you mean `learning_rate`\?$"):
        toppo.PPO(probes.walk, learning_rat=3)
    with pytest.raises(
        ValueError, match=r"^GePPO has no setting `colour`: choose one of activation, adam_eps, adapt_lr, .*vf_coef"
    ):
        toppo.GePPO(probes.walk, colour="red")
    with pytest.raises(ValueError, match=r"^PPO has no setting `batch_size`: n_minibatches is the number of"):
        toppo.PPO(probes.walk, batch_size=64)
    with pytest.raises(ToppoError, match="reset_each_batch needs whole episodes"):
        toppo.PPO("Pendulum-v1", reset_each_batch=True, n_steps=128)
    with pytest.raises(AttributeError, match="SAC"):
        _ = toppo.SAC


@pytest.mark.parametrize(
    ("given", "named"),
    [
        (("MlpPolicy", "CartPole-v1"), {}),
        (("CartPole-v1", 3), {}),
        (("MlpPolicy", probes.walk), {}),
        (("MlpPolicy",), {"env": "CartPole-v1"}),
        (("MlpPolicy",), {"env": probes.walk, "seed": 1}),
        ((), {}),
    ],
)
def test_a_call_with_a_policy_or_without_an_environment_is_answered_in_one_sentence(given, named):
    with pytest.raises(ToppoError, match=r"^PPO takes the environment and then settings by name, such as PPO\('Cart"):
        toppo.PPO(*given, **named)


def test_the_environment_can_be_given_by_name():
    assert_same_state(small(), toppo.ToPPO(env=probes.walk, seed=3, **tiny(warmup_steps=128)))


def test_every_algorithm_has_a_class_that_loads_its_own_agents_only(tmp_path):
    agent = small(algo=toppo.PPO)
    assert type(agent) is toppo.PPO
    assert isinstance(agent, toppo.Agent)
    agent.save(tmp_path / "agent")
    assert type(toppo.load(tmp_path / "agent")) is toppo.PPO
    assert type(toppo.PPO.load(tmp_path / "agent", env=probes.walk)) is toppo.PPO
    with pytest.raises(ToppoError, match=r"agent holds a PPO agent: load it with toppo\.load\('.*agent'\)$"):
        toppo.ToPPO.load(tmp_path / "agent")
    kinds = [getattr(toppo, name) for name in toppo.__all__]
    assert {kind.algo for kind in kinds if isinstance(kind, type)} == {"", *REGISTRY}


def test_an_agent_without_an_algorithm_is_refused():
    with pytest.raises(ToppoError, match=r"^Agent has no algorithm: use toppo\.ToPPO"):
        toppo.Agent(probes.walk)


def test_a_subclass_of_an_agent_is_loaded_as_itself(tmp_path):
    class Mine(toppo.PPO):
        pass

    Mine(probes.walk, **tiny()).save(tmp_path / "agent")
    assert type(Mine.load(tmp_path / "agent")) is Mine


@pytest.mark.parametrize("algo", REGISTRY)
def test_signature_and_help_of_a_class_show_every_setting(algo):
    kind = next(kind for kind in toppo.Agent.__subclasses__() if kind.algo == algo)
    parameters = inspect.signature(kind).parameters
    assert list(parameters)[:2] == ["env", "seed"]
    common, config = defaults(algo, "some-env")
    expected = {**vars(common), **vars(config)}
    assert {
        name: p.default for name, p in parameters.items() if name not in ("env", "seed", "preset", "env_kwargs")
    } == expected
    for settings in (common, config):
        for name, text in help_texts(type(settings)).items():
            assert f"    {name}: {text} Default: {expected[name]!r}.\n" in kind.__doc__ + "\n"


def test_the_stub_has_every_setting_with_its_type():
    """Editors complete what the stub says."""
    tree = ast.parse(Path(toppo.__file__).with_suffix(".pyi").read_text())
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}

    def typed_dict(name):
        own = {x.target.id: ast.unparse(x.annotation) for x in classes[name].body if isinstance(x, ast.AnnAssign)}
        bases = [base.id for base in classes[name].bases if base.id in classes]
        return own | (typed_dict(bases[0]) if bases else {})

    for kind in toppo.Agent.__subclasses__()[:7]:
        common, config = defaults(kind.algo, "some-env")
        fields = [*dataclasses.fields(common), *dataclasses.fields(config)]
        types = {f.name: f.type if isinstance(f.type, str) else getattr(f.type, "__name__", "") for f in fields}
        types |= dict.fromkeys(("hidden", "hidden_critic"), "tuple[int, ...]")
        types |= dict.fromkeys(schedules_of(type(common)) | schedules_of(type(config)), "_Schedule")
        types |= dict.fromkeys(automatic_of(type(config)), "_Automatic")
        types |= {"seed": "int | None", "preset": "str", "env_kwargs": "Mapping[str, object] | None"}
        assert typed_dict(f"_{kind.__name__}") == types
        (init,) = classes[kind.__name__].body
        assert ast.unparse(init.args.kwarg.annotation) == f"Unpack[_{kind.__name__}]"


def test_the_package_shows_its_public_names_only():
    assert dir(toppo) == sorted(toppo.__all__)
    assert {"ToPPO", "load"} < set(dir(toppo))


def test_hidden_randomness_does_not_mix_two_episodes():
    """After a replay that led elsewhere a new episode begins, and its statistics begin with it."""
    agent = small(probes.hidden, algo=toppo.PPO, n_steps=32, warmup_steps=0)  # episodes of 23 steps
    episodes = []
    for _ in range(6):
        agent.learn(32, workers=0, callback=lambda iteration: episodes.extend(iteration.episodes))
    assert {e.length for e in episodes} == {23}
    assert {e.episode_return for e in episodes} == {23.0}


def test_an_environment_that_was_given_stays_open():
    vector = gym.vector.AsyncVectorEnv([probes.walk] * 2, autoreset_mode=gym.vector.AutoresetMode.DISABLED)
    agent = small(vector).learn(64)
    assert len(agent.evaluate(2)) == 2
    agent.learn(64)
    assert agent.num_timesteps == 128
    vector.close()

    class Closing(probes.Walk):
        closed = False

        def close(self):
            self.closed = True

    env = gym.wrappers.TimeLimit(Closing(), 20)
    small(env).learn(64).evaluate(1)
    assert not env.unwrapped.closed


@pytest.mark.parametrize("make", [probes.Walk, lambda: gym.vector.SyncVectorEnv([probes.walk] * 2)])
def test_the_environment_that_is_learned_in_is_not_played_in_meanwhile(make):
    env = make()
    agent = small(env)
    for given in (None, env):
        with pytest.raises(ToppoError, match=r"is learning in this .*: give env=... to evaluate while"):
            agent.learn(64, callback=lambda iteration, given=given: bool(agent.evaluate(1, env=given)))
    agent, alone, found = small(make()), small(make()).learn(128), []
    agent.learn(128, callback=lambda iteration: found.append(agent.evaluate(1, env=probes.walk)))
    assert len(found) == 2
    assert_same_state(agent, alone)


def test_what_predicts_is_made_once_for_a_state(trained):
    first = trained._actor(1)
    assert trained._actor(1) is first
    assert trained._actor(2) is not first
    before, trained.state = trained.state, trained.state._replace(steps=0)
    assert trained._actor(1) is not first
    trained.state = before


def test_an_inexact_continuation_is_a_warning():
    agent = small(probes.Hidden, reset_each_batch=False).learn(64, workers=0)
    with pytest.warns(UserWarning, match=r"where it was \(Hidden \(environment 0\): its replay of"):
        agent.learn(64, workers=0)


class Two(probes.Flip):
    action_space = gym.spaces.Discrete(2, start=3)


class FourValues(probes.Flip):
    def step(self, action):
        return super().step(action)[:4]


@pytest.mark.parametrize(
    ("env", "sentence"),
    [
        (probes.walk, "walk has other spaces than the policy was trained in: its observations are"),
        (
            Two,
            "Two has other spaces than the policy was trained in: its actions are choices 3 to 4, not choices 3 to 5",
        ),
        (FourValues, r"FourValues: step\(\) returned a tuple of 4"),
    ],
)
def test_a_loaded_agent_checks_the_environment_it_is_given(tmp_path, env, sentence):
    small(probes.flip).save(tmp_path / "agent")
    agent = toppo.load(tmp_path / "agent", env=env)
    with pytest.raises(ToppoError, match=sentence):
        agent.learn(64, workers=0)
    assert toppo.load(tmp_path / "agent", env=probes.flip).learn(64, workers=0).num_timesteps == 64


class Only(gym.Env):
    """Allows one action alone, and lasts so many steps."""

    observation_space, action_space = gym.spaces.Box(-1.0, 1.0, (2,), np.float32), gym.spaces.Discrete(3)

    def __init__(self, allowed, length):
        self.allowed, self.length = allowed, length

    def answer(self):
        return np.zeros(2, np.float32), {"action_mask": np.arange(3) == self.allowed}

    def reset(self, *, seed=None, options=None):
        self.t = 0
        return self.answer()

    def step(self, action):
        assert action == self.allowed, "an action that is not allowed"
        assert self.t < self.length, "a step after the end"
        self.t += 1
        obs, info = self.answer()
        return obs, 1.0, self.t == self.length, False, info


@pytest.mark.parametrize("mode", gym.vector.AutoresetMode)
def test_the_first_of_several_environments_is_played_in_and_the_others_follow_their_rules(mode):
    """The others end before the first does, and allow what it forbids."""
    kinds = [(0, 9), (1, 4), (2, 5)]
    agent = small(gym.vector.SyncVectorEnv([lambda k=k: Only(*k) for k in kinds], autoreset_mode=mode), n_steps=63)
    assert agent.evaluate(3) == [9.0] * 3


def test_an_agent_says_what_it_is():
    agent = small(probes.walk, seed=5)
    assert repr(agent) == f"ToPPO({agent.spec.env!r}, seed=5, num_timesteps=0)"
    assert repr(agent.learn(64, workers=0)).endswith("num_timesteps=64)")


@pytest.mark.parametrize("steps", [0, -1])
def test_learning_for_no_steps_is_refused(steps):
    with pytest.raises(ToppoError, match=f"total_timesteps is {steps}, but must be at least 1"):
        small().learn(steps)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda agent: agent.learn(1.5), "total_timesteps is 1.5, but must be a whole number"),
        (lambda agent: agent.learn("many"), "total_timesteps is 'many', but must be a whole number"),
        (lambda agent: agent.learn(64, workers=-1), "workers is -1, but must be at least 0"),
        (lambda agent: agent.learn(64, workers="2"), "workers is '2', but must be a whole number"),
        (lambda agent: agent.learn(64, env_timeout="x"), "env_timeout is 'x', but must be a number above 0"),
        (lambda agent: agent.evaluate(0), "episodes is 0, but must be at least 1"),
        (lambda agent: small(seed="a"), "seed is 'a', but must be a whole number"),
        (lambda agent: small(seed=1.5), "seed is 1.5, but must be a whole number"),
    ],
)
def test_a_wrong_argument_is_one_sentence(call, sentence):
    with pytest.raises(ToppoError, match=f"^{re.escape(sentence)}"):
        call(small())


def test_a_number_of_steps_may_be_written_as_a_float():
    assert small().learn(1e2).num_timesteps >= 100


def test_without_a_seed_each_agent_draws_its_own():
    seeds = {small(seed=None).spec.seed for _ in range(3)}
    assert len(seeds) == 3
    assert all(isinstance(seed, int) for seed in seeds)


def test_a_task_whose_episodes_end_learns_without_discount():
    agent = small(probes.walk, gamma=1.0).learn(256, workers=0)
    assert np.isfinite(agent.evaluate(2)).all()
