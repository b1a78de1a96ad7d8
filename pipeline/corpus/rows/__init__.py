"""One row of a file → problem, answer and traces: strict JSON, schemas, conversations, labels.

strict_json.py and text.py clean a row; schemas.py reads it with the help of the others.
"""
