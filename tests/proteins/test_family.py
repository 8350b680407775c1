"""From an alignment to contacts: gauge, scores, penalties, mutation effects, plmc's file, and real families."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import fieldfit as ff
from fieldfit import proteins
from fieldfit.api import accuracies, runaway
from fieldfit.asymptotics import ImplicitAccuracy
from fieldfit.data.alignments import ALPHABETS
from fieldfit.data.container import read_container, write_container
from fieldfit.models import potts_problem
from fieldfit.models.potts import Potts
from fieldfit.proteins.page import family_lines
from fieldfit.proteins.penalties import as_penalty
from fieldfit.report.contact_map import contact_chart
from fieldfit.types import (
    ConvergenceWarning,
    DataError,
    FieldfitError,
    FieldfitWarning,
    FileFormatError,
    ModelError,
    RunawayWarning,
)  # fmt: skip

LETTERS = ALPHABETS["rna"]


def family(n: int = 300, length: int = 9, seed: int = 0) -> proteins.Alignment:
    """Sequences in which the columns 0 and 8, and 1 and 7, agree most of the time."""
    random = np.random.default_rng(seed)
    codes = random.integers(1, 5, (n, length)).astype(np.uint8)
    for left, right in ((0, 8), (1, 7)):
        same = random.random(n) < 0.8
        codes[same, right] = codes[same, left]
    codes[random.random((n, length)) < 0.03] = 0
    return proteins.Alignment(tuple(f"s{i}" for i in range(n)), codes, LETTERS, np.arange(length) + 3)


@pytest.fixture(scope="module")
def fitted() -> proteins.FamilyFit:
    return proteins.fit_family(family(), penalty="ccmpred", tol=1e-7)


@pytest.mark.slow
def test_the_strongest_couplings_have_the_errors_of_the_fit(fitted: proteins.FamilyFit) -> None:
    table = fitted.strongest_couplings(6, separation=2)
    assert len(table) == 6
    assert {(3, 11), (4, 10)} == set(zip(table["column_i"], table["column_j"], strict=True))
    assert (table["letter_i"] == table["letter_j"]).all()
    assert "-" not in set(table["letter_i"])
    assert (np.diff(table["coupling"].abs()) <= 0).all()
    names = [f"{row.column_i}={row.letter_i}:{row.column_j}={row.letter_j}" for row in table.itertuples()]
    np.testing.assert_array_equal(table["standard_error"], fitted.standard_errors(names))
    np.testing.assert_allclose(table["z"], table["coupling"] / table["standard_error"])
    alone = proteins.fit_family(family(), identity=None, penalty="ccmpred", tol=1e-7)
    np.testing.assert_allclose(alone.standard_errors(names), alone.fit.standard_errors(parameters=names), rtol=1e-8)
    with pytest.raises(FieldfitError, match="count"):
        fitted.strongest_couplings(0)
    with pytest.raises(ModelError, match="separation is -1"):
        fitted.strongest_couplings(6, separation=-1)
    far = fitted.strongest_couplings(6, separation=100)  # no pair is that far apart
    assert far.empty
    assert list(far) == list(table)


@pytest.mark.slow
def test_copies_of_a_sequence_do_not_make_errors_smaller() -> None:
    one = family()
    names = [f"{name}#{copy}" for name in one.names for copy in range(4)]
    copied = proteins.Alignment(tuple(names), np.repeat(one.codes, 4, axis=0), LETTERS, one.columns)
    alone, together = (proteins.fit_family(each, identity=1.0, penalty="ccmpred", tol=1e-7) for each in (one, copied))
    assert together.effective == pytest.approx(alone.effective)
    first, second = alone.strongest_couplings(5), together.strongest_couplings(5)
    np.testing.assert_allclose(second["coupling"], first["coupling"], atol=1e-6)
    np.testing.assert_allclose(second["standard_error"], first["standard_error"], rtol=1e-5)


@pytest.mark.slow
def test_a_coupling_takes_few_products(fitted: proteins.FamilyFit, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the kernel and by products, as for a real family; the errors are those of the matrices."""
    expected = fitted.strongest_couplings(4)
    monkeypatch.setattr(potts_problem, "_FEW_CONFIGURATIONS", 0)
    monkeypatch.setattr(accuracies, "MOST_COVARIANCE_PARAMETERS", 0)
    large = proteins.fit_family(family(), penalty="ccmpred", tol=1e-7)
    table = large.strongest_couplings(4)
    accuracy = large.accuracy
    assert isinstance(accuracy, ImplicitAccuracy)
    assert accuracy.bread.products < 40 * len(table)  # with the diagonal alone more than 60 for each
    np.testing.assert_allclose(table["standard_error"], expected["standard_error"], rtol=1e-4)


