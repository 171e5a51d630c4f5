import { useRef, useState } from "preact/hooks";
import { cut, extent, pointsOf, spread, ticks, tickText, type Point } from "../logic/chart";
import { number } from "../logic/format";
import { MOST_LINES, type Line } from "../logic/lines";
import { useWidth } from "./hooks";

const HEIGHT = 116;
const LEFT = 40;
const RIGHT = 10;
const TOP = 8;
const BOTTOM = 18;
/** Labels at the ends of lines: their distance, the width of a character, and the most of a chart that they take. */
const LABEL_GAP = 13;
const LABEL_CHARACTER = 6.2;
const LABEL_SHARE = 0.46;

/** Lines over steps, each with a hue and a dash of its own.
 *
 * Labels stand at the ends of several lines, or in a legend where there are too many; each with the value that is
 * pointed at, or the last one.
 */
export function Chart({ title, lines, unit, onStep, stepLabel }: {
  title: string;
  lines: readonly Line[];
  unit?: string | undefined;
  onStep?: ((step: number) => void) | undefined;
  stepLabel?: string;
}) {
  const ref = useRef<HTMLDivElement>(null);
  const width = useWidth(ref);
  const [pointed, setPointed] = useState<number | null>(null);
  const drawn = lines.map((line) => ({ ...line, points: pointsOf(line.steps, line.values) }));
  const all = drawn.flatMap((line) => line.points);
  const steps = [...new Set(all.map(([step]) => step))].sort((a, b) => a - b);
  const [low, high] = extent(all.map(([, value]) => value));
  const [first, last] = [steps[0] ?? 0, steps[steps.length - 1] ?? 1];
  const shown = pointed ?? last;
  const direct = drawn.length > 1 && drawn.length <= MOST_LINES;
  const told = drawn.map((line) => number(valueAt(line.points, shown) ?? (pointed === null ? (line.points.at(-1)?.[1] ?? null) : null)));
  const longest = Math.max(0, ...drawn.map((line, at) => line.label.length + 1 + (told[at] as string).length));
  const right = direct ? Math.min(RIGHT + 12 + longest * LABEL_CHARACTER, width * LABEL_SHARE) : RIGHT;
  const x = (step: number): number =>
    last === first ? LEFT + (width - LEFT - right) / 2 : LEFT + ((step - first) / (last - first)) * (width - LEFT - right);
  const y = (value: number): number => TOP + (1 - (value - low) / (high - low)) * (HEIGHT - TOP - BOTTOM);
  const nearest = (clientX: number): number | null => {
    const box = ref.current?.getBoundingClientRect();
    if (box === undefined || steps.length === 0) return null;
    const at = clientX - box.left;
    return steps.reduce((best, step) => (Math.abs(x(step) - at) < Math.abs(x(best) - at) ? step : best));
  };
  const marks = ticks(low, high, 3);
  return (
    <figure class="chart">
      <figcaption>
        <span class="chart-title">{title}</span>
        {unit !== undefined && <span class="muted"> {unit}</span>}
        {pointed !== null && <span class="muted chart-step">{stepLabel ?? "step"} {pointed}</span>}
      </figcaption>
      <div
        ref={ref}
        class={onStep ? "plot clickable" : "plot"}
        onPointerMove={(event) => setPointed(nearest(event.clientX))}
        onPointerLeave={() => setPointed(null)}
        onClick={(event) => {
          const step = nearest(event.clientX);
          if (step !== null) onStep?.(step);
        }}
      >
        <svg width={width} height={HEIGHT} role="img" aria-label={`${title}: ${summary(drawn)}`}>
          {marks.map((tick) => (
            <g key={tick}>
              <line class="grid" x1={LEFT} x2={width - right} y1={y(tick)} y2={y(tick)} />
              <text class="tick" x={LEFT - 6} y={y(tick) + 3.5} text-anchor="end">{tickText(tick, marks)}</text>
            </g>
          ))}
          {stepTicks(first, last, width - right).map((tick) => (
            <text key={tick} class="tick" x={x(tick)} y={HEIGHT - 4} text-anchor="middle">{tick}</text>
          ))}
          {pointed !== null && <line class="pointer" x1={x(pointed)} x2={x(pointed)} y1={TOP} y2={HEIGHT - BOTTOM} />}
          {drawn.map((line, at) => (
            <g key={line.label} class={`line ${style(line, at)}`}>
              <path d={path(line.points, x, y)} />
              {(line.points.length < 25 ? line.points : []).map(([step, value]) => (
                <circle key={step} cx={x(step)} cy={y(value)} r={2} />
              ))}
              {pointed !== null && valueAt(line.points, pointed) !== null && (
                <circle class="on" cx={x(pointed)} cy={y(valueAt(line.points, pointed) as number)} r={3.5} />
              )}
            </g>
          ))}
          {direct && <EndLabels lines={drawn} told={told} x={x} y={y} left={width - right + 4} most={Math.floor((right - 16) / LABEL_CHARACTER)} />}
        </svg>
      </div>
      {!direct && (
        <ul class="legend">
          {drawn.map((line, at) => (
            <li key={line.label} class={style(line, at)}>
              <svg width="14" height="8" aria-hidden="true"><line x1="0" x2="14" y1="4" y2="4" /></svg>
              <span class="legend-name">{line.label}</span>
              <span class="num">{told[at]}</span>
            </li>
          ))}
        </ul>
      )}
    </figure>
  );
}

/** The names and values of lines next to their ends. */
function EndLabels({ lines, told, x, y, left, most }: {
  lines: readonly (Line & { points: readonly Point[] })[];
  told: readonly string[];
  x: (step: number) => number;
  y: (value: number) => number;
  left: number;
  most: number;
}) {
  const ends = lines.map((line): Point => line.points.at(-1) ?? [0, 0]);
  const places = spread(ends.map(([, value]) => y(value)), LABEL_GAP, TOP, HEIGHT - BOTTOM + 4);
  return (
    <>
      {lines.map((line, at) => {
        const [step, value] = ends[at] as Point;
        const place = places[at] as number;
        return (
          <g key={line.label} class={`end-label ${style(line, at)}`}>
            <path d={`M${x(step).toFixed(1)} ${y(value).toFixed(1)}L${left + 6} ${place.toFixed(1)}`} />
            <text x={left + 9} y={place + 3.5}>
              <title>{`${line.label}: ${told[at]}`}</title>
              {cut(line.label, most - (told[at] as string).length - 1)} <tspan class="value">{told[at]}</tspan>
            </text>
          </g>
        );
      })}
    </>
  );
}

function style(line: Line, at: number): string {
  return `l${(line.hue ?? at) % 8}${line.beside ? " beside" : ""}`;
}

function path(points: readonly Point[], x: (value: number) => number, y: (value: number) => number): string {
  return points.map(([step, value], at) => `${at === 0 ? "M" : "L"}${x(step).toFixed(1)} ${y(value).toFixed(1)}`).join("");
}

function valueAt(points: readonly Point[], step: number): number | null {
  return points.find(([each]) => each === step)?.[1] ?? null;
}

function stepTicks(first: number, last: number, width: number): number[] {
  if (first === last) return [first];
  const whole = ticks(first, last, Math.max(2, Math.floor(width / 70))).filter(Number.isInteger);
  return whole.length > 0 ? whole : [first, last];
}

function summary(lines: readonly { label: string; points: readonly Point[] }[]): string {
  return lines
    .filter((line) => line.points.length > 0)
    .map(({ label, points }) => `${label} from ${number(points[0]?.[1])} to ${number(points[points.length - 1]?.[1])}`)
    .join(", ");
}
