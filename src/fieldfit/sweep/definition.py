"""Do two definitions of a sweep belong together, and if not, what has changed?"""

from __future__ import annotations

import json

from fieldfit.sweep.grid import canonical
from fieldfit.types import Plain


def differences(old: Plain, new: Plain) -> list[str]:
    """What has changed between two definitions, as text."""
    differences = []
    for name in dict.fromkeys((*old, *new)):
        before, after = old.get(name), new.get(name)
        if canonical(before) == canonical(after):
            continue
        if isinstance(before, dict) and isinstance(after, dict):
            for key in dict.fromkeys((*before, *after)):
                if canonical(before.get(key)) != canonical(after.get(key)):
                    differences.append(f"{name}.{key} was {_short(before.get(key))} and is {_short(after.get(key))}")
            if list(before) != list(after) and canonical(before) == canonical(after):
                differences.append(f"{name} are in another order")
        elif name == "experiment_version":
            differences.append("the experiment's own code has changed")
        else:
            differences.append(f"{name} was {_short(before)} and is {_short(after)}")
    return differences or ["it differs"]


def _short(value: object) -> str:
    text = "absent" if value is None else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else text[:57] + "…"


def has_grown(old: Plain, new: Plain) -> bool:
    """Whether the only change is that axes have more values than before."""
    rest = [canonical({k: v for k, v in d.items() if k != "axes"}) for d in (old, new)]
    if rest[0] != rest[1] or set(old["axes"]) != set(new["axes"]):
        return False
    return all({canonical(v) for v in old["axes"][n]} <= {canonical(v) for v in new["axes"][n]} for n in new["axes"])
