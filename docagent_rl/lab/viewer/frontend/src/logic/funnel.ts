/** What is lost between the stages of the evidence funnel. */

import type { Funnel, FunnelGroup, Stage } from "../api/types";

export interface Step {
  stage: Stage;
  /** Null where nothing that is recorded tells. */
  trajectories: number | null;
  lost: number;
}

export function losses(funnel: Funnel, group: FunnelGroup): Step[] {
  return funnel.stages.map((stage) => ({ stage, trajectories: group.counts[stage.id] ?? null, lost: group.lost_counts[stage.id] ?? 0 }));
}

/** Where most is lost: the stage that says what fails; null where nothing is. */
export function worst(funnel: Funnel, group: FunnelGroup): Step | null {
  const steps = losses(funnel, group).filter((step) => step.lost > 0);
  return steps.reduce<Step | null>((most, step) => (most === null || step.lost > most.lost ? step : most), null);
}

const NAMES: Record<string, string> = {
  all: "not looked for",
  sought: "looked for",
  reach: "in reach",
  found: "found",
  shown: "shown",
  looked: "looked at",
  answered: "answered",
  kept: "kept",
  right: "right",
};

/** How far a trajectory came, in a word: the last stage that it passed. */
export function stageName(stage: string): string {
  return NAMES[stage] ?? stage;
}

/** Stages in their order, other values behind them. */
export function byStage<T extends { value: string }>(values: readonly T[]): T[] {
  const order = Object.keys(NAMES);
  const place = (value: string): number => (order.includes(value) ? order.indexOf(value) : order.length);
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
