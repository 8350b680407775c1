"""The demonstration on fewer images and policies: its tables, pictures and page."""

import numpy as np
import pytest

from fieldfit import demo


@pytest.mark.slow
def test_the_demo_prints_and_writes_everything(tmp_path, monkeypatch, capsys):
    images, label = demo.digits()
    assert images.shape == (1797, 64)
    assert set(np.unique(images)) == {0, 1}
    chosen = np.concatenate([np.flatnonzero(label == digit)[:30] for digit in range(10)])
    monkeypatch.setattr(demo, "digits", lambda: (images[chosen], label[chosen]))
    monkeypatch.setattr(demo, "TRAIN", 200)
    monkeypatch.setattr(demo, "FREE_POLICIES", ("PL1", "FL"))
    monkeypatch.setattr(demo, "TIED_POLICIES", ("FL", "PL1"))
    monkeypatch.setattr(demo, "DRAWS", 200)
    out = tmp_path / "demo"
    assert demo.main(["--out", str(out)]) == 0
    printed = capsys.readouterr().out
    assert "274 parameters, 200 images to fit, 100 held out" in printed
    assert "std. error" in printed
    assert "Plan for boltzmann: 200 samples, 274 parameters" in printed
    assert "→ recommended. FLOPs" in " ".join(printed.split())
    assert "independent exact draws" in " ".join(printed.split())
    assert max(len(line) for line in printed.splitlines() if str(out) not in line) <= 80
    assert f"{out}/report.html" in printed
    assert sorted(path.name for path in out.iterdir()) == [
        "cost-variance.png", "couplings.png", "index.html", "plan.png", "report.html", "samples.png",
    ]  # fmt: skip
    page = (out / "index.html").read_text(encoding="utf-8")
    assert page.count("data:image/png;base64,") == 4
    assert page.count("<table>") == 4
    assert "Try a mixture" in (out / "report.html").read_text(encoding="utf-8")


def test_nowhere_to_write_is_a_sentence(tmp_path, capsys):
    assert demo.main(["--out", str(tmp_path / "no" / "where")]) == 2
    assert capsys.readouterr().err.startswith("fieldfit: The folder")


def test_the_rarest_joint_state_is_counted():
    first, second = np.array([0, 0, 1, 1, 1]), np.array([0, 1, 0, 1, 1])
    assert demo._least_seen(first, second) == 1
    assert demo._least_seen(first[:4], np.zeros(4, dtype=int)) == 0
