"""`fieldfit plan DATA --budget 10s`: which policy buys the most accuracy, before a fit is paid for.

`fieldfit plan crf FILE` plans a tagger from a file of sentences.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fieldfit.cli.chains import Format, SeparatorOption
from fieldfit.cli.fitting import EdgesOption, TiedOption
from fieldfit.cli.shared import (
    HeaderOption,
    Json,
    KindOfWeight,
    SampleWeight,
    Seed,
    Threads,
    WeightKind,
    use_threads,
)

if TYPE_CHECKING:
    from fieldfit.data.samples import Table
    from fieldfit.models.field import FieldModel

_FILES = ("plan.png", "plan.svg", "plan.html", "plan.csv")


def plan(
    data: Annotated[
        list[str],
        typer.Argument(metavar="[crf] DATA", help="A table of samples; or the word crf and a file of sentences."),
    ],
    budget: Annotated[
        str | None,
        typer.Option("--budget", "-b", metavar="TIME", help="Such as 10s, 500ms or 2min, pilot included; 10 is 10s."),
    ] = None,
    flops: Annotated[float | None, typer.Option("--flops", help="A budget in the paper's FLOPs instead.")] = None,
    efficiency: Annotated[
        float | None,
        typer.Option(
            "--efficiency", help="Or the variance relative to maximum likelihood that is enough, such as 1.1."
        ),
    ] = None,
    model: Annotated[
        str, typer.Option("--model", metavar="MODEL", help="boltzmann, potts, or a saved fit (.ff) for its model.")
    ] = "boltzmann",
    biases: Annotated[bool, typer.Option("--biases/--no-biases", help="boltzmann: biases too.")] = False,
    states: Annotated[
        str | None, typer.Option("--states", metavar="S0,S1,…", help="The values (0,1; potts: all in the data).")
    ] = None,
    edges: EdgesOption = None,
    tied: TiedOption = False,
    columns: Annotated[
        str | None, typer.Option("--columns", metavar="A,B,…", help="The columns that are variables (all).")
    ] = None,
    header: HeaderOption = None,
    features: Annotated[
        str, typer.Option("--features", help="crf: conll2000, tagger, columns, or a file of CRF++ templates.")
    ] = "columns",
    kind: Annotated[Format, typer.Option("--format", help="crf: columns, or CRFsuite's text.")] = Format.columns,
    separator: SeparatorOption = None,
    policy: Annotated[
        list[str] | None, typer.Option("--policy", "-p", help="Compare this policy (several times); a grid of them.")
    ] = None,
    functional: Annotated[
        list[str] | None,
        typer.Option("--functional", help="A parameter, or 'a - b', whose variance counts (several times); all."),
    ] = None,
    sigma2: Annotated[
        str | None, typer.Option("--sigma2", metavar="V", help="Variance of the fit's penalty, or none (crf: 10).")
    ] = None,
    sample_weight: SampleWeight = None,
    weight_kind: KindOfWeight = WeightKind.importance,
    tol: Annotated[
        float | None, typer.Option("--tol", help="The fit's tolerance (1e-6; crf: 1e-4, as in fit crf).")
    ] = None,
    rows: Annotated[int, typer.Option("--rows", min=1, help="Policies to print.")] = 16,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="DIR", help="Draw the frontier into this folder.")
    ] = None,
    seed: Seed = 0,
    threads: Threads = None,
    json: Json = False,
) -> None:
    """Compare what policies cost and how accurate they would be, and recommend one."""
    from fieldfit.api.plan import plan as make
    from fieldfit.cli.output import collected_warnings, note, print_json, print_table, say
    from fieldfit.cli.values import as_list
    from fieldfit.report.figures import make_folder
    from fieldfit.types import DataError

    use_threads(threads)
    chosen: Any
    began = time.perf_counter()
    crf = is_crf(data)
    if crf:
        if sample_weight is not None:
            raise DataError("--sample-weight names a column of a table; a file of sentences has no weights.")
        chosen, samples = _chain_and_sentences(Path(data[1]), features, kind, separator)
    else:
        weights = {"columns": as_list(columns), "sample_weight": sample_weight, "weight_kind": weight_kind.value}
        chosen, samples = _model_and_table(
            Path(data[0]), model, biases, states, edges, tied, {**weights, "header": header}
        )
    reading = time.perf_counter() - began
    with collected_warnings() as warned:
        found = make(
            chosen,
            samples,
            budget,
            flops=flops,
            efficiency=efficiency,
            policies=policy or None,
            functionals=functional or None,
            sigma2=_penalty(sigma2, crf),
            tol=tol or (1e-4 if crf else 1e-6),
            random_state=seed,
            reading=reading,
        )
    files: list[str] = []
    if out is not None:
        files = write_plan(found, make_folder(out))
    if json:
        print_json({**found.to_dict(), "files": files, "warnings": warned})
        return
    print_table(found.plain_table(rows))
    say("")
    say(_folded(found.explain()))
    for path in files:
        note(f"written: {path}")


def write_plan(found: Any, folder: Path) -> list[str]:
    """Picture, page and table of a plan."""
    from fieldfit.data.atomic import atomic_writer
    from fieldfit.report.figures import save_figure

    save_figure(found.plot(), folder, "plan")
    found.to_html(folder / "plan.html")
    with atomic_writer(folder / "plan.csv") as file:
        file.write(found.table.to_csv(index=False).encode())
    return [str(folder / name) for name in _FILES]


def is_crf(data: list[str]) -> bool:
    """Whether a tagger is to be planned; refuses more than one file."""
    from fieldfit.types import DataError

    if len(data) == 2 and data[0] == "crf":
        return True
    if len(data) > 1:
        raise DataError(
            f"plan takes one table (fieldfit plan data.csv), or the word crf and a file of sentences; got {' '.join(data)}."
        )
    if data[0] == "crf" and not Path("crf").exists():
        raise DataError("plan crf needs a file of sentences: fieldfit plan crf train.txt --features conll2000.")
    return False


def _chain_and_sentences(path: Path, features: str, kind: Format, separator: str | None) -> tuple[Any, Any]:
    """A linear-chain CRF as `fit crf` makes it by default, and its sentences."""
    from fieldfit.cli.chains import read_sentences
    from fieldfit.data.encoders import names_of
    from fieldfit.estimators.sequence_input import learn_sequences
    from fieldfit.models.chain_crf import ChainCRF

    text = read_sentences(path, kind, separator)
    encoder, sequences = learn_sequences(text, None, features if kind is Format.columns else None, 1)
    labels, names = names_of(encoder)
    pairs = range(encoder.n_features, sequences.n_features)
    chain = ChainCRF(
        sequences.n_labels,
        sequences.n_features,
        label_pairs=pairs if len(pairs) else False,
        state_features=encoder.n_features,
        labels=labels,
        features=names,
    )
    return chain.complete(sequences), sequences


def _folded(text: str) -> str:
    """Lines of at most the terminal's width."""
    import shutil
    import textwrap

    width = min(100, shutil.get_terminal_size((80, 24)).columns)
    return "\n".join(textwrap.fill(line, width) for line in text.split("\n"))


