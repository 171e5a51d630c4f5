import { useEffect, useState } from "preact/hooks";
import { formatRoute, parseRoute, type Route } from "../logic/route";

/** Where the page is; views are drawn from it alone. */
export function useRoute(): Route {
  const [hash, setHash] = useState(window.location.hash);
  useEffect(() => {
    const changed = (): void => setHash(window.location.hash);
    changed();
    window.addEventListener("hashchange", changed);
    return () => window.removeEventListener("hashchange", changed);
  }, []);
  return parseRoute(hash);
}

export function go(target: string | Route): void {
  window.location.hash = typeof target === "string" ? target : formatRoute(target);
}

/** Change the state without a step in the browser's history; a view that is left already changes nothing. */
export function replace(target: string | Route): void {
  if (typeof target !== "string") {
    const here = parseRoute(window.location.hash);
    if (target.view !== here.view || target.id !== here.id) return;
  }
  const hash = typeof target === "string" ? target : formatRoute(target);
  if (hash === window.location.hash) return;
  window.history.replaceState(null, "", hash);
  window.dispatchEvent(new HashChangeEvent("hashchange"));
}
