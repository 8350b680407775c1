"""The parts of the page of benchmarks, in the order of the page."""

from __future__ import annotations

from typing import NamedTuple


class Section(NamedTuple):
    """A block of the page: what it is called, what prints it, and what to know when reading it."""

    title: str
    command: list[str]
    note: str = ""
    runs: int = 3
    short: list[str] | None = None  # for a quick look; None: the same
    seconds: int = 0  # about how long one run takes on two quiet cores; 0: runs by name only


RUNS = {
    "inference": Section(
        "Exact inference against pyAgrum",
        ["inference.py"],
        short=["inference.py", "200"],
        seconds=25,
    ),
    "grids": Section(
        "Exact sums over large grids",
        ["grids.py"],
        short=["grids.py", "12", "15"],
        seconds=20,
    ),
    "pairwise": Section(
        "Pairwise fields against matrix products and scikit-learn",
        ["pairwise.py", "a", "b", "c", "digits", "small"],
        seconds=40,
    ),
    "potts": Section(
        "Potts fields against sparse products",
        ["potts.py", "evaluation", "growth"],
        """An evaluation adds n m (m-1) rows of couplings and scatters as many rows of residuals. The limit counts their
vectors only: two loads in a cycle for a row that is added, one store in a cycle for a row that is scattered. A row is
the states of a site but one, without padding. The cycles in a second are those that a matrix product in the same run needs
at least. Exponentials are not in the limit.""",
        seconds=50,
    ),
    "images": Section(
        "Fits on correlated images",
        ["potts.py", "images"],
        """An evaluation is one value and gradient over all samples; those of line searches count. Making the
preconditioner and its products with blocks of the Hessian do not count as evaluations, but their time is included: in
brackets are the evaluations that would take as long as the whole fit.""",
        runs=1,
    ),
    "groups": Section(
        "Tables of couplings that are zero together, against accelerated proximal gradients",
        ["potts.py", "groups"],
        """FISTA takes two evaluations for a step: one for the gradient and one to check the length of the step.""",
        seconds=60,
    ),
    "large": Section(
        "A pairwise field of 500 variables against scikit-learn",
        ["pairwise.py", "large"],
        """scikit-learn is timed on 3 of the 500 variables, and its seconds are multiplied by 500 / 3.""",
        runs=1,
    ),
    "plmc": Section(
        "Potts fields against plmc, to the same objective",
        ["plmc_race.py"],
        "The environment variables `PLMC` and `PLMC32` have the paths of plmc's builds in double and single precision.",
        runs=1,
    ),
    "sizes": Section(
        "Large pairwise fields: whole fits, memory and growth",
        ["sizes.py"],
        """Memory is the most that a process has had, Python, imports and data included.""",
        runs=1,
    ),
    "solvers": Section(
        "L1 regressions against scikit-learn and skglm",
        ["networks.py", "solvers"],
        """liblinear penalises the intercept too, so that its optimum differs. skglm is used where it is installed. Equal
rows of a table count once here; the simulated answers have no equal rows.""",
        runs=1,
    ),
    "glmnet": Section(
        "Networks against nodewise glmnet with EBIC",
        ["networks.py", "glmnet"],
        """IsingFit is nodewise glmnet with EBIC and the AND rule. Both programs have the same λ path and γ = 0.25. `glmnet
s` is at its usual tolerance. Edges and weights are compared with those at 1e-14. Equal rows count once in fieldfit. The
script needs R with glmnet (Debian: r-cran-glmnet).""",
        runs=1,
    ),
    "peers": Section(
        "Centralities, couplings and contacts of other programs",
        ["field_peers.py", "networks", "coniii", "pydca"],
        """qgraph counts a path in both directions and defines closeness without the factor m − 1; both are converted. huge
estimates Gaussian networks and has no model for binary data: its edges come from linear regressions, so they need not be
ours, and it chooses λ with random permutations (39 and 41 edges in two runs). coniii's times include about two seconds
that do not depend on m. pydca has single precision and stops after 500 iterations at most; both programs have its
penalty, λ_h = λ_J = 0.2 (L − 1), and its scores leave out pairs less than 5 columns apart. Contacts are pairs at least 6
columns apart within 8 Å. coniii 3.0.1 and pydca 1.23 are from PyPI; coniii
needs NumPy below 1.24 and SciPy below 1.11, and pydca is installed without the versions that it asks for.""",
        runs=1,
    ),
    "boltzmann": Section(
        "Contacts by Boltzmann learning (adabmDCA) and by pseudo-likelihood",
        ["field_peers.py", "adabmdca"],
        """adabmDCA 1.0.0 from PyPI, on one thread without a GPU. A run is ended after 120 CPU seconds at most; the
line has the correlation of pair frequencies that it has reached by then, and contacts are those of its last checkpoint
(every 20 steps). It was far from its target then, so that the ratio is that of an unfinished run, a lower bound.""",
        runs=1,
    ),
    "coverage": Section(
        "What intervals of centralities cover",
        ["networks.py", "coverage"],
        """Strength and expected influence by `centrality_intervals`, nominally 95%, on samples of known networks. A
coverage of 0.95 has a standard error of 0.013 for one variable.""",
        runs=1,
    ),
    "chains": Section(
        "One evaluation of a chain",
        ["chains.py"],
        runs=1,
        seconds=25,
    ),
    "second-order": Section(
        "Second-order chains against first order on CoNLL-2000",
        ["second_order.py"],
        """CPU time of value and gradient. `forbidden` has an arc for each label triple that occurs, `zero` one for each of
K³ + K² + K, so its time grows with K³. The taggers are fitted by FL with σ² = 1; the second-order fit starts from the
first-order one, and its seconds are those from there.""",
        seconds=70,
    ),
    "labels": Section(
        "One FL evaluation against labels and tokens, compared with the machine's limit",
        ["label_counts.py"],
        """![Milliseconds of one evaluation against the number of labels](figures/chain-evaluation.png)

With K labels, n tokens and F = 7 features per token, the limit is the sum of three times: 6K²n operations at the
rate of a large product of double matrices (forward, backward, sum of edge marginals), Kn exponentials, and (2F +
2)·8Kn + 16·(weights) bytes at the rate of a large copy. The three rates are measured in the same run and printed in
the first line. `of limit` is limit / ms. `of products` is the time of the 6K²n operations alone / time of the
recursion. A value above 100% means that the rows came from a cache, not from memory.""",
        runs=1,
        seconds=60,
    ),
    "blocks": Section(
        "Gradients of chains block by block against all tokens at once",
        ["gradient_blocks.py"],
        runs=1,
        short=["gradient_blocks.py", "--tokens", "20000", "--labels", "10", "45", "121"],
        seconds=45,
    ),
    "pl1": Section(
        "PL1 on ATIS against its gathers and scatters",
        ["gather_scatter.py"],
        """The bare gather and scatter of the same entries are SciPy's product with a sparse matrix and with its transpose,
into preallocated memory, on the same number of threads.""",
        runs=1,
        seconds=35,
    ),
    "commands": Section(
        "Seconds until the command line has answered",
        ["command_line.py"],
        runs=1,
        short=["command_line.py", "--turns", "3"],
        seconds=30,
    ),
    "warmup": Section(
        "The first fit of a process against the second",
        ["first_fit.py", "--processes", "2"],
        runs=1,
        seconds=45,
    ),
    "time": Section(
        "Time of a fit by stage",
        ["time_shares.py"],
        """All stages from the text file to θ. Scoring gathers the weights of each token's features. The recursion
exponentiates the scores and runs forward and backward. The gradient sums the tokens' residuals over each feature
(for the most frequent features within the backward pass). The optimiser passes over θ, the gradient and six pairs
of vectors, so its time grows with the number of weights. The time of the recursion grows with K² and the number of
tokens.""",
        runs=1,
        seconds=25,
    ),
    "crf": Section(
        "CoNLL-2000 against CRFsuite, to the same objective",
        ["crf_race.py", "--only", "conll", "--iterations", "40"],
        """Times of CRFsuite and of one thread are CPU seconds, those of two threads wall-clock seconds. While other
programs use the processor, the ratios of two threads are not meaningful.""",
        seconds=110,
    ),
    "converged": Section(
        "F1 at the optimum of CRFsuite and ours",
        ["crf_race.py", "--only", "converged"],
        "The problem is strictly convex, so both programs must reach the same objective and the same F1.",
    ),
    "atis": Section(
        "ATIS, 121 labels, against CRFsuite",
        ["crf_race.py", "--only", "atis", "--iterations", "20"],
        seconds=50,
    ),
    "elastic": Section(
        "Elastic net against CRFsuite's OWL-QN",
        ["elastic_net.py"],
        short=["elastic_net.py", "--sentences", "500", "--only", "template"],
        seconds=120,
    ),
    "zeros": Section(
        "What weights at zero cost under an elastic net",
        ["zero_weights.py"],
        """A fit works on the weights that may leave zero: those that are not zero, and those whose derivative is above 0.8
c1. The others are neither gathered nor summed, and no vector of the optimiser has them. All derivatives are computed every
4 to 32 steps and before a fit ends; the set is used where it has at most 35% of the weights. The first lines are
evaluations: with all weights, with a share of them, and with none, which takes as long as the recursions over labels of a
chain without features. Frequent features are among the first weights that leave zero, so that the first percent takes more
time than the others. With all pairs the weights of a feature are a row, which is read faster than a list of weights: an
evaluation gains nothing at 30%, the optimiser's vectors do. The fits below go to one objective, on all weights and on the
set; with more than 35% of the weights both do the same.""",
        short=["zero_weights.py", "--sentences", "500", "--only", "template"],
        seconds=45,
    ),
    "score": Section(
        "Time to a good tagger",
        ["time_to_score.py"],
        runs=1,
        note="""CRFsuite has one thread. Where other programs ran at the same time, compare CPU seconds: wall-clock seconds
include the time that a process waited for them. CRFsuite was trained anew for each number of iterations, so that its
first good tagger may lie before the line shown.""",
        seconds=400,
    ),
    "memory": Section(
        "Memory of a fit by stage",
        ["fit_memory.py"],
        note="""One thread. The ratio compares the peaks of both programs, each above its own sentences: encoded in
fieldfit, appended in CRFsuite, where they take several times as much. Fine tags are both tags of a token with the last
letter of its word; 2,000 sentences.""",
        short=["fit_memory.py", "--only", "atis"],
        seconds=100,
    ),
    "tagging": Section(
        "Tagging from Python against CRFsuite",
        ["crf_race.py", "--only", "tagging"],
        seconds=30,
    ),
    "single": Section(
        "One sentence at a time against CRFsuite",
        ["single_sentences.py"],
        short=["single_sentences.py", "--sentences", "300", "--test", "200"],
        seconds=60,
    ),
    "threads": Section(
        "One and two threads on a busy machine",
        ["busy_threads.py", "--turns", "7"],
        runs=1,
        short=["busy_threads.py", "--only", "chain", "--turns", "5"],
        seconds=110,
    ),
    "encoding": Section(
        "Reading and encoding sequences",
        ["encoding.py"],
        runs=1,
        seconds=25,
    ),
    "errors": Section(
        "Standard errors of a tagger with a quarter of a million parameters",
        ["standard_errors.py"],
        runs=1,
        note="Times are wall-clock seconds; those of the last table are CPU seconds.",
        seconds=150,
    ),
    "weights": Section(
        "Cost of automatic weights",
        ["auto_weights.py", "--repeats", "3"],
        runs=1,
        seconds=60,
    ),
    "cost": Section(
        "Predicted against measured seconds",
        ["cost_model.py", "--rounds", "5", "--out", "docs/figures"],
        "![Predicted against measured seconds](figures/cost-model.png)",
        runs=1,
        seconds=60,
    ),
    "promise": Section(
        "The planner's promise",
        ["planner_promise.py", "--replications", "40", "--out", "docs/figures"],
        """![Measured error against measured seconds](figures/planner-promise.png)

- A budget of 0.6 times PL1 is hardly more than the fixed cost of a fit. Plans then take few samples, for which neither
  variance nor time can be predicted well.
- Fits of a replication are in random order. A fit that comes after a long one, or is the first one to new samples, takes
  longer: in the order of the grid, `0.3*PL1/row` of the dense field with 24 variables seemed to beat `0.2986*PL1/row`.
  The fits of that field were made in random order, the others before in the order of the grid. All were kept in one
  store, and the last run made the plans.
- A second stage that maximises FL is charged with its share of the evaluations of a whole fit of FL. It also sets up
  twice, which FLOPs do not count.
- By exact variances refined estimators lower the frontier in FLOPs on the five fields whose states can be listed. In the
  measured errors this is beyond noise for three of them and for both chain models: on the dense field with 14 variables
  and on Potts 3×3, PL1 itself is within 1.2% of maximum likelihood. In seconds the gain is 0.3% at most, because FL of
  these models takes 3 to 32 ms. The weights of `PL1 >> optimal` alone take 5 to 80 ms; they save time where full
  likelihood is expensive.""",
        runs=1,
    ),
}
#: Parts that take longer than half an hour together with the others.
BY_NAME_ONLY = (
    "score",
    "errors",
    "weights",
    "converged",
    "promise",
    "images",
    "large",
    "plmc",
    "sizes",
    "solvers",
    "glmnet",
    "peers",
    "boltzmann",
    "coverage",
)
#: The order in which parts run: what is claimed first, what takes long last.
ORDER = (
    "commands",
    "threads",
    "single",
    "blocks",
    "inference",
    "grids",
    "memory",
    "elastic",
    "zeros",
    "crf",
    "pairwise",
    "potts",
    "groups",
    "chains",
    "tagging",
    "warmup",
    "pl1",
    "encoding",
    "labels",
    "time",
    "atis",
    "cost",
    "second-order",
    *BY_NAME_ONLY,
)
#: Parts that take three minutes together, in their short form.
QUICK = ("commands", "threads", "single", "blocks", "inference", "grids", "elastic", "memory", "chains")
