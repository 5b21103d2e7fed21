"""Tidegate's terms, defined once for the documentation, the page and the command line."""

from collections.abc import Mapping
from difflib import get_close_matches

from tidegate.checks import InvalidValueError

GLOSSARY: Mapping[str, Mapping[str, str]] = {
    "Records": {
        "record": "One row of data: its features and its label, in a fixed slot of the stream. "
        "The guarantee hides the content of one record, or of all records of one person if the "
        "configuration has [person].",
        "stream": "The records in the order in which they arrive. It has no end.",
        "slot": "The position of a record in the stream, counted from 0. A record keeps its slot "
        "even if it cannot be used.",
        "neighbouring streams": "Two streams with the same slots that differ in the content of one "
        "record, or of the records of one person. The guarantee says that releases from one look "
        "much like releases from the other.",
        "person": "Whoever several records may be about, by the id in the column that [person] "
        "names. With that section, the budget limits what releases reveal about any one person.",
        "owner": "The person that a slot belongs to, as a keyed id: HMAC-SHA-256 of the id under a "
        "key of the state, 16 bytes. A slot without an owner is unusable.",
        "public": "Anything that you may show to anyone: the settings, how many records there are "
        "and when they came, or data from elsewhere. What you choose by looking at private records "
        "is not public.",
        "private": "Computed with noise that the budget pays for, so that anyone may see it. The "
        "records themselves are private too: only the operator may see them.",
        "drift": "A change over time in what the records are like, so that models of old records "
        "become wrong. If your stream drifts, start with a fading schedule.",
        "block": "The consecutive records that one fit reads. As a setting, it is the number of "
        "records before the first model, or in the smallest block of a multiresolution schedule.",
        "step": "A fixed number of consecutive records. Training happens only when a step is "
        "complete.",
        "waiting records": "Records that are in no segment yet. The state's database holds "
        "them until there are enough for one.",
        "raw data": "Records as the state holds them, with features and labels. They are deleted "
        "when no future fit can read them.",
        "segment": "A file of consecutive records in a state, written once and never changed. "
        "It is deleted when no future fit can read its records.",
        "encoder": "A public, frozen model that turns a text or an image into features. Its files "
        "must match the SHA-256 that is on every card.",
        "span": "A range of consecutive records (or steps), with its start and without its stop.",
        "window": "The newest records that each model of a sliding schedule is trained on. You "
        "choose how many.",
        "norm": "The largest length that a record's features may have. You choose it (generously, "
        "with a survey); longer records are scaled down to it, which limits their influence.",
        "clip": "To scale a vector down to a given length if it is longer. Records are clipped to "
        "the norm, and gradients to a length that the learner sets.",
        "quarantine": "Where a state keeps its unusable records, each with the reason. Only the "
        "operator may see it.",
        "unusable": "Said of a record that no fit can use: a value that is not a number, a label "
        "that is not a class, no valid JSON. It keeps its slot, and only the operator may see how "
        "many there are.",
        "erasure": "The destruction of what a state holds of a record or of a person. The slots "
        "stay, as unusable ones, with what they have paid; releases stay too.",
        "receipt": "What an erasure leaves to hand out: its number, time and a hash that every "
        "later release covers. It says neither who nor how many.",
        "holdout": "Public records, separate from the stream, on which releases are tested. They "
        "cost nothing, because they are not private.",
        "source": "Where a gate takes its records from: files, Kafka or NATS. With two streams, "
        "also the name of the large one.",
        "offset": "How far a source was read. It is stored in the same transaction as the records, "
        "so the next run continues there and takes each record once.",
        "resume": "A line in [source] with which the operator lets a run continue although its "
        "source was changed or has lost records. It is valid for one place only; a wrong number "
        "in it can charge records twice.",
        "patience": "How many seconds a run waits for a broker that does not answer, before it "
        "ends with exit code 2. The next run continues where it stopped.",
        "batch key": "A name that a sender gives a batch (Idempotency-Key). A batch that is sent "
        "again under the same key is taken once; keys belong to the name of a token.",
        "target": "The number that a regression predicts, such as minutes late; a number outside "
        "its public range counts as the nearer end. With two streams, also the small stream, on "
        "which models of the source stream are refined.",
    },
    "Training": {
        "model": "The weights that a fit produces. They turn the features of a record into a "
        "prediction.",
        "fit": "One training run: on the records of one span, starting from a prior or from "
        "scratch. It is the unit that the ledger charges.",
        "prior": "The earlier private model that a fit starts from. Using it again costs nothing, "
        "because its records have already paid for it.",
        "base": "A fit from scratch, the first of a chain. It is usually on the largest block of "
        "records.",
        "update": "A fit that refines the model before it in a chain, on records of its own.",
        "chain": "A base and the updates that refine it, one after the other. The last model has "
        "learned from the records of all of them.",
        "phase": "The time from one base to the next, in continual and basic schedules. With two "
        "streams, from one model of the source to the next.",
        "level": "The size class of an update: a block of one level up is twice as long.",
        "schedule": "The rule that says which fits happen when. It depends on public numbers only, "
        "never on what the records contain.",
        "plan": "A schedule with the share of every fit. It can be printed and checked before the "
        "first record arrives.",
        "learner": "The method that turns the records of a fit into a private model, by adding "
        "noise to the result or to the gradients.",
        "slot weight": "How much a slot counts in a fit, above 0 and up to 1, whether or not its "
        "record can be used. It depends only on the slot's position; cards and JSON call it "
        "emphasis.",
        "fading": "The schedule for drift that we recommend: a model at every step, in which old "
        "records count less and less.",
        "sliding": "A schedule for drift: a model at every step, trained on exactly the newest "
        "records, the window. Nothing older influences it.",
        "forget": "The fraction of its weight that a step loses when the next one arrives, in a "
        "fading schedule.",
        "memory": "How many of the newest steps a fit of a fading schedule reads. After that their "
        "records are deleted.",
        "linger": "In a fading schedule: the fraction of what earlier models know that is left "
        "after a step. A larger one makes models less noisy, and slower to follow a change.",
        "lead": "In the gradient learner: how far a model continues in the direction in which the "
        "release before it moved, so that it lags less. 0 by default.",
        "first": "In a fading schedule: how many steps must be complete before the first release. "
        "1 by default.",
        "naive splitting": "The simplest baseline: retrain at each release, with epsilon divided "
        "by the number of releases. That number must be known in advance.",
        "fair baseline": "The strongest simple rival of a sliding window: retrain the whole window "
        "at every step and split the budget exactly over the windows that contain a record. "
        "tidegate compare calls it window-refit.",
        "transform": "How a model centres, scales and decorrelates features before it reads them. "
        "It comes from surveys, is part of the release and is contained in exports.",
        "majority class": "The most frequent class. Its share is the accuracy of a constant "
        "answer, which a model has to beat.",
        "balanced accuracy": "The mean over classes of the share of right answers. Every class "
        "counts the same, however rare it is.",
        "log-loss": "The mean of -log of the probability given to the true class; smaller is "
        "better. It judges probabilities, where accuracy judges answers alone.",
        "auc": "For two classes: how often a record of class 1 gets a higher probability than one "
        "of class 0. 50 % is guessing.",
        "mae": "The mean absolute error of a regression, in the unit of its target: how far "
        "predictions are off on average.",
        "rmse": "The root of the mean squared error of a regression, in the unit of its target. "
        "Large errors count more than in the MAE.",
        "r2": "R^2: the part of the variance of the targets that a regression explains. 0 is as "
        "good as answering their mean, 1 is perfect.",
        "±": "Two standard deviations of the noise, before and after the number: the value without "
        "noise lies within in about 95 % of cases. It means this everywhere.",
        "calibration": "Whether probabilities come true: of the records with a predicted 30 %, "
        "about 30 % should be of that class.",
        "noise": "Random numbers that a learner adds before anyone sees the model. The smaller the "
        "share of the fit, the larger they are.",
    },
    "Privacy": {
        "differential privacy": "A limit on how much the releases can depend on any one record. "
        "It holds whatever else an attacker knows.",
        "budget": "The limit for one record, or one person, over all time: PureDP(epsilon) or "
        "ApproxDP(epsilon, delta).",
        "contributions": "k in [person]: what all records of a person may cost together, in units "
        "of what one record may cost. A larger k counts more records, with more noise.",
        "period": "A number of steps in [person]: the budget then limits what is revealed about "
        "what a person does within any that many consecutive steps, instead of for life.",
        "admitted": "Said of a step in which the records of a person count, because all such steps "
        "together cost at most k. Which steps these are depends on owners alone.",
        "person weight": "What a slot counts for in a fit so that all slots of a person together "
        "count like one record.",
        "typical": "In [person]: how many records a person is expected to have in one fit. It sets "
        "the length of training, and does not affect the guarantee.",
        "pure budget": "PureDP(epsilon): replacing one record makes no set of outcomes more than "
        "e^epsilon times as likely, without exceptions.",
        "gaussian budget": "ApproxDP(epsilon, delta): all noise is Gaussian, and a probability may "
        "exceed the limit that epsilon sets by delta. Models are better than under a pure budget.",
        "epsilon": "The main number of a budget; smaller is more private. Changing one record "
        "multiplies the probability of any set of outcomes by at most e^epsilon, plus delta if "
        "there is one.",
        "delta": "The second number of an ApproxDP budget: how far probabilities may exceed the "
        "limit that epsilon sets. Choose it far below one over the number of records that you "
        "plan for.",
        "mu": "The budget of ApproxDP on the scale of Gaussian DP: about 0.2367 at epsilon = 1 and "
        "delta = 1e-6. Squares of mu add up from fit to fit.",
        "gaussian dp": "Mu-Gaussian differential privacy (GDP): the releases tell two contents of "
        "a record apart no better than one draw tells a normal variable of mean 0 from one of mean "
        "mu, both of deviation 1.",
        "ball arithmetic": "Arithmetic on intervals that are guaranteed to contain the true value. "
        "It decides where rounding could matter for the guarantee.",
        "sensitivity": "The most that replacing one record can move what a fit computes before "
        "noise is added. The noise has to be in proportion to it.",
        "lattice": "The public grid of numbers to which a noisy result is rounded, so that the "
        "rounding of floats reveals nothing more about records.",
        "share": "The part of a record's budget that one fit spends, between 0 and 1. In the "
        "ledger, a record's share is the sum over all fits that read it (a record of lower slot "
        "weight pays less).",
        "charge": "What a fit or an evaluation costs each record that it reads: a share of the "
        "record's budget. It enters the ledger in the same transaction as the result.",
        "allocation": "The rule that divides the budget among levels.",
        "ledger": "The account of what each record has paid: the sum of what all fits charged it, "
        "never more than 1. A sum of 1 is planned, and no cause for alarm.",
        "worst share": "The budget spent by the most-charged record, from 0 to 1. It is 1 "
        "according to plan, and no cause for alarm.",
        "certificate": "The most that any record can ever pay under a plan, proved before the "
        "first record arrives. In the proofs also the solver's proof that its gradient is small.",
        "survey": "Noisy sums over the records of one step: of features, squares, products of two "
        "and squared norms, counts of classes (or of parts of a target's range) and of unusable "
        "records. A share of the budget pays for it, once per record.",
        "scores": "Noisy counts of how a release does on the step after it: right and wrong "
        "answers, by class and by predicted probability, or sums of errors. All measures are "
        "computed from them.",
        "drift alarm": "A step differs from the steps before it by more than chance and noise "
        "explain. At most 1 step in 1,000 raises one if nothing changes.",
        "quality": "How good each release is on the step after it: its scores, or a noisy accuracy "
        "alone. It is private too: a share of the budget is reserved for it.",
    },
    "Running": {
        "gate": "One run of a plan, with a ledger of its own: it takes in records, publishes "
        "releases and resumes after a crash. A Python estimator counts as one.",
        "state": "The folder in which a gate keeps all it needs: records, ledger, releases. It "
        "holds raw records, so protect it as you protect them.",
        "lock": "A file in the state that lets one gate at a time open it, and counts its "
        "transactions. It shows that none was lost: back it up, and never delete it.",
        "store": "The part of a gate that writes its state, so that a crash loses nothing and "
        "charges nothing twice.",
        "durable": "On the disk, so that it survives a crash or a power failure. A batch is "
        "acknowledged only once it is durable.",
        "layout": "The numbered format of a state's database. The first command of a newer version "
        "upgrades it, and older versions then refuse it.",
        "release": "A private model together with its card. It never changes, and anyone may see "
        "it.",
        "card": "The description of a release: which records it was trained on, what they paid, "
        "how it was made and what is promised.",
        "publish folder": "The folder that [publish] names: each release is also written there, "
        "for others to read. It holds no records; if it has a newer release than the state (a "
        "restored backup), the gate refuses to run.",
        "manifest": "The file NNNNNN.sha256 next to each published release: the SHA-256 of its "
        "files, for sha256sum --check.",
        "hash chain": "The hash of each release covers the hash of the one before. So nobody can "
        "change or remove a release without changing the hashes of all later ones: note the newest "
        "hash to notice that.",
        "fleet": "Many gates run from one configuration, each with its own ledger.",
        "token": "A secret that lets a program or a person use a served gate: send records, read "
        "releases, or read the audit log.",
    },
}
"""The terms by subject, in reading order."""

