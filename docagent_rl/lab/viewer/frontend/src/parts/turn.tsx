import type { Hit, Turn } from "../api/types";
import { actionKind, actionText } from "../logic/actions";
import { pageNumber } from "../logic/boxes";
import type { Measure } from "../logic/colouring";
import { number, plural, seconds, signed, words } from "../logic/format";
import { segments } from "../logic/spans";
import { Messages } from "./messages";
import { TokenText } from "./tokens";

export interface TokenMode {
  measure: Measure;
  scale: number;
}

/** One turn: the sampled text, its effect, and what the model was shown next. */
export function TurnCard({ turn, run, trajectory, tokens, current, before }: {
  turn: Turn;
  run: number;
  trajectory: number;
  tokens: TokenMode | null;
  current: boolean;
  /** What the model was shown before. */
  before: string | null;
}) {
  return (
    <article id={`turn-${turn.number}`} class={`turn${current ? " current" : ""}${turn.valid ? "" : " bad"}`} aria-label={`Turn ${turn.number}`}>
      <header class="turn-head">
        <h3>Turn {turn.number}</h3>
        <span class={`kind k-${actionKind(turn)}`}>{words(actionKind(turn))}</span>
        {turn.row > 0 && <span class="tag" title="number of its training row in the trajectory">row {turn.row + 1}</span>}
        {turn.stop !== "end_of_turn" && turn.stop !== "" && <span class="tag">{words(turn.stop)}</span>}
        <span class="grow" />
        <Seconds seconds={turn.seconds} />
        {felt(turn.reward) && <b class={`num reward ${(turn.reward ?? 0) < 0 ? "neg" : "pos"}`}>{signed(turn.reward ?? 0, 3)}</b>}
      </header>
      <div class="sampled">
        {tokens !== null && turn.tokens && turn.tokens.ids.length > 0 ? (
          <TokenText tokens={turn.tokens} measure={tokens.measure} scale={tokens.scale} text={turn.text} />
        ) : (
          <Marked turn={turn} />
        )}
        {!turn.valid && (
          <p class="why">
            <b>{turn.reason ? words(turn.reason) : actionText(turn)}</b>
            {turn.detail !== null && turn.detail !== "" && <> – {turn.detail}</>}
          </p>
        )}
      </div>
      <Outcome turn={turn} />
      {turn.observation.length > 0 && (
        <div class={turn.dropped ? "observation dropped" : "observation"}>
          <p class="observation-head">
            {turn.dropped ? <b class="neg">Observation did not fit, so all of it was dropped</b> : <span>Observation</span>}
            <span class="num muted">{plural(turn.observation_tokens, "token")}</span>
          </p>
          <Messages messages={turn.observation} run={run} trajectory={trajectory} before={before} />
        </div>
      )}
    </article>
  );
}

/** Whether a reward would not be rounded to zero. */
function felt(reward: number | null): boolean {
  return Math.abs(reward ?? 0) >= 0.0005;
}

function Marked({ turn }: { turn: Turn }) {
  if (turn.text === "") return <p class="text muted">nothing was sampled</p>;
  return (
    <pre class="text">
      {segments(turn.text, turn.spans).map((piece, at) =>
        piece.kinds.length === 0 ? piece.text : (
          <span key={at} class={piece.kinds.map((kind) => `sp-${kind}`).join(" ")}>{piece.text}</span>
        ),
      )}
    </pre>
  );
}

/** The parsed action with its hits, and the turn's reward terms. */
function Outcome({ turn }: { turn: Turn }) {
  const terms = Object.entries(turn.terms).filter(([name, value]) => felt(value) && name !== "total");
  const times = searchSeconds(turn);
  if (!turn.valid && terms.length === 0 && turn.hits.length === 0 && !turn.outcome?.answer) return null;
  return (
    <div class="outcome">
      {turn.valid && turn.action !== null && (
        <p class="parsed">
          <span class="arrow" aria-hidden="true">→</span> {actionText(turn)}
          {times !== null && <span class="muted num"> {seconds(times)}</span>}
        </p>
      )}
      {turn.outcome?.answer && (
        <p class="parsed">
          <span class="arrow" aria-hidden="true">→</span> <span class="muted">answered from the notes</span> {turn.outcome.extracted ?? turn.outcome.answer}
        </p>
      )}
      {turn.hits.length > 0 && <Hits hits={turn.hits} />}
      {terms.length > 0 && (
        <dl class="terms-line">
          {terms.map(([name, value]) => (
            <div key={name}>
              <dt>{words(name)}</dt>
              <dd class={`num ${value < 0 ? "neg" : "pos"}`}>{signed(value, 3)}</dd>
            </div>
          ))}
        </dl>
      )}
    </div>
  );
}

function Hits({ hits }: { hits: readonly Hit[] }) {
  const scores = hits.map((hit) => hit.score ?? 0);
  const low = Math.min(0, ...scores);
  const span = Math.max(...scores) - low || 1;
  return (
    <table class="hits">
      <thead>
        <tr>
          <th scope="col">rank</th>
          <th scope="col">page</th>
          <th scope="col">score</th>
          <th scope="col" class="wide"><span class="hidden">share of the best score</span></th>
        </tr>
      </thead>
      <tbody>
        {hits.slice(0, 12).map((hit, at) => (
          <tr key={at} class={hit.gold ? "gold" : ""}>
            <td class="num">{hit.rank}</td>
            <td class="num">
              {pageNumber(hit.page) ?? String(hit.page)} {hit.gold && <span class="tag gold">gold</span>}
            </td>
            <td class="num">{number(hit.score)}</td>
            <td>
              <span class="bar"><span class="fill" style={{ left: 0, width: `${(100 * ((hit.score ?? 0) - low)) / span}%` }} /></span>
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function Seconds({ seconds: parts }: { seconds: Record<string, number> }) {
  // `step/search` is a part of `step`, so it is listed but not added
  const told = Object.entries(parts)
    .filter(([, value]) => value > 0)
    .map(([name, value]) => `${words(name).replace("/", " of which ")} ${seconds(value)}`);
  const known = Object.entries(parts).filter(([name, value]) => value > 0 && !name.includes("/"));
  if (known.length === 0) return null;
  const total = known.reduce((sum, [, value]) => sum + value, 0);
  return (
    <span class="seconds" title={told.join("\n")}>
      <span class="seconds-bar" aria-hidden="true">
        {known.map(([name, value], at) => (
          <span key={name} class={`part p${at % 4}`} style={{ width: `${(100 * value) / total}%` }} />
        ))}
      </span>
      <span class="num">{seconds(total)}</span>
      <span class="hidden">: {told.join(", ")}</span>
    </span>
  );
}

function searchSeconds(turn: Turn): number | null {
  const values = turn.searches.map((search) => search.seconds).filter((value): value is number => typeof value === "number");
  return values.length === 0 ? null : values.reduce((sum, value) => sum + value, 0);
}
