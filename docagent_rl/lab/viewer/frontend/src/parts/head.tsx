import type { ComponentChildren } from "preact";
import { offered } from "../api/client";
import { groupPath } from "../api/paths";
import type { Run, Session } from "../api/types";
import { answerOf, goldOf, questionOf } from "../logic/answer";
import { fixed, signed, words } from "../logic/format";
import { link } from "../logic/route";

/** Question, answers and facts of a session, and the ways from it. */
export function SessionHead({ session, run, group, previous, next, list, place }: {
  session: Session;
  run: Run;
  group: string;
  previous: string | null;
  next: string | null;
  list: string;
  place: string | null;
}) {
  const gold = goldOf(session);
  const answer = answerOf(session);
  const id = String(session.record["question_id"] ?? "");
  const advantage = session.credit?.advantage ?? session.advantage ?? null;
  return (
    <header class="session-head">
      <div class="crumbs">
        <a href={list} title="Back to the list (u)">Sessions</a>
        <span class="muted" aria-hidden="true">/</span>
        <span class="muted mono">{id}</span>
        <span class="grow" />
        {place !== null && <span class="muted num">{place}</span>}
        <Step href={previous} title="Previous session ([)">←</Step>
        <Step href={next} title="Next session (])">→</Step>
      </div>
      <h1>{questionOf(session)}</h1>
      <dl class="answers">
        <div>
          <dt>gold</dt>
          <dd class="answer">{gold.length > 0 ? gold.join(" | ") : "unanswerable"}</dd>
        </div>
        <div>
          <dt>answered</dt>
          <dd class={answer === null ? "answer muted" : "answer"}>{answer ?? "nothing"}</dd>
          <Verdict session={session} />
        </div>
        <div>
          <dt>reward</dt>
          <dd class="num"><b>{fixed(session.reward, 3)}</b></dd>
        </div>
        {advantage !== null && (
          <div>
            <dt>advantage</dt>
            <dd class={`num ${advantage < 0 ? "neg" : "pos"}`}><b>{signed(advantage, 3)}</b></dd>
          </div>
        )}
        <div>
          <dt>ended by</dt>
          <dd><span class={`end ${session.status}`}>{words(session.end)}</span></dd>
        </div>
        <div>
          <dt>{session.split === "val" ? "validation" : "training"}</dt>
          <dd class="num">step {session.step}, session {session.session}</dd>
        </div>
        <div>
          <dt>system</dt>
          <dd>{session.system}</dd>
        </div>
      </dl>
      <p class="ways">
          {offered(groupPath(run.id, session.uid, new URLSearchParams())) && <a href={group} title="Its group side by side (g)">Group</a>}
          {id !== "" && <a href={link("sessions", run.id, new URLSearchParams({ question_id: id }))}>All of this question</a>}
      </p>
    </header>
  );
}

/** Right or wrong, as the reward's judge saw it. */
function Verdict({ session }: { session: Session }) {
  if (session.right === null || session.right === undefined) return null;
  if (!session.right) return <dd class="neg">✗ wrong</dd>;
  return <dd class="pos">✓ right{session.guessed ? ", without its evidence" : ""}</dd>;
}

function Step({ href, title, children }: { href: string | null; title: string; children: ComponentChildren }) {
  if (href === null) return <span class="step off" aria-hidden="true">{children}</span>;
  return <a class="step" href={href} title={title} aria-label={title}>{children}</a>;
}
