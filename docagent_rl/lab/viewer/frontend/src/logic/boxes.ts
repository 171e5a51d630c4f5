/** Boxes as fractions of a page, of a crop of it, or of a sheet of several. */

import type { Box, PageId } from "../api/types";

export const WHOLE: Box = [0, 0, 1, 1];

/** A box of the page relative to a crop of that page, clipped to it; null if it is outside. */
export function intoCrop(box: Box, crop: Box): Box | null {
  const width = crop[2] - crop[0];
  const height = crop[3] - crop[1];
  if (width <= 0 || height <= 0) return null;
  const x1 = clip((box[0] - crop[0]) / width);
  const y1 = clip((box[1] - crop[1]) / height);
  const x2 = clip((box[2] - crop[0]) / width);
  const y2 = clip((box[3] - crop[1]) / height);
  return x2 > x1 && y2 > y1 ? [x1, y1, x2, y2] : null;
}

/** A box of the page relative to a sheet that shows the page at `at` (x, y, width, height). */
export function ontoSheet(box: Box, at: readonly [number, number, number, number]): Box {
  const [x, y, width, height] = at;
  return [x + box[0] * width, y + box[1] * height, x + box[2] * width, y + box[3] * height];
}

export function isWhole(box: Box | null): boolean {
  return box === null || box.every((value, at) => Math.abs(value - (WHOLE[at] as number)) < 1e-3);
}

/** The number in a page's id, `document#3`, from 1; null if it has none. */
export function pageNumber(page: PageId | null): number | null {
  if (page === null) return null;
  const text = String(page);
  const value = Number(text.slice(text.lastIndexOf("#") + 1));
  return Number.isInteger(value) && value > 0 ? value : null;
}

/** The document in a page's id; null for a bare number. */
export function pageDocument(page: PageId | null): string | null {
  if (typeof page !== "string") return null;
  const at = page.lastIndexOf("#");
  return at > 0 ? page.slice(0, at) : null;
}

function clip(value: number): number {
  return Math.max(0, Math.min(1, value));
}
