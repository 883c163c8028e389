# ruff: noqa: D100, E402, T201 - cells import and print what they show

# %% [markdown]
# # The paper in ten minutes
#
# A verifier (ASV) says how much a voice sounds like the claimed speaker. A countermeasure (CM)
# says how much it sounds like live speech. Someone at the door should be let in only when both
# agree. Wang et al. (Interspeech 2024) ask how the two scores become one decision, and this page
# walks through their answer: the sum of scores, calibration, log-likelihood ratios (LLRs), and a
# rule that is not linear. Everything is computed by functions of the package on **generated
# data**, for which the truth is known; nothing here is a result on real speech.
#
# A trial has one of three classes: **target** (the claimed speaker, live), **nontarget**
# (somebody else, live) and **spoof** (synthetic speech in the claimed voice). Only targets
# should be accepted.

# %%
import matplotlib.pyplot as plt
import numpy as np

from lightning_sasv.decisions import simulate
from lightning_sasv.trials import FusedScores, TrialClass

dev, test = simulate(6_000, seed=1), simulate(20_000, seed=2)
SHRINK = 0.1  # verifiers often give cosines, which lie between -1 and 1
dev, test = (one._replace(asv=SHRINK * one.asv) for one in (dev, test))

COLOURS = {"target": "tab:blue", "nontarget": "0.35", "spoof": "tab:red"}
CLASSES = {name: test.labels == TrialClass[name.upper()] for name in COLOURS}
for name, own in CLASSES.items():
    asv, cm = test.asv[own], test.cm[own]
    means = f"mean ASV {asv.mean():5.2f}, mean CM {cm.mean():5.2f}"
    print(f"{name:>9}: {own.sum():5} test trials, {means}")

# %% [markdown]
# `simulate` draws pairs of scores from one Gaussian for each class, the three classes equally
# often. We fit everything on the first draw (dev) and measure on the second (test), as one
# should.

# %%
figure, axes = plt.subplots(figsize=(6, 4.2))
few = slice(0, 1500)
for name, own in CLASSES.items():
    axes.scatter(
        test.asv[own][few], test.cm[own][few], s=4, alpha=0.35, color=COLOURS[name], label=name
    )
axes.set(xlabel="ASV score", ylabel="CM score", title="Two scores of each trial (generated data)")
legend = axes.legend(markerscale=4)

# %% [markdown]
# Neither score is enough: the verifier cannot tell spoofs from targets (look along the
# horizontal axis), the countermeasure cannot tell nontargets from targets.
#
# ## Adding the scores
#
# The baseline of the SASV challenge adds them: `s = s_asv + s_cm` (system B1). How good is that?
# The **SASV-EER** is the error rate at the threshold where as many targets are rejected as
# others (nontargets and spoofs together) are accepted. SV-EER and SPF-EER are the same against
# nontargets alone and against spoofs alone.

# %%
from lightning_sasv.fusion import fit_systems, fuse_systems
from lightning_sasv.metrics.functional import cllr_decomposition, sasv_eers

NAMES = ["B1", "B1c", "L2", "L2c", "L3", "L3c"]
systems = fit_systems(dev.asv, dev.cm, dev.labels, NAMES)
fused = {
    name: FusedScores(*(np.asarray(side) for side in one))
    for name, one in fuse_systems(systems, test.asv, test.cm).items()
}


def show(name: str, scores: np.ndarray) -> tuple[float, float]:
    """Print error rates and calibration of one score; SASV-EER and Cllr."""
    eers = sasv_eers(scores, test.labels)
    parts = cllr_decomposition(scores[CLASSES["target"]], scores[~CLASSES["target"]])
    rates = "  ".join(f"{100 * rate:6.2f}" for rate in (eers.sasv, eers.sv, eers.spf))
    print(f"{name:>5}    {rates}     {parts.cllr:6.3f} {parts.min:6.3f} {parts.calib:6.3f}")
    return eers.sasv, parts.cllr


HEAD = "       SASV-EER SV-EER SPF-EER (%)  Cllr   min  calib (bits)"
print(HEAD)
found = {"B1": show("B1", fused["B1"].sasv)}

# %% [markdown]
# Bad, and bad in one way: against nontargets (SV-EER) the sum fails. ASV scores lie within a few
# tenths, CM scores within several units, so the sum is nearly the CM score alone.
#
# ## Calibration before the sum
#
# The paper reads the sum as a coordinate of a *composition*: the three posteriors [P_spf, P_non,
# P_tar] in isometric log-ratio coordinates. The second coordinate is `(llr_tn + llr_ts) / √6`,
# the sum of two LLRs: target against nontarget, and target against spoof. So adding makes sense
# **if** the scores are LLRs. Calibration `f(x) = ax + b`, fitted by logistic regression on dev,
# brings them closer to that (B1c).

# %%
weight, bias = (systems["B1c"].arrays()[f"calibration.{part}"] for part in ("weight", "bias"))
print(f"ASV: f(x) = {weight[0, 0]:.2f} x {bias[0]:+.2f}")
print(f" CM: f(x) = {weight[1, 1]:.2f} x {bias[1]:+.2f}")
print(HEAD)
found["B1c"] = show("B1c", fused["B1c"].sasv)

