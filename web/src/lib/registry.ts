// What is contributed to the page: panels, commands, catalogs, left tabs, surface resolvers, bindings,
// providers and tool renderers. The page's own views are the first owner; each front plugin is one more.
//
// An owner's outputs are replaced as a whole, in one step: readers never see half a plugin. Ids are
// unique per kind: the first owner in order keeps the plain id, a later one is `<owner>.<id>`, and the
// clash is reported to whoever replaced. Whatever the id, `<owner>.<id>` (the key) always finds it.
import type { ComponentType, ReactNode } from "react";
import { createStore, useStore } from "./store";
import type { Hub } from "./hub";

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
  /** Opened once per `params.key` instead of once. Only the page's own views use it. */
  many?: boolean;
}
export interface Command {
  id: string;
  title: string;
  shortcut?: string;
  /** The heading in the palette; default the owner's name. */
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
/** Wrapped round the whole page. */
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
export interface ToolRenderer {
  tool: string;
  component: ComponentType<{ call: ToolCall }>;
}

export interface Outputs {
  panels: Panel[];
  commands: Command[];
  catalogs: Catalog[];
  leftTabs: LeftTab[];
  surfaceResolvers: SurfaceResolver[];
  bindings: Binding[];
  providers: Provider[];
  toolRenderers: ToolRenderer[];
}
export type Kind = keyof Outputs;
export const kinds: Kind[] = [
  "panels", "commands", "catalogs", "leftTabs", "surfaceResolvers", "bindings", "providers", "toolRenderers",
];

/** An output with its owner. `id` is the one it has in the page, `key` is always `<owner>.<own id>`. */
export type Owned<T> = T & { owner: string; id: string; key: string };
export interface Conflict {
  kind: Kind;
  id: string;
  /** Who keeps the plain id. */
  first: string;
  /** Who is `<owner>.<id>` now. */
  other: string;
}

interface State {
  owners: ReadonlyMap<string, Partial<Outputs>>;
  lists: { [K in Kind]: Owned<Outputs[K][number]>[] };
  conflicts: Conflict[];
}

const ownId = (kind: Kind, output: object): string =>
  kind === "toolRenderers" ? (output as ToolRenderer).tool : (output as { id: string }).id;

function resolve(owners: ReadonlyMap<string, Partial<Outputs>>): State {
  const conflicts: Conflict[] = [];
  const lists = {} as Record<Kind, unknown[]>;
  for (const kind of kinds) {
    const taken = new Map<string, string>();
    const list: unknown[] = [];
    for (const [owner, outputs] of owners) {
      for (const output of outputs[kind] ?? []) {
        const own = ownId(kind, output);
        const first = taken.get(own);
        if (first === undefined) taken.set(own, owner);
        else conflicts.push({ kind, id: own, first, other: owner });
        const id = first === undefined ? own : `${owner}.${own}`;
        list.push({ ...output, owner, id, key: `${owner}.${own}` });
      }
    }
    lists[kind] = list;
  }
  return { owners, lists: lists as State["lists"], conflicts };
}

const state = createStore<State>(resolve(new Map()));
let held: Map<string, Partial<Outputs>> | null = null; // while a batch runs: what the owners will contribute

function change(fn: (owners: Map<string, Partial<Outputs>>) => void): void {
  const owners = held ?? new Map(state.get().owners);
  fn(owners);
  if (!held) state.set(resolve(owners));
}

export const registry = {
  subscribe: state.subscribe,
  owners: (): string[] => [...state.get().owners.keys()],
  conflicts: (): Conflict[] => state.get().conflicts,
  list: <K extends Kind>(kind: K): State["lists"][K] => state.get().lists[kind],
  /** By the id in the page or by key. */
  find<K extends Kind>(kind: K, id: string): State["lists"][K][number] | undefined {
    const list = state.get().lists[kind] as { id: string; key: string }[];
    const found = list.find((o) => o.id === id) ?? list.find((o) => o.key === id);
    return found as State["lists"][K][number] | undefined;
  },
  /** Replace all that `owner` contributes; an owner keeps its place in the order. Gives its conflicts. */
  replace(owner: string, outputs: Partial<Outputs>): Conflict[] {
    change((owners) => owners.set(owner, outputs));
    return state.get().conflicts.filter((c) => c.other === owner || c.first === owner);
  },
  remove(owner: string): void {
    if (state.get().owners.has(owner)) change((owners) => owners.delete(owner));
  },
  /** Make several changes one: readers see them together. Inside, what is read is what was there before. */
  batch(fn: () => void): void {
    held = new Map(state.get().owners);
    try {
      fn();
    } finally {
      const owners = held;
      held = null;
      state.set(resolve(owners));
    }
  },
};

/** The outputs of one kind, watched. */
export function useOutputs<K extends Kind>(kind: K): State["lists"][K] {
  return useStore(state, (s) => s.lists[kind]);
}
