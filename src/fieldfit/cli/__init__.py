"""The command line: `fieldfit COMMAND …`. Each command is a file of `fieldfit.cli.commands`, found by its name.

Nothing heavy (scipy, pandas, scikit-learn, matplotlib, the models) is imported before a command runs, so that help is
fast.
"""

#: Exit code after SIGTERM, as shells have it.
TERMINATED = 143


class _held_interrupts:  # noqa: N801, a block
    """Ctrl-C waits until the end of this block.

    It is for the imports that the real handler needs: Python loses an exception that is raised in some places of an import.
    `_signal` is built into Python; the module `signal` would be an import of its own.
    """

    def __enter__(self) -> None:
        import _signal  # type: ignore[import-not-found]

        self.pressed = False
        usual = _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler
        try:
            self.restored = _signal.signal(_signal.SIGINT, self.press) if usual else None
        except ValueError:  # not the main thread, which alone gets signals
            self.restored = None

    def press(self, number: int, frame: object) -> None:
        """The handler."""
        self.pressed = True

    def __exit__(self, *_: object) -> None:
        import _signal

        if self.restored is not None:
            _signal.signal(_signal.SIGINT, self.restored)
        if self.pressed:
            raise KeyboardInterrupt


def _open_closed_streams() -> None:
    """Open closed streams (as after ``>&-``) on the null device; else the next file would get the number of one."""
    import os
    import sys

    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            stream = open(os.devnull, "w" if number else "r", encoding="utf-8")  # noqa: SIM115, until the process ends
            os.set_inheritable(stream.fileno(), True)
            setattr(sys, name, stream)


def main(arguments: list[str] | None = None) -> int:
    """Run the command line and give its exit code: 0, 2 for an error that was reported in a sentence, 130 for Ctrl-C.

    SIGTERM ends a command as Ctrl-C does, with the exit code 143.
    """
    import sys

    _open_closed_streams()
    interrupts = None
    try:
        with _held_interrupts():
            from fieldfit.cli.interrupts import patient_interrupts

        with patient_interrupts(until_exit=arguments is None) as interrupts:
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
        if interrupts is None or not interrupts.answered:
            print("fieldfit: Interrupted before the command began; nothing was written.", file=sys.stderr)
        return 130
