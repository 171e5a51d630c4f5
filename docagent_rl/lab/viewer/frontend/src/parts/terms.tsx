import type { Trajectory } from "../api/types";
import { fixed, number, words } from "../logic/format";
import { Bar } from "../ui/basics";
import { termRows } from "../logic/terms";

/** Reward terms of the trajectory with their weights, and by turn if the system rewards turns. */
export function Terms({ trajectory, toTurn }: { trajectory: Trajectory; toTurn: (turn: number) => void }) {
  const rows = termRows(trajectory);
  const turns = trajectory.turns.length;
  const scale = Math.max(0, ...rows.map((row) => Math.abs(row.value)));
  const most = Math.max(0, ...rows.flatMap((row) => row.turns.map(Math.abs)));
  const byTurn = most > 0 && turns > 1;
  const weights = trajectory.formula?.weights;
  return (
    <>
    <table class="terms">
      <thead class={byTurn || weights ? "" : "hidden"}>
        <tr>
          <th scope="col">term</th>
          <th scope="col">{byTurn ? `turns 1–${turns}` : "share"}</th>
          {weights && <th scope="col" class="num">weight</th>}
          <th scope="col" class="num">sum</th>
        </tr>
      </thead>
      <tbody>
        {rows.map((row) => (
          <tr key={row.name} class={row.name === "total" ? "total" : ""}>
            <th scope="row">{words(row.name)}</th>
            <td>
              {byTurn && row.turns.some((value) => value !== 0) ? (
                <TurnBars name={row.name} values={row.turns} most={most} toTurn={toTurn} />
              ) : (
                <Bar value={row.value} scale={scale} signed={rows.some((each) => each.value < 0)} />
              )}
            </td>
            {weights && <td class="num muted">{row.name === "total" ? "" : number(weights[row.name])}</td>}
            <td class={`num ${row.value < 0 ? "neg" : ""}`}>{fixed(row.value, 3)}</td>
          </tr>
        ))}
      </tbody>
    </table>
    {trajectory.formula && <p class="muted">total = {trajectory.formula.text}</p>}
    </>
  );
}

function TurnBars({ name, values, most, toTurn }: {
  name: string;
  values: readonly number[];
  most: number;
  toTurn: (turn: number) => void;
}) {
  const below = values.some((value) => value < 0);
  const zero = below ? 12 : 22;
  const unit = (below ? 11 : 21) / most;
  const label = `${words(name)} by turn: ${values.map((value) => number(value)).join(", ")}`;
  return (
    <svg class="turn-bars" viewBox={`0 0 ${values.length} 24`} preserveAspectRatio="none" role="img" aria-label={label}>
      <line x1="0" x2={values.length} y1={zero} y2={zero} />
      {values.map((value, at) => {
        const size = value === 0 ? 0 : Math.max(1.5, Math.abs(value) * unit);
        return (
          <g key={at} onClick={() => toTurn(at + 1)}>
            <rect class="hit-area" x={at} y={0} width={1} height={24}>
              <title>{`turn ${at + 1}: ${number(value)}`}</title>
            </rect>
            <rect class={value < 0 ? "neg" : "pos"} x={at + 0.12} width={0.76} y={value < 0 ? zero : zero - size} height={size} />
          </g>
        );
      })}
    </svg>
  );
}
