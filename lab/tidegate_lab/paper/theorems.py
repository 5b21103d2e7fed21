"""The best bounds that the paper's utility theorems can give for the releases of a panel."""

import math

import numpy as np

from tidegate.compare import Labelled, LabelledStream, Scheduled
from tidegate.learn import OutputPerturbation
from tidegate_lab.paper.bounds import excess_on_new_records, laplace_norm
from tidegate_lab.paper.panels import Panel

ETA = 3.0
"""The bounds fail with probability at most 2 e^-3, about one in ten."""


def note(panel: Panel) -> str:
    """The bound to draw in a panel, or why there is none; "" if the theorems do not apply."""
    bounds = {}
    for line in panel.lines:
        source, method = line.experiment.source, line.experiment.method
        if line.kind == "pure" and isinstance(method, Scheduled):
            bounds[least_bound(method, source.records, *source.shape)] = source.shape[1]
    if not bounds:
        return ""
    best = min(bounds)
    uniform = math.log(bounds[best])
    if best < uniform:
        return f"At best, Theorems 4.3 and 5.2 promise a mean loss below {best:.3g} nats."
    return (
        f"No bound is drawn: at best, Theorems 4.3 and 5.2 promise a mean loss below "
        f"{best:.3g} nats; equal probabilities for all classes have {uniform:.3g}."
    )


def least_bound(method: Scheduled, records: int, d: int, classes: int) -> float:
    """The least bound on the mean loss of a release that Theorems 4.3 and 5.2 can give, in nats.

    Whatever one assumes about the records, the corrected theorems (`bounds.py`) cannot
    promise a lower loss for any release of the curve. The best model is assumed to have distance 0
    and risk 0, except for a base, because no model near the origin has risk 0. The method is output
    perturbation under a pure budget, on records in the unit ball with d features each.
    """
    nobody = Labelled(X=np.empty((0, d)), y=np.empty(0))
    stream = LabelledStream(records=nobody, classes=classes, norm=1.0, test=lambda _: nobody)
    task = stream.task(method.regularization)
    regularization, budget = method.regularization or 0.0, method.plan.budget
    bounds = []
    for fit, share in method.plan.lines(records):
        if not fit.released:
            continue
        sensitivity = OutputPerturbation().sensitivity(task, n=fit.span.size, d=d)
        scale = sensitivity / budget.of_share(share)
        noise = excess_on_new_records(
            lipschitz=task.loss.lipschitz(1.0),
            shift=laplace_norm(coordinates=d * classes, scale=scale, eta=ETA),
            regularization=regularization,
            distance=0.0,
            slots=fit.span.size,
            risk=0.0,
            loss_bound=math.log(classes),
            eta=ETA,
        )
        near = least_loss(regularization, classes) if fit.prior is None else 0.0
        bounds.append(near + noise)
    return min(bounds)


def least_loss(regularization: float, classes: int) -> float:
    """The least of loss + lambda ||w||^2 for one record of the unit ball, over all models.

    With a model of norm r, the margin of one class exceeds the others by at most sqrt(2) r.

    >>> round(least_loss(10.0, 10), 2), round(least_loss(0.01, 10), 2)
    (2.26, 0.18)
    """
    norms = np.linspace(0, 20, 20_001)
    losses = np.log1p((classes - 1) * np.exp(-math.sqrt(2) * norms)) + regularization * norms**2
    return float(losses.min())
