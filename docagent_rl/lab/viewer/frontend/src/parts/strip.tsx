import type { Trajectory } from "../api/types";
import { count } from "../logic/format";
import { stripOf, type PieceKind } from "../logic/strip";

const NAMES: Record<PieceKind, string> = {
  prompt: "prompt",
  sampled: "sampled, trained",
  text: "observations, text",
  visual: "images",
};

/** All tokens of the trajectory to scale; a click jumps to the turn. */
export function Strip({ trajectory, toTurn, current }: { trajectory: Trajectory; toTurn: (turn: number) => void; current: number | null }) {
  const { pieces, total } = stripOf(trajectory);
  if (total === 0) return null;
  const sums = new Map<PieceKind, number>();
  for (const piece of pieces) sums.set(piece.kind, (sums.get(piece.kind) ?? 0) + piece.tokens);
  return (
    <div class="strip">
      <svg viewBox={`0 0 ${total} 10`} preserveAspectRatio="none" role="img" aria-label={`${count(total)} tokens to scale: ${[...sums].map(([kind, tokens]) => `${NAMES[kind]} ${count(tokens)}`).join(", ")}`}>
        {pieces.map((piece) => (
          <rect
            key={piece.begin}
            class={`s-${piece.kind}${piece.turn !== null && piece.turn === current ? " on" : ""}`}
            x={piece.begin}
            width={piece.tokens}
            y={piece.kind === "sampled" ? 0 : 2}
            height={piece.kind === "sampled" ? 10 : 6}
            onClick={() => piece.turn !== null && toTurn(piece.turn)}
          >
            <title>{`${piece.turn === null ? "" : `turn ${piece.turn}: `}${count(piece.tokens)} tokens ${NAMES[piece.kind]}`}</title>
          </rect>
        ))}
      </svg>
      <ul class="strip-legend">
        {[...sums].map(([kind, tokens]) => (
          <li key={kind}>
            <span class={`swatch s-${kind}`} aria-hidden="true" />
            {NAMES[kind]} <b class="num">{count(tokens)}</b>
          </li>
        ))}
        <li class="muted">{count(total)} tokens</li>
      </ul>
    </div>
  );
}
