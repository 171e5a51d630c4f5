/** What is lost between the stages of the evidence funnel. */

import type { FunnelGroup } from "../api/types";

export interface Stage {
  id: string;
  label: string;
  about: string;
}

export const STAGES: readonly Stage[] = [
  { id: "all", label: "questions", about: "Trajectories that were played, of questions whose evidence is known." },
  { id: "sought", label: "looked for", about: "The agent searched, or opened a page." },
  { id: "reach", label: "in reach", about: "The question itself, as a query, finds every gold page." },
  { id: "found", label: "found", about: "Queries of the agent returned every gold page, or it opened them by number." },
  { id: "shown", label: "shown", about: "They entered the context, as images of their own or as text." },
  { id: "looked", label: "looked at", about: "They could be read: whole, zoomed or as text." },
  { id: "answered", label: "answered", about: "The trajectory gave an answer." },
  { id: "kept", label: "kept", about: "They were still in the context when the agent answered." },
  { id: "right", label: "right", about: "The answer was right, with the evidence or without." },
];

/** Beside the stages: what is neither right nor lost. */
export const UNJUDGED: Stage = { id: "unjudged", label: "unjudged", about: "There is an answer, and nobody judged it: the gate of the reward was closed." };

/** The ways in which evidence was read. */
export const BRANCHES: readonly Stage[] = [
  { id: "zoomed", label: "zoomed", about: "A crop covered the evidence and showed it larger than the whole page did." },
  { id: "read_whole", label: "read whole", about: "The page was shown whole, and not only to choose from." },
  { id: "as_text", label: "as text", about: "Its text was shown, or somebody else read it." },
];

export interface Step {
  stage: Stage;
  /** Null where nothing that is recorded tells. */
  trajectories: number | null;
  lost: number;
}

export function losses(group: FunnelGroup): Step[] {
  return STAGES.map((stage) => ({ stage, trajectories: known(group, stage.id), lost: group.lost_counts[stage.id] ?? 0 }));
}

/** The trajectories that came to a stage; null where nothing tells, as of right answers where nobody judged one. */
function known(group: FunnelGroup, stage: string): number | null {
  const unjudged = stage === "right" && group.unjudged > 0 && group.unjudged === group.trajectories;
  return unjudged ? null : (group.counts[stage] ?? null);
}

/** Where most is lost: the stage that says what fails; null where nothing is. */
export function worst(group: FunnelGroup): Step | null {
  const steps = losses(group).filter((step) => step.lost > 0);
  return steps.reduce<Step | null>((most, step) => (most === null || step.lost > most.lost ? step : most), null);
}

/** How far a trajectory came, in a word: the last stage that it passed. */
export function stageName(stage: string): string {
  return stage === "all" ? "not looked for" : (STAGES.find((each) => each.id === stage)?.label ?? stage);
}

/** Stages in their order, other values behind them. */
export function byStage<T extends { value: string }>(values: readonly T[]): T[] {
  const place = (value: string): number => STAGES.findIndex((each) => each.id === value) >>> 0;
  return [...values].sort((a, b) => place(a.value) - place(b.value));
}

const CAUSES: Record<string, string> = {
  sought: "passivity: the agent neither searches nor opens a page",
  reach: "the index: the question itself does not find the page",
  found: "retrieval: the agent's queries do not find the page",
  shown: "navigation: a query returns the page, and it is never opened or has no room",
  looked: "perception: the page is among what is shown, and neither chosen nor magnified",
  answered: "the end: the page is read, and no answer is given",
  kept: "memory: the page has left the context before the answer",
  right: "reasoning: the page is in the context and the answer is wrong",
};

/** What a loss at a stage says. */
export function cause(stage: string): string {
  return CAUSES[stage] ?? stage;
}
