// The dock: panels in tabs and splits that can be dragged, maximised and closed, and that are there again
// after a reload. dockview keeps the layout and hands out elements; React draws into them through
// portals, so a panel sees the page's providers and keeps its state while it is moved.
import { createDockview, type DockviewApi, type GroupPanelPartInitParameters, type IContentRenderer, type IDockviewPanel, type IGroupHeaderProps, type SerializedDockview } from "dockview-core";
import { memo, Suspense, useEffect, useRef, useState } from "react";
import { createPortal } from "react-dom";
import { Boundary } from "./Boundary";
import { iconPaths, type IconName } from "./Icon";
import { registry, useOutputs, type Owned, type Panel, type PanelProps } from "../lib/registry";
import { createKept, createStore, useStore } from "../lib/store";
import { cover, dockActs, dockWanted, panelsOpen, setOpener, type PanelRequest } from "../lib/ui";

const layout = createKept<SerializedDockview | null>("dock", null);

interface Mounted {
  id: string;
  element: HTMLElement;
  panel: string; // key in the registry
  params: Record<string, unknown>;
  setTitle(title: string): void;
  close(): void;
}
const mounted = createStore<readonly Mounted[]>([]);

class Content implements IContentRenderer {
  readonly element = document.createElement("div");
  private id = "";
  init(p: GroupPanelPartInitParameters): void {
    this.id = p.api.id;
    this.element.className = "panel-host";
    const { panel, ...params } = p.params as { panel: string } & Record<string, unknown>;
    const made: Mounted = {
      id: this.id, element: this.element, panel, params,
      setTitle: (title) => p.api.setTitle(title), close: () => p.api.close(),
    };
    mounted.set((all) => [...all.filter((m) => m.id !== this.id), made]);
  }
  update(event: { params: Record<string, unknown> }): void {
    const { panel: _, ...params } = event.params;
    mounted.set((all) => all.map((m) => (m.id === this.id ? { ...m, params: { ...m.params, ...params } } : m)));
  }
  dispose(): void {
    mounted.set((all) => all.filter((m) => m.element !== this.element));
  }
}

/** An icon outside React. */
function drawn(name: IconName): SVGElement {
  const make = (tag: string, attributes: Record<string, string>) => {
    const e = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [k, v] of Object.entries(attributes)) e.setAttribute(k, v);
    return e;
  };
  const svg = make("svg", { class: "icon", viewBox: "0 0 16 16", width: "16", height: "16", "aria-hidden": "true" });
  svg.append(make("path", { d: iconPaths[name], fill: "none", stroke: "currentColor", "stroke-width": "1.4", "stroke-linecap": "round", "stroke-linejoin": "round" }));
  return svg as SVGElement;
}

function button(parent: HTMLElement, label: string, icon: IconName, run: () => void): void {
  const b = document.createElement("button");
  b.type = "button";
  b.className = "icon-button";
  b.setAttribute("aria-label", label);
  b.title = label;
  b.append(drawn(icon));
  b.addEventListener("click", run);
  parent.append(b);
}

/** A part of a group's header with buttons in it. */
function header(className: string, fill: (element: HTMLElement, props: IGroupHeaderProps) => void) {
  const element = document.createElement("div");
  element.className = className;
  return { element, init: (props: IGroupHeaderProps) => fill(element, props), dispose: () => element.remove() };
}
const groupActions = () => header("group-actions", (element, { api, containerApi, group }) => {
  button(element, "Maximise or restore", "expand", () => (api.isMaximized() ? containerApi.exitMaximizedGroup() : api.maximize()));
  button(element, "Close this group", "close", () => containerApi.removeGroup(group));
});
/** On a narrow screen the dock covers the conversation. */
const backAction = () => header("group-back only-narrow", (element) => button(element, "Back to the conversation", "back", () => cover.set("none")));

const direction = { center: "within", left: "left", right: "right", bottom: "below" } as const;
const seen = new Set<string>(); // keys of panels that were there once in this page's life

let front: IDockviewPanel | null = null; // stays in front of panels that open by themselves

