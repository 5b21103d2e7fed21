"""Budgets, shares, the ledger and its certificate, and amplification by sampling."""

from tidegate.privacy.budget import (
    ApproxDP,
    Budget,
    PureDP,
    epsilon_for_sample,
    gaussian_delta,
    gaussian_epsilon,
    gaussian_mu,
)
from tidegate.privacy.ledger import Ledger, LedgerError, Line, Paid
from tidegate.privacy.shares import Allocation, Paper, Shares, Tapered, certify
from tidegate.schedule.fit import Certificate

__all__ = [
    "Allocation",
    "ApproxDP",
    "Budget",
    "Certificate",
    "Ledger",
    "LedgerError",
    "Line",
    "Paid",
    "Paper",
    "PureDP",
    "Shares",
    "Tapered",
    "certify",
    "epsilon_for_sample",
    "gaussian_delta",
    "gaussian_epsilon",
    "gaussian_mu",
]
