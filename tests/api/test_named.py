"""Nearest names of a misspelt one."""

from fieldfit.named import closest_names, nearest_names


def test_a_misspelt_pair_is_found_in_either_order():
    names = ["avoid:closeatt", "closeatt:org", "closeatt:loses", "closeatt", "avoid"]
    assert closest_names("closat:avoid", names)[0] == "avoid:closeatt"
    assert closest_names("avoid:closat", names)[0] == "avoid:closeatt"
    assert closest_names("Avoid", names) == ["avoid"]
    assert closest_names("zzz", names) == []


def test_the_first_names_are_text_and_no_list():
    assert nearest_names("nope", ["a:b", "a", "b"]) == "the first ones are 'a:b', 'a', 'b'"
