"""The command line: `fieldfit COMMAND …`. Each command is a file of `fieldfit.cli.commands`, found by its name.

Nothing heavy (scipy, pandas, scikit-learn, matplotlib, the models) is imported before a command runs, so that help is
fast.
"""

#: Exit code after SIGTERM, as shells have it.
TERMINATED = 143


def main(arguments: list[str] | None = None) -> int:
    """Run the command line and give its exit code: 0, 2 for an error that was reported in a sentence, 130 for Ctrl-C.

    SIGTERM ends a command as Ctrl-C does, with the exit code 143.
    """
    import sys

    try:
        from fieldfit.cli.interrupts import patient_interrupts

        with patient_interrupts() as interrupts:
            try:
                import rich  # noqa: F401
                import typer  # noqa: F401
            except ImportError:
                print("The command line needs typer and rich: pip install 'fieldfit[cli]'.", file=sys.stderr)
                return 2
            from fieldfit.cli.app import run

            code = run(arguments, interrupts)
            return TERMINATED if interrupts.terminated else code
    except KeyboardInterrupt:  # during the imports; `run` has answers of its own
        print("fieldfit: Interrupted before the command began; nothing was written.", file=sys.stderr)
        return 130
