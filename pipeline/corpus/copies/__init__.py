"""What rows say about each other: copies, near copies, contradicting answers, hold-outs.

shard_store.py is what a judged shard leaves behind, index.py reduces it to decisions.
"""
