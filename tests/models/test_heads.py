"""Heads that see both embeddings: their shapes, gradients, scores, trainings and systems."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from torch import Tensor, nn

from lightning_sasv.cli import main
from lightning_sasv.data import make_twin
from lightning_sasv.data.corpus import Corpus
from lightning_sasv.data.embeddings import EmbeddingStore
from lightning_sasv.data.loaders import ProbeBatches, TrainBlocks
from lightning_sasv.deploy import load
from lightning_sasv.errors import InputError
from lightning_sasv.evaluation import decide
from lightning_sasv.experiment import ModelSettings
from lightning_sasv.experiment.recipe import Recipe
from lightning_sasv.fusion import JOINT_SYSTEMS, build_system, fit_systems
from lightning_sasv.metrics.functional import sasv_eers
from lightning_sasv.models import SASVModule
from lightning_sasv.models.heads import HEADS, RECIPES, ConcatHead, FilmHead, fitting_systems
from lightning_sasv.models.objectives import FusedObjective, ThreeClassObjective
from lightning_sasv.models.stacked import Head
from lightning_sasv.program import Program, using
from lightning_sasv.scores import read_scores
from lightning_sasv.trials import TrialClass
from tests.helpers import best_checkpoint, failure_of, metrics_in, quiet_trainer, shared_data

NAME = f"{__name__}.Own"
SMALL = ["--data.scale=0.01", "--trainer.max_epochs=1", "--quiet"]


class Own(Head):
    """A head of a user's own: the cosine and a layer of the CM embedding."""

    def __init__(self, *args: Any, times: float = 1.0, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.times = times
        self.layer("cm", self.cm_dim + 1, self.logits)

    def forward(self, enrolment: Tensor, probe: Tensor, cm: Tensor) -> Tensor:
        cosine = torch.cosine_similarity(enrolment, probe, dim=-1).unsqueeze(-1)
        return self.linear("cm", torch.cat([self.times * cosine, cm], -1))


class Plain(Own):
    """Layers of torch, which know nothing of copies."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.net = nn.Linear(self.cm_dim, 7)


class Biased(Own):
    """A parameter of its own, as it starts."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.level = nn.Parameter(torch.full((len(self.seeds), 1), 0.25))

    def forward(self, enrolment: Tensor, probe: Tensor, cm: Tensor) -> Tensor:
        return super().forward(enrolment, probe, cm) + self.level.unsqueeze(-1)


class Short(Own):
    """Too few logits."""

    def forward(self, enrolment: Tensor, probe: Tensor, cm: Tensor) -> Tensor:
        return super().forward(enrolment, probe, cm)[..., 1:]


class Broken(Own):
    """Takes embeddings of another size."""

    def forward(self, enrolment: Tensor, probe: Tensor, cm: Tensor) -> Tensor:
        return self.linear("cm", cm)


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (Plain, r"net.weight of Plain has the shape \(7, 160\).*axis of its copies, 2 here"),
        (Short, r"Short gives \(2, 2, 1\) for two trials, not \(2, 2, 2\)"),
        (Broken, "Broken cannot be used: RuntimeError"),
    ],
)
def test_what_a_head_of_ones_own_does_wrong_is_a_line(kind: type, words: str) -> None:
    name = f"{__name__}.{kind.__name__}"
    with using(Program(trust_config=True)), pytest.raises(InputError, match=words):
        SASVModule(head=name, systems=("F2",), seeds=(1, 2))


def test_parameters_of_ones_own_start_as_they_are_and_are_clipped(
    twin: Corpus, tmp_path: Path
) -> None:
    with using(Program(trust_config=True)):
        module = SASVModule(head=f"{__name__}.Biased", systems=("F2",), seeds=(1, 2))
        level = module.head.get_parameter("level")
        assert level.tolist() == [[0.25], [0.25]]
        trainer = quiet_trainer(tmp_path, epochs=1, best=False, gradient_clip_val=0.01)
        trainer.fit(module, shared_data(twin, seeds=(1, 2)))
    assert level.tolist() != [[0.25], [0.25]]


