"""sklearn-crfsuite's interface: change the import, and the rest of the program stays as it is.

from fieldfit.compat.sklearn_crfsuite import CRF, metrics, scorers

crf = CRF(algorithm="lbfgs", c1=0.1, c2=0.1, max_iterations=100, all_possible_transitions=True)
crf.fit(X_train, y_train)
metrics.flat_f1_score(y_test, crf.predict(X_test), average="weighted")
"""

from fieldfit.compat.sklearn_crfsuite import metrics, scorers
from fieldfit.compat.sklearn_crfsuite.dump import read_dump
from fieldfit.compat.sklearn_crfsuite.estimator import CRF

__all__ = ["CRF", "metrics", "read_dump", "scorers"]
