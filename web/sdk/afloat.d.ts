// Types of the module `afloat` for who writes a front plugin. Copy this file into the plugin, or name it in the `paths` of
// its tsconfig.json; @types/react brings those of `react`. The hub needs neither: it compiles without checking types.
import type { ComponentType, ReactNode } from "react";

/** What a component of a plugin and the functions of commands and catalogs get of the page. */
export interface Hub {
  /** Call the hub: parsed JSON (or text), or an exception with the problem's `code` and `message`. */
  api(path: string, init?: { method?: string; body?: unknown; signal?: AbortSignal }): Promise<unknown>;
  /** Watch events of the hub by type (`turn.completed`, `plugin.*`, `*`); returns what ends it. */
  on(type: string, fn: (event: HubEvent) => void): () => void;
  openPanel(id: string, params?: Record<string, unknown>): void;
  toast(text: string, kind?: "info" | "success" | "warning" | "error"): void;
  /** Id of the session on screen, or null. */
  readonly session: string | null;
}
export interface HubEvent {
  id?: number;
  type: string;
  ts: string;
  session?: string;
  seq?: number;
  [more: string]: unknown;
}

export type Placement = "center" | "left" | "right" | "bottom";
export interface PanelProps {
  /** What the panel was opened with. */
  params: Record<string, unknown>;
  /** Change the title in the panel's tab. */
  setTitle(title: string): void;
  close(): void;
}
export interface Panel {
  id: string;
  title: string;
  placement?: Placement;
  component: ComponentType<PanelProps>;
  /** Open by itself when it is contributed. */
  open?: boolean;
}
export interface Command {
  id: string;
  title: string;
  shortcut?: string;
  /** The heading in the palette; default the plugin's name. */
  group?: string;
  run(hub: Hub): unknown;
}
export interface CatalogItem {
  id: string;
  title: string;
  detail?: string;
}
export interface Catalog {
  id: string;
  title: string;
  search(query: string): Promise<CatalogItem[]> | CatalogItem[];
  onSelect(item: CatalogItem, hub: Hub): unknown;
}
export interface LeftTab {
  id: string;
  title: string;
  icon?: ReactNode;
  component: ComponentType;
}
export interface SurfaceRequest {
  kind: string;
  target?: string;
  [more: string]: unknown;
}
export interface Surface {
  panel: string;
  params?: Record<string, unknown>;
  score?: number;
}
export interface SurfaceResolver {
  id: string;
  kind: string;
  resolve(request: SurfaceRequest): Surface | null | undefined | Promise<Surface | null | undefined>;
}
/** Rendered once, invisibly, inside the page: for effects that need hooks. */
export interface Binding {
  id: string;
  component: ComponentType;
}
/** Wrapped round the whole page. A changed one is taken over when the page is loaded again. */
export interface Provider {
  id: string;
  component: ComponentType<{ children: ReactNode }>;
}
export interface ToolCall {
  callId: string;
  tool: string;
  input: unknown;
  output: string;
  state: "waiting" | "running" | "done" | "failed";
  error: string | null;
  diff: string | null;
  durationMs: number | null;
}
/** Shows the calls of one tool in the conversation. */
export interface ToolRenderer {
  tool: string;
  component: ComponentType<{ call: ToolCall }>;
}
/** Why a plugin starts or ends. */
export interface LifeEvent {
  type: "plugin_start" | "plugin_shutdown";
  reason: "start" | "reload" | "remove";
}

/** What a front plugin contributes; everything may be left out. */
export interface FrontPlugin {
  panels?: Panel[];
  commands?: Command[];
  catalogs?: Catalog[];
  leftTabs?: LeftTab[];
  surfaceResolvers?: SurfaceResolver[];
  bindings?: Binding[];
  providers?: Provider[];
  toolRenderers?: ToolRenderer[];
  on?: {
    plugin_start?(event: LifeEvent): unknown;
    plugin_shutdown?(event: LifeEvent): unknown;
  };
}

/** The default export of a front plugin: what it contributes, or a function of its entry's options that says it. */
export function definePlugin<O = Record<string, unknown>>(
  plugin: FrontPlugin | ((options: O) => FrontPlugin),
): FrontPlugin | ((options: O) => FrontPlugin);

/** The hub for a component; it renders again when another session is chosen. */
export function useHub(): Hub;

/**
 * State that outlives the component and any edit of it, until the page is loaded again. `useState` survives an edit
 * that keeps the component's hooks; this survives every one. Begin the key with the plugin's name.
 */
export function useKept<T>(key: string, initial: T): [T, (next: T) => void];

/** Open something by what it is; the resolver with the highest score says in which panel. Gives the panel's key. */
export function openSurface(request: SurfaceRequest): Promise<string>;
