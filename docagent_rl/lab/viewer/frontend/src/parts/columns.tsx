import type { Row, Run } from "../api/types";
import { cut } from "../logic/chart";
import { stageName } from "../logic/funnel";
import { count, fixed, number, seconds, words } from "../logic/format";
import { OutcomeMark } from "../ui/outcome";

export interface Column {
  key: string;
  title: string;
  /** The field by which the server sorts; null if it cannot. */
  sort: string | null;
  width: string;
  number?: boolean;
  about?: string;
}

const QUESTION = "auto";
/** A question has two lines; a window that is narrower than `NARROW` leaves it less room. */
const NARROW = 700;
const leastQuestion = (available: number): number => (available < NARROW ? 170 : 340);
/** Columns in the order in which they get room; those that are not named come last. */
const FIRST = ["reward", "question", "answer", "step", "turns", "invalid", "end"];

/** The width below which the list scrolls sideways. */
export function leastWidth(columns: readonly Column[], available: number): number {
  return columns.reduce((sum, column) => sum + (column.width === QUESTION ? leastQuestion(available) : parseFloat(column.width)), 0);
}

/** The columns that fit, in their order: a table that scrolls sideways hides what it is not known to have. */
export function fitting(columns: readonly Column[], available: number): Column[] {
  const rank = ({ key }: Column): number => FIRST.indexOf(key) >>> 0;
  const chosen: Column[] = [];
  for (const column of [...columns].sort((a, b) => rank(a) - rank(b))) {
    const necessary = rank(column) < 3;
    if (!necessary && leastWidth([...chosen, column], available) > available) break;
    chosen.push(column);
  }
  return columns.filter((column) => chosen.includes(column));
}

/** Most terms with columns of their own; the others have filters and a tooltip. */
const MOST_TERMS = 4;

export function columnsOf(run: Run): Column[] {
  const terms = run.terms.filter((name) => name !== "total").slice(0, MOST_TERMS);
  const columns: Column[] = [
    { key: "reward", title: "Reward", sort: "reward", width: "88px" },
    { key: "question", title: "Question", sort: "question", width: QUESTION },
    { key: "answer", title: "Answer", sort: null, width: "116px", about: "what the agent answered, and whether it is right; gold on hover" },
    { key: "step", title: "Step", sort: "step", width: "62px", number: true },
  ];
  if (run.systems.length > 1) columns.push({ key: "system", title: "System", sort: null, width: "92px" });
  for (const name of terms) columns.push({ key: `term:${name}`, title: words(name), sort: `term:${name}`, width: `${Math.max(70, Math.min(118, 24 + 6.6 * name.length))}px`, number: true, about: `reward term ${name}` });
  columns.push(
    { key: "turns", title: "Turns", sort: "turns", width: "54px", number: true },
    { key: "invalid", title: "Invalid", sort: "invalid", width: "60px", number: true, about: "invalid actions" },
    { key: "images", title: "Images", sort: "images", width: "62px", number: true },
    { key: "tokens", title: "Tokens", sort: "tokens", width: "66px", number: true, about: "tokens of the response" },
    { key: "end", title: "Ended by", sort: null, width: "118px" },
    { key: "stage", title: "Stage", sort: null, width: "112px", about: "the last stage of the evidence funnel that it passed" },
  );
  return columns;
}

export function RowCells({ row, columns, href, scale }: { row: Row; columns: readonly Column[]; href: string; scale: number }) {
  return (
    <>
      {columns.map((column) => (
        <td key={column.key} class={column.number ? "num" : `c-${column.key}`}>
          {column.key === "reward" ? <Reward row={row} scale={scale} /> : <Cell row={row} column={column.key} href={href} />}
        </td>
      ))}
    </>
  );
}

function Cell({ row, column, href }: { row: Row; column: string; href: string }) {
  if (column.startsWith("term:")) return <>{dim(row.terms[column.slice(5)])}</>;
  switch (column) {
    case "question":
      return <a href={href} title={cut(row.question, 1000)}>{cut(row.question, 400) || row.question_id}</a>;
    case "answer":
      return <><OutcomeMark outcome={row.outcome} /> <span class={row.answer === null ? "muted" : ""} title={`gold: ${row.gold.join(" | ") || "(unanswerable)"}`}>{row.answer ?? "–"}</span></>;
    case "step":
      return <>{row.split === "val" && <span class="tag">val</span>} {row.step}</>;
    case "system":
      return <>{row.system}</>;
    case "turns":
      return <span title={seconds(row.seconds)}>{row.turns}</span>;
    case "invalid":
      return row.invalid > 0 ? <b class="neg">{row.invalid}</b> : <span class="muted">0</span>;
    case "images":
      return <>{row.images || <span class="muted">0</span>}</>;
    case "tokens":
      return <>{count(row.tokens)}</>;
    case "end":
      return <span class={`end ${row.status}`}>{words(row.end)}</span>;
    default:
      return <>{row.stage === null ? <span class="muted">–</span> : stageName(row.stage)}</>;
  }
}

function Reward({ row, scale }: { row: Row; scale: number }) {
  if (row.status === "masked") return <span class="tag bad" title="masked: left out of the loss">masked</span>;
  const reward = row.reward ?? 0;
  const share = scale > 0 ? Math.min(1, Math.abs(reward) / scale) : 0;
  return (
    <span class="reward-cell" title={number(row.reward, 5)}>
      <span class="num">{fixed(row.reward)}</span>
      <span class="bar"><span class={reward < 0 ? "fill neg" : "fill"} style={{ left: 0, width: `${share * 100}%` }} /></span>
    </span>
  );
}

function dim(value: number | undefined) {
  if (value === undefined) return <span class="muted">–</span>;
  return value === 0 ? <span class="muted">0</span> : <span class={value < 0 ? "neg" : ""}>{fixed(value)}</span>;
}