def test_zero_sum_gauge_and_norms() -> None:
    couplings = np.random.default_rng(0).normal(size=(3, 4, 4))
    centred = proteins.zero_sum(couplings)
    np.testing.assert_allclose(centred.sum(axis=1), 0, atol=1e-12)
    np.testing.assert_allclose(centred.sum(axis=2), 0, atol=1e-12)
    shifted = couplings + np.arange(4)[:, None] * 0.7 - np.arange(4) ** 2 * 0.1 + 3.0
    np.testing.assert_allclose(proteins.zero_sum(shifted), centred, atol=1e-12)
    np.testing.assert_allclose(proteins.frobenius_norms(couplings, None), np.linalg.norm(centred, axis=(1, 2)))
    np.testing.assert_allclose(proteins.frobenius_norms(couplings), np.linalg.norm(centred[:, 1:, 1:], axis=(1, 2)))


def test_average_product_correction_against_loops() -> None:
    length = 6
    edges = Potts(length, 2).edge_array
    scores = np.random.default_rng(1).uniform(size=len(edges))
    full = np.zeros((length, length))
    for (j, k), score in zip(edges.tolist(), scores, strict=True):
        full[j, k] = full[k, j] = score
    mean = [full[j].sum() / (length - 1) for j in range(length)]
    overall = full.sum() / (length * (length - 1))
    expected = [full[j, k] - mean[j] * mean[k] / overall for j, k in edges.tolist()]
    np.testing.assert_allclose(proteins.average_product_correction(scores, edges, length), expected)


def test_penalties_by_name() -> None:
    assert proteins.PENALTIES["evcouplings"].strengths(49, 21) == pytest.approx((0.01, 9.6))
    assert proteins.PENALTIES["ccmpred"].strengths(101, 21) == pytest.approx((0.01, 20.0))
    assert proteins.PENALTIES["plmc"].strengths(10, 5) == (0.01, 100.0)
    sigma2 = proteins.Penalty(fields=0.5, couplings=2.0).variances(Potts(3, 2))
    assert sigma2.tolist() == [0.25] * 12 + [1.0] * 6
    with pytest.raises(ModelError, match=r"'plm' is unknown; use 'evcouplings', .*, a Penalty, or a number for λ_J"):
        proteins.fit_family(family(), penalty="plm")
    with pytest.raises(FieldfitError, match="penalty is -1; it must be a number above 0"):
        proteins.fit_family(family(), penalty=-1)
    for wrong in ("3", -1.0, float("nan"), None):
        with pytest.raises(ModelError, match=r"couplings is .*; it must be a number of at least 0"):
            proteins.Penalty(couplings=wrong)  # type: ignore[arg-type]
    assert as_penalty(2.5) == proteins.Penalty(fields=0.01, couplings=2.5)
    with pytest.raises(ModelError, match="both must be above 0"):
        proteins.Penalty(fields=0.0, couplings=1.0).strengths(3, 3)


