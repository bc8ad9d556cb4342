// A value that components watch. Everything the page knows is in a handful of these; React only reads them.
import { useSyncExternalStore } from "react";

export interface Store<T> {
  get(): T;
  set(next: T | ((old: T) => T)): void;
  subscribe(fn: () => void): () => void;
}

export function createStore<T>(initial: T): Store<T> {
  let value = initial;
  const readers = new Set<() => void>();
  return {
    get: () => value,
    set(next) {
      const made = typeof next === "function" ? (next as (old: T) => T)(value) : next;
      if (Object.is(made, value)) return;
      value = made;
      for (const fn of [...readers]) fn();
    },
    subscribe(fn) {
      readers.add(fn);
      return () => readers.delete(fn);
    },
  };
}

/** The store's value, or a part of it. `select` must give the same object while nothing changed. */
export function useStore<T>(store: Store<T>): T;
export function useStore<T, S>(store: Store<T>, select: (value: T) => S): S;
export function useStore<T, S>(store: Store<T>, select?: (value: T) => S): T | S {
  return useSyncExternalStore<T | S>(store.subscribe, () => (select ? select(store.get()) : store.get()));
}

/** A store that the browser keeps for the next visit; a broken value gives the default. `shared`: pages that are open at once have one value. */
export function createKept<T>(key: string, initial: T, shared = false): Store<T> {
  const read = (): T => {
    try {
      return JSON.parse(localStorage.getItem(`afloat.${key}`) ?? "null") as T | null ?? initial;
    } catch {
      return initial; // a browser without storage forgets, nothing else
    }
  };
  const store = createStore(read());
  let told = false; // by another page: it is kept already
  if (shared) {
    window.addEventListener("storage", (e) => {
      if (e.key !== `afloat.${key}`) return;
      told = true;
      store.set(read());
      told = false;
    });
  }
  store.subscribe(() => {
    if (told) return;
    try {
      localStorage.setItem(`afloat.${key}`, JSON.stringify(store.get()));
    } catch {
      // the same
    }
  });
  return store;
}
