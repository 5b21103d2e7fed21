"""Other methods to keep a model up to date, each as strong as its budget allows."""