SYMBOLS = {
    "ε": "epsilon",
    "log loss": "log-loss",
    "area under the curve": "auc",
    "drift alert": "drift alarm",
    "δ": "delta",
    "μ": "mu",
    "emphasis": "slot weight",
    "gdp": "gaussian dp",
    "puredp": "pure budget",
    "pure dp": "pure budget",
    "approxdp": "gaussian budget",
    "approximate dp": "gaussian budget",
    "sliding window": "sliding",
    "naive": "naive splitting",
    "window refit": "fair baseline",
    "idempotency key": "batch key",
    "publish": "publish folder",
    "raw record": "raw data",
    "raw records": "raw data",
    "unusable record": "unusable",
    "unusable records": "unusable",
    "persons": "person",
    "people": "person",
    "owners": "owner",
    "contribution": "contributions",
    "admission": "admitted",
    "neighbour": "neighbouring streams",
    "neighbours": "neighbouring streams",
}

TERMS = {term: words for terms in GLOSSARY.values() for term, words in terms.items()}


def definition(term: str) -> str:
    """Define a term.

    Args:
        term: The term, in any case, singular or plural, with spaces, hyphens or underscores.

    >>> definition("Allocations")
    'The rule that divides the budget among levels.'
    >>> definition("leger")
    Traceback (most recent call last):
    tidegate.checks.InvalidValueError: no term 'leger': did you mean ledger or linger?
    """
    plain = " ".join(term.lower().replace("-", " ").replace("_", " ").split())
    for spelling in (SYMBOLS.get(plain, plain), plain.removesuffix("s")):
        if spelling in TERMS:
            return TERMS[spelling]
    near = get_close_matches(plain, TERMS, n=3, cutoff=0.7)
    hint = f"did you mean {' or '.join(near)}?" if near else "tidegate explain lists all terms"
    raise InvalidValueError(f"no term {term[:60]!r}: {hint}")


def to_markdown() -> str:
    """The glossary as a Markdown page."""
    lines = [
        "# Glossary",
        "",
        "One definition for each word, in code, command line, page and documentation. A few words "
        "have two",
        "meanings, and say so. In a terminal: `tidegate explain share`.",
        "This page is written by `python -m tidegate.glossary`.",
    ]
    for subject, terms in GLOSSARY.items():
        lines += ["", f"## {subject}", "", "| term | meaning |", "|---|---|"]
        lines += [f"| {term} | {words} |" for term, words in terms.items()]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(to_markdown(), end="")
