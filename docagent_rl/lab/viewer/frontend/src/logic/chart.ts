/** Scales of small charts. */

export type Point = [number, number];

/** About `count` round values, from at or below `low` to at or above `high`. */
export function ticks(low: number, high: number, count: number): number[] {
  if (!(high > low)) return [low];
  const rough = (high - low) / Math.max(1, count);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((each) => each * power).find((each) => each >= rough * 0.999) ?? 10 * power;
  const first = Math.ceil(low / step - 1e-9);
  const last = Math.floor(high / step + 1e-9);
  return Array.from({ length: last - first + 1 }, (_, at) => clean((first + at) * step));
}

/** Ticks as text, with as many decimal places as their distance needs. */
export function tickText(value: number, all: readonly number[]): string {
  const step = all.length > 1 ? Math.abs((all[1] as number) - (all[0] as number)) : Math.abs(value);
  if (value === 0) return "0";
  if (step >= 1e6 || (step > 0 && step < 1e-4)) return value.toExponential(step < Math.abs(value) / 20 ? 2 : 1).replaceAll("-", "−");
  const places = step === 0 ? 0 : Math.max(0, Math.min(6, -Math.floor(Math.log10(step) + 1e-9)));
  const text = value.toFixed(places + (Number.isInteger(clean(step * 10 ** places)) ? 0 : 1));
  return text.replace("-", "−");
}

/** The range of an axis: that of the values, including zero if it is near, and never empty. */
export function extent(values: readonly number[]): [number, number] {
  let low = Math.min(...values);
  let high = Math.max(...values);
  if (!Number.isFinite(low) || !Number.isFinite(high)) return [0, 1];
  if (low > 0 && low < high * 0.6) low = 0;
  if (high < 0 && high > low * 0.6) high = 0;
  if (low === high) {
    const margin = low === 0 ? 1 : Math.abs(low) * 0.1;
    return low === 0 ? [0, 1] : [low - margin, high + margin];
  }
  return [low, high];
}

/** Places of labels at least `gap` apart, as near to their lines as possible, between `low` and `high`. */
export function spread(places: readonly number[], gap: number, low: number, high: number): number[] {
  const order = places.map((_, at) => at).sort((a, b) => (places[a] as number) - (places[b] as number));
  const found = [...places];
  let least = low;
  for (const at of order) {
    found[at] = Math.max(least, found[at] as number);
    least = (found[at] as number) + gap;
  }
  let most = high;
  for (const at of order.reverse()) {
    found[at] = Math.min(most, found[at] as number);
    most = (found[at] as number) - gap;
  }
  return found;
}

/** A text cut to the number of characters that fit. */
export function cut(text: string, most: number): string {
  return text.length <= most ? text : `${text.slice(0, Math.max(1, most - 1)).trimEnd()}…`;
}

/** Numbers without gaps. */
export function pointsOf(steps: readonly number[], values: readonly (number | null)[]): Point[] {
  return steps.flatMap((step, at): Point[] => {
    const value = values[at];
    return typeof value === "number" && Number.isFinite(value) ? [[step, value]] : [];
  });
}

/** A running mean that keeps the ends: weight `keep` for the past, corrected at the start. */
export function smoothed(points: readonly Point[], keep: number): Point[] {
  let sum = 0;
  let weight = 0;
  return points.map(([x, y]) => {
    sum = keep * sum + (1 - keep) * y;
    weight = keep * weight + (1 - keep);
    return [x, sum / weight];
  });
}

function clean(value: number): number {
  return Number(value.toPrecision(12));
}
