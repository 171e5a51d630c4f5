import { useState } from "preact/hooks";
import { cut } from "../logic/chart";

const MOST = 240;

/** A question as the title of a page, folded if it would fill the window. */
export function Question({ text }: { text: string }) {
  const [open, setOpen] = useState(false);
  if (text.length <= MOST * 1.25) return <h1>{text}</h1>;
  const words = text.trim().split(/\s+/).length;
  return (
    <div class="long-question">
      <h1>{open ? text : cut(text, MOST)}</h1>
      <button type="button" class="quiet small" aria-expanded={open} onClick={() => setOpen(!open)}>{open ? "Fold" : `All ${words} words`}</button>
    </div>
  );
}
