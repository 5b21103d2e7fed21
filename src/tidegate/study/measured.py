"""The exact measures of a study's models, on the records that they are tested on."""

import numpy as np

from tidegate.learn.labels import predicted_codes
from tidegate.learn.measures import exact
from tidegate.study.study_stream import Fitted, Labelled

MEASURES = ("balanced_accuracy", "auc", "bias", "majority", "constant_log_loss")
"""What is measured besides accuracy and log-loss; see `tidegate.learn.measures.Measures`."""


def measured(
    model: Fitted, test: Labelled, classes: int, *, probabilities: bool = True
) -> dict[str, float]:
    """The accuracy, the log-loss and the `MEASURES` of a model; NaN where one is not defined.

    A record that cannot be used counts as wrong in the accuracy, and for nothing else.

    Args:
        model: The model.
        test: The records to test it on.
        classes: The number of classes.
        probabilities: Whether its margins have probabilities; if not, log-loss and bias are NaN.

    >>> test = Labelled(X=np.array([[1.0], [-1.0], [2.0], [0.0]]), y=np.array([1, 0, 0, -1]))
    >>> found = measured(np.ones(1), test, 2)
    >>> found["accuracy"], found["balanced_accuracy"], found["auc"]
    (0.5, 0.75, 0.5)
    """
    margins = test.margins(model)
    right = predicted_codes(margins) == test.y
    if classes == 2 and margins.ndim == 2:  # a column for each class has the same probabilities
        margins = margins[:, 1] - margins[:, 0]
    usable = test.y >= 0
    measures = exact(margins, np.maximum(test.y, 0), usable, classes, probabilities=probabilities)
    found = {name: getattr(measures, name) for name in ("log_loss", *MEASURES)}
    values = {name: np.nan if each is None else each.value for name, each in found.items()}
    return {"accuracy": float(right.mean()), **values}
