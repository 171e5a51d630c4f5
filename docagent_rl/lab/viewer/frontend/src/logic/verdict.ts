/** The result of a comparison in words, as far as it allows a conclusion. */

import type { Comparison } from "../api/types";
import { fixed, plural, signed } from "./format";

const SURE = 0.05;

export function verdict(data: Comparison, a: string, b: string): string {
  const difference = signed(data.difference, 3);
  if (data.same_trajectories) return `These are the same trajectories with different rewards: the difference of ${difference} is between the rewards, and neither run is better.`;
  if (data.same_reward === false) return `The runs are rewarded differently: the difference of ${difference} is between two scales, and neither run is better.`;
  const on = `On ${plural(data.pairs, "question")} about ${plural(data.documents, "document")}`;
  if (data.p === null) return `${on}, no difference can be told from chance: that takes at least ${data.fewest_documents} documents.`;
  if (data.p < SURE) return `${on}, ${data.difference > 0 ? b : a} is higher by ${fixed(Math.abs(data.difference), 3)}.`;
  return `${on}, a difference of ${difference} may be due to chance.`;
}

/** Whether both sides are on the same scale, as far as is known. */
export function comparable(data: Comparison): boolean {
  return !data.same_trajectories && data.same_reward !== false;
}

/** A p-value as text, never as zero. */
export function chance(p: number): string {
  return p < 0.001 ? "< 0.001" : fixed(p, 3);
}
