/** Whether answers were right, in words. */

import type { FunnelGroup, OutcomeState } from "../api/types";
import { count, percent, plural } from "./format";

export interface OutcomeWords {
  mark: string;
  /** The class that colours it. */
  tone: "pos" | "neg" | "muted";
  about: string;
}

export const OUTCOMES: Record<OutcomeState, OutcomeWords> = {
  right: { mark: "✓", tone: "pos", about: "right" },
  wrong: { mark: "✗", tone: "neg", about: "wrong" },
  unjudged: { mark: "?", tone: "muted", about: "unjudged: the gate of the reward was closed, and nobody asked whether it is right" },
};

/** How many answers of a funnel were right, of those that somebody judged. */
export function accuracyText(group: FunnelGroup): string {
  const right = group.counts.right ?? null;
  if (right === null) return "Nothing says which answers are right.";
  const judged = group.trajectories - group.unjudged;
  if (judged === 0) return `Nobody judged ${answers(group.unjudged)}, so that nothing says which are right.`;
  const share = `Right in ${count(right)} of ${count(judged)} ${group.unjudged > 0 ? "judged " : ""}trajectories (${percent(right, judged)})`;
  const guessed = group.guessed > 0 ? `, in ${count(group.guessed)} without the evidence` : "";
  const unjudged = group.unjudged > 0 ? ` Nobody judged ${count(group.unjudged)} more.` : "";
  return `${share}${guessed}.${unjudged}${everyText(group)}`;
}

/** The same of all trajectories, where the evidence of some is not known. */
function everyText(group: FunnelGroup): string {
  if (group.played <= group.trajectories) return "";
  const judged = group.outcomes.right + group.outcomes.wrong;
  return ` With those whose evidence is not known, in ${count(group.outcomes.right)} of ${count(judged)} (${percent(group.outcomes.right, judged)}).`;
}

/** How often a way of reading led to a right answer; empty where nobody judged one. */
export function branchText({ trajectories, right, unjudged }: { trajectories: number; right: number; unjudged: number }): string {
  const judged = unjudged < trajectories ? `, right ${count(right)}` : "";
  return unjudged > 0 ? `${judged}, unjudged ${count(unjudged)}` : judged;
}

/** What a comparison of right answers leaves out; empty where that is nothing. */
export function leftOutText(unjudgedA: number, unjudgedB: number): string {
  if (unjudgedA + unjudgedB === 0) return "";
  return `Left out, since nobody judged them: ${answers(unjudgedA)} of A, ${answers(unjudgedB)} of B.`;
}

function answers(number: number): string {
  return plural(number, "answer");
}