# %% [markdown]
# The slope of the ASV score is now the larger one, and the SASV-EER falls. Cllr measures whether
# a score can be taken for an LLR; its part "calib" is what a better scale would save. That part
# grew: each side is calibrated, their sum is not, for it counts the evidence for the target
# twice.
#
# That Bayes' formula is an addition in these coordinates can be checked on any trial:
# coordinates of the posterior are those of the prior plus those of the likelihoods.

# %%
from lightning_sasv.decisions import CostModel, ilr, ilr_of_llrs, posteriors

flat = CostModel()  # all costs 1, all priors 1/3
skewed = CostModel(p_spoof=0.05, p_nontarget=0.05, p_target=0.9)
prior = np.array([0.05, 0.05, 0.9])
left = ilr(posteriors(test.true, skewed))
right = ilr(prior) + ilr_of_llrs(test.true.asv_llr, test.true.cm_llr)
gap = float(np.abs(left - right).max())
print(f"largest difference over {len(left):,} trials: {gap:.1e}")

# %% [markdown]
# ## From scores to LLRs
#
# Better than hoping that scores are LLRs is to compute LLRs from **both** scores: a Gaussian of
# the pair for each class, fitted on dev, gives `llr_tn = log p(s|tar) − log p(s|non)` and
# `llr_ts = log p(s|tar) − log p(s|spf)`. Because the data are generated, we can compare them
# with the true ones.

# %%
true = test.true
for side in ("asv_llr", "cm_llr"):
    wanted = getattr(true, side)
    error = float(np.abs(getattr(fused["L2"], side) - wanted).mean())
    print(f"{side}: mean distance from the true LLR {error:.3f}, their spread {wanted.std():.2f}")
print(HEAD)
for name in ("L2", "L2c"):
    found[name] = show(name, fused[name].sasv)

# %% [markdown]
# L2 adds these LLRs, L2c calibrates them first. The LLRs are nearly right, and still the error
# rate is ten per cent. So it is the *sum* that is wrong.
#
# ## The rule that is optimal
#
# With equal costs it is best to accept when `P_tar > P_non + P_spf`: when the target is more
# likely than everything else together. In LLRs, with `ρ` the share of spoofs among those who
# should be rejected,
#
#     −log[(1−ρ) e^(−llr_tn) + ρ e^(−llr_ts)] > −log β,     β = π_tar / (π_non + π_spf)
#
# The left side is the score of L3. A sum lets a very good CM score pay for a bad ASV score; this
# rule does not: it is close to the *smaller* of the two LLRs.

# %%
print(HEAD)
for name in ("L3", "L3c"):
    found[name] = show(name, fused[name].sasv)
found["true"] = show("true", true.sasv)

# %% [markdown]
# L3 is as good as the score made of the true LLRs ("true"), which no system beats but by luck.
# Its Cllr is close to its minimum: the number is not only a good ranking, it can be taken for an
# LLR.

# %%
figure, axes = plt.subplots(figsize=(6.4, 3.4))
values = [100 * eer for eer, _ in found.values()]
bars = axes.bar(list(found), values, color=["0.7"] * 4 + ["tab:blue"] * 2 + ["tab:green"])
axes.bar_label(bars, fmt="%.1f")
axes.set(
    xlabel="system",
    ylabel="SASV-EER in per cent",
    ylim=(0, 28),
    title="From the sum to the nonlinear rule (20,000 generated trials)",
)
axes.spines[["top", "right"]].set_visible(False)

# %% [markdown]
# ## The two boundaries, and a prior that is wrong
#
# This is the paper's figure of simulated LLRs. The linear policy accepts everything above the
# dashed line, the optimal one what is above the solid black curve. The green curve is the
# optimal rule of somebody who believes that 90 % of the trials are targets, which is not true
# here.

# %%
from lightning_sasv.decisions import accept, compared

grid = np.linspace(-12, 16, 281)
across, up = np.meshgrid(grid, grid)
plane = FusedScores(across, up, np.zeros_like(across))
LINES = {
    "linear, flat prior": (flat, "linear", "black", "dashed"),
    "optimal, flat prior": (flat, "bayes", "black", "solid"),
    "optimal, mismatched prior": (skewed, "bayes", "tab:green", "solid"),
}
figure, axes = plt.subplots(figsize=(6.6, 5.2))
for name, own in CLASSES.items():
    axes.scatter(
        true.asv_llr[own][few],
        true.cm_llr[own][few],
        s=4,
        alpha=0.35,
        color=COLOURS[name],
        label=name,
    )
for name, (costs, policy, colour, style) in LINES.items():
    score, threshold = compared(plane, costs, policy)
    axes.contour(across, up, score - threshold, levels=[0], colors=colour, linestyles=style)
    axes.plot([], [], color=colour, linestyle=style, label=name)
