/** Which rows of a long list are drawn, and which blocks of it are requested. */

export interface Window {
  first: number;
  /** Index after the last one. */
  last: number;
}

export function windowOf(top: number, height: number, row: number, total: number, spare = 8): Window {
  const first = Math.max(0, Math.floor(top / row) - spare);
  const last = Math.min(total, Math.ceil((top + height) / row) + spare);
  return { first: Math.min(first, total), last: Math.max(last, 0) };
}

/** Offsets of the blocks that contain a window. */
export function blocksOf(window: Window, size: number): number[] {
  const offsets: number[] = [];
  for (let at = Math.floor(window.first / size) * size; at < window.last; at += size) offsets.push(at);
  return offsets;
}

/** The scroll position that makes a row visible, or null if it already is. */
export function scrollFor(index: number, top: number, height: number, row: number): number | null {
  if (index * row < top) return index * row;
  if ((index + 1) * row > top + height) return (index + 1) * row - height;
  return null;
}
