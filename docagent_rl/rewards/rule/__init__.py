"""What the rule judge reads answers with: spelling, quantities, dates, phrases, claims."""
