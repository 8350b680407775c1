"""`fieldfit network DATA.csv`: signed networks of binary columns, and the comparison of two groups."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fieldfit.cli.checkpoints import (
    CheckpointEvery,
    CheckpointOption,
    Resume,
    checkpoint_from_options,
    told_interrupts,
)
from fieldfit.cli.options import ColumnsOption, HeaderOption, Json, LeaveOutOption, Seed, Threads, limit_threads

if TYPE_CHECKING:
    from fieldfit.networks import Analysis, Comparison
    from fieldfit.types import Plain


class Rule(StrEnum):
    """When two regressions make an edge."""

    both = "and"
    either = "or"


def network(
    path: Annotated[Path, typer.Argument(metavar="DATA", help="CSV or TSV file; columns with two values each.")],
    by: Annotated[
        str | None,
        typer.Option(
            "--by",
            metavar="COLUMN",
            help="Column with the group of each row, to compare two groups. Default: one group.",
        ),
    ] = None,
    compared: Annotated[
        str | None,
        typer.Option(
            "--compare",
            metavar="A,B",
            help="The two groups to compare. Default: the groups of the column, if there are two.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="FOLDER", help="Folder for tables, plot and summary. Default: no files."),
    ] = None,
    columns: ColumnsOption = None,
    leave_out: LeaveOutOption = None,
    gamma: Annotated[
        float, typer.Option("--gamma", min=0, help="Weight of the prior in EBIC. Larger values give fewer edges.")
    ] = 0.25,
    rule: Annotated[Rule, typer.Option("--rule", help="Whether an edge needs both regressions or one.")] = Rule.both,
    level: Annotated[float, typer.Option("--level", help="Coverage of intervals.")] = 0.95,
    resamples: Annotated[
        int, typer.Option("--bootstrap", min=0, metavar="N", help="Number of bootstrap samples. 0: no bootstrap.")
    ] = 200,
    permutations: Annotated[
        int, typer.Option("--permutations", min=1, metavar="N", help="Number of permutations of the group labels.")
    ] = 1000,
    clusters: Annotated[
        Path | None,
        typer.Option(
            "--clusters",
            metavar="FILE",
            help="CSV file with a variable and its cluster per line, shown by colours in the plot. Default: no clusters.",
        ),
    ] = None,
    rows: Annotated[int, typer.Option("--rows", min=1, help="Number of edges to print, strongest first.")] = 15,
    header: HeaderOption = None,
    seed: Seed = 0,
    threads: Threads = None,
    checkpoint: CheckpointOption = None,
    checkpoint_every: CheckpointEvery = 60.0,
    resume: Resume = False,
    json: Json = False,
) -> None:
    """Estimate the network of binary columns. With --by, one for each group, and compare two groups."""
    from fieldfit import networks
    from fieldfit.api.finished_parts import as_parts
    from fieldfit.cli.output import collected_warnings, note, print_json, say
    from fieldfit.cli.saving import save_here_or_elsewhere, with_state
    from fieldfit.cli.steps import shown_steps
    from fieldfit.cli.values import as_list
    from fieldfit.report.figures import make_folder
    from fieldfit.steps import waiting
    from fieldfit.types import DataError

    limit_threads(threads)
    kept = checkpoint_from_options(checkpoint, checkpoint_every, resume)
    folder = None if out is None else make_folder(out)
    finished = as_parts(kept)
    answers = networks.read_responses(
        path, by=by, columns=as_list(columns), leave_out=as_list(leave_out) or (), header=header
    )
    colours = None if clusters is None else read_clusters(clusters, answers.names)
    parts = {"": answers} if by is None else answers.by_group()
    pair = as_list(compared) or (list(parts) if len(parts) == 2 else [])
    if pair and len(pair) != 2:
        raise DataError(f"--compare names {len(pair)} groups; it needs two, as --compare A,B.")
    analyses: dict[str, Analysis] = {}
    comparison: Comparison | None = None
    with collected_warnings() as warned, told_interrupts(kept, "Interrupted"):
        for label, part in parts.items():
            work = f"{resamples} bootstrap samples" if resamples else "regressions"
            of = f" of group {label}" if label else ""
            with shown_steps(f"Network{of} ({part.n} rows, {part.m} variables), {work}", json) as progress:
                analyses[label] = networks.analyse(
                    part, gamma=gamma, rule=rule.value, level=level, resamples=resamples, random_state=seed,
                    progress=progress, checkpoint=finished,
                )  # fmt: skip
        if pair:
            with shown_steps(f"Comparison of {pair[0]} and {pair[1]}, {permutations} permutations", json) as progress:
                comparison = networks.compare_groups(
                    answers, groups=(pair[0], pair[1]), permutations=permutations, gamma=gamma, rule=rule.value,
                    random_state=seed, progress=progress, checkpoint=finished,
                )  # fmt: skip
    if by is not None and not pair:
        note(f"There are {len(parts)} groups; choose two with --compare A,B to compare them.")
    summary = summary_text(analyses, comparison, by)
    failure = None
    if folder is not None:
        cautions = "".join(f"\n\nWarning: {message}" for message in warned)

        def write(target: Path) -> None:
            write_files(make_folder(target), analyses, comparison, colours, summary + cautions, by, seed)

        with waiting("tables and picture"):
            failure = save_here_or_elsewhere(write, folder, "All files were")
    if json:
        print_json(as_json(analyses, comparison, by) | {"warnings": warned})
    else:
        say(summary)
        for label, analysis in analyses.items():
            print_edges(analysis, f"Edges{f' of group {label}' if label else ''}", rows)
        if comparison is not None:
            print_comparison(comparison, rows)
    if failure is not None:
        raise with_state(failure, kept)
    if folder is not None and not json:
        compared_file = ", comparison.csv" if comparison is not None else ""
        note(f"Wrote edges.csv, nodes.csv{compared_file}, network.png, network.svg and summary.txt to {folder}.")


def read_clusters(path: Path, names: tuple[str, ...]) -> dict[str, str]:
    """The cluster of each variable from a file of variable, cluster."""
    from fieldfit.data.textfile import read_text
    from fieldfit.types import DataError

    cluster_of = {}
    for line in read_text(path).splitlines():
        cells = [cell.strip().strip('"') for cell in line.replace("\t", ",").replace(";", ",").split(",")]
        if len(cells) >= 2:
            cluster_of[cells[0]] = cells[1]
    missing = [name for name in names if name not in cluster_of]
    if missing:
        raise DataError(
            f"{path} has no cluster for the variable {missing[0]!r:.80}. A line has a variable and its cluster."
        )
    return {name: cluster_of[name] for name in names}


def summary_text(analyses: dict[str, Analysis], comparison: Comparison | None, by: str | None) -> str:
    """The summaries of all groups and of their comparison."""
    texts = [
        (f"{by} = {label}\n" if by is not None else "") + analysis.summary() for label, analysis in analyses.items()
    ]
    if comparison is not None:
        first, second = comparison.groups
        (strength, structure), edges = comparison.tests()["statistic"], comparison.edges()
        sure, count = int((edges["q"] < 0.05).sum()), len(comparison.differences)
        texts.append(
            f"Comparison of {first} and {second} ({count} permutations: no p-value is below {1 / (1 + count):.2g})\n"
            f"Global strength: difference {strength:.2f} ({first} - {second}), p = {comparison.strength_p:.3g}.\n"
            f"Structure: largest difference of a coupling {structure:.2f}, p = {comparison.structure_p:.3g}.\n"
            f"{sure} of {len(edges)} edges differ at a false discovery rate of 5%."
        )
    return "\n\n".join(texts)


def write_files(
    folder: Path,
    analyses: dict[str, Analysis],
    comparison: Comparison | None,
    clusters: dict[str, str] | None,
    summary: str,
    by: str | None,
    seed: int,
) -> None:
    """The tables, the picture and the summary."""
    import pandas

    from fieldfit import networks
    from fieldfit.data.atomic import write_text
    from fieldfit.report.figures import save_figure

    edges, nodes = [], []
    for label, analysis in analyses.items():
        tables = analysis.edges, analysis.nodes.reset_index()
        # A column of groups called "weight" must not replace the weights.
        column = "group" if any(by in table for table in tables) else by
        group = {} if column is None else {column: label}
        edges.append(tables[0].assign(**group))
        nodes.append(tables[1].assign(**group))
    write_text(folder / "edges.csv", pandas.concat(edges).to_csv(index=False))
    write_text(folder / "nodes.csv", pandas.concat(nodes).to_csv(index=False))
    if comparison is not None:
        write_text(folder / "comparison.csv", comparison.edges().to_csv(index=False))
    titles = {label: label if by is None else f"{by} = {label}" for label in analyses}
    drawing = networks.draw(
        {titles[label]: analysis.network for label, analysis in analyses.items()},
        data={titles[label]: analysis.answers for label, analysis in analyses.items()},
        clusters=clusters,
        seed=seed,
    )
    save_figure(drawing, folder, "network")
    write_text(folder / "summary.txt", summary + "\n")


def print_edges(analysis: Analysis, title: str, rows: int) -> None:
    """The strongest edges with their intervals."""
    from fieldfit.cli.output import print_table
    from fieldfit.report.table import PlainTable

    chosen = analysis.edges[analysis.edges["weight"] != 0]
    chosen = chosen.reindex(chosen["weight"].abs().sort_values(ascending=False, kind="stable").index)
    names = ["from", "to", "weight", "debiased", "lower", "upper", "q"]
    if "included" in chosen:
        names.append("included")
    lines = tuple(tuple(line) for line in chosen[names].head(rows).itertuples(index=False))
    told = "weight: with the penalty. debiased, lower, upper: without it, with an interval that allows for the selection. "
    told += "q: false discovery rate."
    if "included" in chosen:
        told += " included: share of the bootstrap samples that have the edge."
    if len(chosen) > rows:
        told += f" {len(chosen) - rows} more edges."
    print_table(PlainTable(title, tuple(names), lines, told, ("s", "s", *(".2f",) * 4, ".3f", ".2f")[: len(names)]))


def print_comparison(comparison: Comparison, rows: int) -> None:
    """The edges with the smallest p."""
    from fieldfit.cli.output import print_table
    from fieldfit.report.table import PlainTable

    table = comparison.edges()
    lines = tuple(tuple(line) for line in table.head(rows).itertuples(index=False))
    formats = ("s", "s", ".2f", ".2f", ".2f", ".3f", ".3f")
    print_table(
        PlainTable(
            "Differences of edges with the smallest p-values", tuple(map(str, table.columns)), lines, "", formats
        )
    )


def as_json(analyses: dict[str, Analysis], comparison: Comparison | None, by: str | None) -> Plain:
    """Everything in one document."""
    document: Plain = {
        "by": by,
        "networks": [
            {
                "group": label or None,
                "rows": int(analysis.answers.whole.sum()),
                "method": analysis.network.method,
                "global_strength": analysis.network.global_strength,
                "edges": analysis.edges.to_dict("records"),
                "nodes": analysis.nodes.reset_index().to_dict("records"),
            }
            for label, analysis in analyses.items()
        ],
    }
    if comparison is not None:
        document["comparison"] = {
            "groups": list(comparison.groups),
            "global_strength_p": comparison.strength_p,
            "structure_p": comparison.structure_p,
            "edges": comparison.edges().to_dict("records"),
        }
    return document