axes.set(
    xlabel="ASV LLR, target against nontarget",
    ylabel="CM LLR, target against spoof",
    title="Decision boundaries in the plane of true LLRs",
    xlim=(-12, 16),
    ylim=(-12, 16),
)
legend = axes.legend(loc="upper left", bbox_to_anchor=(1, 1), markerscale=3, frameon=False)

# %% [markdown]
# What the decisions cost on these trials, whose true prior is flat: misses, false acceptances,
# and the cost `(P_miss + P_fa,non + P_fa,spf) / 3`.

# %%
from lightning_sasv.decisions import empirical_cost

print("                               miss   nontargets       spoofs   cost")
outcome = {}
for name, (costs, policy, *_) in LINES.items():
    outcome[name] = empirical_cost(accept(true, costs, policy), test.labels, flat)
    rates = (outcome[name].p_miss, outcome[name].p_fa_nontarget, outcome[name].p_fa_spoof)
    shown = "  ".join(f"{100 * rate:8.2f} %" for rate in rates)
    print(f"{name:>25} {shown}   {outcome[name].cost:.4f}")

# %% [markdown]
# The linear policy misses fewer targets and pays for it: it accepts about one impostor and one
# spoof in three. With the wrong prior the optimal rule has another threshold and the same
# *shape*, and does better than the linear one with the right prior.
#
# ## One trial in detail
#
# The paper's example: a trial with posteriors [P_spf, P_non, P_tar] = [0.05, 0.65, 0.30]. Most
# likely it is somebody else. With a flat prior its LLRs are logarithms of ratios of posteriors.


# %%
def of_posteriors(parts: np.ndarray) -> FusedScores:
    """LLRs of compositions [P_spf, P_non, P_tar] at a flat prior."""
    spoof, nontarget, target = np.moveaxis(np.log(parts), -1, 0)
    return FusedScores(target - nontarget, target - spoof, 0 * target)


example = of_posteriors(np.array([[0.05, 0.65, 0.30]]))
verdicts = {
    policy: bool(accept(example, flat, policy)[0]) for policy in ("linear", "bayes", "utility")
}
total = example.asv_llr[0] + example.cm_llr[0]
print(f"ASV LLR {example.asv_llr[0]:.2f}, CM LLR {example.cm_llr[0]:.2f}, sum {total:.2f}")
for policy, accepted in verdicts.items():
    print(f"{policy:>8}: {'accept' if accepted else 'reject'}")

# %% [markdown]
# The sum of its LLRs is above 0, so the linear policy lets it in: that it is *certainly no
# spoof* pays for *probably somebody else*. The optimal policy rejects it, as does the paper's
# third one, which asks that the target be more likely than each of the others. All compositions
# at once:

# %%
height = np.sqrt(3) / 2
x, y = np.meshgrid(np.linspace(0.001, 0.999, 500), np.linspace(0.001, height - 0.001, 500))
parts = np.stack([1 - x - y / np.sqrt(3), x - y / np.sqrt(3), y / height], axis=-1)
inside = (parts > 0).all(-1)
composition = of_posteriors(np.where(inside[..., None], parts, 1 / 3))
areas = np.where(accept(composition, flat, "linear"), 1.0, 0.0) + accept(composition, flat, "bayes")

figure, axes = plt.subplots(figsize=(6, 4.8))
colours = ["0.92", "navajowhite", "lightblue"]
axes.contourf(x, y, np.where(inside, areas, np.nan), levels=[-0.5, 0.5, 1.5, 2.5], colors=colours)
axes.plot([0, 1, 0.5, 0], [0, 0, height, 0], color="black")
corner = {"all spoof": (0, -0.05), "all nontarget": (1, -0.05), "all target": (0.5, height + 0.03)}
for name, (at, above) in corner.items():
    axes.text(at, above, name, ha="center")
point = (0.65 + 0.30 / 2, 0.30 * height)
axes.plot(*point, "ko")
axes.annotate("[0.05, 0.65, 0.30]", point, xytext=(0.80, 0.50), arrowprops={"arrowstyle": "->"})
for colour, name in zip(
    colours[::-1], ("accepted by both", "by the linear policy alone", "rejected"), strict=True
):
    axes.fill([], [], color=colour, label=name)
axes.set_title("Posteriors on the simplex: who is accepted (equal costs)", pad=22)
axes.set_aspect("equal")
axes.axis("off")
legend = axes.legend(loc="upper left", fontsize=8, frameon=False)

# %% [markdown]
# Whatever the optimal policy accepts is accepted by the linear one too, never the other way
# round: the orange areas are what the sum pays.
#
# ## What to take along
#
# - Scores that are added must be calibrated first; better still, they should be LLRs.
# - The best decision is not a line in the plane of LLRs but a corner: both must be good enough.
# - `ρ` and the threshold come from priors and costs, which belong to the application, not to the
#   data.
#
# On the real SASV 2022 scores the same steps give 20.6, 2.8, 3.7, 1.6, 1.43 and 1.42 % SASV-EER
# for B1, B1c, L2, L2c, L3 and L3c ([published and recomputed](../referee.md)). Next: [train,
# read the report, compare honestly](2_train_and_compare.md).
