/** What a comparison says in words, as far as it may. */

import type { Comparison } from "../api/types";
import { fixed, plural, signed } from "./format";

const SURE = 0.05;

export function verdict(data: Comparison, a: string, b: string): string {
  const difference = signed(data.difference, 3);
  if (data.same_trajectories) return `The same trajectories under two rewards: ${difference} lies between the rewards, and neither run is better.`;
  if (data.same_reward === false) return `The two are rewarded differently: ${difference} lies between two scales, and neither run is better.`;
  const on = `On ${plural(data.pairs, "question")} about ${plural(data.documents, "document")}`;
  if (data.p === null) return `${on} nothing can be told from chance: that takes ${data.fewest_documents} documents.`;
  if (data.p < SURE) return `${on} ${data.difference > 0 ? b : a} is higher by ${fixed(Math.abs(data.difference), 3)}.`;
  return `${on} chance alone could make a difference of ${difference}.`;
}

/** Whether both sides are numbers of one scale, as far as is known. */
export function comparable(data: Comparison): boolean {
  return !data.same_trajectories && data.same_reward !== false;
}

/** A p-value, of which none is zero. */
export function chance(p: number): string {
  return p < 0.001 ? "< 0.001" : fixed(p, 3);
}
