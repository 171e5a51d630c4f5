import { useLayoutEffect, useRef } from "preact/hooks";

export type Keys = Record<string, () => void>;

/** Keyboard shortcuts of a view, active while no field has the focus and no dialog is open. */
export function useKeys(keys: Keys): void {
  const now = useRef(keys);
  now.current = keys;
  // immediately instead of after the next frame: a key pressed meanwhile is meant for what is visible
  useLayoutEffect(() => {
    const pressed = (event: KeyboardEvent): void => {
      if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
      if (typing(event.target) || document.querySelector("dialog[open]") !== null) return;
      if (event.key === "Enter" && event.target instanceof Element && event.target.closest("a, button, summary")) return;
      const act = now.current[event.key];
      if (act === undefined) return;
      event.preventDefault();
      act();
    };
    window.addEventListener("keydown", pressed);
    return () => window.removeEventListener("keydown", pressed);
  }, []);
}

function typing(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && (/^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName) || target.isContentEditable);
}
