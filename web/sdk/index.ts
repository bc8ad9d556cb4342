// The module `afloat` that front plugins import.
import { useCallback, useSyncExternalStore } from "react";
import type { Outputs } from "../src/lib/registry";

export { useHub, type Hub, type HubEvent } from "../src/lib/hub";
export { openSurface } from "../src/plugins/surface";
export type {
  Binding, Catalog, CatalogItem, Command, LeftTab, Panel, PanelProps, Placement, Provider, Surface, SurfaceRequest,
  SurfaceResolver, ToolCall, ToolRenderer,
} from "../src/lib/registry";

/** Why a plugin starts or ends. */
export interface LifeEvent {
  type: "plugin_start" | "plugin_shutdown";
  reason: "start" | "reload" | "remove";
}

/** What a front plugin contributes; everything may be left out. */
export interface FrontPlugin extends Partial<Outputs> {
  on?: {
    plugin_start?(event: LifeEvent): unknown;
    plugin_shutdown?(event: LifeEvent): unknown;
  };
}

/** The default export of a front plugin: what it contributes, or a function of its entry's options that says it. */
export function definePlugin<O = Record<string, unknown>>(plugin: FrontPlugin | ((options: O) => FrontPlugin)): FrontPlugin | ((options: O) => FrontPlugin) {
  return plugin;
}

const kept = new Map<string, unknown>();
const readers = new Set<() => void>();
const subscribe = (fn: () => void) => {
  readers.add(fn);
  return () => void readers.delete(fn);
};

/**
 * State that outlives the component and any edit of it, until the page is loaded again. `useState` survives an edit
 * that keeps the component's hooks; this survives every one. Begin the key with the plugin's name.
 */
export function useKept<T>(key: string, initial: T): [T, (next: T) => void] {
  const value = useSyncExternalStore(subscribe, () => (kept.has(key) ? (kept.get(key) as T) : initial));
  const set = useCallback((next: T) => {
    kept.set(key, next);
    for (const fn of [...readers]) fn();
  }, [key]);
  return [value, set];
}
