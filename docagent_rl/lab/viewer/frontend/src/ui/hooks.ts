import { useEffect, useState } from "preact/hooks";
import type { RefObject } from "preact";

/** The current width of an element. */
export function useWidth(ref: RefObject<HTMLElement | null>, first = 320): number {
  const [width, setWidth] = useState(first);
  useEffect(() => {
    const element = ref.current;
    if (element === null) return;
    const observer = new ResizeObserver(() => setWidth(element.clientWidth));
    observer.observe(element);
    setWidth(element.clientWidth || first);
    return () => observer.disconnect();
  }, []);
  return width;
}

/** Whether an element is in or near the visible part of the page. */
export function useNear(ref: RefObject<HTMLElement | null>): boolean {
  const [near, setNear] = useState(false);
  useEffect(() => {
    const element = ref.current;
    if (element === null || near) return;
    const observer = new IntersectionObserver((entries) => entries.some((each) => each.isIntersecting) && setNear(true), {
      rootMargin: "600px",
    });
    observer.observe(element);
    return () => observer.disconnect();
  }, [near]);
  return near;
}

/** A value, updated only after it has not changed for a while. */
export function useSettled<T>(value: T, milliseconds: number): T {
  const [settled, setSettled] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(value), milliseconds);
    return () => clearTimeout(timer);
  }, [value, milliseconds]);
  return settled;
}
