"""Scores of random and of human play on Atari, between which scores are compared across games."""

# (random, human), the values in common use; there are none for Carnival and Pooyan.
SCORES: dict[str, tuple[float, float]] = {
    "BattleZone": (2360.0, 37187.5),
    "Breakout": (1.7, 30.5),
    "Centipede": (2090.9, 12017.0),
    "CrazyClimber": (10780.5, 35829.4),
    "Enduro": (0.0, 860.5),
    "FishingDerby": (-91.7, -38.7),
    "Gopher": (257.6, 2412.5),
    "Gravitar": (173.0, 3351.4),
    "Krull": (1598.0, 2665.5),
    "KungFuMaster": (258.5, 22736.3),
    "MsPacman": (307.3, 6951.6),
    "NameThisGame": (2292.3, 8049.0),
    "Qbert": (163.9, 13455.0),
}


def game_of(env_id: str) -> str:
    """The game of an id: ``BreakoutNoFrameskip-v4`` and ``ALE/Breakout-v5`` are Breakout."""
    return env_id.removeprefix("ALE/").partition("-v")[0].removesuffix("NoFrameskip")


def human_normalised(env_id: str, score: float) -> float | None:
    """(score - random) / (human - random); None where no such scores are in use."""
    known = SCORES.get(game_of(env_id))
    return None if known is None else (score - known[0]) / (known[1] - known[0])
