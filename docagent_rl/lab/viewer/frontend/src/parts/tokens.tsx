import { useRef, useState } from "preact/hooks";
import type { Tokens } from "../api/types";
import { type Measure, shade, valuesOf } from "../logic/colouring";
import { number, signed } from "../logic/format";
import { useNear } from "../ui/hooks";

/** A turn's sampled tokens, coloured; details are shown for the one that is pointed at or focused. */
export function TokenText({ tokens, measure, scale, text }: {
  tokens: Tokens;
  measure: Measure;
  scale: number;
  text: string;
}) {
  const ref = useRef<HTMLDivElement>(null);
  const near = useNear(ref);
  const [at, setAt] = useState<number | null>(null);
  const values = valuesOf(tokens, measure);
  const point = (event: Event): void => {
    const index = (event.target as HTMLElement).dataset?.["i"];
    if (index !== undefined) setAt(Number(index));
  };
  const move = (event: KeyboardEvent): void => {
    const step = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
    if (step === 0) return;
    event.preventDefault();
    setAt(Math.max(0, Math.min(tokens.ids.length - 1, (at ?? -1) + step)));
  };
  return (
    <div class="token-block" ref={ref}>
      <div
        class="text tokens"
        tabIndex={0}
        role="group"
        aria-label={`${tokens.ids.length} sampled tokens; move with the arrow keys`}
        onPointerOver={point}
        onPointerLeave={() => setAt(null)}
        onKeyDown={move}
      >
        {near
          ? tokens.ids.map((id, index) => (
              <span key={index} data-i={index} class={`tk ${shade(values?.[index], scale)}${index === at ? " on" : ""}`}>
                {tokens.texts === null ? `${id} ` : visible(tokens.texts[index] ?? "")}
              </span>
            ))
          : text}
      </div>
      <Facts tokens={tokens} at={at} />
    </div>
  );
}

function Facts({ tokens, at }: { tokens: Tokens; at: number | null }) {
  if (at === null) {
    return <p class="token-facts muted">{tokens.ids.length} tokens. Point at one, or focus the text and use the arrow keys.</p>;
  }
  const server = tokens.log_probs[at];
  const trainer = tokens.trainer_log_probs?.[at];
  const facts: [string, string][] = [
    ["id", String(tokens.ids[at])],
    ["log-prob", number(server)],
  ];
  if (trainer !== undefined && server !== undefined) facts.push(["trainer", number(trainer)], ["difference", signed(trainer - server, 4)]);
  for (const [name, values] of [
    ["advantage", tokens.advantages],
    ["return", tokens.returns],
    ["value", tokens.values],
    ["entropy", tokens.entropy],
    ["KL", tokens.kl],
  ] as const) {
    if (values) facts.push([name, number(values[at])]);
  }
  return (
    <p class="token-facts" aria-live="polite">
      <span class="fact">
        <i>{at + 1}/{tokens.ids.length}</i> <code>{JSON.stringify(tokens.texts?.[at] ?? "")}</code>
      </span>
      {facts.map(([name, value]) => (
        <span key={name} class="fact">
          <i>{name}</i> <b class="num">{value}</b>
        </span>
      ))}
    </p>
  );
}

/** Make line ends visible as marks, and empty tokens too. */
function visible(text: string): string {
  if (text === "") return "∅";
  return text.replace(/\n/g, "⏎\n");
}

const SHADES = ["n5", "n3", "n1", "", "p1", "p3", "p5"];

/** The legend of the shades. */
export function TokenLegend({ measure, scale }: { measure: Measure; scale: number }) {
  if (measure === "none" || scale === 0) return null;
  const oneSided = measure === "entropy";
  return (
    <span class="token-legend" aria-label={`Colours from ${oneSided ? 0 : -scale} to ${scale}`} role="img">
      <span class="num">{oneSided ? "0" : number(-scale)}</span>
      {(oneSided ? SHADES.slice(3) : SHADES).map((name) => (
        <span key={name} class={`tk ${name}`}>&nbsp;&nbsp;</span>
      ))}
      <span class="num">{number(scale)}</span>
    </span>
  );
}
