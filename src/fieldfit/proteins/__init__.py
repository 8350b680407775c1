"""Families of proteins and RNAs: from an alignment to contacts and effects of mutations.

from fieldfit import proteins

family = proteins.read_alignment("PF00072.fasta")
fitted = proteins.fit_family(family)
fitted.scores()                                   # a row for each pair of columns, the strongest first
fitted.mutations(0)                               # ΔE of every substitution in a sequence
"""

from fieldfit.data.alignments import Alignment, read_alignment, sequence_weights
from fieldfit.proteins.contacts import contact_precision, read_distances
from fieldfit.proteins.couplings import average_product_correction, frobenius_norms, mutual_information, zero_sum
from fieldfit.proteins.family import FamilyFit, fit_family
from fieldfit.proteins.parameter_file import PlmcParameters, read_plmc, write_plmc
from fieldfit.proteins.penalties import PENALTIES, Penalty
from fieldfit.proteins.saved import load_family

__all__ = [
    "PENALTIES",
    "Alignment",
    "FamilyFit",
    "Penalty",
    "PlmcParameters",
    "average_product_correction",
    "contact_precision",
    "fit_family",
    "frobenius_norms",
    "load_family",
    "mutual_information",
    "read_alignment",
    "read_distances",
    "read_plmc",
    "sequence_weights",
    "write_plmc",
    "zero_sum",
]
