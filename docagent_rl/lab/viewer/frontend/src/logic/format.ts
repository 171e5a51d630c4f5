/** Numbers and names in the form in which the page shows them. */

/** Three significant digits, no exponent between 0.001 and 100,000, and a true minus sign. */
export function number(value: number | null | undefined, places = 3): string {
  if (value === null || value === undefined) return "–";
  if (!Number.isFinite(value)) return String(value);
  const size = Math.abs(value);
  if (size === 0) return "0";
  if (size < 10 ** -places || size >= 1e7) return minus(value.toExponential(1));
  if (Number.isInteger(value)) return minus(grouped(value));
  const digits = size >= 1000 ? 0 : size >= 100 ? 1 : size >= 10 ? 2 : places;
  const text = value.toFixed(digits);
  return minus(digits === 0 ? grouped(Number(text)) : text.replace(/\.?0+$/, ""));
}

/** A number with a fixed number of decimal places, for columns. */
export function fixed(value: number | null | undefined, places = 2): string {
  return value === null || value === undefined ? "–" : minus(value.toFixed(places));
}

export function signed(value: number, places = 2): string {
  const text = fixed(value, places);
  return value > 0 ? `+${text}` : text;
}

export function count(value: number): string {
  return grouped(value);
}

export function percent(part: number, whole: number): string {
  if (whole === 0) return "–";
  const value = (100 * part) / whole;
  return `${value > 0 && value < 1 ? "<1" : value < 100 && value > 99 ? ">99" : Math.round(value)} %`;
}

export function seconds(value: number): string {
  if (value === 0) return "0 s";
  if (value < 0.001) return `${(value * 1e6).toFixed(0)} µs`;
  if (value < 0.1) return `${(value * 1000).toFixed(value < 0.01 ? 1 : 0)} ms`;
  if (value < 100) return `${value.toFixed(value < 10 ? 2 : 1)} s`;
  return value < 6000 ? `${(value / 60).toFixed(1)} min` : `${(value / 3600).toFixed(1)} h`;
}

export function plural(value: number, noun: string): string {
  const several = noun.endsWith("y") ? `${noun.slice(0, -1)}ies` : `${noun}s`;
  return `${count(value)} ${value === 1 ? noun : several}`;
}

/** How far a run is read; empty once all of it is. */
export function indexingText({ indexing, trajectories }: { indexing: { done: number; total: number } | null; trajectories: number }): string {
  if (indexing === null) return "";
  return `Indexing: ${percent(indexing.done, indexing.total)} read, ${plural(trajectories, "trajectory")} so far.`;
}

/** `turn_limit` -> `turn limit`. */
export function words(name: string): string {
  return name.replace(/_/g, " ");
}

/** A range of steps as text: `step 3`, `steps 3–7`. */
export function steps(values: readonly number[] | null): string {
  const [first, last] = [values?.[0], values?.[values.length - 1]];
  if (first === undefined || last === undefined) return "";
  return first === last ? `step ${first}` : `steps ${first}–${last}`;
}

function grouped(value: number): string {
  return value.toString().replace(/\B(?=(\d{3})+$)/g, " ");
}

function minus(text: string): string {
  return text.replaceAll("-", "−");
}
