import type { Rows } from "./types";
import { answerRows, countFacets } from "../logic/offline";

/** The answers contained in an exported file, by path without query; null on the server. */
const TABLE: Record<string, unknown> | null = readTable();
const CACHE_SIZE = 300;
/** Whole trajectories and groups are large; a few suffice for stepping back and forth. */
const LARGE = /\/(trajectories\/\d+|groups\/[^/?]+)(\?|$)/;
const LARGE_SIZE = 12;
const cache = new Map<string, unknown>();

function readTable(): Record<string, unknown> | null {
  const element = document.getElementById("data");
  if (element === null) return null;
  return JSON.parse(element.textContent ?? "{}") as Record<string, unknown>;
}

export const exported = TABLE !== null;

/** The hash at which an exported file opens. */
export function startHash(): string | null {
  const start = TABLE?.["start"];
  return typeof start === "string" ? start : null;
}

/** Whether an answer is available: always from a server, from a file only if it contains it. */
export function offered(path: string): boolean {
  return TABLE === null || path in TABLE;
}

/** Whether a file contains any answer whose path has this prefix. */
export function offersAny(prefix: string): boolean {
  return TABLE === null || Object.keys(TABLE).some((key) => key.startsWith(prefix));
}

/** The address of an image: a data URI in an exported file, null if it is not in the file. */
export function imageUrl(path: string): string | null {
  if (TABLE === null) return path;
  const found = TABLE[bare(path)];
  return typeof found === "string" ? found : null;
}

/** An answer that is available without a request: from the file, or cached for this revision. */
export function known<T>(path: string, revision: number): T | undefined {
  return cache.get(`${revision} ${path}`) as T | undefined;
}

/** Get an answer from the server or the file.
 *
 * @throws Error with the server's reason.
 */
export async function get<T>(path: string, revision: number, signal?: AbortSignal): Promise<T> {
  const key = `${revision} ${path}`;
  const before = cache.get(key);
  if (before !== undefined) return before as T;
  const answer = TABLE === null ? await ask(path, signal) : fromTable(TABLE, path);
  cache.set(key, answer);
  if (cache.size > CACHE_SIZE) cache.delete(cache.keys().next().value as string);
  if (LARGE.test(path)) {
    const large = [...cache.keys()].filter((each) => LARGE.test(each));
    for (const old of large.slice(0, -LARGE_SIZE)) cache.delete(old);
  }
  return answer as T;
}

/** Get an answer without using or filling the cache. */
export async function fresh<T>(path: string): Promise<T> {
  return (TABLE === null ? await ask(path) : fromTable(TABLE, path)) as T;
}

async function ask(path: string, signal?: AbortSignal): Promise<unknown> {
  const response = await fetch(path, signal ? { signal } : {});
  if (response.ok) return (await response.json()) as unknown;
  const body: unknown = await response.json().catch(() => null);
  const reason = (body as { error?: unknown } | null)?.error;
  throw new Error(typeof reason === "string" ? reason : `${response.status} ${response.statusText}`);
}

function fromTable(table: Record<string, unknown>, path: string): unknown {
  const key = bare(path);
  const query = new URLSearchParams(path.slice(key.length + 1));
  if (/^\/api\/runs\/\d+\/facets$/.test(key)) {
    const rows = table[key.replace(/facets$/, "trajectories")] as Rows | undefined;
    return countFacets(rows?.rows ?? [], query);
  }
  const found = table[key];
  if (found === undefined) throw new Error("This was not included when the file was exported.");
  if (/^\/api\/runs\/\d+\/trajectories$/.test(key)) return answerRows((found as Rows).rows, query);
  return found;
}

function bare(path: string): string {
  const end = path.indexOf("?");
  return end < 0 ? path : path.slice(0, end);
}
