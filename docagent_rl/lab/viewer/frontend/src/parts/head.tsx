import type { ComponentChildren } from "preact";
import { offered } from "../api/client";
import { groupPath } from "../api/paths";
import type { Run, Trajectory } from "../api/types";
import { answerOf, goldOf, questionOf } from "../logic/answer";
import { fixed, signed, words } from "../logic/format";
import { OUTCOMES } from "../logic/outcome";
import { link } from "../logic/route";
import { Question } from "./question";

/** Question, answers and facts of a trajectory, with navigation. */
export function TrajectoryHead({ trajectory, run, group, previous, next, list, place }: {
  trajectory: Trajectory;
  run: Run;
  group: string;
  previous: string | null;
  next: string | null;
  list: string;
  place: string | null;
}) {
  const gold = goldOf(trajectory);
  const answer = answerOf(trajectory);
  const id = String(trajectory.sample["question_id"] ?? "");
  const advantage = trajectory.advantage ?? null;
  return (
    <header class="trajectory-head">
      <div class="crumbs">
        <a href={list} title="Back to the list (u)">Trajectories</a>
        <span class="muted" aria-hidden="true">/</span>
        <span class="muted mono">{id}</span>
        <span class="grow" />
        {place !== null && <span class="muted num place">{place}</span>}
        <Step href={previous} title="Previous trajectory ([)">←</Step>
        <Step href={next} title="Next trajectory (])">→</Step>
      </div>
      <Question text={questionOf(trajectory)} />
      <dl class="answers">
        <div>
          <dt>gold</dt>
          <dd class="answer">{gold.length > 0 ? gold.join(" | ") : "unanswerable"}</dd>
        </div>
        <div>
          <dt>answered</dt>
          <dd class={answer === null ? "answer muted" : "answer"}>{answer ?? "nothing"}</dd>
          <Verdict trajectory={trajectory} />
        </div>
        <div>
          <dt>reward</dt>
          <dd class="num"><b>{fixed(trajectory.reward, 3)}</b></dd>
        </div>
        {advantage !== null && (
          <div>
            <dt>advantage</dt>
            <dd class={`num ${advantage < 0 ? "neg" : "pos"}`}><b>{signed(advantage, 3)}</b></dd>
          </div>
        )}
        <div>
          <dt>ended by</dt>
          <dd><span class={`end ${trajectory.status}`}>{words(trajectory.end)}</span></dd>
        </div>
        <div>
          <dt>{trajectory.split === "val" ? "validation" : "training"}</dt>
          <dd class="num">step {trajectory.step}, trajectory {trajectory.number}</dd>
        </div>
        <div>
          <dt>system</dt>
          <dd>{trajectory.system}</dd>
        </div>
      </dl>
      <p class="ways">
          {offered(groupPath(run.id, trajectory.uid, new URLSearchParams())) && <a href={group} title="Its group side by side (g)">Group</a>}
          {id !== "" && <a href={link("trajectories", run.id, new URLSearchParams({ question_id: id }))}>All for this question</a>}
      </p>
    </header>
  );
}

/** Right, wrong or unjudged, according to the environment. */
function Verdict({ trajectory }: { trajectory: Trajectory }) {
  if (trajectory.outcome === null || trajectory.outcome === undefined) return null;
  const { mark, tone, about } = OUTCOMES[trajectory.outcome];
  return <dd class={tone}>{mark} {about}{trajectory.guessed ? ", without the evidence" : ""}</dd>;
}

function Step({ href, title, children }: { href: string | null; title: string; children: ComponentChildren }) {
  if (href === null) return <span class="step off" aria-hidden="true">{children}</span>;
  return <a class="step" href={href} title={title} aria-label={title}>{children}</a>;
}
