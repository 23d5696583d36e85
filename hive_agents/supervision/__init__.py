"""Who watches over running agents: the health judge and the queen, who know nothing of each other."""
