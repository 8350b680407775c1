"""Nearest names of a misspelt one."""

from fieldfit.named import closest_names


def test_a_misspelt_pair_is_found_in_either_order():
    names = ["avoid:closeatt", "closeatt:org", "closeatt:loses", "closeatt", "avoid"]
    assert closest_names("closat:avoid", names)[0] == "avoid:closeatt"
    assert closest_names("avoid:closat", names)[0] == "avoid:closeatt"
    assert closest_names("Avoid", names) == ["avoid"]
    assert closest_names("zzz", names) == []
