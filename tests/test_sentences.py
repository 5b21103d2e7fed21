"""Sentences of the pages about what is released and how, held against the code."""

import re
from pathlib import Path

import pytest

from tidegate.learn.descent import Course
from tidegate.learn.gradient import GradientPerturbation
from tidegate.learn.survey import Kinds
from tidegate.learn.target_scores import SUMS

DOCS = Path(__file__).parents[1] / "docs"
PAGES = ["guarantee.md", "people.md", "threats.md", "proofs/persons.md"]


def text(name: str) -> str:
    return " ".join((DOCS / name).read_text(encoding="utf-8").split())


@pytest.mark.parametrize("page", PAGES)
def test_no_page_denies_the_noisy_number_of_persons(page: str) -> None:
    """Cards, status and metrics have one, `survey.total`, which the survey's share pays for."""
    found = text(page)
    assert not re.search(r"\b(no|or) (number|count) of persons", found, re.IGNORECASE)
    assert re.search(r"\bnoisy (number|count)s?\b|\bwith noise only\b", found, re.IGNORECASE)


def test_the_guarantee_names_all_that_surveys_and_scores_release() -> None:
    found = text("guarantee.md")
    survey = found[found.index("| survey of a step |") : found.index("| scores of the newest")]
    assert Kinds._fields == ("sums", "squares", "counts", "length")
    for words in ("sums of features", "their squares", "squared norms", "counts of classes"):
        assert words in survey
    scores = found[found.index("| scores of the newest") : found.index("| refit of a fit |")]
    assert len(SUMS) == 7
    for words in ("sums of errors", "sizes and squares", "of targets and their squares"):
        assert words in scores


def test_the_guarantee_says_that_a_refit_is_paid_in_every_fit() -> None:
    found = text("guarantee.md")
    assert "what a record pays, once" not in found
    refit = found[found.index("| refit of a fit |") :].partition(" | transform")[0]
    assert "in every fit that reads it" in refit


@pytest.mark.parametrize(
    ("outputs", "again", "surveyed", "part", "words"),
    [
        (3, True, False, 0.14, "without surveys the clip is 0.14 G"),
        (1, True, True, 0.5, "R'/2 for two classes and for targets"),
        (3, False, True, 0.5, "for more classes R'/2 in the first fit"),
        (3, True, True, 0.25, "R'/4 in fits that continue it"),
    ],
)
def test_clips_are_those_of_the_page(
    outputs: int, again: bool, surveyed: bool, part: float, words: str
) -> None:
    bound = 1.0 if outputs == 1 else 2**0.5
    course = Course(
        slots=10_000,
        mu=0.2,
        norm=1.0,
        lipschitz=bound,
        smoothness=0.25,
        continues=again,
        surveyed=surveyed,
    )
    made = GradientPerturbation().descent(course)
    assert made.clip == pytest.approx(part if surveyed else part * bound)
    assert words in text("proofs/gradient.md")