def test_planted_pairs_come_first(fitted: proteins.FamilyFit) -> None:
    assert fitted.fit.converged
    top = fitted.scores().head(2)
    assert {(int(i), int(j)) for i, j in zip(top["i"], top["j"], strict=True)} == {(0, 8), (1, 7)}
    assert top["column_i"].tolist() == [i + 3 for i in top["i"]]
    assert fitted.effective == pytest.approx(proteins.sequence_weights(fitted.alignment).sum())


def test_the_fit_is_that_of_the_weighted_penalised_pseudo_likelihood(fitted: proteins.FamilyFit) -> None:
    """The gradient by an oracle that goes through samples and sites one by one."""
    codes, q, m = fitted.alignment.codes, 5, 9
    fields = np.zeros((m, q))
    couplings = {tuple(e): np.zeros((q, q)) for e in fitted.model.edge_array.tolist()}
    table = dict(zip(couplings, fitted.couplings, strict=True))
    for x, w in zip(codes, fitted.weights, strict=True):
        for j in range(m):
            logits = fitted.fields[j].copy()
            for k in range(m):
                if k != j:
                    logits += table[j, k][:, x[k]] if j < k else table[k, j][x[k]]
            residual = -np.exp(logits - np.log(np.exp(logits).sum()))
            residual[x[j]] += 1
            fields[j] += w * residual
            for k in range(m):
                if k > j:
                    couplings[j, k][:, x[k]] += w * residual
                elif k < j:
                    couplings[k, j][x[k]] += w * residual
    np.testing.assert_allclose(fields, 2 * 0.01 * fitted.fields, atol=2e-4)
    np.testing.assert_allclose(np.stack(list(couplings.values())), 2 * 0.2 * 8 * fitted.couplings, atol=2e-4)


def test_mutation_effects_are_differences_of_energy(fitted: proteins.FamilyFit) -> None:
    model, theta = fitted.model, fitted.fit.theta
    logs = model.log_tables(theta)
    frame = fitted.mutations("s4")
    codes = fitted.alignment.codes[4].astype(np.int64)

    def energy(x: np.ndarray) -> float:
        return float(logs[model.graph.entries(x[None, :])].sum())

    assert len(frame) == 3 * int((codes != 0).sum())
    for line in frame.sample(8, random_state=0).itertuples(index=False):
        column, before, after, delta = line
        changed = codes.copy()
        assert LETTERS[codes[column - 3]] == before
        changed[column - 3] = LETTERS.index(after)
        assert delta == pytest.approx(energy(changed) - energy(codes), abs=1e-9)
    assert fitted.mutations().equals(fitted.mutations(0))
    with pytest.raises(DataError, match="no sequence 'zz'"):
        fitted.mutations("zz")
    for wrong in (300, -1, 1.5, True):
        with pytest.raises(DataError, match=r"sequence is .*; it must be an integer from 0 to 299"):
            fitted.mutations(wrong)  # type: ignore[arg-type]


def test_a_name_of_several_sequences(fitted: proteins.FamilyFit) -> None:
    alignment = fitted.alignment
    names = ("twice", "twice", *alignment.names[2:])
    differ = replace(fitted, alignment=replace(alignment, names=names))
    with pytest.raises(DataError, match=r"2 sequences with the name 'twice', which differ.*: 0, 1"):
        differ.mutations("twice")
    codes = alignment.codes.copy()
    codes[1] = codes[0]
    copies = replace(fitted, alignment=replace(alignment, names=names, codes=codes))
    assert copies.mutations("twice").equals(copies.mutations(0))


def test_a_name_stands_for_its_region(fitted: proteins.FamilyFit) -> None:
    names = ("q/10-18", *fitted.alignment.names[1:-1], "q2/1-9")
    ranged = replace(fitted, alignment=replace(fitted.alignment, names=names))
    assert ranged.mutations("q").equals(ranged.mutations("q/10-18"))
    assert ranged.mutations("q2").equals(ranged.mutations(len(names) - 1))
    with pytest.raises(DataError, match="no sequence 'q/1-9'"):
        ranged.mutations("q/1-9")
    twice = replace(fitted, alignment=replace(fitted.alignment, names=("q/1-9", "q/11-19", *names[2:])))
    with pytest.raises(DataError, match=r"2 sequences with the name 'q', which differ.*: 0, 1"):
        twice.mutations("q")