def test_concat_is_baseline2() -> None:
    head = ConcatHead(160, 192, (256, 128, 64), seeds=(3, 4)).double()
    assert sum(one.numel() for one in head.parameters()) == 2 * 180_800
    x = torch.randn(2, 5, 544, dtype=torch.float64)
    widths, layers = (544, 256, 128, 64, 2), list[nn.Module]()
    for number in range(4):
        linear = nn.Linear(widths[number], widths[number + 1], bias=number < 3).double()
        linear.weight.data = head.get_parameter(f"weight_{number}").data[1].T
        if number < 3:
            linear.bias.data = head.get_parameter(f"bias_{number}").data[1, 0]
        layers += [linear, nn.LeakyReLU(0.3)]
    plain = nn.Sequential(*layers[:-1])(x[1])
    torch.testing.assert_close(head.of_trials(x)[1], plain, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(head(*x.split([192, 192, 160], -1)), head.of_trials(x))
    torch.testing.assert_close(head.score(x)[1], plain[:, 1] - plain[:, 0])


def test_film_is_its_equations() -> None:
    head = FilmHead(4, 3, (5, 2), logits=3).double()
    assert not head.get_parameter("weight_film").any(), "FiLM starts as the identity"
    draw = torch.Generator().manual_seed(1)
    for one in head.parameters():
        one.data = torch.randn(one.shape, generator=draw, dtype=torch.float64)
    own = {name: one[0] for name, one in head.named_parameters()}
    e, p, x = (torch.randn(1, 6, n, generator=draw, dtype=torch.float64) for n in (3, 3, 4))

    def layer(name: str, value: Tensor) -> Tensor:
        return value @ own[f"weight_{name}"] + own[f"bias_{name}"]

    phi = nn.LeakyReLU(0.3)
    a, b = e[0] / e[0].norm(dim=1, keepdim=True), p[0] / p[0].norm(dim=1, keepdim=True)
    cosine = 10 * (a * b).sum(1, keepdim=True)
    told = torch.cat([a, b, 3**0.5 * a * b, cosine], 1)
    gamma, beta = layer("film", told)[:, :5], layer("film", told)[:, 5:]
    h = phi(layer("1", phi(layer("cm", x[0]) * (1 + gamma) + beta)))
    pair = phi(layer("pair", 3**0.5 * torch.cat([(a - b).abs(), a * b], 1)))
    v = pair * layer("gate", h).sigmoid()
    expected = layer("out", torch.cat([h, v, cosine], 1))
    torch.testing.assert_close(head(e, p, x)[0], expected)
    torch.testing.assert_close(head(7 * e, p / 3, x)[0], expected)  # lengths say nothing


@pytest.mark.parametrize("name", ["concat", "film"])
def test_gradients_are_those_of_finite_differences(name: str) -> None:
    head = HEADS[name](cm_dim=4, asv_dim=3, hidden_dims=(3, 2), logits=3, seeds=(1, 2)).double()
    draw = torch.Generator().manual_seed(2)
    for one in head.parameters():
        one.data = torch.randn(one.shape, generator=draw, dtype=torch.float64)
    x = torch.randn(2, 4, 10, generator=draw, dtype=torch.float64)
    objective = ThreeClassObjective((10, 1, 1))
    kind, counts = torch.tensor([[0, 1, 2, 1]] * 2), torch.tensor([[1, 2, 1]] * 2)
    batch = objective.batch(kind, counts, None, torch.float64)
    score = head.score(x)
    score.backward(objective.derivative(score.detach(), batch)[0])
    for parameter in head.parameters():
        assert parameter.grad is not None
        flat, found = parameter.data.view(-1), parameter.grad.reshape(-1)
        for place in range(0, len(flat), 5):
            ends, before = [], float(flat[place])
            for step in (1e-6, -1e-6):
                flat[place] = before + step
                ends.append(float(objective.losses(head.score(x), batch).sum()))
            flat[place] = before
            assert float(found[place]) == pytest.approx((ends[0] - ends[1]) / 2e-6, abs=1e-7)


def test_logits_become_llrs() -> None:
    """Of a network that knows the densities, with its sampler and weights, they are exact."""
    weights, shares = (10.0, 2.0, 1.0), (0.25, 0.5, 0.25)
    draw = torch.Generator().manual_seed(3)
    densities = torch.randn(50, 3, generator=draw, dtype=torch.float64)  # spoof, target, nontarget
    odds = torch.tensor([math.log(w * k) for w, k in zip(weights, shares, strict=True)])
    logits = densities + odds.double() + torch.randn(50, 1, generator=draw, dtype=torch.float64)
    asv, cm = ThreeClassObjective(weights).pair(logits).unbind(-1)
    torch.testing.assert_close(asv, densities[:, 1] - densities[:, 2])
    torch.testing.assert_close(cm, densities[:, 1] - densities[:, 0])
    one = FusedObjective(rule=None).pair(asv)
    assert torch.equal(one[:, 0], asv)
    assert torch.equal(one[:, 1], asv)


def test_dropout_is_a_function_of_seed_and_step() -> None:
    x = torch.randn(1, 7, 544)
    found = []
    for seeds, step, share in (
        ((4, 5), 3, slice(None)),
        ((5,), 3, slice(None)),
        ((5,), 3, slice(1, None, 2)),
        ((5,), 4, slice(None)),
    ):
        head = ConcatHead(160, 192, (30,), dropout=0.5, seeds=seeds)
        head.begin_step(step, 7, share)
        found.append(head.score(x.expand(len(seeds), -1, -1)[:, share]))
    torch.testing.assert_close(found[0][1], found[1][0])
    torch.testing.assert_close(found[1][:, 1::2], found[2])
    assert not torch.allclose(found[1], found[3])
    head.eval()
    assert torch.equal(head.score(x), head.score(x))


def test_what_a_head_is_given(twin: Corpus) -> None:
    blocks = TrainBlocks(twin.train, [1, 2], 5, joint=True)
    block, trials = blocks[0, 0, 1], blocks.sampler.epoch(2, 0)
    asv, cm = twin.train.asv_vectors, twin.train.vectors
    enrol, probe = trials.enrol[:5], trials.probe[:5]
    assert torch.equal(block.vectors[0, 1], torch.cat([asv[enrol], asv[probe], cm[probe]], 1))
    rows, vectors = ProbeBatches(twin.dev, 1000, joint=True)[0]
    for row in (0, 7, len(rows) - 1):
        name, utterance = (
            str(one[rows[row]]) for one in (twin.dev.trials.speaker, twin.dev.trials.utterance)
        )
        stores = (twin.dev.models, name), (twin.dev.asv, utterance), (twin.dev.cm, utterance)
        expected = torch.cat([store.select([one])[0] for store, one in stores])
        assert torch.equal(vectors[row], expected)


def scrambled(corpus: Corpus) -> Corpus:
    """The same with speakers' vectors that say nothing."""

    def noise(store: EmbeddingStore, seed: int) -> EmbeddingStore:
        draw = torch.Generator().manual_seed(seed)
        drawn = 20 * torch.randn(store.vectors.shape, generator=draw)
        return EmbeddingStore(list(store.ids), drawn, "noise")

    sets = [
        replace(one, asv=noise(one.asv, 1), models=noise(one.models, 2))
        for one in (corpus.dev, corpus.eval)
    ]
    train = replace(corpus.train, find_asv=lambda: noise(corpus.train.asv, 3))
    return Corpus(corpus.name, train, *sets)


def test_random_speaker_vectors_hurt_film(tmp_path: Path) -> None:
    corpus, found = make_twin(0.05), []
    for name, one in (("as_is", corpus), ("noise", scrambled(corpus))):
        module = SASVModule(systems=("F2",), **RECIPES["F2"] | {"lr": 1e-3})
        trainer = quiet_trainer(tmp_path / name, epochs=4)
        trainer.fit(module, shared_data(one))
        trainer.test(module, shared_data(one), verbose=False)
        [rates] = metrics_in(Path(trainer.log_dir or "")).values()
        found.append(rates["eval"])
    assert found[0]["sasv_eer"] < 0.05
    assert found[1]["sasv_eer"] > found[0]["sasv_eer"] + 0.1
    assert found[1]["sv_eer"] > 0.4, "who speaks cannot be told"
    assert found[1]["spf_eer"] < 0.05, "but what is spoofed"


@pytest.mark.parametrize("name", RECIPES)
def test_configurations_are_the_recipes_of_the_table(name: str, repository: Path) -> None:
    config = yaml.safe_load((repository / f"configs/{name}.yaml").read_text())["model"]
    assert config.pop("systems") == [name]
    assert {n: tuple(v) if isinstance(v, list) else v for n, v in config.items()} == RECIPES[name]
    assert RECIPES.keys() == JOINT_SYSTEMS.keys()
    module = SASVModule(systems=(name,), **config)
    assert module.hparams["objective"] == RECIPES[name]["objective"]
    assert SASVModule(systems=(name,), head=config["head"]).head.logits == module.head.logits


def test_pair_systems_are_left_out_and_at_least_one_is_left() -> None:
    objective, kept, said = fitting_systems("film", "auto", ["B1", "F3", "F2", "E3"], {})
    assert (objective, kept) == ("three_class", ["F3"])
    assert said == [
        "left out: B1, F2, E3; the head film (objective three_class) gives scores of its own, for "
        "F3"
    ]
    assert SASVModule(head="concat", systems=("L3", "E2")).names == ("E2",)
    for settings, words in (
        (
            {"head": "film", "systems": ("B1", "E2")},
            r"its systems are F2, F3: --model.systems \[F3\]",
        ),
        (
            {"head": "film", "systems": ("F3",), "objective": "fused"},
            r"its systems are F2: --model.systems \[F2\]",
        ),
        ({"systems": ("B1", "E2")}, "add --model.head concat"),
        ({"objective": "three_class"}, "three_class needs three logits"),
        ({"head": "concat", "systems": ("E2",), "objective": "cm"}, "cm is for the head cm"),
        ({"head": "flim"}, "unknown head 'flim'.*film"),
        ({"head": "film", "systems": ("F3",), "hidden_dims": ()}, "needs a hidden layer"),
        ({"dropout": 1.0}, "model.dropout"),
        ({"lr_decay": -1.0}, "model.lr_decay"),
    ):
        with pytest.raises(InputError, match=words):
            SASVModule(**settings)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="lightning fit --config F3"):
        fit_systems([0.1, 0.2, 0.3], [1, 2, 3], [0, 1, 2], ["F3"])


