"""Log-loss, bias and AUC on a year of flights and on single fits, beside no privacy."""

from bench.flight_data import flights, odd_units, rare

__all__ = ["flights", "odd_units", "rare"]
