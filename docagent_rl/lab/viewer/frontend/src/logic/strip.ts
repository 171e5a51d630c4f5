/** The trajectory's tokens to scale: prompt, sampled, shown as text, shown as images. */

import type { Trajectory } from "../api/types";

export type PieceKind = "prompt" | "sampled" | "text" | "visual";

export interface Piece {
  kind: PieceKind;
  turn: number | null;
  begin: number;
  tokens: number;
}

export function stripOf(trajectory: Pick<Trajectory, "prompt_tokens" | "prompt_strip" | "turns">): { pieces: Piece[]; total: number } {
  const pieces: Piece[] = [];
  let total = 0;
  const add = (kind: PieceKind, turn: number | null, tokens: number): void => {
    if (tokens > 0) pieces.push({ kind, turn, begin: total, tokens });
    total += Math.max(0, tokens);
  };
  const visual = trajectory.prompt_strip?.visual ?? 0;
  add("prompt", null, trajectory.prompt_tokens - visual);
  add("visual", null, visual);
  for (const turn of trajectory.turns) {
    add("sampled", turn.number, turn.strip.sampled);
    add("visual", turn.number, turn.strip.visual);
    add("text", turn.number, turn.strip.text);
  }
  return { pieces, total };
}
