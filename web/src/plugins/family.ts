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
// A memo and a forwardRef are stand-ins round those of what they wrap. A class keeps its instances: their prototype
// is exchanged, so they have the new methods and their old state; what the constructor set stays. A lazy component
// loads the newest version's module behind the one that is shown; that is a component of a family like any other.
//
// The names come from the module (`__afloat`, written by the hub's compiler); JSX and `useContext` of plugins go
// through `afloat/jsx-runtime` and `afloat/react`, which ask here. A plain .js module has no names: only what
// it contributes directly is kept.
import { createElement, lazy, memo, useEffect, useSyncExternalStore, type Component, type ComponentType, type Context, type ReactNode } from "react";

// eslint-disable-next-line @typescript-eslint/no-explicit-any
type Fn = (props: any) => ReactNode;
// eslint-disable-next-line @typescript-eslint/no-explicit-any
type Class = new (props: any) => Component;
/** What the newest version is: a function to call, a class to make, how a memo compares. */
interface Slot<T = unknown> {
  now: T;
  version: number;
  readers: Set<() => void>; // each renders one that is mounted
}
interface Family {
  signature: string;
  slot: Slot;
  standIn: unknown;
}

const families = new Map<string, Family>(); // "plugin/Name"
const ofType = new WeakMap<object, Family>(); // a function of any version
const firstContext = new Map<string, object>();
const canonical = new WeakMap<object, object>(); // a context of any version -> the first one

const [CONTEXT, MEMO, FORWARD] = ["react.context", "react.memo", "react.forward_ref"].map((n) => Symbol.for(n));
const kindOf = (v: unknown): unknown => (typeof v === "object" && v !== null ? (v as { $$typeof?: unknown }).$$typeof : undefined);
const isClass = (v: unknown): v is Class =>
  typeof v === "function" && (Boolean((v.prototype as { isReactComponent?: unknown } | undefined)?.isReactComponent) || /^class\b/.test(Function.prototype.toString.call(v)));
const isComponent = (v: unknown): boolean => typeof v === "function" || kindOf(v) === MEMO || kindOf(v) === FORWARD || loads.has(v as object);

type Load = () => Promise<{ default: unknown }>;
const loads = new WeakMap<object, Load>(); // a lazy component of a plugin -> how it is loaded

/** `lazy` for plugins. */
export function lazyOf(load: Load): object {
  const made = lazy(load as () => Promise<{ default: ComponentType }>);
  loads.set(made, load);
  return made;
}

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

const newSlot = <T,>(now: T): Slot<T> => ({ now, version: 0, readers: new Set() });
const named = <T extends object>(standIn: T, name: string): T => Object.defineProperty(standIn, "name", { value: name });

const subscriber = (slot: Slot) => (reader: () => void) => {
  slot.readers.add(reader);
  return () => void slot.readers.delete(reader);
};

function functionFamily(fn: Fn, signature: string, name: string): Family {
  const slot = newSlot(fn);
  const subscribe = subscriber(slot);
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
  return { signature, slot, standIn: named(standIn, name) };
}

/** Instances are of the stand-in, whose prototype leads to the newest class. */
function classFamily(made: Class, name: string): Family {
  const slot = newSlot(made);
  const renders = new WeakMap<Component, () => void>();
  function StandIn(props: unknown): Component {
    return Reflect.construct(slot.now, [props], StandIn) as Component;
  }
  const own = {
    componentDidMount(this: Component) {
      const render = () => this.forceUpdate();
      renders.set(this, render);
      slot.readers.add(render);
      slot.now.prototype.componentDidMount?.call(this);
    },
    componentWillUnmount(this: Component) {
      slot.readers.delete(renders.get(this)!);
      slot.now.prototype.componentWillUnmount?.call(this);
    },
  };
  StandIn.prototype = Object.assign(Object.create(made.prototype as object) as object, own);
  Object.defineProperty(StandIn, "contextType", { get: () => (isContext((slot.now as { contextType?: unknown }).contextType) ? contextFor((slot.now as unknown as { contextType: object }).contextType) : undefined) });
  Object.setPrototypeOf(StandIn, made);
  return { signature: "class", slot, standIn: named(StandIn, name) };
}

type Props = Record<string, unknown>;
interface Lazy {
  load: Load;
  /** The stand-in for what was loaded. */
  standInOf(component: unknown): ComponentType<Props>;
}

/** The first module is waited for as React does; those of later versions are loaded while the old one is shown. */
function lazyFamily(newest: Lazy, name: string): Family {
  const slot = newSlot(newest);
  const subscribe = subscriber(slot);
  let followed: Lazy | null = null; // the version that `shown` is of
  let shown: ComponentType<Props>;
  const follow = async (): Promise<ComponentType<Props>> => {
    const now = slot.now;
    const module = await now.load();
    if (now !== slot.now) return follow(); // a newer version came meanwhile
    followed = now;
    return now.standInOf(module.default);
  };
  const first = lazy(async () => ({ default: (shown = await follow()) }));
  shown = first as unknown as ComponentType<Props>;
  let root = shown;
  const standIn: Fn = (props: Props) => {
    const version = useSyncExternalStore(subscribe, () => slot.version);
    useEffect(() => {
      if (followed === null || followed === slot.now) return;
      const failed = (e: unknown) => () => { throw e; }; // for the boundary round it
      void follow().catch(failed).then((made) => {
        if (made === shown) return;
        root = shown = made; // its hooks are others
        slot.version++;
        for (const reader of [...slot.readers]) reader();
      });
    }, [version]);
    return createElement(root, props);
  };
  return { signature: "lazy", slot, standIn: named(standIn, name) };
}

