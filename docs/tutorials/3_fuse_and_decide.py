# ruff: noqa: D100, E402, T201 - cells import and print what they show

# %% [markdown]
# # Fuse four systems and decide
#
# Two verifiers and two countermeasures scored the same trials. What is each of them worth? At
# which threshold should the door open, and when should nobody decide? This page goes from score
# files to a folder that can be put into service. The data are **generated**, so that we know
# what should come out.

# %%
import shlex
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import polars as pl

from lightning_sasv.cli import main


def lightning(line: str) -> None:
    """Run a command as a terminal would."""
    main(shlex.split(line))


# %% [markdown]
# ## Four scores
#
# Each class has a Gaussian with its own mean and one covariance for all. `asv_b` is a weaker
# verifier with errors of its own. `cm_b` is nearly a copy of `cm_a`: as good as that one, and of
# no use beside it.

# %%
COLUMNS = ["asv_a", "asv_b", "cm_a", "cm_b"]
MEANS = {
    "target": [2.2, 1.5, 2.0, 2.0],
    "nontarget": [-2.2, -1.5, 1.6, 1.6],
    "spoof": [1.2, 0.8, -2.2, -2.2],
}
WITHIN = np.array(
    [
        [1.6, 0.3, 0.2, 0.2],
        [0.3, 1.6, 0.2, 0.2],
        [0.2, 0.2, 1.5, 1.45],
        [0.2, 0.2, 1.45, 1.5],
    ]
)
BETWEEN = 0.3 * np.eye(4)  # how much speakers differ
BETWEEN[2:, 2:] = 0.3


def generate(speakers: int, trials: dict[str, int], seed: int) -> pl.DataFrame:
    """Scores of some trials of each class for each speaker."""
    draw = np.random.default_rng(seed)
    rows = []
    for speaker in range(speakers):
        own = draw.multivariate_normal(np.zeros(4), BETWEEN)
        for label, count in trials.items():
            scores = own + draw.multivariate_normal(MEANS[label], WITHIN, size=count)
            for k, row in enumerate(scores):
                rows.append((f"s{speaker:02}", f"s{speaker:02}-{label}-{k}", label, *row))
    return pl.DataFrame(rows, ["speaker", "utterance", "label", *COLUMNS], orient="row")


dev = generate(20, {"target": 40, "nontarget": 80, "spoof": 80}, seed=1)
test = generate(48, {"target": 40, "nontarget": 60, "spoof": 60}, seed=2)
dev.write_csv("dev.csv")
test.write_csv("eval.csv")
print(f"dev: {len(dev):,} trials of 20 speakers; eval: {len(test):,} trials of 48 other speakers")

# %% [markdown]
# ## Fuse, and ask what each is worth
#
# `fuse` fits systems on dev and measures them on eval. M3 is a multinomial logistic regression:
# two LLRs, each a weighted sum of all four scores, joined by the nonlinear rule. For Gaussians
# with a common covariance that form is the right one. `--worth` leaves out each column in turn.

# %%
lightning(
    "fuse --dev dev.csv --eval eval.csv --name generated --systems M3,L3,B1c"
    " --worth --replicates 199 --out four --quiet"
)

# %% [markdown]
# The last table is to be read so: without this column the values become those, and the
# difference has an interval by speaker. What is worth something makes the error grow when it is
# left out.

# %%
import json

worth = json.loads(Path("four/worth.json").read_text())
all_four, *without = worth["rows"]
figure, axes = plt.subplots(figsize=(6.4, 2.8))
loss = {}
for row, one in enumerate(without):
    entry = one["sets"]["eval"]["sasv_eer"]
    loss[one["column"]] = tuple(100 * entry[name] for name in ("difference", "low", "high"))
    middle, low, high = loss[one["column"]]
    axes.plot([low, high], [row, row], color="tab:blue", linewidth=3)
    axes.plot(middle, row, "o", color="tab:blue")
axes.axvline(0, color="black", linewidth=1)
axes.set_yticks(range(4), [f"without {name}" for name in loss])
axes.set_ylim(3.5, -0.5)
axes.set(
    xlabel="change of the SASV-EER in points (95 % interval by speaker)",
    title=f"What each score is worth to {worth['system']} (generated data, eval)",
)
axes.grid(axis="x", alpha=0.3)

