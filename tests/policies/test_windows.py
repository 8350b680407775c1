import numpy as np
import pytest

from fieldfit.policies import Blocks, Full, PseudoLikelihood
from fieldfit.policies.structure import Component
from fieldfit.policies.windows import SequenceStructure
from fieldfit.types import PolicyError


def test_windows_of_each_sequence():
    structure = SequenceStructure(np.array([5, 2, 1, 0, 3]))
    assert structure.bind_family(Full()).sizes(0, 5).tolist() == [1, 1, 1, 0, 1]
    assert structure.bind_family(PseudoLikelihood(1)).sizes(0, 5).tolist() == [5, 2, 1, 0, 3]
    assert structure.bind_family(PseudoLikelihood(2)).sizes(0, 5).tolist() == [4, 1, 1, 0, 2]
    assert structure.bind_family(PseudoLikelihood(3)).sizes(1, 5).tolist() == [1, 1, 0, 1]
    assert structure.bind_family(Full()).size is None


def test_components_are_windows_given_the_labels_beside_them():
    structure = SequenceStructure(np.array([4, 2]))
    pairs = structure.bind_family(PseudoLikelihood(2))
    assert [pairs.component(j, 0) for j in range(3)] == [
        Component((0, 1), (2,)),
        Component((1, 2), (0, 3)),
        Component((2, 3), (1,)),
    ]
    assert pairs.component(0, 1) == Component((0, 1), ())
    assert structure.bind_family(Full()).component(0, 0) == Component((0, 1, 2, 3), ())
    assert pairs.name == "PL2"


def test_what_sequences_do_not_have_is_refused():
    structure = SequenceStructure(np.array([4, 2]))
    with pytest.raises(PolicyError, match="use FL, PL1"):
        structure.bind_family(Blocks(((0, 1),)))
    with pytest.raises(PolicyError, match="no window 1 in sequence 1"):
        structure.bind_family(PseudoLikelihood(2)).component(1, 1)
    with pytest.raises(PolicyError, match="lengths"):
        SequenceStructure(np.array([3, -1]))
