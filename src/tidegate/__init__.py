"""Tidegate releases a fresh private model at every step of a stream, under one fixed bound."""

from tidegate.plan import Plan, TwoStreamPlan
from tidegate.privacy import ApproxDP, Paper, PureDP, Tapered

__all__ = ["ApproxDP", "Paper", "Plan", "PureDP", "Tapered", "TwoStreamPlan"]
