"""The page as a program: the same points and classifiers, and the same picture by Matplotlib."""

from __future__ import annotations

from typing import Any

from oblong.cli.play.models import MODELS, TOO_FEW, BadRequest, State, prepare

# Those of the lines on the page, on white.
_COLOURS = ("#22272e", "#d6246a", "#0077bb", "#00806f", "#9a3a8a", "#846600", "#69727d")
_PICTURE = """\
# The picture: boundaries (thick), outputs of 1 and -1 (thin), and ellipsoids (dashed).
low, high = points.min(axis=0), points.max(axis=0)
middle, half = (low + high) / 2, 0.62 * (high - low)
half = np.where(4 * half > half.max(), half.max(), half)
half[half == 0] = 1
across, up = (np.linspace(m - h, m + h, 200) for m, h in zip(middle, half))
grid = prepare(np.stack(np.meshgrid(across, up), axis=-1).reshape(-1, 2))
fig, ax = plt.subplots(figsize=(7, 7))
ax.scatter(points[:, 0], points[:, 1], c=y, cmap="tab10", vmin=0, vmax=9, s=24)


def draw(values, level, **style):
    ax.contour(across, up, np.reshape(values, (200, 200)), levels=[level], **style)


"""
_BOUNDARIES = """\
for (name, model), colour in zip(models.items(), colours):
    if len(model.classes_) == 2:
        outputs = model.decision_function(grid)
        draw(outputs, 0, colors=colour, linewidths=2.5)
        for level in (-1, 1):
            draw(outputs, level, colors=colour, linewidths=0.8, linestyles="solid")
    else:
        predicted = model.predict(grid)
        for label in model.classes_:
            draw(predicted == label, 0.5, colors=colour, linewidths=2)
    ax.plot([], [], color=colour, label=name)
"""
_ELLIPSOIDS = """\
for ellipsoid in ellipsoids.values():
    draw(ellipsoid.mahalanobis(grid), 1, colors="black", linestyles="dashed", linewidths=1.3)
ax.plot([], [], color="black", linestyle="dashed", label="Ellipsoid per class")
"""


def as_python(node: Any) -> str:
    """Write a program that fits the models of the page to its points and draws them."""
    state = State.from_json(node)
    if len({label for _, _, label in state.points}) < 2:
        raise BadRequest(TOO_FEW)
    kernel = prepare(state).kernel
    models = {name: MODELS[name].make(state, kernel) for name in state.models}
    source = {name: " ".join(repr(model).split()) for name, model in models.items()}
    used = ", ".join(sorted({type(model).__name__ for model in models.values()}))
    lines = ["import matplotlib.pyplot as plt", "import numpy as np"]
    lines += ["from sklearn.preprocessing import StandardScaler"] if state.standardize else []
    lines += ["", f"from oblong import {used}"] if used else []
    lines += ["", *_points(state, node.get("stretched") is True), "X = prepare(points)", ""]
    boundaries = [name for name in source if name != "mve"]
    if boundaries:
        places = [list(MODELS).index(name) for name in boundaries]
        lines += [f"colours = {[_COLOURS[k % len(_COLOURS)] for k in places]}", "models = {"]
        lines += [f"    {MODELS[name].title!r}: {source[name]}," for name in boundaries]
        lines += [
            "}",
            "for name, model in models.items():",
            "    model.fit(X, y)",
            '    print(f"{name}: {np.sum(model.predict(X) != y)} errors among {len(y)} points")',
        ]
    if "mve" in source:
        lines += [f"ellipsoids = {{k: {source['mve']}.fit(X[y == k]) for k in np.unique(y)}}"]
    names = _axes(node)
    text = "\n".join(lines) + "\n\n" + _PICTURE
    text += (_BOUNDARIES if boundaries else "") + (_ELLIPSOIDS if "mve" in source else "")
    legend = "ax.legend()\n" if source else ""
    return text + f"ax.set(xlim=across[[0, -1]], ylim=up[[0, -1]]{names})\n{legend}plt.show()\n"


def _points(state: State, stretched: bool) -> list[str]:
    """The points, as they are on the page, and how the classifiers see them."""
    table, labels = state.arrays()
    lines = ["points = np.array(["]
    lines += [f"    [{x!r}, {y!r}]," for x, y in table.tolist()]
    lines += ["])", f"y = np.array({labels.tolist()})"]
    seen = "points"
    if state["stretch"] != 1.0:
        lines += [
            f"# Stretches {state['stretch']:g} times at {state['angle']:g} degrees.",
            f"stretch = np.array({state.map().tolist()})",
        ]
        if stretched:
            lines += ["points = points @ stretch"]
        else:
            seen = "points @ stretch"
    if state.standardize:
        lines += [f"scaler = StandardScaler().fit({seen})"]
        seen = f"scaler.transform({seen})"
    return [*lines, "", "", "def prepare(points):", f"    return {seen}", "", ""]


def _axes(node: Any) -> str:
    """The names of the axes, as arguments."""
    names = node.get("axes") or []
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise BadRequest("expected names of axes")
    return "".join(f", {axis}label={name!r}" for axis, name in zip("xy", names))
