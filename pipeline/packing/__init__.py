"""Token ids, loss masks and packing: what the model will read, laid out on the disk."""
