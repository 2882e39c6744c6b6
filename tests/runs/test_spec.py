import dataclasses
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toppo.algos import REGISTRY
from toppo.algos.settings import Common, help_texts, schedules_of
from toppo.algos.toppo import ToPPOConfig
from toppo.errors import BAD_DATA, USAGE, ToppoError
from toppo.runs.presets import PAPER_TASKS, PRESETS, defaults, spec_for
from toppo.runs.spec import Spec, from_json, settings_from, spec_hash, to_json
from toppo.studies.paper import PAPER
from toppo.studies.study import jobs_of

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**400), 10**400) | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
KINDS = [Common, *(a.config for a in REGISTRY.values())]


def example(algo="toppo", **settings):
    return spec_for("Pendulum-v1", algo, 5000, 3, "paper", **settings)


POINTS = st.lists(st.integers(0, 10**6), min_size=2, max_size=4, unique=True).map(
    lambda found: tuple((n / 10**6, 0.1 + n) for n in sorted(found))
)


@pytest.mark.parametrize("algo", REGISTRY)
@given(
    st.integers(1, 10**9),
    st.integers(0, 2**31 - 1),
    st.floats(0, 0.999),
    st.floats(1e-6, 1.0) | POINTS,
    st.lists(st.integers(1, 300), max_size=3),
    st.booleans(),
)
def test_every_spec_survives_its_json(algo, steps, seed, gamma, lr, hidden, flag):
    settings = {
        "gamma": gamma,
        "learning_rate": lr,
        "hidden": tuple(hidden),
        "anneal_lr": flag and isinstance(lr, float),
        "ent_coef": lr,
        "normalise_obs": not flag,
    }
    spec = spec_for("Some/Env-v3", algo, steps, seed, **settings)
    text = json.dumps(to_json(spec), allow_nan=False)
    assert from_json(json.loads(text)) == spec
    assert spec_hash(from_json(json.loads(text))) == spec_hash(spec)


def test_the_json_holds_every_setting():
    data = to_json(example())
    assert set(data) == {"schema", "env", "algo", "total_timesteps", "seed", "common", "config", "env_kwargs"}
    assert set(data["common"]) == {f.name for f in dataclasses.fields(Common)}
    assert set(data["config"]) == {f.name for f in dataclasses.fields(ToPPOConfig)}


def test_a_changed_setting_changes_the_hash():
    hashes = {
        spec_hash(example()),
        spec_hash(example(gamma=0.9)),
        spec_hash(example(alpha=0.1)),
        spec_hash(example("ppo")),
    }
    assert len(hashes) == 4


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda d: d.update(schema=1), "the spec has schema 1, but this version of toppo reads 2"),
        (lambda d: d.update(colour="red"), "spec has no setting `colour`: choose one of algo, common, config, "),
        (lambda d: d["common"].update(gama=0.9), "Common has no setting `gama`: did you mean `gamma`?"),
        (lambda d: d["config"].update(alph=1), "ToPPOConfig has no setting `alph`: did you mean `alpha`?"),
        (lambda d: d["common"].update(gamma="0.9"), "gamma is '0.9', but must be a float"),
        (lambda d: d["common"].update(gamma=1.5), "gamma is 1.5, but must be in [0, 1]"),
        (lambda d: d["common"].update(n_epochs=2.5), "n_epochs is 2.5, but must be a int"),
        (lambda d: d["common"].update(n_epochs=True), "n_epochs is True, but must be a int"),
        (lambda d: d["common"].update(hidden=[8, "x"]), "hidden is 'x', but must be a int"),
        (lambda d: d["common"].update(hidden=8), "hidden is 8, but must be a tuple"),
        (lambda d: d["common"].update(anneal_lr=1), "anneal_lr is 1, but must be a bool"),
        (lambda d: d["common"].update(learning_rate="linear"), "learning_rate is 'linear', but must be a float"),
        (lambda d: d["common"].update(ent_coef=[[0, 1], [2, 0]]), "ent_coef is [[0, 1], [2, 0]], but must be a float"),
        (lambda d: d.update(total_timesteps="many"), "total_timesteps is 'many', but must be a int"),
        (lambda d: d.update(env=3), "env is 3, but must be a str"),
        (lambda d: d.update(algo="sac"), "'sac' is not an algorithm: choose one of toppo, ppo"),
        (lambda d: d.pop("seed"), "it lacks 'seed'"),
        (lambda d: d.update(common=[]), "the spec cannot be used"),
        (lambda d: d.update(config=None), "the spec cannot be used"),
        (lambda d: d["common"].update(learning_rate=10**400), "the spec cannot be used"),
    ],
)
def test_a_wrong_file_is_refused_in_one_sentence(change, sentence):
    data = to_json(example())
    change(data)
    with pytest.raises(ToppoError) as refusal:
        from_json(data)
    assert sentence in str(refusal.value)
    assert "\n" not in str(refusal.value)
    assert refusal.value.code == (USAGE if "not an algorithm" in sentence else BAD_DATA)


