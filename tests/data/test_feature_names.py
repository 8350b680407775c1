"""Names of features that are made in blocks, read by several threads."""

from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

from fieldfit.data.encoders import FeatureNames

COUNT = 20_000


def test_a_reader_of_another_block_in_between_changes_nothing():
    read: list[str] = []

    def feature_names(codes):
        if not read:  # another reader comes while the first block is being made
            read.append("")
            read[0] = names.at(COUNT - 1)
        return [f"f{code}" for code in codes]

    names = FeatureNames(SimpleNamespace(n_features=COUNT, feature_names=feature_names))
    assert names.at(3) == "f3"
    assert read == [f"f{COUNT - 1}"]
    assert names.at(COUNT - 1) == f"f{COUNT - 1}"


def test_readers_in_several_threads():
    encoder = SimpleNamespace(n_features=COUNT, feature_names=lambda codes: [f"f{code}" for code in codes])
    names = FeatureNames(encoder)
    places = [(7919 * k) % COUNT for k in range(400)]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda place: names[place], places))
    assert found == [f"f{place}" for place in places]


def test_single_names_make_no_block_and_names_in_order_do():
    sizes = []

    def feature_names(codes):
        sizes.append(len(codes))
        return [f"f{code}" for code in codes]

    names = FeatureNames(SimpleNamespace(n_features=COUNT, feature_names=feature_names))
    places = [(7919 * k) % COUNT for k in range(1, 50)]
    assert [names[place] for place in places] == [f"f{place}" for place in places]
    assert set(sizes) == {1}
    sizes.clear()
    assert list(names) == [f"f{place}" for place in range(COUNT)]
    assert len(sizes) < 20