# %% [markdown]
# As it should be: each verifier is worth something, and either countermeasure can be left out,
# because the other takes its place. That one of them is needed is not seen by leaving out one at
# a time.
#
# How good are the LLRs? The truth is known here, a weighted sum with weights `Σ⁻¹(μ_tar −
# μ_non)`, and so is the error rate that follows from it: `Φ(−d/2)`, with `d` the distance of the
# two means in units of `Σ`.

# %%
from scipy.stats import norm

from lightning_sasv.fitted import read_fitted
from lightning_sasv.metrics.functional import eer

SIGMA = WITHIN + BETWEEN
scores = test.select(COLUMNS).to_numpy()
label = test["label"].to_numpy()
shift = np.subtract(MEANS["target"], MEANS["nontarget"])
middle = np.add(MEANS["target"], MEANS["nontarget"]) / 2
true_llr = (scores - middle) @ np.linalg.solve(SIGMA, shift)
distance = float(np.sqrt(shift @ np.linalg.solve(SIGMA, shift)))

fused = read_fitted("four/fitted/M3.safetensors")(scores[:, :2], scores[:, 2:])
llr = np.asarray(fused.asv_llr)
by_theory = float(norm.cdf(-distance / 2))
measured = eer(llr[label == "target"], llr[label == "nontarget"]).value
agreement = float(np.corrcoef(llr, true_llr)[0, 1])
print(f"EER of the LLR, target against nontarget: {100 * measured:.2f} %")
print(f"by theory: {100 * by_theory:.2f} %")
print(f"correlation of fitted and true LLR: {agreement:.4f}")

# %% [markdown]
# ## Costs
#
# Which errors hurt? That is for the owner of the door to say. Costs and priors go into a file;
# here a false acceptance costs a hundred times as much as a miss, and one visitor in ten is not
# who they say.

# %%
from lightning_sasv.decisions import PRESETS, CostModel

Path("costs.yaml").write_text(
    "c_miss: 1\nc_fa_nontarget: 100\nc_fa_spoof: 100\n"
    "p_target: 0.9\np_nontarget: 0.05\np_spoof: 0.05\n"
)
OWN = CostModel(
    c_fa_nontarget=100.0, c_fa_spoof=100.0, p_target=0.9, p_nontarget=0.05, p_spoof=0.05
)
print("costs       threshold −log β   weight of spoofs ρ")
for name, costs in {**PRESETS, "ours": OWN}.items():
    print(f"{name:<10}  {-costs.log_beta:16.2f}  {costs.spoof_share:19.2f}")

# %% [markdown]
# ## Thresholds
#
# The threshold follows from the costs: no labels are needed, if the scores are LLRs. The curve
# below has the cost of every threshold on eval (normalised: 1 is what always accepting or always
# rejecting costs, whichever is cheaper). The Bayes threshold lies near its minimum. The
# threshold of the EER does not: it balances error *rates*, which nobody asked for.

# %%
from lightning_sasv.decisions import empirical_cost, nonlinear_score
from lightning_sasv.metrics.functional import sasv_eers

rho = OWN.spoof_share
score = nonlinear_score(llr, np.asarray(fused.cm_llr), 1 - rho, rho)
at_eer = sasv_eers(score, label).sasv_threshold
thresholds = np.linspace(-3, 8, 111)
curve = [float(empirical_cost(score > t, label, OWN).normalised) for t in thresholds]
chosen = {"Bayes threshold": -OWN.log_beta, "threshold of the EER": at_eer}
prices = {n: float(empirical_cost(score > t, label, OWN).normalised) for n, t in chosen.items()}
least = min(curve)
for name, at in chosen.items():
    print(f"{name}: {at:.2f}, normalised cost {prices[name]:.3f}")
print(f"least cost of any threshold: {least:.3f}")

