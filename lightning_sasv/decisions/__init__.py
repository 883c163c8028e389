"""Costs, priors, and the decisions that follow from them."""

from lightning_sasv.decisions.composition import closure, ilr, ilr_of_llrs, inverse_ilr, perturb
from lightning_sasv.decisions.costs import (
    PRESETS,
    CostModel,
    as_cost_model,
    cost_preset,
)
from lightning_sasv.decisions.outcome import (
    EmpiricalCost,
    PolicyCost,
    compare_policies,
    empirical_cost,
    inversions,
    worth_below,
)
from lightning_sasv.decisions.policy import (
    POLICIES,
    Comparison,
    abstain,
    abstain_rule,
    accept,
    bayes_rule,
    compared,
    expected_cost,
    nonlinear_rule,
    nonlinear_score,
    posteriors,
)
from lightning_sasv.decisions.reasons import (
    reason_sentences,
    reason_words,
    threshold_sentences,
    unsure_sentences,
)
from lightning_sasv.decisions.simulation import Simulation, simulate, simulated_policy_costs
from lightning_sasv.decisions.ternary import (
    sasv_cost_matrix,
    ternary_accept,
    ternary_decision,
    ternary_risks,
    ternary_utility_accept,
)

__all__ = ["closure", "ilr", "ilr_of_llrs", "inverse_ilr", "perturb"]
__all__ += ["PRESETS", "CostModel", "as_cost_model", "cost_preset"]
__all__ += ["inversions"]
__all__ += ["EmpiricalCost", "PolicyCost", "compare_policies", "empirical_cost", "worth_below"]
__all__ += ["POLICIES", "Comparison", "accept", "compared", "expected_cost"]
__all__ += ["bayes_rule", "nonlinear_rule", "nonlinear_score", "posteriors"]
__all__ += ["reason_sentences", "reason_words", "threshold_sentences"]
__all__ += ["Simulation", "simulate", "simulated_policy_costs"]
__all__ += ["sasv_cost_matrix", "ternary_accept", "ternary_decision"]
__all__ += ["ternary_risks", "ternary_utility_accept"]
__all__ += ["abstain", "abstain_rule", "unsure_sentences"]
