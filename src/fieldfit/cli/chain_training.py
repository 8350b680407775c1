"""What the fits of chains share on the command line: the options of training, and the final output."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from fieldfit.cli.checkpoints import (
    CheckpointEvery,
    CheckpointOption,
    Resume,
    checkpoint_from_options,
)
from fieldfit.cli.options import Json, SaveTo, Seed, Threads, limit_threads
from fieldfit.words import counted

if TYPE_CHECKING:
    from fieldfit.api.checkpoint import Checkpoint
    from fieldfit.api.result import Fit
    from fieldfit.estimators.crf_tagger import CRFTagger
    from fieldfit.estimators.symbol_tagger import SymbolTagger
    from fieldfit.types import FileAccessError, Plain


@dataclass(frozen=True)
class TrainingOptions:
    """The options of every fit to sentences."""

    policy: Annotated[str, typer.Option("--policy", "-p", help="Policy, such as FL or PL1.")] = "FL"
    sigma2: Annotated[
        str,
        typer.Option(
            "--sigma2",
            metavar="V",
            help="Variance of the Gaussian penalty, or none. For a CRF also cv, or V1,V2,… to choose from.",
        ),
    ] = "10"
    l1: Annotated[
        float | None, typer.Option("--l1", min=0, help="Weight of the L1 penalty. Default: no L1 penalty.")
    ] = None
    weights: Annotated[
        str | None,
        typer.Option("--weights", metavar="B1,B2,…", help="β of each term, or auto. Default: those of the policy."),
    ] = None
    seed: Seed = 0
    tol: Annotated[float, typer.Option("--tol", help="Largest gradient entry per sentence at convergence.")] = 1e-4
    max_iter: Annotated[int, typer.Option("--max-iter", min=1, help="Largest number of iterations.")] = 1000
    threads: Threads = None
    checkpoint: CheckpointOption = None
    checkpoint_every: CheckpointEvery = 60.0
    resume: Resume = False
    progress: Annotated[
        bool | None,
        typer.Option("--progress/--no-progress", help="Show each iteration. Default: only on a terminal."),
    ] = None
    rows: Annotated[int, typer.Option("--rows", min=0, help="Number of weights to print.")] = 10
    out: SaveTo = None
    json: Json = False

    def prepare(self) -> Checkpoint | None:
        """Set the threads, and refuse what can be refused before anything is read. Returns the checkpoint, if any."""
        from fieldfit.cli.saving import check_fit_target
        from fieldfit.policies import Policy

        limit_threads(self.threads)
        Policy.parse(self.policy)
        check_fit_target(self.out, self.checkpoint)
        return checkpoint_from_options(self.checkpoint, self.checkpoint_every, self.resume)

    def saved(self, tagger: CRFTagger | SymbolTagger) -> FileAccessError | None:
        """Save the tagger, if that is asked for; the error, if it cannot be. It is raised after the results are shown."""
        from fieldfit.cli.saving import save_here_or_elsewhere

        return None if self.out is None else save_here_or_elsewhere(tagger.save, self.out)

    def described(self, warned: list[str], failure: FileAccessError | None) -> Plain:
        """The options and warnings in the JSON document."""
        file = None if self.out is None or failure is not None else str(self.out)
        return {"l1": self.l1, "file": file, "warnings": list(warned)}

    def end(self, fit: Fit, checkpoint: Checkpoint | None, failure: FileAccessError | None) -> None:
        """Name the file, if there is one. A fit that was interrupted or could not be saved ends with an error."""
        from fieldfit.cli.output import InterruptedFitError, note
        from fieldfit.cli.saving import what_is_kept, with_state

        if failure is not None:
            raise with_state(failure, checkpoint)
        if self.out is not None and not self.json:
            note(f"saved: {self.out}")
        if fit.interrupted:
            kept = what_is_kept(self.out, checkpoint)
            raise InterruptedFitError(f"Interrupted after {fit.iterations} iterations: not converged{kept}.")


def say_fit(fit: Fit, labels: int, inputs: str, sigma2: object, l1: float | None) -> None:
    """The model, the policy, how the fit ended, and its automatic weights; ``inputs`` counts symbols or features."""
    from fieldfit.api.summary import objective_line
    from fieldfit.cli.output import say
    from fieldfit.cli.weighting import print_weights

    say(
        f"{fit.model.kind}: {counted(fit.n, 'sentences')}, {counted(labels, 'labels')}, {inputs}, "
        f"{counted(fit.model.n_parameters, 'parameters')}"
    )
    sparse = f"; l1: {l1:g}" if l1 else ""
    say(f"policy: {fit.policy}; sigma2: {'none' if sigma2 is None else format(sigma2, 'g')}{sparse}")
    steps = f"{counted(fit.iterations, 'iterations')}, {counted(fit.evaluations, 'evaluations')}"
    say(f"{fit.message} ({steps}, {fit.seconds:.2f} s)")
    say(objective_line(fit))
    if fit.weights is not None:
        print_weights(fit.weights)
