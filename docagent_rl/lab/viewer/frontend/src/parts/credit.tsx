import type { Credit } from "../api/types";
import { number, signed, words } from "../logic/format";
import { Bar } from "../ui/basics";

/** The estimator's numbers for this trajectory. */
export function CreditFacts({ credit }: { credit: Credit }) {
  const turns = credit.turns ?? [];
  const scale = Math.max(0, ...turns.map((turn) => Math.abs(turn.advantage ?? 0)));
  const similar = Object.entries(credit.similarities ?? {});
  return (
    <>
      <dl class="facts">
        <Fact name="estimator" value={words(credit.estimator)} />
        {credit.advantage !== null && <Fact name="advantage" value={signed(credit.advantage, 3)} />}
      </dl>
      {turns.length > 0 && (
        <table class="terms credit-turns">
          <thead>
            <tr>
              <th scope="col">turn</th>
              <th scope="col" class="num">value</th>
              <th scope="col">advantage</th>
              <th scope="col" class="num"><span class="hidden">advantage, number</span></th>
            </tr>
          </thead>
          <tbody>
            {turns.map((turn, at) => (
              <tr key={at}>
                <th scope="row">{at + 1}</th>
                <td class="num">{number(turn.value)}</td>
                <td><Bar value={turn.advantage ?? 0} scale={scale} signed /></td>
                <td class="num">{turn.advantage === null || turn.advantage === undefined ? "–" : signed(turn.advantage, 3)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      {similar.length > 0 && (
        <table class="terms">
          <caption>Similarity to the others in the group</caption>
          <tbody>
            {similar.map(([name, value]) => (
              <tr key={name}>
                <th scope="row">trajectory {name}</th>
                <td><Bar value={value} scale={1} /></td>
                <td class="num">{number(value)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </>
  );
}

export function Fact({ name, value }: { name: string; value: string }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{value}</dd>
    </div>
  );
}
