import { useEffect, useState } from "preact/hooks";
import { formatRoute, parseRoute, type Route } from "../logic/route";

/** The current location, from which all views are drawn. */
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

/** Change the state without adding to the browser's history; ignored for a view that was already left. */
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
