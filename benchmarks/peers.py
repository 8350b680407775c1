"""The environment of the peers: .venv-peers, made when it is first needed.

It has what fieldfit is compared with and nothing else; all other packages, fieldfit included, come from the environment
that runs this. Where a peer cannot be installed, scripts that need it say so or fail alone.
"""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

ROOT = Path(__file__).parents[1]
HOME = ROOT / ".venv-peers"
PEERS = ("pyagrum", "python-crfsuite", "scikit-learn", "llvmlite", "numba", "skglm")


def interpreter() -> str:
    """The interpreter that has the peers, or this one with a sentence about what is missing."""
    python = HOME / "bin" / "python"
    finished = HOME / ".installed"
    if finished.exists():
        return str(python)
    print(f"peers: making {HOME.name} with {', '.join(PEERS)}", flush=True)
    try:
        venv.create(HOME, with_pip=True, clear=True)
        # Dependencies are those of this environment: one NumPy for both sides.
        for peer in PEERS:
            command = [str(python), "-m", "pip", "install", "--quiet", "--no-deps", peer]
            if subprocess.run(command, check=False, capture_output=True).returncode:
                print(f"peers: {peer} cannot be installed; it is not compared", flush=True)
        (site,) = HOME.glob("lib/python*/site-packages")
        here = sysconfig.get_paths()["purelib"]
        (site / "fieldfit-environment.pth").write_text(f"import site; site.addsitedir({here!r})\n", encoding="utf-8")
        finished.touch()
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        print(f"peers: no environment of their own ({error}); those installed here are compared", flush=True)
        return sys.executable
    return str(python)


if __name__ == "__main__":
    print(interpreter())
