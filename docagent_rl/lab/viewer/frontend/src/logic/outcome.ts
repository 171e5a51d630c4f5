/** Text about whether answers were right. */

import type { FunnelGroup, OutcomeState } from "../api/types";
import { count, percent, plural } from "./format";

export interface OutcomeWords {
  mark: string;
  /** The CSS class for its colour. */
  tone: "pos" | "neg" | "muted";
  about: string;
}

export const OUTCOMES: Record<OutcomeState, OutcomeWords> = {
  right: { mark: "✓", tone: "pos", about: "right" },
  wrong: { mark: "✗", tone: "neg", about: "wrong" },
  unjudged: { mark: "?", tone: "muted", about: "unjudged: the gate of the reward was closed, so the answer was not checked" },
};

/** How many answers in a funnel were right, among those that were judged. */
export function accuracyText(group: FunnelGroup): string {
  const right = group.counts.right ?? null;
  if (right === null) return "It is unknown which answers are right.";
  const judged = group.trajectories - group.unjudged;
  if (judged === 0) return `None of ${answers(group.unjudged)} was judged, so it is unknown which are right.`;
  const share = `Right in ${count(right)} of ${count(judged)} ${group.unjudged > 0 ? "judged " : ""}trajectories (${percent(right, judged)})`;
  const guessed = group.guessed > 0 ? `, ${count(group.guessed)} of them without the evidence` : "";
  const unjudged = group.unjudged > 0 ? ` ${count(group.unjudged)} more were not judged.` : "";
  return `${share}${guessed}.${unjudged}${everyText(group)}`;
}

/** The same for all trajectories, if the evidence of some is unknown. */
function everyText(group: FunnelGroup): string {
  if (group.played <= group.trajectories) return "";
  const judged = group.outcomes.right + group.outcomes.wrong;
  return ` Including trajectories whose evidence is unknown: right in ${count(group.outcomes.right)} of ${count(judged)} (${percent(group.outcomes.right, judged)}).`;
}

/** How often a way of reading led to a right answer; empty if no answer was judged. */
export function branchText({ trajectories, right, unjudged }: { trajectories: number; right: number; unjudged: number }): string {
  const judged = unjudged < trajectories ? `, right ${count(right)}` : "";
  return unjudged > 0 ? `${judged}, unjudged ${count(unjudged)}` : judged;
}

/** What a comparison of right answers leaves out; empty if that is nothing. */
export function leftOutText(unjudgedA: number, unjudgedB: number): string {
  if (unjudgedA + unjudgedB === 0) return "";
  return `Left out because they were not judged: ${answers(unjudgedA)} of A, ${answers(unjudgedB)} of B.`;
}

function answers(number: number): string {
  return plural(number, "answer");
}
