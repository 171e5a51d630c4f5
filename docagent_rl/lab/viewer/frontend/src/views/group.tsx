import { groupPath } from "../api/paths";
import type { Group, Run, Trajectory } from "../api/types";
import { useApi } from "../api/use";
import { actionKind, actionText, partingTurn } from "../logic/actions";
import { answerOf } from "../logic/answer";
import { fixed, signed, words } from "../logic/format";
import { segments } from "../logic/spans";
import { link, type Route } from "../logic/route";
import { Question } from "../parts/question";
import { Bar, Waiting } from "../ui/basics";
import { useKeys } from "../ui/keys";
import { go } from "../ui/location";
import { OutcomeMark } from "../ui/outcome";

/** The trajectories of one question side by side: where they diverge, and which were reinforced. */
export function GroupView({ route, run }: { route: Route; run: Run }) {
  const { data, error, loading } = useApi<Group>(groupPath(run.id, route.id ?? "", route.query), run.revision);
  const back = link("trajectories", run.id, new URLSearchParams({ uid: route.id ?? "" }));
  useKeys({ u: () => go(back) });
  if (data === undefined) return <Waiting error={error} loading={loading} />;
  const trajectories = data.trajectories;
  const first = trajectories[0];
  const parting = partingTurn(trajectories.map((trajectory) => trajectory.turns));
  const turns = Math.max(0, ...trajectories.map((trajectory) => trajectory.turns.length));
  const rewards = trajectories.map((trajectory) => trajectory.reward ?? 0);
  const scale = Math.max(...rewards.map(Math.abs), 0);
  const advantages = trajectories.map((trajectory) => trajectory.advantage ?? null);
  const most = Math.max(0, ...advantages.map((value) => Math.abs(value ?? 0)));
  const best = Math.max(...rewards);
  return (
    <div class="page group">
      <header class="page-head">
        <div class="crumbs">
          <a href={back}>Trajectories</a>
          <span class="muted" aria-hidden="true">/</span>
          <span class="muted">group of {trajectories.length}</span>
          <span class="muted num">{first && `${first.split === "val" ? "validation" : "training"}, step ${first.step}`}</span>
        </div>
        <Question text={data.question} />
        <p class="muted">gold: <b class="plain-text">{data.gold.join(" | ") || "unanswerable"}</b>. {partingText(parting, trajectories.length)} {spread(rewards)}</p>
      </header>
      <div class="scroll-x group-scroll" tabIndex={0} role="region" aria-label="Trajectories side by side">
        <table class="side">
          <thead>
            <tr>
              <td class="corner" />
              {trajectories.map((trajectory, at) => (
                <th key={trajectory.id} scope="col" class={rewards[at] === best && best !== Math.min(...rewards) ? "best" : ""}>
                  <a href={link("trajectory", run.id, null, trajectory.id)}>Trajectory {trajectory.number}</a>
                  <dl class="mini">
                    <div>
                      <dt>reward</dt>
                      <dd><Bar value={rewards[at] ?? 0} scale={scale} /> <b class="num">{fixed(trajectory.reward)}</b></dd>
                    </div>
                    {advantages[at] !== null && advantages[at] !== undefined && (
                      <div>
                        <dt>advantage</dt>
                        <dd>
                          <Bar value={advantages[at]} scale={most} signed />
                          <b class={`num ${advantages[at] < 0 ? "neg" : "pos"}`}>
                            <span aria-hidden="true">{advantages[at] > 0 ? "↑" : advantages[at] < 0 ? "↓" : "·"}</span> {signed(advantages[at])}
                          </b>
                        </dd>
                      </div>
                    )}
                    <div>
                      <dt>answer</dt>
                      <dd class="clip" title={answerOf(trajectory) ?? ""}><OutcomeMark outcome={trajectory.outcome} /> {answerOf(trajectory) ?? <span class="muted">{words(trajectory.end)}</span>}</dd>
                    </div>
                  </dl>
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {Array.from({ length: turns }, (_, at) => (
              <tr key={at} class={at === parting ? "parting" : ""}>
                <th scope="row" class="num">
                  {at + 1}
                  {at === parting && <span class="parting-mark">they diverge</span>}
                </th>
                {trajectories.map((trajectory) => (
                  <TurnCell key={trajectory.id} trajectory={trajectory} at={at} run={run.id} />
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </div>
  );
}

function TurnCell({ trajectory, at, run }: { trajectory: Trajectory; at: number; run: number }) {
  const turn = trajectory.turns[at];
  if (turn === undefined) {
    return <td class="over">{at === trajectory.turns.length ? <span class="muted">{words(trajectory.end)}</span> : null}</td>;
  }
  const thoughts = segments(turn.text, turn.spans)
    .filter((piece) => piece.kinds.includes("thought"))
    .map((piece) => piece.text)
    .join(" ")
    .trim();
  return (
    <td class={turn.valid ? "" : "bad"}>
      <a class="cell-action" href={link("trajectory", run, new URLSearchParams({ turn: String(turn.number) }), trajectory.id)}>
        <span class={`kind k-${actionKind(turn)}`}>{words(actionKind(turn))}</span> {rest(actionText(turn), words(actionKind(turn)))}
      </a>
      {Math.abs(turn.reward ?? 0) >= 0.005 && <span class={`num ${(turn.reward ?? 0) < 0 ? "neg" : "pos"}`}>{signed(turn.reward ?? 0)}</span>}
      {thoughts !== "" && <p class="thought">{thoughts}</p>}
      {!turn.valid && turn.detail && <p class="thought neg">{turn.detail}</p>}
    </td>
  );
}

function rest(text: string, kind: string): string {
  return text.startsWith(kind) ? text.slice(kind.length).replace(/^: /, "").trim() : text;
}

function partingText(parting: number | null, trajectories: number): string {
  if (trajectories < 2) return "There is only one trajectory.";
  return parting === null ? "All did the same." : `They diverge in turn ${parting + 1}.`;
}

function spread(rewards: readonly number[]): string {
  if (rewards.length < 2) return "";
  const [low, high] = [Math.min(...rewards), Math.max(...rewards)];
  return low === high ? `All have the reward ${fixed(low)}, so there is no difference to learn from.` : `Rewards from ${fixed(low)} to ${fixed(high)}.`;
}