def test_a_table_of_one_head_leaves_the_others_out() -> None:
    recipe = Recipe({"head": "film"})
    kept, said = recipe.usable({"B1": {}, "F3": {}, "F2": {}})
    assert [*kept] == ["F3", "F2"]
    assert said == ["left out: B1; the head film gives scores of its own"]
    assert Recipe().usable({"B1": {}, "F3": {}}) == ({"B1": {}, "F3": {}}, [])
    with pytest.raises(InputError, match="its systems are F2, F3"):
        recipe.usable({"B1": {}, "E2": {}})
    with pytest.raises(InputError, match="takes cm, concat or film"):
        Recipe({"head": "my.Head"}).usable({"F3": {}})


def test_a_table_takes_the_recipe_but_for_what_is_set_otherwise() -> None:
    usual = asdict(ModelSettings())
    assert {n: Recipe(usual).joint("E2")[n] for n in RECIPES["E2"]} == RECIPES["E2"]
    told = {"lr": 1e-3, "dropout": 0.1, "class_weights": (0.9, 0.1), "head": "film"}
    found = Recipe(usual | told).joint("E2")
    assert (found["lr"], found["dropout"], found["head"]) == (1e-3, 0.1, "concat")
    assert found["class_weights"] == RECIPES["E2"]["class_weights"], "two say nothing of targets"
    assert Recipe(usual | {"class_weights": (2, 3, 4)}).joint("F3")["class_weights"] == (2, 3, 4)
    found = Recipe(usual | {"objective": "a_dcf"})
    assert [found.joint(name)["objective"] for name in RECIPES] == [
        "a_dcf", "three_class", "a_dcf", "three_class"
    ]  # fmt: skip
    assert found.networks(["L3", "Post", "F2", "B1v2"]) == ["cm", "Post", "F2", "B1v2"]
    assert Recipe.together(["cm", "Post", "F3", "B1v2", "E2"]) == [
        ["cm"], ["Post", "B1v2"], ["F3"], ["E2"]
    ]  # fmt: skip


