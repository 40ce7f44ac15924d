"""The code blocks of the documents, run as they stand."""
