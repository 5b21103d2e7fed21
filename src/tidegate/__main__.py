"""`python -m tidegate` runs the command `tidegate`."""

from tidegate import cli

if __name__ == "__main__":
    cli.main()
