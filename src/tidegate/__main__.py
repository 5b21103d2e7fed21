"""`python -m tidegate` runs the command `tidegate`."""

from tidegate.cli import main

if __name__ == "__main__":
    main()
