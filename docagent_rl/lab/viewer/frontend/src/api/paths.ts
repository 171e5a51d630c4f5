/** Addresses of the server's answers. */

export const RUNS = "/api/runs";

export function runPath(run: number, what: string, query?: URLSearchParams): string {
  const search = query?.toString() ?? "";
  return `/api/runs/${run}/${what}${search === "" ? "" : `?${search}`}`;
}

export function trajectoryPath(run: number, id: string | number): string {
  return `/api/runs/${run}/trajectories/${id}`;
}

export function imagePath(run: number, id: number, image: number): string {
  return `${trajectoryPath(run, id)}/images/${image}`;
}

export function pagePath(run: number, doc: string, page: number, width: number): string {
  return `/api/runs/${run}/pages/${encodeURIComponent(doc)}/${page}?width=${width}`;
}

export function groupPath(run: number, uid: string, query: URLSearchParams): string {
  const kept = new URLSearchParams([...query].filter(([key]) => key === "step" || key === "split"));
  return runPath(run, `groups/${encodeURIComponent(uid)}`, kept);
}
