"""One reader for each kind of file: archives, lines, JSON values, Parquet and Arrow tables.

Each yields `strict_json.Row`s: a value or the reason why not, and never raises for what
a file holds. sources.py picks the reader, cuts.py cuts the files into shards.
"""
