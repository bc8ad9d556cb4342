// Components of front plugins that stay who they are while their code is replaced.
//
// A new version of a module makes new functions, and to React another function is another component: everything
// below it would be thrown away, typed text and scroll included. So the page never renders a plugin's function
// itself, but a stand-in that calls the newest one. All versions of a component are one *family*, by plugin and name:
//
//     version 1: Chart ──┐                                   stand-in ──> slot.now = Chart of version 2
//     version 2: Chart ──┴─ family "demo/Chart" ── slot ──┘
//
// State is kept by React in the order of the hooks. A version that calls other hooks, or in another order, gets a new
// slot and stand-in, so React mounts it anew; that order is read from the function's text, with that of the
// plugin's own hooks in it. Effects and memos run again with each version, whatever their dependencies. Contexts are
// kept in the same way as components: a new version's context stands for the first one's.
//
// The names come from the module (`__afloat`, written by the hub's compiler); JSX and `useContext` of plugins go
// through `afloat/jsx-runtime` and `afloat/react`, which ask here. A plain .js module has no names: only what
// it contributes directly is kept.
import { useSyncExternalStore, type ComponentType, type Context, type ReactNode } from "react";

// eslint-disable-next-line @typescript-eslint/no-explicit-any
type Fn = (props: any) => ReactNode;
interface Slot {
  now: Fn;
  version: number;
  readers: Set<() => void>;
}
interface Family {
  signature: string;
  slot: Slot;
  standIn: Fn;
}

const families = new Map<string, Family>(); // "plugin/Name"
const ofType = new WeakMap<object, Family>(); // a function of any version
const firstContext = new Map<string, object>();
const canonical = new WeakMap<object, object>(); // a context of any version -> the first one

const CONTEXT = Symbol.for("react.context");
const kindOf = (v: unknown): unknown => (typeof v === "object" && v !== null ? (v as { $$typeof?: unknown }).$$typeof : undefined);
const isFunction = (v: unknown): v is Fn =>
  typeof v === "function" && !(v.prototype as { isReactComponent?: unknown } | undefined)?.isReactComponent && !/^class\b/.test(Function.prototype.toString.call(v));

/** The hooks that a function calls, in order, with what the plugin's own hooks call. */
export function signature(fn: unknown, names: Record<string, unknown>, seen: readonly unknown[] = []): string {
  const calls = Function.prototype.toString.call(fn).match(/\buse[A-Z]\w*(?=\s*\()/g) ?? [];
  return calls.map((name) => {
    const own = names[name];
    const inner = typeof own === "function" && own !== fn && !seen.includes(own) ? `(${signature(own, names, [...seen, fn])})` : "";
    return name.replace(/\d+$/, "") + inner;
  }).join(" ");
}

let rendering: Slot | null = null;

/** Dependencies of an effect or memo of a plugin: a new version of the component runs it again, with the new code. */
export function withVersion<T extends readonly unknown[] | null | undefined>(deps: T): T {
  return (deps && rendering ? [...deps, rendering.version] : deps) as T;
}

function newSlot(fn: Fn, name: string): Pick<Family, "slot" | "standIn"> {
  const slot: Slot = { now: fn, version: 0, readers: new Set() };
  const subscribe = (reader: () => void) => {
    slot.readers.add(reader);
    return () => void slot.readers.delete(reader);
  };
  const standIn: Fn = (props) => {
    useSyncExternalStore(subscribe, () => slot.version);
    const outer = rendering;
    rendering = slot;
    try {
      return slot.now(props);
    } finally {
      rendering = outer;
    }
  };
  Object.defineProperty(standIn, "name", { value: name });
  return { slot, standIn };
}

/** What takes over when a version is put in place; until then nothing is changed. */
export interface Adoption {
  /** The component to render for one of the version's own. */
  of<P>(component: ComponentType<P>, name: string): ComponentType<P>;
  /** Let the newest functions be called. */
  commit(): void;
}

/** Prepare a version of `plugin`. `fresh`: keep no state. `except`: components that stay as they are. */
export function adopt(plugin: string, names: Record<string, unknown>, fresh = false, except: ReadonlySet<unknown> = new Set()): Adoption {
  const joins: { key: string; fn: Fn; family: Family; now: boolean }[] = [];
  const found = new Map<unknown, Family>();
  const join = (name: string, fn: Fn): Family => {
    const key = `${plugin}/${name}`;
    const old = families.get(key);
    const made = signature(fn, names);
    const same = old !== undefined && old.signature === made && !fresh;
    const family = same ? old : { signature: made, ...newSlot(fn, name) };
    joins.push({ key, fn, family, now: same });
    found.set(fn, family);
    return family;
  };
  const contexts: [string, object][] = [];
  for (const [name, value] of Object.entries(names)) {
    if (kindOf(value) === CONTEXT) contexts.push([`${plugin}/${name}`, value as object]);
    else if (/^[A-Z]/.test(name) && isFunction(value) && !except.has(value)) join(name, value);
  }
  return {
    of: <P,>(component: ComponentType<P>, name: string) => {
      if (!isFunction(component)) return component;
      return (found.get(component) ?? join(name, component)).standIn as ComponentType<P>;
    },
    commit() {
      for (const [key, context] of contexts) {
        const first = firstContext.get(key) ?? context;
        firstContext.set(key, first);
        canonical.set(context, first);
      }
      const changed: Slot[] = [];
      for (const { key, fn, family, now } of joins) {
        families.set(key, family);
        ofType.set(fn, family);
        family.slot.now = fn;
        family.slot.version++;
        if (now) changed.push(family.slot);
      }
      for (const slot of changed) for (const reader of [...slot.readers]) reader();
    },
  };
}

/** The plugin is gone. */
export function forget(plugin: string): void {
  for (const map of [families, firstContext]) {
    for (const key of [...map.keys()]) if (key.startsWith(`${plugin}/`)) map.delete(key);
  }
}

/** What is rendered for a type of an element of a plugin. */
export function standInFor<T>(type: T): T {
  if (typeof type === "function") return (ofType.get(type)?.standIn ?? type) as T;
  if (kindOf(type) === CONTEXT) return contextFor(type as object) as T;
  return type;
}

export function contextFor<T extends object>(context: T): T {
  return (canonical.get(context) ?? context) as T;
}

/** For `useContext` and `use`, which take other things too. */
export const isContext = (v: unknown): v is Context<unknown> => kindOf(v) === CONTEXT;
