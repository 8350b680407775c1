"""The origin of a result: versions of the software, and what to cite."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version

from fieldfit.report.page import Page

PAPER = (
    "J. V. Dillon and G. Lebanon. Statistical and Computational Tradeoffs in Stochastic Composite Likelihood. "
    "AISTATS 2009. Its longer version: Stochastic Composite Likelihood. Journal of Machine Learning Research 11 (2010), "
    "2597–2633."
)


def library_versions() -> dict[str, str]:
    """The versions of fieldfit and of the libraries that it uses."""
    known = {"Python": platform.python_version(), "system": f"{platform.system()} {platform.machine()}"}
    for name in ("fieldfit", "numpy", "scipy", "pandas", "scikit-learn"):
        try:
            known[name] = version(name)
        except PackageNotFoundError:
            known[name] = "not installed as a package"
    return known


def add_citation(page: Page, refined: bool = False) -> None:
    """How to cite."""
    page.heading("How to cite")
    page.paragraph(
        f"fieldfit {library_versions()['fieldfit']}, a library for composite likelihoods of random fields."
    )
    page.paragraph(f"The method: {PAPER}")
    if refined:
        page.paragraph(
            "The second stage: L. P. Hansen. Large Sample Properties of Generalized Method of Moments Estimators. "
            "Econometrica 50 (1982), 1029–1054."
        )


def add_versions(page: Page) -> None:
    """The versions, as one line."""
    page.note("Made with " + ", ".join(f"{name} {text}" for name, text in library_versions().items()) + ".")
