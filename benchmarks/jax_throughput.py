"""Steps per second on environments written in JAX, in one alternating run on a processor.

    python -m benchmarks.jax_throughput --purejaxrl PYTHON CLONE --rejax PYTHON [--repeats 7]

PureJaxRL runs from a clone and rejax 0.1.3 from its package, each with gymnax 0.0.9 in an environment of its own: name
their interpreters.  PPO, 4 epochs x 8 minibatches, two 64x64 tanh networks, nothing normalised.  The processes of a
table are open together and take turns.  Time is the processor's, of all threads, so that other work on the machine
counts less.  Tables and figure go to docs/results/jax-throughput.
"""

import argparse
import json
import statistics
import sys
from collections.abc import Callable
from pathlib import Path

from benchmarks.jax_costs import counted
from benchmarks.page import RESULTS, write_page
from benchmarks.turns import Process, take_turns
from toppo.plotting import panels, save

HERE = Path(__file__).resolve().parent
TABLES = [("CartPole-v1", 64), ("CartPole-v1", 2048), ("Breakout-MinAtar", 64), ("Breakout-MinAtar", 2048)]
ENVS = sorted({env for env, _ in TABLES})
ROWS = {64: 128, 2048: 16}  # steps of each environment in a batch
SAME = {"n_epochs": 4, "n_minibatches": 8, "hidden": (64, 64), "ent_coef": 0.01, "gamma": 0.99, "gae_lambda": 0.95}
SAME |= {"warmup_steps": 0, "normalise_obs": False, "normalise_reward": False, "max_grad_norm": 0.5}
WHOLE, ALONE, GYMNASIUM = "toppo", "toppo, collection alone", "toppo on Gymnasium's CartPole"
GYMNASIUM_ALONE = "toppo on Gymnasium's CartPole, collection alone"
GROWTH = {"CartPole-v1": (16, 128, 1024, 8192, 65536)}
# Nominal peaks: float32 operations and bytes of memory per second.
DEVICES = {"RTX 4090": (82.6e12, 1.008e12), "A100 40 GB": (19.5e12, 1.555e12), "H100 SXM": (67e12, 3.35e12)}


