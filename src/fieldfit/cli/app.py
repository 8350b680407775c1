"""The application: finds the commands, runs one, and turns every failure into a sentence and an exit code."""

from __future__ import annotations

import importlib
import os
import pkgutil
import sys
from contextvars import copy_context
from typing import Annotated

import typer

import fieldfit
from fieldfit.cli.interrupts import INTERRUPTED, Interrupts
from fieldfit.cli.invocation import remember
from fieldfit.cli.output import InterruptedFitError, complain, prepare_streams
from fieldfit.cli.saving import remove_empty_folders
from fieldfit.steps import show_progress

ERROR = 2


def build(command: str | None = None) -> typer.Typer:
    """The application with the commands of `fieldfit.cli.commands`.

    A module there has the name of its command, which is its function of that name; modules of other commands have
    ``register(app)``, and the names of several are joined by ``_and_``. With the name of a command only its module is
    imported.
    """
    import fieldfit.cli.commands

    app = typer.Typer(
        name="fieldfit",
        help="Markov and conditional random fields by stochastic composite likelihood.",
        no_args_is_help=True,
        add_completion=True,
        rich_markup_mode=None,  # plain help: no colours to lose in a pipe, and it starts faster
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    )
    app.callback()(_options)
    modules = sorted(module.name for module in pkgutil.iter_modules(fieldfit.cli.commands.__path__))
    for name in [name for name in modules if command in name.split("_and_")] or modules:
        module = importlib.import_module(f"fieldfit.cli.commands.{name}")
        if hasattr(module, "register"):
            module.register(app)
        else:
            app.command(name)(getattr(module, name))
    return app


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"fieldfit {fieldfit.__version__}")
        raise typer.Exit


def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    pass


def run(arguments: list[str] | None = None, interrupts: Interrupts | None = None) -> int:
    """Run with these arguments (those of the process for None) and give the exit code."""
    prepare_streams()
    given = sys.argv[1:] if arguments is None else arguments
    interrupts = Interrupts() if interrupts is None else interrupts
    try:
        return copy_context().run(_run, given, interrupts)  # what is remembered of the command ends with it
    finally:
        remove_empty_folders()


def _run(given: list[str], interrupts: Interrupts) -> int:
    before = len(_written())
    show_progress(False if {"--json", "--no-progress"} & set(given) else None)
    try:
        command = typer.main.get_command(build(given[0] if given else None))
        remember(given, command)
        code = command.main(args=given, prog_name="fieldfit", standalone_mode=False)
        sys.stdout.flush()
        interrupts.answered = True
        if code != INTERRUPTED:
            if interrupts.seen:
                complain("Interrupted when the results were complete.")
                return INTERRUPTED
            return code if isinstance(code, int) else 0
    except (KeyboardInterrupt, typer.Abort):
        interrupts.answered = True  # some versions of typer raise, others give the code
    except InterruptedFitError as interrupted:
        interrupts.answered = True
        complain(str(interrupted))
        return INTERRUPTED
    except BrokenPipeError:
        # The reader (head, less) has closed the pipe. What is left in the buffer must not fail again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else 0
    except Exception as error:
        interrupts.answered = True
        if not interrupts.seen:
            return _tell(error)
    if written := list(dict.fromkeys(_written()[before:])):  # a checkpoint is written many times
        files = ", ".join(written[:3]) + (f" and {len(written) - 3} more" if len(written) > 3 else "")
        complain(f"Interrupted before the command ended. Written completely before that: {files}.")
    else:
        complain("Interrupted; nothing was written.")
    return INTERRUPTED


def _written() -> list[str]:
    """The files that this process has written; a command that wrote none may not even have loaded what writes them."""
    module = sys.modules.get("fieldfit.data.atomic")
    return [] if module is None else list(module.written)


def _tell(error: Exception) -> int:
    if os.environ.get("FIELDFIT_DEBUG"):
        raise error
    # Typer carries click along under another name in some versions, so its errors are known by what they can do.
    if hasattr(error, "format_message"):
        message = error.format_message()
        if message and type(error).__name__ != "NoArgsIsHelpError":
            context = getattr(error, "ctx", None)
            ended = message if message.endswith("?") else message.rstrip(".") + "."
            complain(ended + (f" See: {context.command_path} --help" if context else ""))
        elif message:
            print(message, file=sys.stderr)
        return ERROR
    # Only now: types imports numpy, which help does not need.
    from fieldfit.types import FieldfitError

    if isinstance(error, FieldfitError):
        complain(str(error))
    elif isinstance(error, MemoryError) or "failed to map segment" in str(error):  # a library did not fit
        complain(
            "There is not enough memory. Use fewer samples or variables, or a policy with smaller components, or give "
            "the command more memory."
        )
    elif isinstance(error, OSError):
        named = f"{error.filename}: " if error.filename else ""
        complain(f"{named}{error.strerror or error}. Check the path, the permissions and the disk.")
    else:
        complain(
            f"fieldfit failed unexpectedly ({type(error).__name__}: {error}). This is a bug: please report it, with "
            f"what FIELDFIT_DEBUG=1 shows."
        )
    return ERROR
