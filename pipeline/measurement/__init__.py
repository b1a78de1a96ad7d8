"""How good is it: decoding, sampling, scores with their intervals."""
