/** The lines of plots: so few in each that every line has a colour and a label of its own. */

import type { Metrics, Split } from "../api/types";
import { pointsOf, smoothed } from "./chart";
import type { Plot } from "./curves";

export interface Line {
  label: string;
  steps: readonly number[];
  values: readonly (number | null)[];
  /** The hue; lines with the same meaning in two runs share it. */
  hue?: number;
  /** Belongs to the other run, and is drawn lighter. */
  beside?: boolean;
}

export interface Curves {
  title: string;
  lines: Line[];
}

/** Another run, whose lines are drawn next to a run's own. */
export interface Other {
  name: string;
  metrics: Metrics;
}

/** Most lines of a run in one plot; there are more hues, but not more that are told apart at once. */
export const MOST_LINES = 6;
/** Most lines where training and validation share a plot: one number of each. */
const MOST_OF_BOTH = 2;
const SPLITS: readonly Split[] = ["train", "val"];
const SPLIT_NAMES: Record<Split, string> = { train: "training", val: "validation" };

/** One number of a plot, in one split. */
interface Member {
  name: string;
  label: string;
  split: Split;
}

/** A plot as one or several charts: divided into training and validation, and then into parts, if it has many lines. */
export function curvesOf(plot: Plot, metrics: Metrics, other: Other | null, smooth: boolean): Curves[] {
  const runs = other === null ? [metrics] : [metrics, other.metrics];
  const members = interesting(membersOf(plot, runs), runs);
  return divided(plot.title, members).map(({ title, members: own }) => {
    const labelled = own.map((member, hue) => ({ ...member, hue, label: new Set(own.map(({ split }) => split)).size > 1 ? `${member.label}, ${member.split}` : member.label }));
    const lines = labelled.flatMap((member) => lineOf(member, metrics, smooth, {}));
    const theirs = other === null ? [] : labelled.flatMap((member) => lineOf({ ...member, label: `${member.label} · ${other.name}` }, other.metrics, smooth, { beside: true }));
    return { title, lines: [...lines, ...theirs] };
  });
}

function membersOf(plot: Plot, runs: readonly Metrics[]): Member[] {
  return SPLITS.flatMap((split) => plot.series.map(({ name, label }) => ({ name, label, split }))).filter((member) =>
    runs.some((run) => valuesOf(member, run).some((value) => value !== null)),
  );
}

/** If there are many lines, those that are always zero are left out. */
function interesting(members: Member[], runs: readonly Metrics[]): Member[] {
  const some = members.filter((member) => runs.some((run) => valuesOf(member, run).some((value) => value !== null && value !== 0)));
  return members.length > 3 && some.length > 0 ? some : members;
}

function divided(title: string, members: Member[]): { title: string; members: Member[] }[] {
  const splits = SPLITS.filter((split) => members.some((member) => member.split === split));
  if (members.length <= (splits.length > 1 ? MOST_OF_BOTH : MOST_LINES)) return [{ title, members }];
  return splits.flatMap((split) => {
    const own = members.filter((member) => member.split === split);
    const parts = Math.ceil(own.length / MOST_LINES);
    const size = Math.ceil(own.length / parts);
    const name = splits.length > 1 ? `${title}, ${SPLIT_NAMES[split]}` : title;
    return Array.from({ length: parts }, (_, at) => ({
      title: parts > 1 ? `${name} (${at + 1} of ${parts})` : name,
      members: own.slice(at * size, (at + 1) * size),
    }));
  });
}

function lineOf({ name, split, label, hue }: Member & { hue: number }, metrics: Metrics, smooth: boolean, more: Partial<Line>): Line[] {
  const values = valuesOf({ name, split, label }, metrics);
  if (values.every((value) => value === null)) return [];
  const line = { label, steps: metrics[split].steps, values, hue, ...more };
  if (!smooth) return [line];
  const points = smoothed(pointsOf(line.steps, values), 0.8);
  return [{ ...line, steps: points.map(([step]) => step), values: points.map(([, value]) => value) }];
}

function valuesOf({ name, split }: Member, metrics: Metrics): readonly (number | null)[] {
  return metrics[split].values[name] ?? [];
}