type Compare = (a: Props, b: Props) => boolean;
const shallow: Compare = (a, b) => Object.keys(a).length === Object.keys(b).length && Object.keys(a).every((k) => Object.is(a[k], b[k]));

/** What takes over when a version is put in place; until then nothing is changed. */
export interface Adoption {
  /** The component to render for one of the version's own. */
  of<P>(component: ComponentType<P>, name: string): ComponentType<P>;
  /** Let the newest functions be called. */
  commit(): void;
}

/** Prepare a version of `plugin`. `fresh`: keep no state. `except`: components that stay as they are. */
export function adopt(plugin: string, names: Record<string, unknown>, fresh = false, except: ReadonlySet<unknown> = new Set()): Adoption {
  const joins: { key: string; from: object; now: unknown; family: Family; kept: boolean }[] = [];
  const found = new Map<unknown, Family>();
  /** The family of a component: the one of before when its signature is the same, else a new one. */
  const join = (name: string, from: object, now: unknown, made: string, make: () => Family): Family => {
    const key = `${plugin}/${name}`;
    const old = families.get(key);
    const kept = old !== undefined && old.signature === made && !fresh;
    const family = kept ? old : make();
    joins.push({ key, from, now, family, kept });
    found.set(from, family);
    return family;
  };
  const familyOf = (name: string, component: unknown): Family => {
    const there = found.get(component);
    if (there) return there;
    if (isClass(component)) return join(name, component, component, "class", () => classFamily(component, name));
    if (typeof component === "function") {
      const made = signature(component, names);
      return join(name, component, component, made, () => functionFamily(component as Fn, made, name));
    }
    if (kindOf(component) === FORWARD) {
      const { render } = component as { render(props: Props, ref: unknown): ReactNode };
      const fn: Fn = ({ ref, ...props }: Props) => render(props, ref ?? null);
      const made = `ref ${signature(render, names)}`;
      return join(name, component as object, fn, made, () => functionFamily(fn, made, name));
    }
    if (loads.has(component as object)) {
      const standInOf = (loaded: unknown) => {
        const there = ofType.get(loaded as object);
        if (there) return there.standIn as ComponentType<Props>;
        const one = adopt(plugin, names, false, new Set(Object.values(names))); // only what was loaded
        const made = one.of(loaded as ComponentType<Props>, `${name}/lazy`);
        one.commit();
        return made;
      };
      const now: Lazy = { load: loads.get(component as object)!, standInOf };
      return join(name, component as object, now, "lazy", () => lazyFamily(now, name));
    }
    const { type, compare } = component as { type: unknown; compare: Compare | null };
    const inner = familyOf(`${name}/memo`, type);
    const made = `memo ${inner.signature}`;
    const old = families.get(`${plugin}/${name}`);
    const slot = newSlot<Compare>(compare ?? shallow);
    // another stand-in inside is another memo
    const same = old && (old.standIn as { type?: unknown }).type === inner.standIn ? made : `${made} anew`;
    return join(name, component as object, compare ?? shallow, same, () =>
      ({ signature: made, slot, standIn: memo(inner.standIn as ComponentType<Props>, (a, b) => slot.now(a, b)) }));
  };
  const contexts: [string, object][] = [];
  const wrapped: [string, unknown][] = [];
  for (const [name, value] of Object.entries(names)) {
    if (kindOf(value) === CONTEXT) contexts.push([`${plugin}/${name}`, value as object]);
    else if (!/^[A-Z]/.test(name) || except.has(value) || !isComponent(value)) continue;
    else if (typeof value === "function") familyOf(name, value);
    else wrapped.push([name, value]);
  }
  for (const [name, value] of wrapped) familyOf(name, value); // after what they wrap
  return {
    of: <P,>(component: ComponentType<P>, name: string) => {
      return isComponent(component) ? (familyOf(name, component).standIn as ComponentType<P>) : component;
    },
    commit() {
      for (const [key, context] of contexts) {
        const first = firstContext.get(key) ?? context;
        firstContext.set(key, first);
        canonical.set(context, first);
      }
      const changed: Slot[] = [];
      for (const { key, from, now, family, kept } of joins) {
        families.set(key, family);
        ofType.set(from, family);
        family.slot.now = now;
        family.slot.version++;
        if (family.signature === "class") {
          Object.setPrototypeOf((family.standIn as Class).prototype, (now as Class).prototype as object);
          Object.setPrototypeOf(family.standIn, now as object);
        }
        if (kept) changed.push(family.slot);
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
  if (kindOf(type) === CONTEXT) return contextFor(type as object) as T;
  return isComponent(type) ? ((ofType.get(type as object)?.standIn ?? type) as T) : type;
}

export function contextFor<T extends object>(context: T): T {
  return (canonical.get(context) ?? context) as T;
}

/** For `useContext` and `use`, which take other things too. */
export const isContext = (v: unknown): v is Context<unknown> => kindOf(v) === CONTEXT;
