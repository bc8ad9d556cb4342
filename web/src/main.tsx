import { createRoot } from "react-dom/client";
import "dockview-core/dist/styles/dockview.css";
import "@xterm/xterm/css/xterm.css";
import "./style/app.css";
import { App } from "./App";
import { startEvents } from "./lib/events";
import { startFiles } from "./lib/files";
import { startLists } from "./lib/lists";
import { startSessions } from "./lib/sessions";
import { startTerminals } from "./lib/terminals";
import { currentSession, dockWanted, theme } from "./lib/ui";
import { startPlugins } from "./plugins/start";
import { registerOwn } from "./views";

document.documentElement.dataset.theme = theme.get(); // before the first paint

// the chosen session is the address: a reload and the back button keep it
const inAddress = (): string | null => /^#\/session\/([\w-]+)$/.exec(location.hash)?.[1] ?? null;
currentSession.set(inAddress());
window.addEventListener("hashchange", () => currentSession.set(inAddress()));
currentSession.subscribe(() => {
  const id = currentSession.get();
  if (id !== inAddress()) history.pushState(null, "", id ? `#/session/${id}` : location.pathname);
});

try { // panels of the last visit
  const kept = JSON.parse(localStorage.getItem("afloat.dock") ?? "null") as { panels?: object } | null;
  if (kept?.panels && Object.keys(kept.panels).length > 0) dockWanted.set(true);
} catch {
  // nothing kept
}

registerOwn();
startSessions();
startLists();
startFiles();
startTerminals();
void startEvents(); // requests first: they are under way while the page is rendered
startPlugins();
createRoot(document.getElementById("root")!).render(<App />);