def test_one_score_is_calibrated_by_one_map() -> None:
    draw = np.random.default_rng(1)
    label = np.repeat(list(TrialClass), (300, 200, 400))
    score = draw.normal(size=900) + 3.0 * (label == TrialClass.TARGET)
    found = build_system("E2").fit(score, score, label)
    fused = found(score, score)
    assert torch.equal(fused.asv_llr, fused.cm_llr)
    torch.testing.assert_close(fused.sasv, fused.asv_llr)
    slope, bias = (float(found.calibration.get_buffer(n).flatten()[0]) for n in ("weight", "bias"))
    np.testing.assert_allclose(fused.sasv, slope * score + bias)
    assert (slope, bias) == (pytest.approx(3, rel=0.15), pytest.approx(-4.5, rel=0.15))
    apart = score + 50 * (label == TrialClass.TARGET)
    assert float(build_system("E2").fit(apart, apart, label)(apart, apart).sasv.abs().max()) < 1e6
    with pytest.raises(InputError, match="single takes one score"):
        build_system("E2").fit(score, -score, label)
    given = build_system("F3", rho=0.5).fit(score, 2 * score, label)(score, 2 * score)
    assert np.array_equal(given.asv_llr, score)
    assert np.array_equal(given.cm_llr, 2 * score)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("joint") / "table"
    small = ["--data.scale=0.01", "--epochs=2", "--replicates=0", "--processes=1", "--seeds=1-2"]
    main(["table", "--systems", "B1,E2,F3", "--out", str(out), *small])
    return out


