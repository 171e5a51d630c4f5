/** Operations on rows that otherwise the server does, for an exported file: filter, sort, count. */

import type { Facets, Range, Row, Rows } from "../api/types";
import { CHOICES, isRange, parseRange } from "./filters";

type Value = string | number | null | undefined;

export function answerRows(rows: readonly Row[], query: URLSearchParams): Rows {
  const found = rows.filter((row) => matches(row, query));
  const key = query.get("sort");
  if (key !== null) {
    const sign = query.get("order") === "asc" ? 1 : -1;
    found.sort((a, b) => order(sortValue(a, key), sortValue(b, key), sign));
  }
  const offset = Number(query.get("offset") ?? 0);
  const limit = Number(query.get("limit") ?? 100);
  return { total: found.length, rows: found.slice(offset, offset + limit) };
}

export function countFacets(rows: readonly Row[], query: URLSearchParams): Facets {
  const found = rows.filter((row) => matches(row, query));
  const facets: Record<string, { value: string; count: number }[]> = {};
  for (const field of CHOICES) {
    const counts = new Map<string, number>();
    for (const row of found) {
      const value = choice(row, field);
      if (value !== null) counts.set(value, (counts.get(value) ?? 0) + 1);
    }
    facets[field] = [...counts].map(([value, count]) => ({ value, count }));
  }
  const names = new Set(found.flatMap((row) => Object.keys(row.terms).map((name) => `term:${name}`)));
  const ranges: Record<string, Range> = {};
  for (const key of ["reward", "turns", "invalid", ...names]) {
    const values = found.map((row) => sortValue(row, key)).filter((value): value is number => typeof value === "number");
    if (values.length > 0) ranges[key] = [Math.min(...values), Math.max(...values)];
  }
  return Object.assign(facets, { ranges }) as Facets;
}

export function matches(row: Row, query: URLSearchParams): boolean {
  return [...new Set(query.keys())].every((key) => {
    const wanted = query.getAll(key);
    if ((CHOICES as readonly string[]).includes(key)) {
      const value = choice(row, key);
      // a missing value counts as empty, as on the server
      return wanted.some((each) => (key === "step" ? inSteps(row.step, each) : each === (value ?? "")));
    }
    if (isRange(key)) return wanted.some((each) => within(sortValue(row, key), parseRange(each)));
    if (key === "guessed" || key === "truncated") return wanted.includes(flag(row[key]));
    if (key === "q") return contains(row, wanted[0] ?? "");
    if (key === "ids") return wanted.join(",").split(",").map(Number).includes(row.id);
    if (key === "question_id" || key === "doc_id" || key === "uid") return wanted.includes(row[key]);
    return true;
  });
}

function flag(value: boolean | null | undefined): string {
  return value === null || value === undefined ? "" : value ? "1" : "0";
}

function choice(row: Row, field: string): string | null {
  if (field === "kind") return row.evidence_kind;
  if (field === "mask") return row.status === "masked" ? row.end : null;
  const value = row[field as keyof Row];
  return value === null || value === undefined ? null : String(value);
}

function inSteps(step: number, text: string): boolean {
  return within(step, parseRange(text));
}

function within(value: Value, [low, high]: [number | null, number | null]): boolean {
  return typeof value === "number" && (low === null || value >= low) && (high === null || value <= high);
}

function contains(row: Row, text: string): boolean {
  const wanted = text.toLowerCase().split(/\s+/);
  const whole = [row.question, row.answer ?? "", ...row.gold].join("\n").toLowerCase();
  return wanted.every((word) => whole.includes(word));
}

function sortValue(row: Row, key: string): Value {
  if (key.startsWith("term:")) return row.terms[key.slice(5)];
  if (key === "question") return row.question;
  const value = row[key as keyof Row];
  return typeof value === "number" || typeof value === "string" ? value : null;
}

/** Missing values come last in either order, as on the server. */
function order(a: Value, b: Value, sign: number): number {
  if (a === b) return 0;
  if (a === null || a === undefined) return 1;
  if (b === null || b === undefined) return -1;
  return a < b ? -sign : sign;
}
