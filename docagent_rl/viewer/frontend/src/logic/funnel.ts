/** What is lost between the stages of the evidence funnel. */

import type { Funnel, FunnelGroup, Stage } from "../api/types";

export interface Step {
  stage: Stage;
  /** Null where nothing that is recorded tells. */
  sessions: number | null;
  /** Sessions of the last known stage before it; null for the first. */
  before: number | null;
  lost: number;
}

export function losses(funnel: Funnel, group: FunnelGroup): Step[] {
  let before: number | null = null;
  return funnel.stages.map((stage) => {
    const sessions = group.counts[stage.id] ?? null;
    const gone = sessions === null || before === null ? 0 : Math.max(0, before - sessions);
    const lost = group.lost_counts?.[stage.id] ?? gone;
    const step: Step = { stage, sessions, before, lost };
    if (sessions !== null) before = sessions;
    return step;
  });
}

/** Where most is lost: the stage that says what fails; null where nothing is. */
export function worst(funnel: Funnel, group: FunnelGroup): Step | null {
  const steps = losses(funnel, group).filter((step) => step.lost > 0);
  return steps.reduce<Step | null>((most, step) => (most === null || step.lost > most.lost ? step : most), null);
}

const NAMES: Record<string, string> = {
  all: "not found",
  reach: "in reach",
  found: "found",
  shown: "shown",
  looked: "looked at",
  kept: "kept",
  right: "right",
};

/** How far a session came, in a word: the last stage that it passed. */
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
  reach: "the index: the question itself does not find the page",
  found: "retrieval: the agent's queries do not find the page",
  shown: "navigation: the page is found and not opened",
  looked: "perception: the page is shown and not looked at closely",
  kept: "memory: the page has left the context before the answer",
  right: "reasoning: the page is in the context and the answer is wrong",
};

/** What a loss at a stage says. */
export function cause(stage: string): string {
  return CAUSES[stage] ?? stage;
}
