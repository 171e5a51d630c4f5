/** A turn's parsed action in a few words, and where the trajectories of a group diverge. */

import type { Turn } from "../api/types";

const HIDDEN = new Set(["kind", "block", "argument", "form", "reason"]);

/** `search “revenue 2023”`, `fetch 2, 5`, `crop 0.1 0.2 0.5 0.6`; for an invalid one the reason. */
export function actionText(turn: Pick<Turn, "action" | "valid" | "reason">): string {
  const { action } = turn;
  const kind = actionKind(turn);
  if (action === null || kind === "invalid") return turn.reason ? `invalid: ${turn.reason.replace(/_/g, " ")}` : `invalid ${tried(action)}`.trim();
  const rest = Object.entries(action).filter(([key, value]) => !HIDDEN.has(key) && value !== null && value !== "");
  return [kind.replace(/_/g, " "), ...rest.map(([, value]) => valueText(value))].join(" ").trim();
}

export function actionKind(turn: Pick<Turn, "action" | "valid">): string {
  if (!turn.valid) return "invalid";
  const kind = turn.action?.["kind"];
  return typeof kind === "string" ? kind : "text";
}

/** Index of the first turn in which the trajectories differ; null if they never do.
 *
 * A trajectory that has ended differs from one that continues.
 */
export function partingTurn(trajectories: readonly (readonly Turn[])[]): number | null {
  const longest = Math.max(0, ...trajectories.map((turns) => turns.length));
  for (let at = 0; at < longest; at++) {
    const seen = new Set(trajectories.map((turns) => textAt(turns, at)));
    if (seen.size > 1) return at;
  }
  return null;
}

/** The intended kind of an action that is invalid without a stated reason. */
function tried(action: Record<string, unknown> | null): string {
  const kind = action?.["kind"];
  return typeof kind === "string" && kind !== "invalid" ? kind.replace(/_/g, " ") : "";
}

function textAt(turns: readonly Turn[], at: number): string {
  const turn = turns[at];
  return turn === undefined ? "" : actionText(turn);
}

function valueText(value: unknown): string {
  if (typeof value === "string") return `“${value}”`;
  if (typeof value === "number") return String(Math.round(value * 1000) / 1000);
  if (Array.isArray(value)) return value.map((each) => (typeof each === "number" ? valueText(each) : plain(each))).join(", ");
  return plain(value);
}

function plain(value: unknown): string {
  if (Array.isArray(value)) return value.map((each) => (typeof each === "number" ? valueText(each) : plain(each))).join(" ");
  return typeof value === "string" ? value : JSON.stringify(value);
}
