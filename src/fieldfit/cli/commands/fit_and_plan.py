"""`fieldfit fit MODEL DATA` and `fieldfit plan MODEL DATA`: the models are the files of `fieldfit.cli.models`."""

from __future__ import annotations

import importlib
import pkgutil
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperGroup

DEFAULT_MODEL = "boltzmann"


class ModelGroup(TyperGroup):
    """Subcommands that are models. A file or an option in the place of the model's name stands for boltzmann."""

    default = DEFAULT_MODEL

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Add the default model."""
        if args and args[0] not in self.commands and _is_no_name(args[0]):
            args = [self.default, *args]
        return super().parse_args(ctx, args)


def _is_no_name(text: str) -> bool:
    if text in ("-h", "--help"):
        return False
    return text.startswith("-") or "." in text or "/" in text or Path(text).exists()


def register(app: typer.Typer) -> None:
    """Add both commands, with the functions ``fit`` and ``plan`` of each model's file as subcommands."""
    import fieldfit.cli.models

    fit, plan = (
        typer.Typer(cls=ModelGroup, help=text, no_args_is_help=True, rich_markup_mode=None)
        for text in (
            "Fit a field to a table of samples, or a tagger to sentences. Default model: boltzmann.",
            "Predict cost and accuracy of policies, and recommend one. Default model: boltzmann.",
        )
    )
    for name in sorted(module.name for module in pkgutil.iter_modules(fieldfit.cli.models.__path__)):
        module = importlib.import_module(f"fieldfit.cli.models.{name}")
        for group, command in ((fit, "fit"), (plan, "plan")):
            if hasattr(module, command):
                group.command(name.replace("_", "-"))(getattr(module, command))
    app.add_typer(fit, name="fit")
    app.add_typer(plan, name="plan")
