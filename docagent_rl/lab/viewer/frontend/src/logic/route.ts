/** The hash of the address contains the whole state: `#/trajectory/0/12?step=2&at=3`. */

export type View = "glance" | "trajectories" | "trajectory" | "group" | "funnel" | "compare";

export interface Route {
  view: View;
  run: number;
  /** Id of a trajectory, or uid of a group. */
  id: string | null;
  query: URLSearchParams;
}

const VIEWS: readonly View[] = ["glance", "trajectories", "trajectory", "group", "funnel", "compare"];

export function parseRoute(hash: string): Route {
  const [path = "", search = ""] = split(hash.replace(/^#\/?/, ""));
  const query = new URLSearchParams(search);
  const parts = path.split("/").map(decoded);
  const view = VIEWS.find((each) => each === parts[0]) ?? "glance";
  if (view === "trajectory" || view === "group") {
    const id = parts[2];
    if (id === undefined || id === "") return { view: "trajectories", run: natural(parts[1]), id: null, query };
    return { view, run: natural(parts[1]), id, query };
  }
  const run = natural(query.get("r") ?? undefined);
  query.delete("r");
  return { view, run, id: null, query };
}

export function formatRoute(route: Route): string {
  const query = new URLSearchParams(route.query);
  let path: string = route.view;
  if (route.id !== null) path += `/${route.run}/${encodeURIComponent(route.id)}`;
  else if (route.run !== 0) query.set("r", String(route.run));
  const search = query.toString();
  return `#/${path}${search === "" ? "" : `?${search}`}`;
}

export function link(view: View, run: number, query?: URLSearchParams | null, id?: string | number): string {
  return formatRoute({ view, run, id: id === undefined ? null : String(id), query: query ?? new URLSearchParams() });
}

function split(text: string): [string, string] {
  const at = text.indexOf("?");
  return at < 0 ? [text, ""] : [text.slice(0, at), text.slice(at + 1)];
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

function natural(text: string | undefined): number {
  return text !== undefined && /^\d+$/.test(text) ? Number(text) : 0;
}
