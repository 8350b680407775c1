"""The CRF's optimum is CRFsuite's, with its switches: observed or all pairs and transitions, no start and no end."""

import numpy as np
import pytest

from fieldfit.data.column_encoder import ColumnEncoder
from fieldfit.data.columns import read_columns
from fieldfit.data.locate import find_data
from fieldfit.data.sequences import Sequences
from fieldfit.models.chain_crf import ChainCRF
from fieldfit.models.chain_problem import ChainProblem, Windows
from fieldfit.optim.lbfgs import minimise_lbfgs
from fieldfit.types import DataError

pycrfsuite = pytest.importorskip("pycrfsuite", reason="needs python-crfsuite, the peer")


@pytest.fixture(scope="module")
def sentences() -> Sequences:
    try:
        text = read_columns(find_data("conll2000/train.txt"))
        _, data = ColumnEncoder.fit(text, "conll2000")
    except DataError as error:
        pytest.skip(f"needs CoNLL-2000 and the SMART stop list: {error}")
    part = data.subset(np.arange(200))
    features, indices = np.unique(part.indices, return_inverse=True)
    used, labels = np.unique(part.labels, return_inverse=True)
    return Sequences(
        part.offsets,
        part.indptr,
        indices.reshape(-1).astype(np.int32),
        None,
        labels.reshape(-1).astype(np.int32),
        len(features),
        len(used),
    )


@pytest.mark.slow
@pytest.mark.parametrize("everything", [False, True], ids=["observed", "all"])
def test_the_optimum_is_that_of_crfsuite(sentences, everything, tmp_path):
    data, sigma2 = sentences, 1.0
    trainer = pycrfsuite.Trainer(algorithm="lbfgs", verbose=False)
    names = [[f"f{i}" for i in data.indices[a:b]] for a, b in zip(data.indptr[:-1], data.indptr[1:], strict=True)]
    for a, b in zip(data.offsets[:-1], data.offsets[1:], strict=True):
        trainer.append(names[a:b], [f"y{y}" for y in data.labels[a:b]])
    trainer.set_params(
        {
            "c1": 0.0,
            "c2": 1 / (2 * sigma2),
            "max_iterations": 400,
            "epsilon": 1e-6,
            "delta": 1e-7,
            "feature.possible_states": everything,
            "feature.possible_transitions": everything,
        }
    )
    trainer.train(str(tmp_path / "peer.crfsuite"))
    theirs = trainer.logparser.last_iteration

    kind = "all" if everything else "observed"
    model = ChainCRF(data.n_labels, data.n_features, pairs=kind, transitions=kind, start=False, end=False)
    model = model.observe(data)
    assert model.n_parameters == theirs["active_features"]
    problem = ChainProblem(model.layout, data, (Windows(0, 1.0, None, None, None),))

    def objective(theta):
        value, gradient = problem.value_grad(theta)
        return theta @ theta / (2 * sigma2) - value, theta / sigma2 - gradient

    ours = minimise_lbfgs(objective, np.zeros(model.n_parameters), gtol=1e-3, max_iter=400)
    assert ours.value == pytest.approx(theirs["loss"], rel=1e-4)
