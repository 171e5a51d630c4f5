import { useState } from "preact/hooks";
import { imageUrl } from "../api/client";
import { pagePath } from "../api/paths";
import { pagesToShow, type DocumentPath, type PageMarks } from "../logic/path";
import { Boxes, type Marked } from "./boxes";

const SHORT = 24;

/** Thumbnails of a document with the agent's path through it. */
export function Thumbs({ path, run, toTurn }: { path: DocumentPath; run: number; toTurn: (turn: number) => void }) {
  const [all, setAll] = useState(false);
  const pages = all ? pagesToShow(path, Infinity) : pagesToShow(path, SHORT);
  const more = path.pages > SHORT && pagesToShow(path, SHORT).length < path.pages;
  return (
    <div class="thumbs">
      <p class="doc-name" title={path.doc}>{path.doc}</p>
      <ol>
        {pages.map((page) => (
          <Thumb key={page} doc={path.doc} page={page} marks={path.marks.get(page)} run={run} toTurn={toTurn} />
        ))}
      </ol>
      {more && (
        <button type="button" class="quiet small" aria-expanded={all} onClick={() => setAll(!all)}>
          {all ? "Only relevant pages" : `All ${path.pages} pages`}
        </button>
      )}
    </div>
  );
}

function Thumb({ doc, page, marks, run, toTurn }: {
  doc: string;
  page: number;
  marks: PageMarks | undefined;
  run: number;
  toTurn: (turn: number) => void;
}) {
  const [failed, setFailed] = useState(false);
  const url = imageUrl(pagePath(run, doc, page, 160));
  const boxes: Marked[] = [
    ...(marks?.goldBoxes ?? []).map((box): Marked => ({ box, kind: "gold", label: "evidence" })),
    ...(marks?.crops ?? []).map((box): Marked => ({ box, kind: "crop", label: "looked at" })),
  ];
  const classes = ["thumb", marks?.gold ? "gold" : "", marks?.shown ? "shown" : "", marks?.overview ? "overview" : ""].join(" ");
  const turn = marks?.turns.find((each) => each > 0);
  return (
    <li class={classes}>
      <button type="button" class="frame" disabled={turn === undefined} onClick={() => turn !== undefined && toTurn(turn)} aria-label={describe(page, marks)} title={describe(page, marks)}>
        {url === null || failed ? <span class="no-image" /> : <img src={url} alt="" loading="lazy" decoding="async" onError={() => setFailed(true)} />}
        <Boxes boxes={boxes} />
      </button>
      <span class="thumb-foot">
        <span class="num">{page}</span>
        <span class="marks" aria-hidden="true">
          {marks?.searched && <i class="m-found">F</i>}
          {marks?.fetched && <i class="m-opened">O</i>}
          {marks?.overview && !marks.shown && <i class="m-overview">T</i>}
          {marks?.shown && <i class="m-seen">S</i>}
          {marks?.gold && <i class="m-gold">G</i>}
        </span>
      </span>
    </li>
  );
}

export function ThumbsLegend({ overview }: { overview: boolean }) {
  return (
    <p class="marks-legend">
      <span><i class="m-found">F</i> found by a query</span> <span><i class="m-opened">O</i> opened</span>{" "}
      <span><i class="m-seen">S</i> seen</span> <span><i class="m-gold">G</i> gold</span>{" "}
      {overview && <span><i class="m-overview">T</i> in the overview</span>}
    </p>
  );
}

function describe(page: number, marks: PageMarks | undefined): string {
  const said = [
    marks?.gold && "gold",
    marks?.searched && "found by a query",
    marks?.fetched && "opened",
    marks?.overview && "in the overview",
    marks?.shown && (marks.turns.length > 0 ? `seen ${marks.turns.map((turn) => (turn === 0 ? "in the prompt" : `after turn ${turn}`)).join(", ")}` : "seen"),
  ].filter(Boolean);
  return `Page ${page}${said.length > 0 ? `: ${said.join(", ")}` : ", never seen"}`;
}
