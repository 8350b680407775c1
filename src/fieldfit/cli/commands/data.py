"""`fieldfit data`: which data sets of the catalogue are on this machine, and where the others are published."""

from __future__ import annotations

from typing import Annotated

import typer

from fieldfit.cli.options import Json


def data(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="Name of a data set. Default: all.")] = None,
    json: Json = False,
) -> None:
    """Check the data sets by size and SHA-256. Nothing is downloaded."""
    from fieldfit.cli.output import print_json, print_table, say
    from fieldfit.data.catalogue import CATALOGUE
    from fieldfit.data.locate import check_data, data_folder
    from fieldfit.report.table import PlainTable

    states = check_data(name)
    chosen = [data_set for data_set in CATALOGUE if data_set.name in {status.data_set for status in states}]
    if json:
        files = [
            {"data_set": s.data_set, "file": s.file, "path": str(s.path), "state": s.state, "published": s.published}
            for s in states
        ]
        print_json({"folder": str(data_folder()), "files": files})
        return
    say(f"folder: {data_folder()} (FIELDFIT_DATA)")
    print_table(PlainTable("", ("data set", "file", "state"), tuple((s.data_set, s.file, s.state) for s in states)))
    missing = {status.data_set for status in states if status.state != "present"}
    for data_set in chosen:
        if data_set.name in missing:
            say(f"{data_set.name}: {data_set.title}; published: {data_set.published}; terms: {data_set.terms}")
