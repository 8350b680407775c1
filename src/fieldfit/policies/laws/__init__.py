"""Laws of Z, one file each, found by name: ``Multinomial(...)`` in a policy is the class in ``multinomial.py``."""
