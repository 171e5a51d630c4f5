"""Reports on scored runs: numbers next to the papers, intervals, breakdowns, comparisons."""
