"""The leaderboard: every policy on worlds that nothing was tuned on, where others may enter their own."""
