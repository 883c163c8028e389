# ruff: noqa: D100, E402, T201 - cells import and print what they show

# %% [markdown]
# # Train, read the report, compare honestly
#
# One training, five ways of fusing its scores, and the question that every table of results
# raises: which of these differences are real? Everything runs on the **twin**, a simulated
# corpus with the shape of SASV 2022, at a tenth of its size; its numbers say how the tools work,
# not how good any system is on real speech.
#
# Commands are those of a terminal. `lightning("fit …")` below is `lightning fit …` in a shell.

# %%
import shlex
from pathlib import Path

import matplotlib.pyplot as plt
import polars as pl

from lightning_sasv.cli import main


def lightning(line: str) -> None:
    """Run a command as a terminal would."""
    main(shlex.split(line))


# %% [markdown]
# ## Train
#
# `fit` trains the head of a countermeasure on embeddings, keeps the epoch with the best CM EER
# on dev, fits the fusion systems on dev, and measures all of them on dev and eval. `--config
# L3t` names a file of `configs/`; what comes after it replaces single settings.

# %%
lightning(
    "fit --config L3t --model.systems [L3t,B1,B1c,L3c,M3] --data.scale 0.1"
    " --trainer.max_epochs 5 --quiet"
)
RUN = max(Path("runs/L3t").glob("version_*"), key=lambda run: run.stat().st_mtime)
print(f"\nin {RUN}: {', '.join(sorted(file.name for file in RUN.iterdir()))}")

# %% [markdown]
# The first table has error rates (per cent) and calibration (Cllr in bits), the second what
# decisions cost. Rows of dev look better than rows of eval: the systems were fitted there, and
# the attacks of eval are new to them. Only eval counts.
#
# ## What a number is of
#
# Everything that was measured is in `metrics.json`, and each number there says what it is of:
# which trials, whether they are simulated, how many speakers, which convention and costs.

# %%
from lightning_sasv.results import read_metrics

entry = read_metrics(f"{RUN}/metrics.json")["L3t"]["sets"]["eval"]
of = entry["of"]
for field in ("corpus", "simulated", "scale", "trials", "speakers", "attacks", "eer_convention"):
    print(f"{field:>15}: {of[field]}")
print(f"{'SASV-EER':>15}: {100 * entry['values']['sasv_eer']:.2f} %")

# %% [markdown]
# ## Conventions
#
# An EER is where two error rates are equal, and with finitely many trials they are equal
# nowhere. Tools differ in what they do then: take the nearest point (`asvspoof`), interpolate,
# take the convex hull (`rocch`), or the larger rate (`max`). Scores that were rounded make it
# worse, because many are then equal.

# %%
from lightning_sasv.evaluation import evaluate

scores = pl.read_csv(f"{RUN}/scores/eval.csv")
one = scores.select("speaker", "utterance", "attack", "label", sasv_L3t="sasv_L3t")
rounded = one.with_columns(pl.col("sasv_L3t").round())
print("convention     as they are   rounded to integers")
eers = {}
for convention in ("asvspoof", "interpolated", "rocch", "max"):
    eers[convention] = [
        100 * evaluate(table, ci="none", convention=convention).value("L3t", "sasv_eer")
        for table in (one, rounded)
    ]
    print(f"{convention:>12}  {eers[convention][0]:9.3f} %  {eers[convention][1]:9.3f} %")

# %% [markdown]
# All of these are the SASV-EER of one system on the same trials. So: name the convention, and do
# not compare across conventions. `lightning referee` does that for published values ([published
# and recomputed](../referee.md)).
#
# ## How sure is a value?
#
# A test set is a sample, and another one would give another value. A bootstrap draws new test
# sets from the old one. But what is the unit that is drawn? Trials of one speaker resemble each
# other, so the sample is one of **speakers**, not of trials. To see the difference, take every
# trial four times. Nothing new was learnt: no speaker was added.

# %%
from lightning_sasv.metrics.bootstrap import resample

fourfold = pl.concat([one] * 4)
intervals = {}
for drawn in ("trial", "speaker"):
    for name, table in (("once", one), ("four times", fourfold)):
        replicates = resample(
            {"L3t": {"sasv": table["sasv_L3t"].to_numpy()}},
            table["label"].to_numpy(),
            {"L3t": ["sasv_eer"]},
            clusters=None if drawn == "trial" else (table["speaker"].to_numpy(),),
            n=999,
        )
        ends = replicates["L3t"]["sasv_eer"].interval(method="percentile")
        low, high = 100 * ends.low, 100 * ends.high
        intervals[drawn, name] = low, high
        ends = f"{low:.2f} to {high:.2f} %, width {high - low:.2f}"
        print(f"by {drawn:>7}, each trial {name:>10}: {ends}")

# %%
figure, axes = plt.subplots(figsize=(6.4, 2.6))
value = 100 * evaluate(one, ci="none").value("L3t", "sasv_eer")
for row, ((drawn, _), ends) in enumerate(intervals.items()):
    colour = {"trial": "tab:orange", "speaker": "tab:blue"}[drawn]
    axes.plot(ends, [row, row], color=colour, linewidth=3)
    axes.plot(value, row, "o", color=colour)