@given(JSON, st.sampled_from(["env", "algo", "total_timesteps", "seed", "common", "config", "schema", "x"]))
def test_no_file_leads_to_another_error(value, key):
    data = to_json(example())
    data[key] = value
    for candidate in (data, value):
        try:
            spec = from_json(candidate)
        except ToppoError:
            continue
        assert from_json(json.loads(json.dumps(to_json(spec)))) == spec


@given(st.data(), JSON)
def test_no_value_of_a_setting_leads_to_another_error(data, value):
    kind = data.draw(st.sampled_from(KINDS))
    name = data.draw(st.sampled_from([f.name for f in dataclasses.fields(kind)]))
    try:
        settings = settings_from(kind, {name: value})
    except ValueError as error:
        sentence = str(error)
    else:
        sentence = name
        schedule = name in schedules_of(kind) and isinstance(value, list | tuple)
        assert type(getattr(settings, name)) is (tuple if schedule else type(getattr(kind(), name)))
    assert name in sentence


def test_linear_starts_at_the_default_of_the_environment():
    common, config = defaults("ppo", "BreakoutNoFrameskip-v4")
    settings = {"learning_rate": "linear", "anneal_lr": False, "clip_range": "linear", "ent_coef": "linear"}
    spec = spec_for("BreakoutNoFrameskip-v4", "ppo", 1000, 0, **settings)
    assert spec.common.learning_rate == ((0.0, common.learning_rate), (1.0, 0.0))
    assert spec.common.ent_coef == ((0.0, common.ent_coef), (1.0, 0.0))
    assert spec.config.clip_range == ((0.0, config.clip_range), (1.0, 0.0))
    assert to_json(spec)["common"]["learning_rate"] == [[0.0, common.learning_rate], [1.0, 0.0]]


def test_a_missing_setting_takes_its_default():
    data = to_json(example())
    del data["common"]["vf_coef"]
    assert from_json(data) == example()


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"total_timesteps": 0}, "total_timesteps is 0, but must be at least 1"),
        ({"seed": -1}, "seed is -1, but must be in [0, 2^31)"),
        ({"seed": 2**31}, "but must be in [0, 2^31)"),
        ({"n_steps": 1000, "n_envs": 3}, "n_steps is 1000, but must be a multiple of n_envs = 3"),
        ({"n_steps": 16, "n_envs": 1}, "n_steps is 16, but must be at least n_minibatches = 32"),
        ({"gamma": -0.1}, "gamma is -0.1, but must be in [0, 1]"),
        ({"gae_lambda": 1.1}, "gae_lambda is 1.1, but must be in [0, 1]"),
        ({"n_epochs": 0}, "n_epochs is 0, but must be at least 1"),
        ({"learning_rate": 0.0}, "learning_rate is 0.0, but must be above 0"),
        ({"learning_rate": float("nan")}, "learning_rate is nan"),
        ({"max_grad_norm": -1.0}, "max_grad_norm is -1.0, but must be 0 or more"),
        ({"hidden": (8, 0)}, "hidden is (8, 0), but every width must be at least 1"),
        (
            {"learning_rate": "x"},
            "learning_rate is 'x', but must be a float, 'linear', or pairs of a fraction of the run",
        ),
        ({"learning_rate": [[0, 0.1], [0.5, 0], [1, 0]]}, "learning_rate is 0.0, but must be above 0 until the end of"),
        ({"ent_coef": [[0, 0.1], [1, -0.1]]}, "ent_coef is -0.1, but must be 0 or more"),
        ({"ent_coef": "linear"}, "ent_coef is 'linear', but its default is 0: say where it starts, as in [[0, 0.01], "),
        ({"clip_range": [[0.5, 0.1], [0.2, 0.1]]}, "whose fractions rise within [0, 1]"),
        ({"gamma": "linear"}, "gamma is 'linear', but must be a float"),
        ({"learning_rate": "linear", "anneal_lr": True}, "learning_rate is a schedule already: use --no-anneal-lr"),
        ({"hidden_critic": (0,)}, "hidden_critic is (0,), but every width must be at least 1"),
        ({"hidden_critic": (8,), "shared_trunk": True}, "with shared_trunk the critic has no layers of its own"),
        ({"hidden_critic": (10**5, 10**5)}, "hidden_critic is (100000, 100000), which is more than 10^9 weights"),
        ({"activation": "cos"}, "activation is 'cos', but must be one of tanh, relu, elu, silu, gelu"),
        ({"last_layer_gain": 0.0}, "last_layer_gain is 0.0, but must be above 0"),
        ({"clip_range": 0.0}, "clip_range is 0.0, but must be above 0"),
        ({"n_policies": 0}, "n_policies is 0, but must be at least 1"),
        ({"alpha": -0.1}, "alpha is -0.1, but must be 0 or more"),
        ({"nonsense": 1}, "ToPPO has no setting `nonsense`: choose one of activation, adam_eps, "),
        ({"learning_rat": 1}, "ToPPO has no setting `learning_rat`: did you mean `learning_rate`?"),
    ],
)
def test_wrong_settings_name_the_value_and_the_rule(settings, sentence):
    settings = dict(settings)
    total_timesteps = settings.pop("total_timesteps", 100)
    seed = settings.pop("seed", 0)
    with pytest.raises(ValueError) as refusal:
        spec_for("Pendulum-v1", "toppo", total_timesteps, seed, "paper", **settings)
    assert sentence in str(refusal.value)


