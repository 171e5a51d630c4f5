import type { Span } from "../api/types";

export interface Segment {
  text: string;
  kinds: string[];
}

/** A text split wherever spans begin or end; each piece has the kinds of spans that cover it.
 *
 * Spans count code points, like Python; they may overlap and nest.
 */
export function segments(text: string, spans: readonly Span[]): Segment[] {
  const points = Array.from(text);
  const inside = spans
    .map((span) => ({ ...span, begin: clamp(span.begin, points.length), end: clamp(span.end, points.length) }))
    .filter((span) => span.end > span.begin);
  const cuts = new Set([0, points.length]);
  for (const span of inside) cuts.add(span.begin).add(span.end);
  const places = [...cuts].sort((a, b) => a - b);
  const pieces: Segment[] = [];
  for (let i = 0; i + 1 < places.length; i++) {
    const begin = places[i] as number;
    const end = places[i + 1] as number;
    const kinds = inside.filter((span) => span.begin <= begin && end <= span.end).map((span) => span.kind);
    pieces.push({ text: points.slice(begin, end).join(""), kinds: [...new Set(kinds)] });
  }
  return pieces;
}

function clamp(value: number, most: number): number {
  return Math.max(0, Math.min(most, Math.trunc(value)));
}
