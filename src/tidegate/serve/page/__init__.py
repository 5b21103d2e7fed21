"""The page at `/`, and the files that it is made of."""

from tidegate.serve.page.page import add_page

__all__ = ["add_page"]
