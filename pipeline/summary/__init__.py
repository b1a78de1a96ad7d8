"""What a person reads: results.md, the adapter's card, charts."""
