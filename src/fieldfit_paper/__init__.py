"""The paper's figures and claims, computed with fieldfit. `fieldfit_paper.experiments` lists them."""