def test_plmc_file_comes_back(fitted: proteins.FamilyFit, tmp_path: Path) -> None:
    path = tmp_path / "family.params"
    fitted.to_plmc(path)
    found = proteins.read_plmc(path)
    assert repr(found).startswith("<PlmcParameters: ")
    assert len(repr(found)) < 80
    np.testing.assert_allclose(found.theta, fitted.fit.theta, atol=1e-6)
    np.testing.assert_allclose(found.weights, fitted.weights, rtol=1e-6)
    np.testing.assert_allclose(found.frequencies.sum(axis=1), 1, atol=1e-5)
    np.testing.assert_allclose(found.pair_frequencies[0].sum(axis=1), found.frequencies[0], atol=1e-5)
    assert (found.alphabet, found.target) == (LETTERS, "-" * 9)
    assert found.numbering.tolist() == list(range(4, 13))
    assert (found.lambda_fields, found.lambda_couplings) == pytest.approx((0.01, 1.6))
    again = tmp_path / "again.params"
    proteins.write_plmc(again, found)
    assert again.read_bytes() == path.read_bytes()
    for damaged in (b"", path.read_bytes()[:-3], b"x" * 100):
        again.write_bytes(damaged)
        with pytest.raises(FieldfitError, match="parameter file of plmc"):
            proteins.read_plmc(again)
    again.write_bytes(path.read_bytes()[:-4] + b"\x01\x00\xa0\x7f")  # a NaN that "signals"
    with pytest.raises(FieldfitError, match="not finite numbers"):
        proteins.read_plmc(again)
    with pytest.raises(FieldfitError, match="cannot be opened"):
        proteins.read_plmc(tmp_path / "none")


def test_distances_and_precision(tmp_path: Path) -> None:
    path = tmp_path / "d.csv"
    path.write_text("column_i,column_j,cb_distance\n0,7,5.0\n0,8,9.5\n1,8,7.9\n")
    distances = proteins.read_distances(path, 9)
    assert distances[8, 1] == 7.9
    assert np.isnan(distances[0, 1])
    edges = np.array([[0, 7], [0, 8], [1, 8], [0, 1]])
    scores = np.array([3.0, 2.0, 1.0, 9.0])
    found = proteins.contact_precision(scores, edges, distances, shares=(0.12, 0.25, 1.0))
    assert found == {0.12: 1.0, 0.25: 0.5, 1.0: pytest.approx(2 / 3)}
    with pytest.raises(DataError, match="No pair is at least 20"):
        proteins.contact_precision(scores, edges, distances, separation=20)


def test_distances_in_other_forms(tmp_path: Path) -> None:
    path = tmp_path / "d.csv"
    path.write_bytes(b"\xef\xbb\xbfi;j;distance\r\n0;2;5.5\r\n\r\n1;2;\r\n2;2;0\r\n2;0;5.5\r\n")
    distances = proteins.read_distances(path, 3)
    assert distances[2, 0] == 5.5
    assert np.isnan(distances[1, 2])