def _model_and_table(
    data: Path,
    kind: str,
    biases: bool,
    states: str | None,
    edges: str | None,
    tied: bool,
    reading: dict[str, Any],
) -> tuple[FieldModel, Table]:
    """The model that the options describe and the data, as in `fit`; ``reading`` goes to `read_table`."""
    from fieldfit.api.files import load
    from fieldfit.cli.values import as_edges, as_states
    from fieldfit.data.table import read_table
    from fieldfit.models.boltzmann import BoltzmannMachine
    from fieldfit.models.field import FieldModel
    from fieldfit.models.potts import Potts
    from fieldfit.types import ModelError

    if kind == "boltzmann":
        values = as_states(states or "0,1")
        if len(values) != 2 or any(isinstance(value, str) for value in values):
            raise ModelError(
                f"--states {states!r}: a Boltzmann machine has two numbers as states, such as 0,1 or -1,1."
            )
        table = read_table(data, states=values, **reading)
        pairs, directions = as_edges(edges, table.names)
        groups = None
        if tied:
            groups = directions or ["coupling"] * (table.m * (table.m - 1) // 2 if pairs is None else len(pairs))
        shared = ["bias"] * table.m if tied and biases else None
        pair = (values[0], values[1])
        return BoltzmannMachine(table.m, pairs, biases, pair, edge_groups=groups, bias_groups=shared), table
    if kind == "potts":
        table = read_table(data, states=None if states is None else as_states(states), **reading)
        found = dict.fromkeys(value for own in table.states for value in own)
        values = tuple(sorted(found, key=lambda value: (isinstance(value, str), value)))
        pairs, directions = as_edges(edges, table.names)
        return Potts(table.m, len(values), pairs, tied=(directions or True) if tied else False, states=values), table
    if "." not in kind and "/" not in kind:
        raise ModelError(f"--model is {kind!r}; give boltzmann, potts, or a saved fit (model.ff).")
    model = load(kind).model
    if not isinstance(model, FieldModel):
        raise ModelError(f"{kind} holds a model of the kind {model.kind!r}; this command knows fields only.")
    return model, read_table(data, states=model.states, names=model.names if model.named else None, **reading)


def _penalty(sigma2: str | None, crf: bool) -> float | None:
    """σ² of the fit to come: by default that of `fit`, which is 10 for a tagger and none for a table."""
    from fieldfit.types import ModelError

    if sigma2 is None:
        return 10.0 if crf else None
    if sigma2 == "none":
        return None
    try:
        return float(sigma2)
    except ValueError:
        raise ModelError(f"--sigma2 is {sigma2!r}; give a positive number, or none.") from None


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("plan")(plan)