function open(api: DockviewApi, request: PanelRequest): void {
  const panel = registry.find("panels", request.panel);
  const key = panel?.key ?? request.panel;
  const own = typeof request.params.key === "string" && panel?.many ? request.params.key : null;
  const there = api.panels.find((p) => p.params?.panel === key && (own === null || p.params.key === own)); // its key may have changed since
  if (there) {
    if (request.quiet) return;
    there.update({ params: { ...request.params, panel: key } });
    there.api.setActive();
    return;
  }
  const placement = panel?.placement ?? "center";
  const beside = api.activePanel && placement !== "center" ? { referencePanel: api.activePanel, direction: direction[placement] } : undefined;
  const behind = request.quiet === true && api.activePanel !== undefined; // something is in front and stays there
  if (behind && !front) { // once for all that open together; the panel of a new group is active all the same
    front = api.activePanel!;
    setTimeout(() => { front?.api.setActive(); front?.group.model.rerender(front); front = null; }, 0);
  }
  let id = own === null ? key : `${key}#${own}`;
  while (api.getPanel(id)) id += "'"; // of a file that has another name by now
  const added = api.addPanel({
    id, component: "panel", title: request.title ?? panel?.title ?? request.panel,
    params: { ...request.params, panel: key }, position: beside, renderer: behind ? "onlyWhenVisible" : "always", inactive: behind && !beside,
  });
  if (behind) added.api.setRenderer("always"); // into the page, without the layout that each active panel costs
}

// ---- keys ---------------------------------------------------------------------------------------

const tabsOf = (group: DockviewApi["groups"][number]): HTMLElement[] => [...group.element.querySelectorAll<HTMLElement>(".dv-tab")];

/** dockview's tabs are plain elements for the mouse: say what they are, and let one of each group be reached with Tab. */
function describeTabs(api: DockviewApi): void {
  for (const group of api.groups) {
    const list = group.element.querySelector(".dv-tabs-container");
    list?.setAttribute("role", "tablist");
    list?.setAttribute("aria-label", "Panels");
    tabsOf(group).forEach((tab, i) => {
      const chosen = group.panels[i] === group.activePanel;
      tab.setAttribute("role", "tab");
      tab.setAttribute("aria-selected", String(chosen));
      tab.tabIndex = chosen ? 0 : -1;
    });
  }
}

/** Keep the tab of each panel in front in sight: titles and the number of hidden tabs take room after it was chosen. */
function watchTabs(): { look(api: DockviewApi): void; end(): void } {
  const show = (tab: Element | null) => tab?.scrollIntoView({ block: "nearest", inline: "nearest" });
  const sizes = new ResizeObserver((all) => all.forEach(({ target }) => show(target.matches(".dv-tab") ? target : target.querySelector(".dv-active-tab"))));
  return {
    look: (api) => {
      sizes.disconnect();
      for (const { element } of api.groups) {
        for (const part of element.querySelectorAll(".dv-tabs-container, .dv-active-tab")) sizes.observe(part); // and so shows it now
      }
    },
    end: () => sizes.disconnect(),
  };
}

/** Arrow keys, Home and End choose, Delete closes. */
function onTabKey(api: DockviewApi, e: KeyboardEvent): void {
  const group = api.groups.find((g) => tabsOf(g).includes(e.target as HTMLElement));
  if (!group) return;
  const at = tabsOf(group).indexOf(e.target as HTMLElement), last = group.panels.length - 1;
  const goals: Record<string, number> = { ArrowRight: Math.min(last, at + 1), ArrowLeft: Math.max(0, at - 1), Home: 0, End: last, Enter: at, " ": at };
  const to = goals[e.key];
  if (e.key === "Delete") {
    group.panels[at]?.api.close();
    setTimeout(() => (api.activeGroup ? tabsOf(api.activeGroup).find((t) => t.tabIndex === 0) : document.querySelector<HTMLElement>("[aria-label=Message]"))?.focus(), 20);
  } else if (to !== undefined) {
    group.panels[to]?.api.setActive();
    tabsOf(group)[to]?.focus();
  } else return;
  e.preventDefault();
}

const acts = (api: DockviewApi) => ({
  close: () => api.activePanel?.api.close(),
  next: () => {
    const all = api.panels;
    all[(all.indexOf(api.activePanel!) + 1) % all.length]?.api.setActive();
  },
  split: (to: "right" | "below") => { if (api.activePanel) api.activePanel.api.moveTo({ group: api.activePanel.group, position: to === "right" ? "right" : "bottom" }); },
  maximise: () => (api.hasMaximizedGroup() ? api.exitMaximizedGroup() : api.activePanel?.api.maximize()),
});