def test_distances_that_may_count_from_1_get_a_warning(tmp_path: Path) -> None:
    path = tmp_path / "d.csv"
    path.write_text("1,2,5.5\n1,3,6.5\n")
    with pytest.warns(FieldfitWarning, match="No line of .* has the column 0"):
        proteins.read_distances(path, 4)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0,7,5.0\n0,eight,2\n", "Line 2 of .* three cells"),
        ("sad,tired,calm,joy\n0,1,1,0\n", "Line 1 of .* is 'sad,tired,calm,joy'; a line has three cells"),
        ("i,j,d,chain\n0,7,5.0,A\n", "Line 1 of .* three cells"),
        ("0,17,5.0\n", "names the columns 0 and 17; the alignment has the columns 0 to 8"),
        ("a,b,c\n0,1,5\n1,0,6\n", "distance 6 for the columns 1 and 0, and an earlier line has 5"),
        ("0,1,-3\n", "the distance -3; distances are positive"),
        ("0,1,inf\n", "the distance inf"),
        ("0,1,0\n", "the distance 0"),
        ("0,1,0.38\n0,2,2.55\n", r"smallest distance .* 0.38.*1 nm is 10 Å"),
        ("a,b,c\n", "no distance"),
        ("a,b,c\n1,1,0\n", "no distance"),
    ],
)
def test_tables_that_are_not_distances_are_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "d.csv"
    path.write_text(text)
    with pytest.raises(FieldfitError, match=message):
        proteins.read_distances(path, 9)


def test_the_contact_map_of_a_family(fitted: proteins.FamilyFit) -> None:
    picture = fitted.plot_contacts(separation=1, top=3)
    best = fitted.scores().head(3)
    points = np.concatenate([np.asarray(found.get_offsets()) for found in picture.axes[0].collections])
    assert {tuple(map(int, sorted(point))) for point in points} == set(
        zip(best["column_i"], best["column_j"], strict=True)
    )
    length = fitted.alignment.length
    near = np.full((length, length), 4.0)
    assert len(fitted.plot_contacts(near, separation=1, top=3).axes[0].collections) > 1


def test_both_contact_maps_have_the_first_column_at_the_top(fitted: proteins.FamilyFit) -> None:
    assert fitted.plot_contacts(separation=1).axes[0].yaxis_inverted()
    chart = contact_chart(np.array([[2, 7]]), np.array([1.0]), np.arange(9))
    marks = {
        (float(x), float(y)) for x, y in re.findall(r'<circle class="blue"[^>]* cx="([\d.]+)" cy="([\d.]+)"', chart)
    }
    (left, low), (right, high) = sorted(marks)
    assert left < right
    assert low > high  # column 7 is below column 2


def test_mutual_information_of_equal_and_independent_columns() -> None:
    random = np.random.default_rng(0)
    codes = random.integers(0, 4, (4000, 3)).astype(np.uint8)
    codes[:, 1] = codes[:, 0]
    family = proteins.Alignment(tuple(f"s{i}" for i in range(4000)), codes, "-HPC", np.arange(3))
    found = proteins.mutual_information(family, pseudo=1e-9)
    assert found[0] == pytest.approx(np.log(4), abs=0.01)
    assert found[1:].max() < 0.01
    twice = proteins.mutual_information(family, np.where(np.arange(4000) < 2000, 2.0, 0.0), pseudo=1e-9)
    half = proteins.Alignment(family.names[:2000], codes[:2000], "-HPC", np.arange(3))
    np.testing.assert_allclose(twice, proteins.mutual_information(half, pseudo=1e-9), atol=1e-12)
    assert proteins.mutual_information(family, pseudo=0.0) == pytest.approx(found, abs=1e-6)
    with pytest.raises(DataError, match="weights must be numbers of at least 0"):
        proteins.mutual_information(family, np.full(4000, -1.0))
    with pytest.raises(DataError, match=r"weights has shape \(3,\); the alignment has 4,000 sequences"):
        proteins.mutual_information(family, np.ones(3))
    with pytest.raises(FieldfitError, match=r"needs an Alignment .of a fitted family: fitted.alignment.; got"):
        proteins.mutual_information(codes)  # type: ignore[arg-type]


@pytest.mark.slow
def test_a_real_family() -> None:
    folder = Path(os.environ.get("FIELDFIT_DATA", "")) / "msa"
    if not (folder / "PF00018.fasta").exists():
        pytest.skip("FIELDFIT_DATA has no msa/PF00018.fasta")
    alignment = proteins.read_alignment(folder / "PF00018.fasta")
    distances = proteins.read_distances(folder / "PF00018.distances.csv", alignment.length)
    fitted = proteins.fit_family(alignment, tol=1e-3)
    precision = proteins.contact_precision(fitted.contact_scores, fitted.model.edge_array, distances)
    assert precision[0.5] >= 0.79


