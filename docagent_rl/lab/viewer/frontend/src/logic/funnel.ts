/** What is lost between the stages of the evidence funnel. */

import type { FunnelGroup } from "../api/types";

export interface Stage {
  id: string;
  label: string;
  about: string;
}

export const STAGES: readonly Stage[] = [
  { id: "all", label: "played", about: "All trajectories of questions whose gold pages are known." },
  { id: "sought", label: "looked for", about: "The agent searched, or opened a page." },
  { id: "reach", label: "in reach", about: "Every gold page is found with the question itself as the query." },
  { id: "found", label: "found", about: "The agent's queries returned every gold page, or the agent opened them by number." },
  { id: "shown", label: "shown", about: "All gold pages entered the context, as separate images or as text." },
  { id: "looked", label: "looked at", about: "All gold pages could be read: whole, zoomed or as text." },
  { id: "answered", label: "answered", about: "The agent gave an answer." },
  { id: "kept", label: "kept", about: "All gold pages were still in the context when the agent answered." },
  { id: "right", label: "right", about: "The answer was right, with all gold pages in the context." },
];

/** Stages that stand for the funnel where few lines are drawn. */
export const MAIN_STAGES: readonly Stage[] = STAGES.filter(({ id }) => ["sought", "found", "shown", "looked", "right"].includes(id));

/** Below the stages: right answers of trajectories that left the funnel before its end. */
export const ANYWAY: Stage = { id: "anyway", label: "right anyway", about: "The answer was right, although some gold page was not found, shown, read or kept." };

/** Below the stages: answers that are neither right nor lost. */
export const UNJUDGED: Stage = { id: "unjudged", label: "unjudged", about: "There is an answer that was not judged, because the gate of the reward was closed." };

/** The ways in which evidence was read. */
export const BRANCHES: readonly Stage[] = [
  { id: "zoomed", label: "zoomed", about: "A crop covered the evidence and showed it larger than on the whole page." },
  { id: "read_whole", label: "read whole", about: "The whole page was shown, not just as one to choose from." },
  { id: "as_text", label: "as text", about: "Its text was shown, or another model read it." },
];

export interface Step {
  stage: Stage;
  /** Null if the records do not tell. */
  trajectories: number | null;
  /** Those that reached the stage before but not this one: wrong, right anyway, unjudged. */
  lost: number;
  anyway: number;
  unjudged: number;
}

export function losses(group: FunnelGroup): Step[] {
  return STAGES.map((stage) => ({
    stage,
    trajectories: reached(group, stage.id),
    lost: group.lost_counts[stage.id] ?? 0,
    anyway: group.right_anyway[stage.id] ?? 0,
    unjudged: group.unjudged_at[stage.id] ?? 0,
  }));
}

/** The number of trajectories that reached a stage; null if unknown, such as right answers if none was judged. */
export function reached(group: FunnelGroup, stage: string): number | null {
  if (stage !== "right") return group.counts[stage] ?? null;
  const noneJudged = group.unjudged > 0 && group.unjudged === group.trajectories;
  return noneJudged ? null : group.with_evidence;
}

/** The number of right answers of trajectories that left the funnel before its end. */
export function rightAnyway(group: FunnelGroup): number {
  return Object.values(group.right_anyway).reduce((sum, each) => sum + each, 0);
}

/** The stage at which most are lost, which shows what fails; null if nothing is lost. */
export function worst(group: FunnelGroup): Step | null {
  const steps = losses(group).filter((step) => step.lost > 0);
  return steps.reduce<Step | null>((most, step) => (most === null || step.lost > most.lost ? step : most), null);
}

/** How far a trajectory got: the last stage that it passed. */
export function stageName(stage: string): string {
  return stage === "all" ? "not looked for" : (STAGES.find((each) => each.id === stage)?.label ?? stage);
}

/** Stages in order, other values after them. */
export function byStage<T extends { value: string }>(values: readonly T[]): T[] {
  const place = (value: string): number => STAGES.findIndex((each) => each.id === value) >>> 0;
  return [...values].sort((a, b) => place(a.value) - place(b.value));
}

const CAUSES: Record<string, string> = {
  sought: "passivity: the agent neither searched nor opened a page",
  reach: "the index: the question itself does not find the page",
  found: "retrieval: the agent's queries did not find the page",
  shown: "navigation: a query returned the page, but it was never opened, or there was no room for it",
  looked: "perception: the page was offered, but neither chosen nor magnified",
  answered: "a missing answer: the page was read, but no answer was given",
  kept: "memory: the page was no longer in the context when the agent answered",
  right: "reasoning: the page was in the context, but the answer was wrong",
};

/** The meaning of a loss at a stage. */
export function cause(stage: string): string {
  return CAUSES[stage] ?? stage;
}
