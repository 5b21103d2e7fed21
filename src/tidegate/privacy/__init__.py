"""What a fit costs its records, and the noise that pays for it."""