def test_a_family_that_runs_away_has_advice_for_families(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runaway, "DRIFT", -10.0)  # every model drifts
    with pytest.warns(RunawayWarning, match="Do not simulate from it. Contact scores") as told:
        away = proteins.fit_family(family(length=10), penalty=3.0, tol=1e-2)
    assert away.fit.runaway == str(told[0].message)
    assert "stronger penalty (penalty=…): λ_J is 3 here." in away.fit.runaway
    assert "sigma2" not in away.fit.runaway


def test_a_family_that_does_not_converge_is_told_of_its_own_options() -> None:
    with pytest.warns(ConvergenceWarning) as told:
        proteins.fit_family(family(40), penalty=3.0, max_iter=1, tol=1e-9)
    text = str(told[0].message)
    assert (
        "Give more iterations (max_iter), a stronger penalty (penalty=…; λ_J is 3 here), or check the data." in text
    )
    assert "sigma2" not in text


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["ACGU"], "has 1 sequence: there is no variation"),
        (["----", "----"], "has 2 sequences, all of gaps"),
        (["ACGU"] * 3, "has 3 sequences that are all equal"),
    ],
)
def test_alignments_without_variation_are_refused(lines: list[str], message: str, tmp_path: Path) -> None:
    path = tmp_path / "family.fasta"
    path.write_text("".join(f">s{i}\n{line}\n" for i, line in enumerate(lines)))
    with pytest.raises(DataError, match=message):
        proteins.fit_family(proteins.read_alignment(path, alphabet="rna"))


def test_regions_that_do_not_belong_to_the_sequence_get_a_warning(tmp_path: Path) -> None:
    path = tmp_path / "family.fasta"
    for region, first, message in (
        ("10-99", 10, "has 90 residues, and the sequence has 4. Its residues are numbered from 10"),
        ("13-10", 1, "ends before it begins"),
    ):
        path.write_text(f">q/{region}\nAC-GU\n>b\nAAAAA\n")
        with pytest.warns(FieldfitWarning, match=message):
            positions = proteins.read_alignment(path, alphabet="rna", focus="q").positions
        assert positions is not None
        assert positions.tolist() == list(range(first, first + 4))


def test_a_coupling_without_an_error_says_why() -> None:
    """In small tables a pair that never occurs is a part of its row and its column."""
    random = np.random.default_rng(0)
    codes = random.integers(0, 3, (200, 3)).astype(np.uint8)
    codes = codes[~((codes[:, 0] == 1) & (codes[:, 2] == 2))]
    small = proteins.Alignment(tuple(f"s{i}" for i in range(len(codes))), codes, "-AC", np.arange(3))
    table = proteins.fit_family(small, identity=None, tol=1e-7).strongest_couplings(100)
    notes = {
        (row.column_i, row.letter_i, row.column_j, row.letter_j): (row.note, without)
        for row, without in zip(table.itertuples(), table["standard_error"].isna(), strict=True)
    }
    assert notes[0, "A", 2, "C"] == ("never occurs", True)
    beside = ("shares a letter with a pair that never occurs", True)
    assert notes[0, "A", 2, "A"] == notes[0, "C", 2, "C"] == beside
    assert notes[0, "A", 1, "A"] == ("", False)


def test_the_lines_on_the_page_of_a_family_have_all_that_changes_its_numbers() -> None:
    away = proteins.fit_family(family(40), penalty=1 / 3, tol=0.05, max_iter=7, precision="single")
    lines = family_lines(away)
    assert "tol=0.05, max_iter=7, precision='single'" in lines
    assert f"couplings={1 / 3!r})" in lines


