"""Realistic bugs, put in one at a time: do the tests notice?

    python -m benchmarks.mutants [--only PART_OF_A_NAME ...] [--check]

A mutant replaces one piece of text in a temporary copy of the repository, and the tests that guard it are run there.
``caught``: a test failed, or did not end in time.  ``survived``: all passed, so a test is missing.  ``stale``: the text
is not in the file exactly once, so the table must follow the code; ``--check`` runs no tests and prints only these.
The byte guard, which notices any change of the numbers, is not among the tests.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
SECONDS = 900  # for the tests of one mutant


class Mutant(NamedTuple):
    """A bug: ``old`` becomes ``new`` in a file of the package, and these tests must fail."""

    name: str
    file: str  # below src/toppo
    old: str
    new: str
    tests: str  # below tests, with spaces between them


MUTANTS = [
    # Estimators
    Mutant(
        "advantages: the value after a death counts",
        "maths/advantages.py",
        "jnp.where(terminated, 0.0, next_value)",
        "next_value",
        "maths/test_advantages.py",
    ),
    Mutant(
        "advantages: traces run on over the end of an episode",
        "maths/advantages.py",
        " * jnp.where(ended, 0.0, 1.0), after)",
        ", after)",
        "maths/test_advantages.py",
    ),
    Mutant(
        "advantages: the ratio is not truncated",
        "maths/advantages.py",
        "h = jnp.minimum(1.0, ratio)",
        "h = ratio",
        "maths/test_advantages.py",
    ),
    Mutant(
        "advantages: the step's own ratio in its trace",
        "maths/advantages.py",
        "gamma * lam * h_next *",
        "gamma * lam * h *",
        "maths/test_advantages.py",
    ),
    Mutant(
        "advantages: no lambda",
        "maths/advantages.py",
        "gamma * lam * h_next *",
        "gamma * h_next *",
        "maths/test_advantages.py",
    ),
    Mutant(
        "advantages: the critic's target without the ratio",
        "maths/advantages.py",
        "value + h * adv",
        "value + adv",
        "maths/test_advantages.py",
    ),
    Mutant(
        "advantages: the trace from the next batch is lost",
        "maths/advantages.py",
        "jnp.zeros_like(x[0]) if after is None else after",
        "jnp.zeros_like(x[0])",
        "maths/test_advantages.py algos/test_disc.py",
    ),
    Mutant(
        "advantages: standardised by the deviation of A alone",
        "maths/advantages.py",
        "(weighted.std(where=present) + 1e-8)",
        "(adv.std(where=present) + 1e-8)",
        "maths/test_advantages.py",
    ),
    Mutant(
        "surrogates: the better of the two",
        "maths/surrogates.py",
        "jnp.minimum(ratio * adv, jnp.clip(ratio, low",
        "jnp.maximum(ratio * adv, jnp.clip(ratio, low",
        "maths/test_surrogates.py",
    ),
    Mutant(
        "surrogates: clipped around 1 from above",
        "maths/surrogates.py",
        "jnp.maximum(centre - clip_eps, 0.0), centre + clip_eps",
        "jnp.maximum(centre - clip_eps, 0.0), 1.0 + clip_eps",
        "maths/test_surrogates.py",
    ),
    Mutant(
        "surrogates: a factor becomes a sum",
        "maths/surrogates.py",
        "(1.0 + clip_eps) * centre",
        "centre + clip_eps",
        "maths/test_surrogates.py",
    ),
    Mutant(
        "surrogates: Lemma 4.1 with |M| + 3",
        "maths/surrogates.py",
        "4 * ppo_eps / (size + 4)",
        "4 * ppo_eps / (size + 3)",
        "maths/test_surrogates.py",
    ),
    Mutant(
        "surrogates: DISC clips the wrong side",
        "maths/surrogates.py",
        "jnp.where(adv < 0, -1.0, 1.0)",
        "jnp.where(adv < 0, 1.0, -1.0)",
        "maths/test_surrogates.py",
    ),
    Mutant(
        "surrogates: total variation without weights",
        "maths/surrogates.py",
        "jnp.mean(weight * jnp.abs(ratio - centre))",
        "jnp.mean(jnp.abs(ratio - centre))",
        "maths/test_surrogates.py",
    ),
    Mutant(
        "distributions: KL the wrong way round",
        "maths/distributions.py",
        "log_ratio = p.log_std - q.log_std",
        "log_ratio = q.log_std - p.log_std",
        "maths/test_distributions.py",
    ),
    Mutant(
        "distributions: KL of choices under q",
        "maths/distributions.py",
        "(jnp.exp(log_p) * (log_p - jax.nn.log_softmax(q.logits)))",
        "(jax.nn.softmax(q.logits) * (log_p - jax.nn.log_softmax(q.logits)))",
        "maths/test_distributions.py",
    ),
    Mutant(
        "distributions: entropy without its constant",
        "maths/distributions.py",
        "0.5 * (LOG_2PI + 1.0)",
        "0.5 * LOG_2PI",
        "maths/test_distributions.py",
    ),
    Mutant("moments: a biased variance", "maths/moments.py", "max(1.0, total - 1)", "total", "maths/test_moments.py"),
    Mutant(
        "moments: the distance of the means is forgotten",
        "maths/moments.py",
        "(new / total) * old.n * np.square(mean - old.mean)",
        "0.0 * mean",
        "maths/test_moments.py",
    ),
    Mutant(
        "moments: nothing is clipped",
        "maths/moments.py",
        "jnp.clip((x - mean) * inv_std, -bound, bound)",
        "(x - mean) * inv_std",
        "maths/test_moments.py",
    ),
    Mutant(
        "trust region: no damping",
        "maths/trust_region.py",
        "curved + damping * v",
        "curved",
        "maths/test_trust_region.py",
    ),
    Mutant(
        "trust region: every try is as long as the second",
        "maths/trust_region.py",
        "shrink**state.tried",
        "shrink",
        "maths/test_trust_region.py",
    ),
    Mutant(
        "trust region: conjugate directions with the inverse factor",
        "maths/trust_region.py",
        "new_square / square",
        "square / new_square",
        "maths/test_trust_region.py",
    ),
    # Algorithms
    Mutant(
        "optimise: line search without the surrogate's condition",
        "algos/optimise.py",
        " & (mean_surrogate(theta) >= before)",
        "",
        "algos/test_line_search.py",
    ),
    Mutant(
        "optimise: line search without the slack",
        "algos/optimise.py",
        "region.slack * region.delta",
        "region.delta",
        "algos/test_line_search.py",
    ),
    Mutant(
        "optimise: early stop measured from mu",
        "algos/optimise.py",
        "total_variation(ratio, sample.centre, sample.weight)",
        "total_variation(ratio, jnp.ones_like(ratio), sample.weight)",
        "algos/test_early_stop.py",
    ),
    Mutant(
        "optimise: early stop at twice the distance",
        "algos/optimise.py",
        "measured_update(problem, policy)[0].tv <= problem.clip_eps / 2",
        "measured_update(problem, policy)[0].tv <= problem.clip_eps",
        "algos/test_early_stop.py learn/test_loop.py",
    ),
    Mutant(
        "optimise: gradients are not clipped",
        "algos/optimise.py",
        "jnp.minimum(1.0, max_grad_norm / (norm + 1e-12))",
        "1.0",
        "algos/test_optimise.py",
    ),
    Mutant(
        "optimise: descent",
        "algos/optimise.py",
        "theta + lr * direction",
        "theta - lr * direction",
        "algos/test_optimise.py",
    ),
    Mutant(
        "optimise: the learning rate adapts the wrong way",
        "algos/optimise.py",
        "tv > bound, lr_scale / 1.03",
        "tv > bound, lr_scale * 1.03",
        "algos/test_optimise.py",
    ),
    Mutant(
        "optimise: the adapted learning rate is not used",
        "algos/optimise.py",
        "lr = problem.lr * problem.lr_scale",
        "lr = problem.lr",
        "algos/test_optimise.py algos/test_geppo.py algos/test_settings.py",
    ),
    Mutant(
        "optimise: the critic's clip takes the smaller error",
        "algos/optimise.py",
        "jnp.maximum(error, jnp.square(near - ret))",
        "jnp.minimum(error, jnp.square(near - ret))",
        "algos/test_optimise.py",
    ),
    Mutant(
        "optimise: the critic ignores weights",
        "algos/optimise.py",
        "-0.5 * jnp.mean(weight * jnp.square(ret",
        "-0.5 * jnp.mean(jnp.square(ret",
        "algos/test_objectives.py",
    ),
    Mutant(
        "optimise: entropy is a penalty",
        "algos/optimise.py",
        "return coef * problem.net",
        "return -coef * problem.net",
        "algos/test_objectives.py",
    ),
    Mutant(
        "optimise: advantages are not standardised",
        "algos/optimise.py",
        "adv = standardise(batch.adv, batch.centre * batch.weight)",
        "adv = batch.adv",
        "algos/test_limits.py",
    ),
    Mutant(
        "optimise: a shared trunk climbs the critic's loss",
        "algos/optimise.py",
        "gain - common.vf_coef * loss",
        "gain + common.vf_coef * loss",
        "learn/test_any_space.py",
    ),
    Mutant(
        "optimise: ToPPO's trust region bounds the KL from pi_k",
        "algos/optimise.py",
        "mean_kl_from(sample.dist_mu if from_mu else sample.dist_k)",
        "mean_kl_from(sample.dist_k)",
        "algos/test_step.py",
    ),
    Mutant(
        "toppo: the far batches are kept",
        "algos/toppo.py",
        "d <= config.alpha",
        "d > config.alpha",
        "learn/test_loop.py",
    ),
    Mutant(
        "toppo: the adaptive clip range is half as wide",
        "algos/toppo.py",
        "lemma_4_1(2 * clip_range, len(memory))",
        "lemma_4_1(clip_range, len(memory))",
        "algos/test_objectives.py",
    ),
    Mutant(
        "steps: one batch too many is kept",
        "algos/steps.py",
        "(n_policies - 1)) :]",
        "n_policies) :]",
        "learn/test_loop.py",
    ),
    Mutant(
        "steps: the newest batch is drawn as an old one too",
        "algos/steps.py",
        "old = list(memory[:-1])",
        "old = list(memory)",
        "algos/test_objectives.py",
    ),
    Mutant(
        "steps: the learning rate always falls",
        "algos/steps.py",
        "(progress if common.anneal_lr else 0.0)",
        "progress",
        "algos/test_optimise.py",
    ),
    Mutant(
        "steps: minibatches in the order of time",
        "algos/steps.py",
        "rng.permuted(np.tile(np.arange(count, dtype=np.int32), (common.n_epochs, 1)), axis=1)",
        "np.tile(np.arange(count, dtype=np.int32), (common.n_epochs, 1))",
        "algos/test_optimise.py",
    ),
    Mutant(
        "geppo: the clip range is not divided by the age",
        "algos/geppo.py",
        "value_at(config.clip_range, progress) / float(nu @ np.arange(1, len(nu) + 1))",
        "value_at(config.clip_range, progress)",
        "algos/test_geppo.py",
    ),
    Mutant(
        "geppo: weights sum to one",
        "algos/geppo.py",
        "for w in held * len(held))",
        "for w in held)",
        "algos/test_geppo.py",
    ),
    Mutant(
        "disc: far batches take part",
        "algos/disc.py",
        "gap <= config.eps_b",
        "gap > config.eps_b",
        "algos/test_disc.py",
    ),
    Mutant(
        "disc: padding counts",
        "algos/disc.py",
        "(0.0,) * padding",
        "(1.0,) * padding",
        "algos/test_disc.py",
    ),
    Mutant(
        "disc: the penalty is of all samples",
        "algos/disc.py",
        "(newest * jnp.square(log_ratio.sum(-1))).sum() / newest.sum()",
        "jnp.square(log_ratio.sum(-1)).mean()",
        "algos/test_disc.py",
    ),
    Mutant(
        "disc: the penalty's weight falls when it should grow",
        "algos/disc.py",
        "penalty > 1.5 * target, 2.0",
        "penalty > 1.5 * target, 0.5",
        "algos/test_disc.py",
    ),
    Mutant(
        "oppo: V-trace where GAE was asked for",
        "algos/oppo.py",
        "label_vtrace(config, path) if config.vtrace else label_gae(config, path)",
        "label_gae(config, path) if config.vtrace else label_vtrace(config, path)",
        "algos/test_objectives.py",
    ),
    Mutant(
        "otrpo: the radius does not adapt",
        "algos/otrpo.py",
        "delta = radius_after_drift(delta, drift)",
        "pass",
        "algos/test_limits.py",
    ),
    # Learning
    Mutant(
        "programs: rewards neither scaled nor clipped",
        "learn/programs.py",
        "normalise(reward, jnp.zeros(()), segment.normaliser.reward_scale)",
        "reward",
        "learn/test_labels.py",
    ),
    Mutant(
        "programs: rewards are not clipped",
        "learn/programs.py",
        "normalise(reward, jnp.zeros(()), segment.normaliser.reward_scale)",
        "reward * segment.normaliser.reward_scale",
        "learn/test_labels.py",
    ),
    Mutant(
        "programs: DISC's inclusion by the joint ratio",
        "learn/programs.py",
        "family.log_prob_per_dimension(dist, action) - log_mu",
        "family.log_prob(dist, action) - flat(segment.logp)",
        "learn/test_labels.py",
    ),
    Mutant(
        "programs: the centre of old data is 1",
        "learn/programs.py",
        "jnp.exp(family.log_prob(dist_k, action) - logp) if value is None else ones",
        "ones",
        "learn/test_loop.py",
    ),
    Mutant(
        "programs: the trace to the batch before without its ratio",
        "learn/programs.py",
        "jnp.minimum(1.0, ratio[0]) * adv[0]",
        "adv[0]",
        "algos/test_disc.py",
    ),
    Mutant(
        "programs: with images, what follows a death is read",
        "learn/programs.py",
        "segment.ended & ~segment.terminated",
        "segment.ended",
        "learn/test_programs.py learn/test_any_space.py",
    ),
    Mutant(
        "programs: the memory's KL the wrong way round",
        "learn/programs.py",
        "net.family.kl(jax.tree.map(flat, segment.dist), dist).mean()",
        "net.family.kl(dist, jax.tree.map(flat, segment.dist)).mean()",
        "learn/test_loop.py",
    ),
    Mutant(
        "programs: explained variance of the returns alone",
        "learn/programs.py",
        "(ret - value).var()",
        "ret.var()",
        "learn/test_programs.py",
    ),
    Mutant(
        "loop: one stream keeps old normalisers",
        "learn/loop.py",
        "newest.normaliser if self.traits.traces_cross_batches else old.normaliser",
        "old.normaliser",
        "algos/test_disc.py",
    ),
    Mutant(
        "loop: traces cross a reset",
        "learn/loop.py",
        "self.traits.traces_cross_batches and not self.setup.common.reset_each_batch",
        "self.traits.traces_cross_batches",
        "algos/test_disc.py",
    ),
    Mutant(
        "loop: the policy of the warm-up sees normalised observations",
        "learn/loop.py",
        "state._replace(obs_moments=no_data(state.obs_moments.mean.shape))",
        "state",
        "learn/test_loop.py",
    ),
    Mutant(
        "loop: the critic never trains on old data",
        "learn/loop.py",
        "sample if self.traits.critic_on_old else parts[0]",
        "parts[0]",
        "algos/test_contract.py learn/test_loop.py",
    ),
    Mutant(
        "loop: every iteration has the same minibatches",
        "learn/loop.py",
        "Stream.MINIBATCHES, k)",
        "Stream.MINIBATCHES, 0)",
        "learn/test_loop.py",
    ),
    Mutant(
        "normaliser: returns are not discounted",
        "learn/normaliser.py",
        "now + gamma * later",
        "now + later",
        "learn/test_loop.py",
    ),
    Mutant(
        "normaliser: cut episodes count although others ended",
        "learn/normaliser.py",
        "warmed_up and not rewards and state",
        "warmed_up and state",
        "learn/test_loop.py",
    ),
    Mutant(
        "critic: an epoch too many beside an early-stopping policy",
        "learn/critic.py",
        "results[epochs.result() - 1]",
        "results[-1]",
        "learn/test_critic.py learn/test_loop.py",
    ),
    Mutant(
        "metrics: episodes are logged a step early",
        "learn/metrics.py",
        "+ f.env + 1 for f",
        "+ f.env for f",
        "learn/test_loop.py",
    ),
    # Collection
    Mutant(
        "actor: normalised observations are not clipped from above",
        "collect/actor.py",
        "        minimum(x0, top, out=x0)\n",
        "",
        "collect/test_actor.py",
    ),
    Mutant(
        "actor: noise of deviation 1",
        "collect/actor.py",
        "last + stds * noise",
        "last + noise",
        "collect/test_actor.py",
    ),
    Mutant(
        "worker: the first observation of the next episode follows the last of this one",
        "collect/worker.py",
        ", where=~b.ended[:-1, columns, None])",
        ")",
        "collect/test_pool.py",
    ),
    Mutant(
        "worker: all environments have the same seeds",
        "collect/worker.py",
        "Stream.ENV_RESET, i, self.started[i] - 1",
        "Stream.ENV_RESET, 0, self.started[i] - 1",
        "collect/test_pool.py",
    ),
    Mutant(
        "worker: every end is a death",
        "collect/worker.py",
        "self.buffers.terminated[t, i] = terminated",
        "self.buffers.terminated[t, i] = True",
        "collect/test_pool.py collect/test_faults.py learn/test_loop.py",
    ),
    Mutant(
        "worker: batches never begin with a reset",
        "collect/worker.py",
        "        if self.plan.reset_each_batch:\n",
        "        if False:\n",
        "collect/test_pool.py",
    ),
    Mutant(
        "worker: a replay is believed",
        "collect/worker.py",
        "if now.tobytes() != then.tobytes():",
        "if False:",
        "collect/test_pool.py",
    ),
    Mutant(
        "episodes: the rewards of earlier batches are lost",
        "collect/episodes.py",
        "np.concatenate([episode.rewards, batch.reward[start : t + 1, i]])",
        "batch.reward[start : t + 1, i]",
        "collect/test_episodes.py",
    ),
    Mutant(
        "episodes: a tail that is never continued is kept",
        "collect/episodes.py",
        "if not reset_each_batch:",
        "if True:",
        "collect/test_episodes.py",
    ),
    Mutant(
        "pool: every batch has the noise of the first",
        "collect/pool.py",
        "batch_noise(self._plan, batch)",
        "batch_noise(self._plan, 0)",
        "collect/test_pool.py",
    ),
    Mutant(
        "pool: restarts without end",
        "collect/pool.py",
        "            self._restarts_left[call.env] -= 1\n",
        "",
        "collect/test_faults.py",
    ),
    Mutant(
        "pool: a truncated episode counts as exact",
        "collect/pool.py",
        "exact=not fails_again)",
        "exact=True)",
        "collect/test_faults.py",
    ),
    Mutant(
        "worker process: it outlives its run",
        "collect/worker_process.py",
        "prctl(PARENT_DEATH_SIGNAL, signal.SIGKILL)",
        "prctl(PARENT_DEATH_SIGNAL, 0)",
        "collect/test_pool.py collect/test_child.py collect/test_faults.py",
    ),
    Mutant(
        "rng: streams are not kept apart",
        "rng.py",
        "np.random.Philox(np.random.SeedSequence([seed, stream, *indices]))",
        "np.random.Philox(np.random.SeedSequence([seed, *indices]))",
        "test_rng.py",
    ),
    # Statistics
    Mutant(
        "statistics: an interval of four runs",
        "report/statistics.py",
        "MIN_FOR_INTERVAL = 5",
        "MIN_FOR_INTERVAL = 4",
        "report/test_statistics.py report/test_report.py",
    ),
    Mutant(
        "statistics: an interval of 90%",
        "report/statistics.py",
        "np.percentile(statistic(drawn), [2.5, 97.5], axis=0)",
        "np.percentile(statistic(drawn), [5, 95], axis=0)",
        "report/test_statistics.py",
    ),
    Mutant(
        "statistics: ties count for nobody",
        "report/statistics.py",
        "0.5 * (gap == 0)",
        "0.0 * (gap == 0)",
        "report/test_statistics.py",
    ),
    Mutant(
        "statistics: the middle three fifths",
        "report/statistics.py",
        "trim_mean(scores, 0.25",
        "trim_mean(scores, 0.2",
        "report/test_statistics.py",
    ),
    Mutant(
        "statistics: scores above the goal make up for others",
        "report/statistics.py",
        "np.minimum(scores, goal).mean",
        "scores.mean",
        "report/test_statistics.py",
    ),
    Mutant(
        "statistics: a verdict by the value alone",
        "report/statistics.py",
        "int((self.low or 0) > 0) - int((self.high or 0) < 0)",
        "int(self.value > 0) - int(self.value < 0)",
        "report/test_statistics.py report/test_report.py",
    ),
    Mutant(
        "statistics: a profile counts runs at the level",
        "report/statistics.py",
        "(s[..., None] > levels)",
        "(s[..., None] >= levels)",
        "report/test_statistics.py",
    ),
    Mutant(
        "compare: the final return is of the last nine tenths",
        "report/compare.py",
        "until * (1 - FINAL_SHARE)",
        "until * FINAL_SHARE",
        "report/test_report.py",
    ),
    Mutant(
        "compare: PPO's score is not 1",
        "report/compare.py",
        "(one[e] - zero[e]) for e in kept",
        "one[e] for e in kept",
        "report/test_report.py",
    ),
    Mutant(
        "compare: pairs with unequal budgets",
        "report/compare.py",
        "budget = min(first.budget, other.budget)",
        "budget = max(first.budget, other.budget)",
        "report/test_report.py",
    ),
    # Run directory
    Mutant(
        "layout: files are not synced",
        "rundir/layout.py",
        "            os.fsync(file.fileno())\n",
        "",
        "rundir/test_checkpoint.py",
    ),
    Mutant(
        "layout: directories are not synced",
        "rundir/layout.py",
        "        os.fsync(fd)\n",
        "        pass\n",
        "rundir/test_checkpoint.py",
    ),
    Mutant(
        "checkpoint: a manifest with any digest",
        "rundir/checkpoint.py",
        'if manifest.pop("digest", None) != _digest(manifest):',
        'if manifest.pop("digest", None) is None:',
        "rundir/test_checkpoint.py",
    ),
    Mutant(
        "checkpoint: arrays with any digest",
        "rundir/checkpoint.py",
        'if hashlib.sha256(payload).hexdigest() != about.get("sha256"):',
        "if False:",
        "rundir/test_checkpoint.py",
    ),
    Mutant(
        "checkpoint: only the newest is kept",
        "rundir/checkpoint.py",
        "complete[:-2]",
        "complete[:-1]",
        "rundir/test_checkpoint.py",
    ),
    Mutant(
        "checkpoint: a damaged one ends the run",
        "rundir/checkpoint.py",
        "names[:2]",
        "names[:1]",
        "rundir/test_checkpoint.py",
    ),
    Mutant(
        "jsonl: a resumed log keeps its tail",
        "rundir/jsonl.py",
        "os.truncate(path, offset)",
        "pass",
        "rundir/test_jsonl.py",
    ),
    Mutant(
        "jsonl: a log that is too short is taken",
        "rundir/jsonl.py",
        "and size < offset",
        "and False",
        "rundir/test_jsonl.py",
    ),
    Mutant(
        "jsonl: offsets before they are on the disk",
        "rundir/jsonl.py",
        "        os.fsync(self._file.fileno())\n",
        "",
        "rundir/test_jsonl.py rundir/test_checkpoint.py",
    ),
    Mutant("files: links are followed", "rundir/files.py", "os.O_NOFOLLOW | ", "", "rundir runs/test_safety.py"),
    Mutant(
        "curve: a step belongs to the bin after it",
        "rundir/curve.py",
        'side="left"',
        'side="right"',
        "rundir/test_curve.py",
    ),
    Mutant(
        "run: exact again after every resume",
        "runs/run.py",
        'self.exact = facts.get("exact") is True',
        "self.exact = True",
        "runs/test_resume.py",
    ),
    Mutant(
        "run: faults leave a run exact",
        "runs/run.py",
        "self.exact and all(fault.exact for fault in iteration.faults)",
        "self.exact",
        "runs/test_faulty_runs.py",
    ),
    Mutant(
        "run: checkpoints only at multiples",
        "runs/run.py",
        "steps // save_every > before // save_every",
        "steps % save_every == 0",
        "runs/test_resume.py",
    ),
    Mutant(
        "run: other versions continue in silence",
        "runs/run.py",
        "if drift and not allow_drift:",
        "if False:",
        "runs cli/test_cli.py",
    ),
]


def is_stale(mutant: Mutant, root: Path) -> bool:
    """Return whether the text that the mutant replaces is not there exactly once."""
    path = root / "src" / "toppo" / mutant.file
    return not path.is_file() or path.read_text().count(mutant.old) != 1


def exit_code(tests: str, root: Path) -> int:
    """Run tests of the copy at ``root``; the code is pytest's, and 1 if they do not end in time."""
    files = [f"tests/{name}" for name in tests.split()]
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-m", "not slow", "-p", "no:cacheprovider", *files]
    environment = os.environ | {"PYTHONPATH": f"{root / 'src'}{os.pathsep}{root}"}
    try:
        return subprocess.run(command, cwd=root, env=environment, capture_output=True, timeout=SECONDS).returncode
    except subprocess.TimeoutExpired:
        return 1


