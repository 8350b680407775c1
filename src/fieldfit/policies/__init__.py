"""Policies: families of components, the laws by which they are selected, and the drawn selections."""

from fieldfit.policies.families import Blocks, Components, Family, Full, PseudoLikelihood, Subset
from fieldfit.policies.policy import BoundPolicy, Policy, as_policy
from fieldfit.policies.selection import FamilySelection, Selection
from fieldfit.policies.structure import BoundFamily, Component, FieldStructure, Structure
from fieldfit.policies.terms import Term

__all__ = [
    "Blocks",
    "BoundFamily",
    "BoundPolicy",
    "Component",
    "Components",
    "Family",
    "FamilySelection",
    "FieldStructure",
    "Full",
    "Policy",
    "PseudoLikelihood",
    "Selection",
    "Structure",
    "Subset",
    "Term",
    "as_policy",
]
