/** Reward terms of a trajectory: their sums, and the rewards of single turns. */

import type { Trajectory } from "../api/types";

export interface TermRow {
  name: string;
  value: number;
  /** By turn, in order; empty if the system rewards only the whole trajectory. */
  turns: number[];
}

/** One row per term, the total last. Sums are the environment's own; if there is none, the turns are added up. */
export function termRows(trajectory: Pick<Trajectory, "metrics" | "turns" | "reward">): TermRow[] {
  const names = new Set<string>();
  for (const key of Object.keys(trajectory.metrics)) if (/^reward\/[^/]+$/.test(key)) names.add(key.slice(7));
  for (const turn of trajectory.turns) for (const name of Object.keys(turn.terms)) names.add(name);
  names.delete("total");
  const paid = trajectory.turns.some((turn) => Object.keys(turn.terms).length > 0);
  const rows = [...names].map((name): TermRow => {
    const turns = paid ? trajectory.turns.map((turn) => turn.terms[name] ?? 0) : [];
    return { name, value: trajectory.metrics[`reward/${name}`] ?? turns.reduce((sum, value) => sum + value, 0), turns };
  });
  const rewards = trajectory.turns.map((turn) => turn.reward ?? 0);
  rows.push({ name: "total", value: trajectory.reward ?? 0, turns: rewards.some((value) => value !== 0) ? rewards : [] });
  return rows;
}
