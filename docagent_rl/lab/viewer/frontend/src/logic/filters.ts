/** Filters of trajectories, in the form in which the address and the server write them. */

/** Fields with a choice of values; several values of one field are alternatives. */
export const CHOICES = ["split", "step", "system", "dataset", "status", "end", "mask", "outcome", "stage", "branch", "kind"] as const;
/** Fields with a single value, set through links. */
export const KEYS = ["question_id", "doc_id", "uid", "ids"] as const;
export const DEFAULT_SORT = "step";
/** Numbers with a range, in addition to `term:<name>`. */
const NUMBERS = new Set(["reward", "turns", "invalid", "tokens", "images", "seconds", "drift", "advantage"]);
/** Yes, no, or unknown. */
const FLAGS = new Set(["guessed", "reach", "truncated"]);

export const LABELS: Record<string, string> = {
  split: "Split",
  step: "Step",
  system: "System",
  dataset: "Dataset",
  status: "Status",
  end: "Ended by",
  mask: "Masked because",
  outcome: "Outcome",
  stage: "Stage reached",
  branch: "Evidence read",
  kind: "Evidence",
  question_id: "Question",
  doc_id: "Document",
  uid: "Group",
  ids: "Chosen",
  q: "Text",
  turns: "Turns",
  invalid: "Invalid actions",
  reward: "Reward",
  tokens: "Tokens",
  images: "Images",
  seconds: "Seconds",
  drift: "Log-prob drift",
  advantage: "Advantage",
  guessed: "Right without evidence",
  reach: "In reach",
  truncated: "Truncated",
};

export function isRange(key: string): boolean {
  return NUMBERS.has(key) || key.startsWith("term:");
}

export function isFilter(key: string): boolean {
  if (key === "q" || isRange(key) || FLAGS.has(key)) return true;
  return (CHOICES as readonly string[]).includes(key) || (KEYS as readonly string[]).includes(key);
}

export function label(key: string): string {
  return LABELS[key] ?? (key.startsWith("term:") ? key.slice(5) : key);
}

/** The filters of a query, without the sort order and a view's other parameters. */
export function filtersOf(query: URLSearchParams): URLSearchParams {
  return new URLSearchParams([...query].filter(([key]) => isFilter(key)));
}

/** Filters and order of a list. */
export function listOf(query: URLSearchParams): URLSearchParams {
  return new URLSearchParams([...query].filter(([key]) => isFilter(key) || key === "sort" || key === "order"));
}

export function toggled(query: URLSearchParams, key: string, value: string): URLSearchParams {
  const next = new URLSearchParams(query);
  const values = next.getAll(key);
  next.delete(key);
  const kept = values.includes(value) ? values.filter((each) => each !== value) : [...values, value];
  for (const each of kept) next.append(key, each);
  return next;
}

export function withValue(query: URLSearchParams, key: string, value: string | null): URLSearchParams {
  const next = new URLSearchParams(query);
  if (value === null || value === "") next.delete(key);
  else next.set(key, value);
  return next;
}

/** `2:5`, `-0.5:`, `:0.2`; null without any bound. */
export function formatRange(low: number | null, high: number | null): string | null {
  return low === null && high === null ? null : `${low ?? ""}:${high ?? ""}`;
}

/** The bounds of `A:B`, or of `A-B` if neither is negative; a single number is both. */
export function parseRange(text: string | null): [number | null, number | null] {
  if (text === null || text === "") return [null, null];
  const at = text.includes(":") ? text.indexOf(":") : text.indexOf("-", 1);
  if (at < 0) return [bound(text), bound(text)];
  return [bound(text.slice(0, at)), bound(text.slice(at + 1))];
}

/** The order of a list: the newest step first, unless the query says otherwise. */
export function orderOf(query: URLSearchParams): { key: string; order: "asc" | "desc" } {
  return { key: query.get("sort") ?? DEFAULT_SORT, order: query.get("order") === "asc" ? "asc" : "desc" };
}

/** Sort by a column: the first click sorts in descending order, the second in ascending order, the third not at all. */
export function sortedBy(query: URLSearchParams, key: string): URLSearchParams {
  const next = new URLSearchParams(query);
  const now = orderOf(next);
  if (now.key !== key) {
    next.set("sort", key);
    next.set("order", "desc");
  } else if (now.order === "desc") {
    next.set("sort", key);
    next.set("order", "asc");
  } else {
    next.delete("sort");
    next.delete("order");
  }
  return next;
}

function bound(text: string): number | null {
  const value = Number(text);
  return text.trim() === "" || Number.isNaN(value) ? null : value;
}