def main() -> None:
    """Measure and write, or be one of the processes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--purejaxrl", nargs=2, metavar=("PYTHON", "CLONE"))
    parser.add_argument("--rejax", metavar="PYTHON")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--only", nargs="+", default=ENVS, choices=ENVS, help="others keep their tables")
    parser.add_argument("--one", nargs=4, metavar=("WHAT", "ENV", "N_ENVS", "ROWS"), help="internal")
    flags = parser.parse_args()
    if flags.one:
        what, env_id, n_envs, rows = flags.one
        take_turns(prepared(what, env_id, int(n_envs), int(rows)), int(n_envs) * int(rows))
        return
    # The page names no path of this machine.
    sys.argv[1:] = ["PATH" if "/" in word else word for word in sys.argv[1:]]
    kept = RESULTS / "jax-throughput" / "results.json"
    found = json.loads(kept.read_text()) if kept.is_file() else {"tables": {}, "growth": {}}
    for env, n in TABLES:
        if env in flags.only:
            found["tables"][f"{env}, {n} environments"] = alternated(commands(flags, env, n), flags.repeats)
    found["growth"] |= {env: growth_of(env, sizes) for env, sizes in GROWTH.items() if env in flags.only}
    write(found["tables"], found["growth"], {env: counted(env, SAME) for env in ENVS})


def commands(flags: argparse.Namespace, env: str, n_envs: int) -> dict[str, list[str]]:
    """The processes of a table."""
    rows = ROWS[n_envs]
    peer = ["--env", env, "--n-envs", str(n_envs), "--rows", str(rows), "--batches", "8"]
    table = {name: own(name, f"gymnax:{env}", n_envs, rows) for name in (WHOLE, ALONE)}
    if flags.purejaxrl:
        python, clone = flags.purejaxrl
        table["PureJaxRL"] = [python, str(HERE / "peers" / "purejaxrl_ppo.py"), "--clone", clone, *peer]
    if flags.rejax:
        table["rejax"] = [flags.rejax, str(HERE / "peers" / "rejax_ppo.py"), *peer]
    if env == "CartPole-v1":
        table |= {name: own(name, env, n_envs, rows) for name in (GYMNASIUM, GYMNASIUM_ALONE)}
    return table


def own(what: str, env_id: str, n_envs: int, rows: int) -> list[str]:
    """A process of toppo."""
    return [sys.executable, "-m", "benchmarks.jax_throughput", "--one", what, env_id, str(n_envs), str(rows)]


def prepared(what: str, env_id: str, n_envs: int, rows: int) -> Callable[[], object]:
    """What takes one batch, compiled."""
    from benchmarks.training import iterations
    from toppo.collect.faults import STRICT
    from toppo.envs import resolve
    from toppo.learn.session import open_collector
    from toppo.learn.setup import initial_state
    from toppo.learn.xla import prepare
    from toppo.runs.presets import spec_for
    from toppo.runs.run import setup_for

    settings = {**SAME, "n_envs": n_envs, "n_steps": n_envs * rows, "anneal_lr": False}
    if what in (WHOLE, GYMNASIUM):
        training = iterations(env_id, "ppo", **settings)
        return lambda: next(training)
    prepare()
    source = resolve(env_id)
    setup = setup_for(spec_for(env_id, "ppo", 10**9, 0, "paper", **settings), source)
    state = initial_state(setup)
    collector = open_collector(setup, source, 0, STRICT)

    def collect() -> None:
        nonlocal state
        collector.start(state)
        collector.finish()
        collector.batch()
        state = state._replace(episodes=collector.statistics(state).episodes)

    return collect


def alternated(table: dict[str, list[str]], repeats: int) -> dict[str, list[tuple[float, float]]]:
    """Measurements of all rows of a table, in turns."""
    open_ones = {}
    for name, command in table.items():
        n_envs, rows = (
            int(command[command.index(flag) + 1]) if flag in command else 0 for flag in ("--n-envs", "--rows")
        )
        open_ones[name] = Process(command, 8 * n_envs * rows)
    found = {name: [] for name in table}
    for number in range(repeats):
        for name, process in open_ones.items():
            found[name].append(process.measure(number))
            print(f"{name:<50} {found[name][-1][1]:>12,.0f} steps per second of the processor", flush=True)
    for process in open_ones.values():
        process.close()
    return found


def growth_of(env: str, sizes: tuple[int, ...], repeats: int = 3) -> dict[str, dict[int, float]]:
    """Steps per second of the processor by the number of environments; batches of 16 steps of each, at least 2048."""
    found: dict[str, dict[int, float]] = {WHOLE: {}, ALONE: {}}
    for n in sizes:
        for what in found:
            process = Process(own(what, f"gymnax:{env}", n, max(16, 2048 // n)), 0)
            found[what][n] = statistics.median(process.measure(i)[1] for i in range(repeats))
            process.close()
            print(f"{env}, {n} environments, {what}: {found[what][n]:,.0f}", flush=True)
    return found


def write(tables: dict, growth: dict, costs: dict) -> None:
    """The record, its tables and its figure."""
    lines = ["Steps per second of the processor: its time is that of all threads, and the machine did other work too."]
    lines += ["Medians, and the range. The rows of a table took turns; the tables were measured one after the other."]
    for title, rows in tables.items():
        lines += [
            "",
            f"## {title}",
            "",
            "| | steps per second of the processor | range | toppo is |",
            "|---|---:|---:|---:|",
        ]
        for name, values in rows.items():
            speeds = [v[1] for v in values]
            mine = rows[ALONE if name == GYMNASIUM_ALONE else WHOLE]
            ratio = "" if name in (WHOLE, ALONE) else ratios([v[1] for v in mine], speeds)
            lines.append(
                f"| {name} | {statistics.median(speeds):,.0f} | {min(speeds):,.0f} to {max(speeds):,.0f} | {ratio} |"
            )
    lines += ["", "## Growth", "", "![growth](growth.png)", ""]
    for env, rows in growth.items():
        sizes = rows[WHOLE]
        lines += [f"| {env} | " + " | ".join(f"{int(n):,}" for n in sizes) + " |", "|---|" + "---:|" * len(sizes)]
        lines += [f"| {what} | " + " | ".join(f"{v:,.0f}" for v in row.values()) + " |" for what, row in rows.items()]
        lines += [""]
    lines += on_a_device(costs)
    record = {"tables": tables, "growth": growth, "counted": costs}
    save(drawn(growth), write_page("jax-throughput", "Environments written in JAX", lines, record) / "growth.png")


def ratios(ours: list[float], theirs: list[float]) -> str:
    """Median over median, and the range over neighbours in time."""
    pairs = [a / b for a, b in zip(ours, theirs, strict=True)]
    return f"{statistics.median(ours) / statistics.median(theirs):.2f}x as fast ({min(pairs):.2f} to {max(pairs):.2f})"


def on_a_device(costs: dict) -> list[str]:
    """What a step costs, and the steps per second at which each device would reach one of its limits."""
    limits = "; ".join(f"{name} {a / 1e12:g} and {b / 1e12:g}" for name, (a, b) in DEVICES.items())
    lines = [
        "## On paper",
        "",
        "Operations and bytes of a step as XLA counts them, then the steps per second that a device allows at most.",
        f"Nominal peaks of the devices, in 10^12 float32 operations and 10^12 bytes per second: {limits}.",
        "Nothing was run on one of them, and short programs do not come near such peaks.",
        "",
    ]
    lines += ["| | " + " | ".join(costs) + " |", "|---|" + "---:|" * len(costs)]
    for name in next(iter(costs.values())):
        lines.append(f"| {name} | " + " | ".join(f"{c[name]:,.0f}" for c in costs.values()) + " |")
    for device, (flops, width) in DEVICES.items():
        limits = [1 / max(operations(c) / flops, traffic(c) / width) for c in costs.values()]
        lines.append(f"| {device}: million steps per second | " + " | ".join(f"{x / 1e6:,.0f}" for x in limits) + " |")
    return lines


def operations(cost: dict[str, float]) -> float:
    """Operations of a step."""
    return sum(v for name, v in cost.items() if name.endswith("operations"))


def traffic(cost: dict[str, float]) -> float:
    """Bytes of a step."""
    return sum(v for name, v in cost.items() if name.endswith("bytes"))


def drawn(growth: dict):
    """Steps per second against the number of environments."""
    sheet, axes = panels(len(growth))
    for axis, (env, rows) in zip(axes, growth.items(), strict=True):
        for (what, row), colour in zip(rows.items(), ("#0b7fb0", "#d1603d"), strict=True):
            axis.loglog([int(n) for n in row], list(row.values()), "o-", color=colour, label=what, base=2)
        axis.set_xlabel("environments", fontsize=8)
        axis.set_ylabel("steps per second of the processor", fontsize=8)
        axis.set_title(env, fontsize=9)
        axis.legend(fontsize=7)
    return sheet


if __name__ == "__main__":
    main()
