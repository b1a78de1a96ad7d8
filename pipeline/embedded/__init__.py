"""What ships with the project: a small base model and worked sums with a panel."""
