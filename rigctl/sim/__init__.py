"""A rig made of numbers: world, cards, engines that speak HTTP, agents, scenes."""
