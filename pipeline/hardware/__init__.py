"""Will it fit, will it finish: the machine as found, memory, speed, the plan."""
