/** Which number of a token determines its colour, in one of a few shades. */

import type { Tokens } from "../api/types";

export const MEASURES = ["advantage", "drift", "entropy", "kl", "none"] as const;
export type Measure = (typeof MEASURES)[number];

export const MEASURE_LABELS: Record<Measure, string> = {
  advantage: "Advantage",
  drift: "Log-prob, trainer − server",
  entropy: "Entropy",
  kl: "KL",
  none: "No colour",
};

/** Shades on each side of zero; classes `p1`…`p5` and `n1`…`n5`. */
export const SHADES = 5;

/** The measure's values by token; null if the run did not store it. */
export function valuesOf(tokens: Tokens, measure: Measure): number[] | null {
  if (measure === "advantage") return tokens.advantages;
  if (measure === "entropy") return tokens.entropy;
  if (measure === "kl") return tokens.kl;
  if (measure === "none" || tokens.trainer_log_probs === null) return null;
  return tokens.trainer_log_probs.map((value, at) => value - (tokens.log_probs[at] ?? value));
}

/** The measures that at least one turn has. */
export function measuresOf(all: readonly Tokens[]): Measure[] {
  return MEASURES.filter((measure) => measure === "none" || all.some((tokens) => valuesOf(tokens, measure) !== null));
}

/** The absolute value at which the colour is full: the 98th percentile, so that no outlier dominates. */
export function scaleOf(all: readonly Tokens[], measure: Measure): number {
  const sizes: number[] = [];
  for (const tokens of all) for (const value of valuesOf(tokens, measure) ?? []) sizes.push(Math.abs(value));
  sizes.sort((a, b) => a - b);
  return sizes[Math.min(sizes.length - 1, Math.floor(sizes.length * 0.98))] || sizes[sizes.length - 1] || 0;
}

/** The class of a value: `p3` for three fifths of the scale above zero, empty if there is nothing to show. */
export function shade(value: number | null | undefined, scale: number): string {
  if (value === null || value === undefined || scale <= 0 || Number.isNaN(value)) return "";
  const level = Math.min(SHADES, Math.round((Math.abs(value) / scale) * SHADES));
  return level === 0 ? "" : `${value > 0 ? "p" : "n"}${level}`;
}