@pytest.mark.parametrize("options", [{"focus": "s0"}, {"most_gaps": 0.25}])
def test_the_lines_on_the_page_of_a_family_run(options, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lines = ["".join(np.random.default_rng(0).choice(list("-ACGU"), (60, 9))[i]) for i in range(60)]
    Path("family.fasta").write_text("".join(f">s{i}\n{line}\n" for i, line in enumerate(lines)))
    fitted = proteins.fit_family(
        proteins.read_alignment("family.fasta", alphabet="rna", **options), penalty="plmc", tol=1e-2
    )
    fitted.fit.save("model.ff")
    assert ff.load("model.ff").convergence.tol == 1e-2
    names = {"ff": ff}
    exec(family_lines(fitted), names)
    np.testing.assert_allclose(names["family"].contact_scores, fitted.contact_scores, atol=1e-12)


@pytest.mark.slow
def test_the_page_of_a_family_names_what_families_have(tmp_path: Path) -> None:
    path = tmp_path / "family.html"
    codes = np.random.default_rng(0).integers(0, 4, (40, 30)).astype(np.uint8)  # 9,900 parameters: no matrices
    large = proteins.Alignment(tuple(f"s{i}" for i in range(40)), codes, LETTERS, np.arange(30))
    fitted = proteins.fit_family(large, penalty=5.0, tol=1e-2)
    fitted.to_html(path)
    text = path.read_text(encoding="utf-8")
    assert "40 sequences with an effective number of 40.0, 11,025 parameters" in text
    assert "0.0036 sequences for each parameter: standard errors of couplings may be far too small" in text
    assert "λ_J = 5) shrinks the estimates" in text
    assert "family.strongest_couplings(20) in Python" in text
    for absent in ("fit.table", "fit.functional", "kind=", "weighted samples"):
        assert absent not in text
    share = fitted.fit.gradient_norm / fitted.weights.sum()
    assert share <= 1e-2
    assert f"gradient norm {share:.2g} per sample (tolerance 0.01)" in text


def focused(path: Path) -> proteins.FamilyFit:
    """A small fit whose focus sequence, the second one, lacks columns 2 and 5 and begins at residue 11."""
    random = np.random.default_rng(0)
    lines = ["".join(random.choice(list("-ACGU"), 9)) for _ in range(60)]
    lines[1] = "AC-GU-ACg" + "G"  # the insertion counts as a residue
    path.write_text("".join(f">{'RNA/11-18' if i == 1 else f's{i}'}\n{line}\n" for i, line in enumerate(lines)))
    alignment = proteins.read_alignment(path, alphabet="rna", focus="RNA")
    return proteins.fit_family(alignment, identity=0.9, penalty="plmc")


@pytest.mark.slow
def test_a_reloaded_family_has_the_numbers_of_its_focus_sequence(tmp_path: Path) -> None:
    path = tmp_path / "family.fasta"
    fitted = focused(path)
    fitted.save(tmp_path / "family.ff")
    assert fitted.alignment.positions is not None
    assert fitted.alignment.positions.tolist() == [11, 12, 13, 14, 15, 16, 18]
    for source in (path, proteins.read_alignment(path, alphabet="rna"), fitted.alignment):
        again = proteins.load_family(tmp_path / "family.ff", source)
        assert (again.identity, again.alignment.focus, again.alignment.axis) == (0.9, 1, "residue of RNA/11-18")
        pd.testing.assert_frame_equal(again.scores(), fitted.scores())
        pd.testing.assert_frame_equal(again.mutations(), fitted.mutations())
        pd.testing.assert_frame_equal(again.strongest_couplings(5), fitted.strongest_couplings(5))
        assert {"position_i", "position_j"} <= set(again.strongest_couplings(1))
    axes = again.plot_contacts(separation=3).axes[0]
    assert axes.get_xlabel() == axes.get_ylabel() == "residue of RNA/11-18"
    points = np.concatenate([np.asarray(found.get_offsets()) for found in axes.collections])
    assert set(points.ravel().tolist()) <= {11, 12, 13, 14, 15, 16, 18}
    again.to_html(tmp_path / "family.html")
    assert "residue of RNA/11-18" in (tmp_path / "family.html").read_text(encoding="utf-8")
    path.write_text(path.read_text().replace("RNA/", "RNB/"))
    with pytest.raises(
        DataError, match=r"the focus sequence 'RNA/11-18', number 1 .* this alignment has another one"
    ):
        proteins.load_family(tmp_path / "family.ff", path)


@pytest.mark.parametrize(
    "changed",
    [
        {"place": 60},
        {"place": None},
        {"focus": None},
        {"focus": 3},
        {"identity": 1.5},
        {"identity": "x"},
        {"width": 5},
        {"positions": np.arange(6)},
        {"positions": np.arange(7)[::-1].copy()},
        {"positions": np.arange(7.0)},
        {"unknown": 1},
    ],
)
def test_a_saved_family_with_an_impossible_alignment_is_refused(tmp_path: Path, changed: dict[str, Any]) -> None:
    path = tmp_path / "family.ff"
    focused(tmp_path / "family.fasta").fit.save(path)
    header, arrays = read_container(path)
    if "positions" in changed:
        arrays = {**arrays, "positions": changed["positions"]}
    else:
        header["alignment"] |= changed
    write_container(path, {name: value for name, value in header.items() if name != "format"}, dict(arrays))
    with pytest.raises(FileFormatError, match="do not fit together"):
        ff.load(path)


@pytest.mark.slow
def test_a_saved_family_comes_back_with_its_alignment(tmp_path):
    random = np.random.default_rng(0)
    lines = ["".join(random.choice(list("-ACGU"), 9)) for _ in range(60)]
    path = tmp_path / "family.fasta"
    path.write_text("".join(f">s{i}\n{line}\n" for i, line in enumerate(lines)))
    family = proteins.read_alignment(path, alphabet="rna", most_gaps=0.25)
    fitted = proteins.fit_family(family, penalty="plmc")
    fitted.save(tmp_path / "family.ff")
    with pytest.raises(DataError, match=r"An Alignment is not a table.*load_family\(fit, alignment\)"):
        ff.load(tmp_path / "family.ff", family)
    again = proteins.load_family(tmp_path / "family.ff", path)
    assert 2 < again.alignment.length <= 9
    assert (again.alignment.codes == family.codes).all()
    assert (again.contact_scores == fitted.contact_scores).all()
    assert again.penalty.strengths(9, 5) == pytest.approx(fitted.penalty.strengths(9, 5))
    pd.testing.assert_frame_equal(again.mutations("s0"), fitted.mutations("s0"))
    again.to_html(tmp_path / "family.html")
    assert "Predicted contacts" in (tmp_path / "family.html").read_text(encoding="utf-8")
    ff.fit(ff.Potts(2, 2, couplings="agree"), [[0, 1], [1, 1], [0, 0]], "PL1", sigma2=1.0).save(tmp_path / "other.ff")
    with pytest.raises(ModelError, match="not that of a family"):
        proteins.load_family(tmp_path / "other.ff", path)
    path.write_text(">a\nACGU\n>b\nACGG\n")
    with pytest.raises(DataError, match="has 4 columns, and the fit has the column 4, which it does not have"):
        proteins.load_family(tmp_path / "family.ff", path)


def test_families_that_do_not_fit_are_refused_before_any_array_of_parameters_is_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("fieldfit.models.potts_memory.memory_limit", lambda: 1_048_576)
    monkeypatch.setattr("fieldfit.proteins.family.sequence_weights", lambda *given: pytest.fail("work before that"))
    codes = np.ones((10, 60), dtype=np.uint8)
    family = proteins.Alignment(tuple(f"s{i}" for i in range(10)), codes, "-ACGU", np.arange(60))
    with pytest.raises(DataError, match=r"need [\d,]+ bytes for one evaluation, and there are 1,048,576"):
        proteins.fit_family(family)
