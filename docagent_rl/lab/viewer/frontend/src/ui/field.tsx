import type { ComponentProps, InputHTMLAttributes } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";

/** A field that keeps what is typed while it has the focus, and otherwise follows its value. */
export function Field({ value, ...rest }: { value: string } & Omit<ComponentProps<"input">, "value" | "defaultValue" | "ref">) {
  const input = useRef<HTMLInputElement>(null);
  useLayoutEffect(() => {
    if (input.current !== null && input.current !== document.activeElement) input.current.value = value;
  }, [value]);
  return <input {...(rest as InputHTMLAttributes<HTMLInputElement>)} ref={input} defaultValue={value} />;
}
