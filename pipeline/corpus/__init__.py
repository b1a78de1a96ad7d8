"""What the model will read: sources, rules, overlap, selection."""
