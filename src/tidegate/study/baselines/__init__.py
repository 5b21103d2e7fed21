"""Other ways to keep a model fresh, each as strong as its budget allows: one file per way."""