const Body = memo(function Body({ m, panel }: { m: Mounted; panel: Owned<Panel> | undefined }) {
  if (!panel) {
    const gone = seen.has(m.panel);
    return <div className="empty"><h2>{gone ? "Plugin removed" : "Not loaded"}</h2><p>{gone ? `${m.panel} was taken away while this panel was open.` : `No plugin contributes ${m.panel} now.`}</p></div>;
  }
  seen.add(m.panel);
  const props: PanelProps = { params: m.params, setTitle: m.setTitle, close: m.close };
  return (
    <Boundary what={panel.title} owner={panel.owner} reset={panel.component}>
      <Suspense fallback={<p className="loading">Loading</p>}><panel.component {...props} /></Suspense>
    </Boundary>
  );
});

export default function Dock() {
  const root = useRef<HTMLDivElement>(null);
  const panels = useOutputs("panels");
  const all = useStore(mounted);
  const [n, setN] = useState(0);

  useEffect(() => {
    const api = createDockview(root.current!, {
      className: "dock-theme",
      createComponent: () => new Content(),
      createRightHeaderActionComponent: groupActions,
      createPrefixHeaderActionComponent: backAction,
      disableFloatingGroups: true,
      noPanelsOverlay: "emptyGroup",
      defaultRenderer: "always",
    });
    const kept = layout.get();
    if (kept) {
      try {
        api.fromJSON(kept);
        for (const p of api.panels) { // of plugins also those behind others: they may have something to do before they are seen
          if (!p.api.isActive && !String(p.params?.panel).startsWith("afloat.")) p.group.model.rerender(p);
        }
      } catch {
        api.clear(); // a layout of another version
      }
    }
    const tabs = watchTabs();
    const keep = () => layout.set(api.panels.length > 0 ? api.toJSON() : null);
    const tell = () => {
      setN(api.panels.length);
      describeTabs(api);
      tabs.look(api);
      if (api.panels.length === 0) {
        dockWanted.set(false);
        if (cover.get() === "dock") cover.set("none");
      }
      panelsOpen.set({
        panels: api.panels.map((p) => {
          const { panel, ...params } = p.params as { panel: string };
          return { key: panel, title: p.title ?? panel, params, update: (more) => { p.update({ params: { ...p.params, ...more } }); moved(); }, close: () => p.api.close() };
        }),
        active: (api.activePanel?.params as { panel?: string } | undefined)?.panel ?? null,
        activeParams: api.activePanel?.params ?? {},
      });
    };
    let told = 0, saved = 0;
    const moved = () => { // many at once while plugins open their panels: told once
      told ||= window.setTimeout(() => { told = 0; tell(); }, 0);
      saved ||= window.setTimeout(() => { saved = 0; keep(); }, 150);
    };
    const ends = [api.onDidLayoutChange(moved), api.onDidActivePanelChange(moved)];
    window.addEventListener("pagehide", keep);
    const onKey = (e: KeyboardEvent) => onTabKey(api, e);
    const element = root.current!;
    element.addEventListener("keydown", onKey);
    setOpener((request) => open(api, request));
    dockActs.set(acts(api));
    tell();
    return () => {
      setOpener(null);
      dockActs.set(null);
      element.removeEventListener("keydown", onKey);
      clearTimeout(told);
      clearTimeout(saved);
      tabs.end();
      keep();
      window.removeEventListener("pagehide", keep);
      for (const e of ends) e.dispose();
      panelsOpen.set({ panels: [], active: null, activeParams: {} });
      api.dispose();
      mounted.set([]);
    };
  }, []);

  return (
    <div className="dock" data-panels={n}>
      <div className="dock-root" ref={root} />
      {all.map((m) => createPortal(
        <section className="panel" data-panel-id={m.panel} aria-label={panels.find((p) => p.key === m.panel)?.title ?? m.panel}>
          <Body m={m} panel={panels.find((p) => p.key === m.panel)} />
        </section>, m.element, m.id,
      ))}
    </div>
  );
}
