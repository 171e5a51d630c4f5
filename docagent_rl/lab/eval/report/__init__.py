"""Reports on scored runs: numbers beside the paper's, intervals, breakdowns, paired comparisons."""