def test_joint_systems_have_rows_of_the_table(table: Path) -> None:
    found = metrics_in(table)
    assert found.keys() == {"B1", "E2", "F3"}
    scores = read_scores(table / "seed2/scores/eval.csv")
    assert np.abs(scores.asv).max() <= 1, "cosines stay where they were"
    own = scores.of_system("F3")
    rate = sasv_eers(scores.extra["sasv_F3"], scores.label).sasv
    assert metrics_in(table / "seed2")["F3"]["eval"]["sasv_eer"] == pytest.approx(rate)
    assert not np.array_equal(own.asv, scores.asv)
    pairs = {name: "t_eer" in own["eval"] for name, own in metrics_in(table / "seed2").items()}
    assert pairs == {"B1": True, "E2": False, "F3": True}, "one score has no tandem"
    e2 = scores.of_system("E2")
    assert np.array_equal(e2.asv, e2.cm)
    text = (table / "table.md").read_text()
    assert "E2 and F3: networks of their own, which see both embeddings" in text
    assert "B1v2 and Post have networks" not in text


def test_fit_predict_and_export_agree_with_the_table(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, repository: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    config = ["--config", str(repository / "configs/F3.yaml"), "--systems", "B1,F3"]
    main(["fit", *config, *SMALL, "--trainer.max_epochs=2", "--seed_everything=1"])
    [run] = [path.parent for path in Path("runs").rglob("metrics.json")]
    theirs, mine = (read_scores(p / "scores/eval.csv") for p in (table / "seed1", run))
    np.testing.assert_allclose(mine.asv, theirs.of_system("F3").asv, atol=1e-4)
    np.testing.assert_allclose(mine.extra["sasv_F3"], theirs.extra["sasv_F3"], atol=1e-4)
    main(["predict", str(run), "--quiet"])
    [again] = run.rglob("tests/*/scores/eval.csv")
    assert np.array_equal(read_scores(again).cm, mine.cm)
    main(["test", "--ckpt_path", str(table / "seed1/checkpoints/best_F3.ckpt"), "--quiet"])
    for folder, system in ((run, "F3"), (table / "seed1", "E2")):
        main(["export", "--fitted", str(folder), "--system", system, "--out", f"bundle_{system}"])
        scores = read_scores(folder / "scores/eval.csv").of_system(system)
        assert "head" not in json.loads(Path(f"bundle_{system}/bundle.json").read_text())
        found = load(f"bundle_{system}", bounds=False)(scores.asv[0], scores.cm[0])
        assert found.score == pytest.approx(scores.extra[f"sasv_{system}"][0], abs=1e-9)


def test_decisions_are_those_of_the_systems_own_network(table: Path, tmp_path: Path) -> None:
    """Of a table's score file, in which the shared pair stands in the usual columns."""
    folder, out = table / "seed1", tmp_path / "decisions.csv"
    scores = read_scores(folder / "scores/eval.csv")
    for system in ("F3", "E2"):
        found = decide(str(folder / "scores/eval.csv"), str(folder), system, out=str(out))
        own = scores.of_system(system)
        assert np.array_equal(found.frame["asv_score"], own.asv)
        assert np.array_equal(found.frame["cm_score"], own.cm)
        actual = found.results[system]["bayes"].actual
        assert actual is not None
        known = metrics_in(folder)[system]["eval"]["policy_a_dcf"]
        assert actual.normalised == pytest.approx(known, rel=1e-9)
        out.unlink()


def test_export_says_which_scores_a_bundle_takes(
    table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["export", "--fitted", str(table / "seed1"), "--out", str(tmp_path / "b"), "--system"]
    main([*words, "F3"])
    for text in (capsys.readouterr().out, (tmp_path / "b/CARD.md").read_text()):
        assert "takes the two LLRs that its network, which is no part of it, gives" in text


def test_a_head_of_ones_own_needs_to_be_typed_or_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    spec = f"{{class_path: {NAME}, init_args: {{times: 2.0}}}}"
    Path("own.yaml").write_text(f"model: {{systems: [F3], head: {spec}}}\n")
    assert "--trust-config" in failure_of(capsys, "fit", "--config", "own.yaml", *SMALL)
    Path("text.yaml").write_text(f"model: {{systems: [F3], head: {NAME}}}\n")
    assert "--trust-config" in failure_of(capsys, "fit", "--config", "text.yaml", *SMALL)
    with pytest.raises(InputError, match="trust"):
        SASVModule(head=NAME, systems=("F3",))
    main(["fit", "--model.head", NAME, "--systems", "F3", *SMALL])
    main(["fit", "--config", "own.yaml", "--trust-config", *SMALL])
    _, second = sorted(path.parents[1] for path in Path("runs").rglob("best.ckpt"))
    assert "--trust-config" in failure_of(capsys, "test", second, "--quiet")
    main(["test", str(second), "--trust-config", "--quiet"])
    kept = torch.load(second / "checkpoints/best.ckpt", weights_only=True)["hyper_parameters"]
    assert kept["head"] == {"class": NAME, "settings": {"times": 2.0}}
    with using(Program(trust_config=True)):
        found = SASVModule.load_from_checkpoint(second / "checkpoints/best.ckpt")
        assert (type(found.head).__qualname__, found.head.times) == ("Own", 2.0)
        with pytest.raises(InputError, match="no subclass"):
            SASVModule(head="torch.nn.Linear", systems=("F3",))


def test_a_stack_of_joint_heads_keeps_each_seeds_best(twin: Corpus, tmp_path: Path) -> None:
    """Checkpoints of several seeds with three logits are read back, sizes checked."""
    module = SASVModule(systems=("F3",), seeds=(1, 2), **RECIPES["F3"] | {"hidden_dims": (8,)})
    trainer = quiet_trainer(tmp_path, epochs=1)
    trainer.fit(module, shared_data(twin, seeds=(1, 2)))
    path = best_checkpoint(trainer)
    assert len(SASVModule.load_from_checkpoint(path).seeds) == 2
    content = torch.load(path, weights_only=True)
    content["hyper_parameters"]["hidden_dims"] = [9]
    torch.save(content, path)
    with pytest.raises(InputError, match="does not fit itself"):
        SASVModule.load_from_checkpoint(path)