@pytest.mark.parametrize(
    "name", ["learning_rate", "adam_eps", "log_std_init", "ent_coef", "max_grad_norm", "clip_range", "alpha"]
)
def test_settings_that_no_json_can_hold_are_refused(name):
    with pytest.raises(ValueError, match=name):
        example(**{name: float("inf")})


def test_every_setting_has_a_line_of_text():
    for kind in KINDS:
        for name, text in help_texts(kind).items():
            assert text.endswith("."), name
            assert "\n" not in text


def test_the_papers_table():
    """Appendix A.3 of the paper, and what the authors' code adds to it."""
    common, config = defaults("toppo", "HalfCheetah-v5", "paper")
    assert (common.gamma, common.gae_lambda, common.learning_rate, common.n_epochs, common.n_minibatches) == (
        0.995,
        0.97,
        3e-4,
        10,
        32,
    )
    assert (common.hidden, common.max_grad_norm, common.adam_eps, common.warmup_steps) == ((64, 64), 0.5, 1e-7, 2048)
    assert (common.log_std_init, common.ent_coef, common.anneal_lr, common.n_envs) == (0.0, 0.0, False, 1)
    assert (config.n_steps, config.n_policies, config.clip_range, config.alpha) == (1024, 5, 0.1, 0.03)
    assert (config.select, config.early_stop, config.critic_on_old) == (True, True, True)
    assert (config.adapt_eps, config.recompute_adv, config.adapt_lr) == (False, False, False)
    _, ppo = defaults("ppo", "HalfCheetah-v5", "paper")
    assert (ppo.n_steps, ppo.clip_range, ppo.early_stop, ppo.adapt_lr) == (2048, 0.2, False, False)
    assert len(PAPER_TASKS) == 7


def test_specs_are_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        example().seed = 4
    assert isinstance(example(), Spec)


def test_studies_of_the_paper_keep_its_settings():
    """Their curves are those of the paper, whatever the defaults become."""
    own = {name: {grid.preset for grid in study.grids} for name, study in PAPER.items()}
    others = {name: presets for name, presets in own.items() if presets != {"paper"}}
    assert others == {name: {"default"} for name in ("defaults", "defaults-discrete", "minatar")}
    spec = jobs_of(PAPER["performance"])[0].spec
    assert (spec.common.n_envs, spec.common.log_std_init, spec.common.gamma) == (1, 0.0, 0.995)


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("env", ["gymnax:CartPole-v1", "gymnax:Breakout-MinAtar", "Hopper-v5", "CartPole-v1"])
def test_every_preset_is_complete_for_every_algorithm_and_kind_of_environment(preset, env):
    for algo in REGISTRY:
        common, _ = defaults(algo, env, preset)
        assert common.n_envs > 0


def test_an_unknown_preset_is_answered_with_the_known_ones():
    with pytest.raises(ToppoError, match="'papers' is not a preset: did you mean `paper`"):
        spec_for("Pendulum-v1", "ppo", 1000, 0, preset="papers")
