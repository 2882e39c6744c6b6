"""The defaults of Stable-Baselines3's PPO beside toppo's, as Markdown."""

from toppo.runs.presets import defaults

STABLE_BASELINES = {
    "n_steps": "2048 per environment",
    "n_minibatches": "32 (batch_size=64)",
    "n_epochs": "10",
    "learning_rate": "0.0003",
    "gamma": "0.99",
    "gae_lambda": "0.95",
    "clip_range": "0.2",
    "early_stop": "False (target_kl=None)",
    "ent_coef": "0.0",
    "max_grad_norm": "0.5",
    "adam_eps": "1e-05",
    "hidden": "(64, 64)",
    "activation": "tanh",
    "log_std_init": "0.0",
    "normalise_obs": "False",
    "normalise_reward": "False",
    "warmup_steps": "0",
}


def sb3_defaults() -> str:
    """A row for each setting of Stable-Baselines3's PPO that toppo has."""
    columns = [vars(common) | vars(config) for common, config in (defaults("ppo", ""), defaults("toppo", ""))]
    rows = ["| setting | Stable-Baselines3 PPO | toppo.PPO | toppo.ToPPO |", "|---|---|---|---|"]
    for name, theirs in STABLE_BASELINES.items():
        rows.append(f"| `{name}` | {theirs} | {columns[0][name]} | {columns[1][name]} |")
    return "\n".join(rows)
