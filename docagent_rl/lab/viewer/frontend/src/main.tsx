import { render } from "preact";
import { startHash } from "./api/client";
import { App } from "./app";
import "./styles/base.css";
import "./styles/shell.css";
import "./styles/parts.css";
import "./styles/trajectory.css";
import "./styles/turn.css";
import "./styles/picture.css";
import "./styles/rail.css";
import "./styles/tokens.css";
import "./styles/narrow.css";
import "./styles/views.css";

function start(): void {
  const root = document.getElementById("root");
  if (root === null) return;
  const first = startHash();
  if (first !== null && window.location.hash === "") window.history.replaceState(null, "", first);
  render(<App />, root);
}

if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
else start();