axes.set_yticks(range(4), [f"by {drawn}, each trial {name}" for drawn, name in intervals])
axes.set_ylim(3.5, -0.5)
axes.set(xlabel="SASV-EER in per cent", title="95 % intervals of L3t on eval (twin, 48 speakers)")
axes.grid(axis="x", alpha=0.3)

# %% [markdown]
# Drawn by trial, the interval shrinks (with four times the trials towards its half) although
# nothing was learnt; drawn by speaker, it stays. The twin has few trials of each speaker, so
# that the two start alike. On the real SASV 2022 scores an interval by speaker is three to four
# times as wide as one by trial.
#
# ## Whose errors are they?
#
# Behind an error rate there are people. At the threshold of the SASV-EER, these are the errors
# of each of the 48 enrolled speakers: targets that were rejected, and others that were accepted
# in their name.

# %%
from lightning_sasv.metrics.speakers import concentration, zoo

errors = zoo(scores["sasv_L3t"], scores["label"], scores["speaker"])
print(concentration(errors))
ordered = sorted(errors, key=lambda own: -(own.accepted_nontargets + own.accepted_spoofs))
accepted = [own.accepted_nontargets + own.accepted_spoofs for own in ordered]
share = sum(accepted[:12]) / sum(accepted)
print(f"12 of 48 speakers have {100 * share:.0f} % of the {sum(accepted)} false acceptances")

figure, (above, below) = plt.subplots(2, 1, figsize=(6.8, 4.2), sharex=True)
places = range(len(ordered))
above.bar(places, [own.accepted_nontargets for own in ordered], color="0.5", label="nontargets")
under = [own.accepted_nontargets for own in ordered]
above.bar(
    places, [own.accepted_spoofs for own in ordered], bottom=under, color="tab:red", label="spoofs"
)
above.set(ylabel="accepted", title="Errors of L3t by enrolled speaker (twin, eval)")
above.legend(frameon=False)
below.bar(places, [own.misses for own in ordered], color="tab:blue")
below.set(ylabel="rejected targets", xlabel="speakers, those with most false acceptances first")
below.set_yticks([0, 1, 2])
for axes in (above, below):
    axes.spines[["top", "right"]].set_visible(False)

# %% [markdown]
# Errors are not spread evenly. Had a few of these speakers not been recorded, the table above
# would look different, which is why intervals are wide.
#
# ## Pairs of systems
#
# Two intervals that overlap do not mean that two systems are alike: both see the same speakers,
# so the **difference** is drawn, with the same speakers for both. And who compares many pairs
# finds one that differs by chance, so p-values are adjusted for their number (Holm). The
# sentences are the tool's own.

# %%
compared = evaluate(f"{RUN}/scores/eval.csv", compare=True, pairs="all", replicates=399)
differences = compared.compare("sasv_eer")
for pair in differences:
    print("-", pair.verdict)

# %%
figure, axes = plt.subplots(figsize=(6.8, 3.6))
for row, pair in enumerate(differences):
    low, high, middle = (100 * end for end in (pair.low, pair.high, pair.difference))
    colour = "tab:red" if pair.apart else "0.5"
    axes.plot([low, high], [row, row], color=colour, linewidth=3)
    axes.plot(middle, row, "o", color=colour)
axes.axvline(0, color="black", linewidth=1)
axes.set_yticks(range(len(differences)), [f"{pair.first} − {pair.second}" for pair in differences])
axes.invert_yaxis()
axes.set_xscale("symlog", linthresh=1)
axes.set_xticks([-10, -1, 0, 1, 10], ["−10", "−1", "0", "1", "10"])
axes.set(
    xlabel="difference of SASV-EERs in points (linear between −1 and 1)",
    title="Paired differences with 95 % intervals by speaker (red: told apart)",
)
axes.grid(axis="x", alpha=0.3)

# %% [markdown]
# So B1 and B1c are worse than the other three, and among these nothing can be said on 48
# speakers: the sentence names how many would be needed. To write "M3 is best" under a table
# because its number is the smallest would be wrong.
#
# ## The report
#
# `lightning report` turns a folder of results into one HTML page that needs no network. Read it
# in this order: the banner (what corpus, whether it is a part or simulated), the main table with
# its intervals and marks of what is told apart, *errors of each speaker*, the DET curves with
# their band, and then the panel *What if*, in which priors and costs can be moved.

# %%
lightning(f"report {RUN} --replicates 99")

# %% [markdown]
# Its figures can be drawn one by one, too. The DET curves: each point is a threshold, and curves
# nearer to the lower left corner are better.

# %%
from lightning_sasv.report.curves import Material
from lightning_sasv.report.drawing import draw, look
from lightning_sasv.report.figures import describe
from lightning_sasv.results import read_results

material = Material.of(read_results(RUN), replicates=99)
with look():
    curves = draw(*describe(material, ["det"]))

# %% [markdown]
# ## What to take along
#
# - A number without its trials, convention and costs is no result; `metrics.json` has them all.
# - Draw speakers, not trials.
# - Compare pairs, adjust for their number, and say "cannot be told apart" when it is so.
# - For a paper: `lightning table` trains several seeds and draws seeds and speakers together.
#
# Next: [fuse four systems and decide](3_fuse_and_decide.md).