figure, axes = plt.subplots(figsize=(6.4, 3.4))
axes.plot(thresholds, curve, color="black")
for (name, at), colour in zip(chosen.items(), ("tab:green", "tab:orange"), strict=True):
    axes.plot(at, prices[name], "o", color=colour, label=f"{name}, cost {prices[name]:.3f}")
axes.set(
    xlabel="threshold on the fused LLR",
    ylabel="normalised cost",
    ylim=(0, 1),
    title="Cost of each threshold at our costs (M3, generated data, eval)",
)
legend = axes.legend(frameon=False)

# %% [markdown]
# `lightning decide` does this for a file of scores: it writes decision and reason of each trial,
# and shows what the decisions cost.

# %%
lightning(
    "decide eval.csv --fitted four --system M3 --costs costs.yaml --out decisions.csv --quiet"
)
decisions = pl.read_csv("decisions.csv", comment_prefix="#")
for row in decisions.unique("label", keep="first", maintain_order=True).iter_rows(named=True):
    print(f"{row['utterance']}: {row['decision']}, {row['reason']}")

# %% [markdown]
# ## Abstention
#
# Sometimes the best answer is "ask again", or "call a person". With a price for deciding nothing
# (`c_abstain`), each trial takes whichever has the least expected cost. The cheaper it is, the
# more trials are left open, and the fewer errors are made on the rest.

# %%
from dataclasses import replace

from lightning_sasv.decisions import abstain, accept

PRICES = [0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9]
left_open, paid = [], []
print("price  unsure: targets  nontargets      spoofs    cost")
for price in PRICES:
    model = replace(OWN, c_abstain=price)
    unsure = abstain(fused, model)
    result = empirical_cost(accept(fused, model) & ~unsure, label, model, unsure=unsure)
    left_open.append(100 * result.unsure[0])
    paid.append(float(result.cost))
    shares = "  ".join(f"{100 * own:8.1f} %" for own in result.unsure)
    print(f"{price:5.2f}   {shares}   {result.cost:.4f}")
never = float(empirical_cost(accept(fused, OWN), label, OWN).cost)
print(f"never unsure: cost {never:.4f}")

figure, (above, below) = plt.subplots(2, 1, figsize=(6.4, 4.4), sharex=True)
above.plot(PRICES, paid, "o-", color="tab:blue", label="with abstention")
above.axhline(never, color="black", linestyle="dashed", label="without")
above.set(
    ylabel="cost per trial",
    ylim=(0, 0.36),
    title="What it brings to decide nothing (M3, generated data, eval)",
)
above.legend(frameon=False, loc="lower right")
below.plot(PRICES, left_open, "o-", color="tab:blue")
below.set(ylabel="targets left open, %", xlabel="price of deciding nothing (a miss costs 1)")

# %% [markdown]
# ## A bundle
#
# `export` writes the fitted system, its threshold, its costs and the bounds of what dev can
# support into one folder, with checksums and a model card. `load` reads it with numpy alone: no
# torch, no training code. One trial comes in as named scores, a decision with its reason comes
# out.

# %%
lightning("export --fitted four --system M3 --costs costs.yaml --out bundle --overwrite --quiet")

from lightning_sasv.deploy import load

scorer = load("bundle")
visitors = {
    "a target": dict(zip(COLUMNS, MEANS["target"], strict=True)),
    "somebody else": dict(zip(COLUMNS, MEANS["nontarget"], strict=True)),
    "a replayed voice": dict(zip(COLUMNS, MEANS["spoof"], strict=True)),
}
answers = {name: scorer(own) for name, own in visitors.items()}
for name, verdict in answers.items():
    print(f"{name}: {verdict.reason}")

# %% [markdown]
# ## What to take along
#
# - More scores help where they err on different trials; `--worth` tells, with intervals.
# - Costs and priors give the threshold; the EER threshold is for tables.
# - A price for "unsure" makes the system say so when it should.
# - A bundle is what leaves the laboratory: everything that decides, and nothing else.
#
# Four public scores of real speech can be had by `lightning download sasv2022-more`; fused in
# the same way they bring the SASV-EER from 1.4 to 0.63 % (SASV 2022 eval, chosen on dev). Back
# to the [tutorials](index.md).
