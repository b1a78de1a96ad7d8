"""What leaves the building: the exported adapter, its contract, its publication."""
