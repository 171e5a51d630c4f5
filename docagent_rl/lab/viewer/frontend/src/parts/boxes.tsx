import type { Box } from "../api/types";

export interface Marked {
  box: Box;
  kind: "gold" | "crop";
  label: string;
}

/** Boxes over an image: evidence is dashed, the agent's choice solid, so that colour is not needed. */
export function Boxes({ boxes }: { boxes: readonly Marked[] }) {
  if (boxes.length === 0) return null;
  return (
    <svg class="boxes" viewBox="0 0 1 1" preserveAspectRatio="none" role="img" aria-label={boxes.map((each) => each.label).join(", ")}>
      {boxes.map(({ box, kind, label }, at) => (
        <g key={at} class={kind}>
          <rect class="halo" x={box[0]} y={box[1]} width={box[2] - box[0]} height={box[3] - box[1]} />
          <rect x={box[0]} y={box[1]} width={box[2] - box[0]} height={box[3] - box[1]}>
            <title>{label}</title>
          </rect>
        </g>
      ))}
    </svg>
  );
}
