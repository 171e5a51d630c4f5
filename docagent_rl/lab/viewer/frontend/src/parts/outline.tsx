import type { Trajectory, Turn } from "../api/types";
import { actionKind, actionText } from "../logic/actions";
import { signed, words } from "../logic/format";
import { Bar } from "../ui/basics";

/** The turns in a column: the action, whether it was valid, and its reward. */
export function Outline({ trajectory, current, toTurn }: {
  trajectory: Trajectory;
  current: number | null;
  toTurn: (turn: number) => void;
}) {
  const scale = Math.max(...trajectory.turns.map((turn) => Math.abs(turn.reward ?? 0)), 0);
  return (
    <nav class="outline" aria-label="Turns">
      <ol>
        {trajectory.turns.map((turn) => (
          <li key={turn.number}>
            <button type="button" aria-current={turn.number === current ? "true" : undefined} onClick={() => toTurn(turn.number)}>
              <span class="num outline-number">{turn.number}</span>
              <span class={`kind k-${actionKind(turn)}`}>{words(actionKind(turn))}</span>
              {Math.abs(turn.reward ?? 0) >= 0.005 && <span class={`num ${(turn.reward ?? 0) < 0 ? "neg" : "pos"}`}>{signed(turn.reward ?? 0)}</span>}
              <span class="outline-text">{argument(turn)}</span>
              {scale > 0 && <Bar value={turn.reward ?? 0} scale={scale} signed />}
            </button>
          </li>
        ))}
      </ol>
    </nav>
  );
}

function argument(turn: Turn): string {
  const kind = words(actionKind(turn));
  const text = actionText(turn);
  return text.startsWith(kind) ? text.slice(kind.length).replace(/^: /, "").trim() : text;
}
