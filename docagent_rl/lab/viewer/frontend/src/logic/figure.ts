/** The funnel as a stand-alone figure, for a paper or a report: plain SVG without external styles. */

import type { FunnelGroup } from "../api/types";
import { count, percent } from "./format";
import { ANYWAY, UNJUDGED, losses, rightAnyway } from "./funnel";

const WIDTH = 640;
const ROW = 30;
const LABEL = 110;
const BAR = 380;

export function funnelFigure(group: FunnelGroup, title: string): string {
  const steps = losses(group);
  const below = [
    { stage: ANYWAY, trajectories: rightAnyway(group), fill: "#8cc3a2" },
    { stage: UNJUDGED, trajectories: group.unjudged, fill: "#9aa3b5" },
  ].filter((each) => each.trajectories > 0);
  const height = 44 + ROW * (steps.length + below.length);
  const scale = group.trajectories > 0 ? BAR / group.trajectories : 0;
  const rows = steps.map(({ stage, trajectories, lost, anyway, unjudged }, at) => {
    const y = 36 + at * ROW;
    const label = text(LABEL - 10, y + 15, stage.label, "end");
    if (trajectories === null) return label + text(LABEL, y + 15, "unknown", "start", "#777");
    const bar = rect(LABEL, y + 3, trajectories * scale, "#3356c8");
    const gone = rect(LABEL + trajectories * scale, y + 3, (lost + anyway + unjudged) * scale, "#e3b4af");
    return label + bar + gone + share(y, trajectories, group);
  });
  below.forEach(({ stage, trajectories, fill }, at) => {
    const y = 36 + (steps.length + at) * ROW;
    rows.push(text(LABEL - 10, y + 15, stage.label, "end") + rect(LABEL, y + 3, trajectories * scale, fill) + share(y, trajectories, group));
  });
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${WIDTH}" height="${height}" viewBox="0 0 ${WIDTH} ${height}" font-family="Helvetica, Arial, sans-serif" font-size="13">`,
    `<rect width="100%" height="100%" fill="#fff"/>`,
    text(LABEL, 20, title, "start", "#222", "bold"),
    ...rows,
    "</svg>",
  ].join("\n");
}

function share(y: number, trajectories: number, group: FunnelGroup): string {
  return text(LABEL + BAR + 12, y + 15, `${count(trajectories)}  ${percent(trajectories, group.trajectories)}`, "start");
}

function rect(x: number, y: number, width: number, fill: string): string {
  return `<rect x="${x.toFixed(1)}" y="${y}" width="${width.toFixed(1)}" height="18" fill="${fill}"/>`;
}

function text(x: number, y: number, content: string, anchor: string, fill = "#222", weight = "normal"): string {
  return `<text x="${x}" y="${y}" text-anchor="${anchor}" fill="${fill}" font-weight="${weight}">${escaped(content)}</text>`;
}

function escaped(content: string): string {
  return content.replace(/[&<>"']/g, (mark) => `&#${mark.charCodeAt(0)};`);
}
