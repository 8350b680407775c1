"""`fieldfit fit MODEL DATA …`: the models are the files of `fieldfit.cli.fits`."""

from __future__ import annotations

import importlib
import pkgutil

import typer


def register(app: typer.Typer) -> None:
    """Add the command with a subcommand for each model."""
    import fieldfit.cli.fits

    group = typer.Typer(
        help="Fit a field to a table of samples, or a tagger to sentences.",
        no_args_is_help=True,
        rich_markup_mode=None,
    )
    for module in sorted(pkgutil.iter_modules(fieldfit.cli.fits.__path__), key=lambda found: found.name):
        importlib.import_module(f"fieldfit.cli.fits.{module.name}").register(group)
    app.add_typer(group, name="fit")
