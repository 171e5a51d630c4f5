import { useEffect, useRef } from "preact/hooks";
import { Key } from "./basics";

const KEYS: [string, [string, string][]][] = [
  ["Anywhere", [["?", "this help"], ["/", "search trajectories"], ["1", "glance"], ["2", "trajectories"], ["3", "funnel"], ["4", "compare"], ["d", "light or dark theme"]]],
  ["List of trajectories", [["j", "next row"], ["k", "previous row"], ["Enter", "open it"], ["f", "show or hide filters"]]],
  ["One trajectory", [["j", "next turn"], ["k", "previous turn"], ["]", "next trajectory in the list"], ["[", "previous trajectory"], ["t", "show or hide tokens"], ["c", "next colouring of tokens"], ["g", "its group"], ["u", "back to the list"]]],
];

export function Help({ open, close }: { open: boolean; close: () => void }) {
  const ref = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const dialog = ref.current;
    if (dialog === null) return;
    if (open && !dialog.open) dialog.showModal();
    if (!open && dialog.open) dialog.close();
  }, [open]);
  return (
    <dialog ref={ref} onClose={close} aria-label="Keyboard shortcuts" class="help" onClick={(event) => event.target === ref.current && close()}>
      <div class="help-body">
        <header>
          <h2>Keyboard shortcuts</h2>
          <button type="button" class="quiet" onClick={close}>
            Close
          </button>
        </header>
        <div class="help-groups">
          {KEYS.map(([title, keys]) => (
            <section key={title}>
              <h3>{title}</h3>
              <dl>
                {keys.map(([key, what]) => (
                  <div key={key}>
                    <dt>
                      <Key>{key}</Key>
                    </dt>
                    <dd>{what}</dd>
                  </div>
                ))}
              </dl>
            </section>
          ))}
        </div>
        <p class="muted">The address of every view contains its whole state: copy it to share what you see.</p>
      </div>
    </dialog>
  );
}