def outcome(mutant: Mutant, root: Path) -> str:
    """Put the bug into the copy at ``root``, run its tests, and take it out again."""
    if is_stale(mutant, root):
        return "stale"
    path = root / "src" / "toppo" / mutant.file
    original = path.read_text()
    path.write_text(original.replace(mutant.old, mutant.new))
    try:
        code = exit_code(mutant.tests, root)
    finally:
        path.write_text(original)
    return {0: "survived", 1: "caught"}.get(code, f"pytest ended with {code}")


def copy_repository(target: Path) -> None:
    """Copy all files that git knows."""
    names = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in names.splitlines():
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, target / name)


def main() -> None:
    """Try every mutant and print what became of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", default=[""], help="mutants whose name contains one of these texts")
    parser.add_argument("--check", action="store_true", help="run no tests; print the mutants whose text is gone")
    given = parser.parse_args()
    chosen = [m for m in MUTANTS if any(text in m.name for text in given.only)]
    if given.check:
        stale = [m.name for m in chosen if is_stale(m, ROOT)]
        print("\n".join([*stale, f"{len(chosen)} mutants, {len(stale)} stale"]))
        sys.exit(bool(stale))
    found: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        copy_repository(Path(folder))
        for name in sorted({name for m in chosen for name in m.tests.split()}):
            if exit_code(name, Path(folder)):
                sys.exit(f"tests/{name} fails without any mutant: fix it first")
        for mutant in chosen:
            began = time.perf_counter()
            result = outcome(mutant, Path(folder))
            found[result] += 1
            print(f"{result:<10} {time.perf_counter() - began:5.0f} s  {mutant.name}", flush=True)
    print(", ".join(f"{count} {result}" for result, count in found.items()))


if __name__ == "__main__":
    main()
