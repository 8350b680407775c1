"""Second stages, one file each, found by `second_stage.second_stages`: the class ``Optimal`` in ``optimal.py``."""
