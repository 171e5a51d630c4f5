import { useState } from "preact/hooks";
import type { Message } from "../api/types";
import { repeats } from "../logic/repeats";
import { Picture } from "./picture";

const MOST_LINES = 14;
const MOST_CHARACTERS = 1600;

/** Messages that the model was shown: text, and images as the model saw them. */
export function Messages({ messages, run, trajectory, folded, before }: {
  messages: readonly Message[];
  run: number;
  trajectory: number;
  folded?: boolean;
  /** What was shown last, so that repetitions can be folded. */
  before?: string | null;
}) {
  return (
    <>
      {messages.map((message, at) => (
        <div key={at} class="message">
          {message.parts.map((part, number) =>
            "image" in part ? (
              <Picture key={number} part={part} run={run} trajectory={trajectory} />
            ) : part.text.trim() === "" ? null : (
              repeats(part.text, before ?? null).map((piece, place) =>
                piece.again ? (
                  <Again key={`${number} ${place}`} text={piece.text} />
                ) : (
                  <Long key={`${number} ${place}`} text={piece.text} lines={folded ? 3 : MOST_LINES} />
                ),
              )
            ),
          )}
        </div>
      ))}
    </>
  );
}

/** Lines that were shown before. */
function Again({ text }: { text: string }) {
  const [open, setOpen] = useState(false);
  const lines = text.split("\n").length;
  return (
    <div class="long">
      <button type="button" class="quiet small" aria-expanded={open} onClick={() => setOpen(!open)}>
        {open ? "Fold" : `${lines} repeated lines`}
      </button>
      {open && <pre class="text">{text}</pre>}
    </div>
  );
}

/** A text, folded if it is long. */
export function Long({ text, lines }: { text: string; lines: number }) {
  const [open, setOpen] = useState(false);
  const all = text.split("\n");
  const most = lines === MOST_LINES ? MOST_CHARACTERS : 280;
  const long = all.length > lines + 2 || text.length > most * 1.25;
  if (!long) return <pre class="text">{text}</pre>;
  const head = all.slice(0, lines).join("\n").slice(0, most);
  return (
    <div class="long">
      <pre class="text">{open ? text : `${head}…`}</pre>
      <button type="button" class="quiet small" aria-expanded={open} onClick={() => setOpen(!open)}>
        {open ? "Fold" : `All ${all.length > lines + 2 ? `${all.length} lines` : `${text.length} characters`}`}
      </button>
    </div>
  );
}
