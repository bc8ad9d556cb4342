// `react` as compiled front plugins get it: the page's own copy, with components and contexts that stay the same over
// a swap. A plain .js module imports the page's `react` itself.
import React from "react";
import { contextFor, isContext, lazyOf, standInFor, withVersion } from "../src/plugins/family";

export const createElement = ((type: unknown, ...rest: unknown[]) =>
  (React.createElement as (...all: unknown[]) => unknown)(standInFor(type), ...rest)) as typeof React.createElement;
export const useContext = ((context) => React.useContext(contextFor(context))) as typeof React.useContext;
export const use = ((what: unknown) =>
  (React.use as (what: unknown) => unknown)(isContext(what) ? contextFor(what) : what)) as typeof React.use;

export const lazy = lazyOf as unknown as typeof React.lazy;

type Effect = typeof React.useEffect;
const versioned = (hook: Effect): Effect => (effect, deps) => hook(effect, withVersion(deps));
export const useEffect = versioned(React.useEffect);
export const useLayoutEffect = versioned(React.useLayoutEffect);
export const useInsertionEffect = versioned(React.useInsertionEffect);
export const useMemo = ((make, deps) => React.useMemo(make, withVersion(deps))) as typeof React.useMemo;
export const useCallback = ((fn, deps) => React.useCallback(fn, withVersion(deps))) as typeof React.useCallback;
export const useImperativeHandle = ((ref, make, deps) =>
  React.useImperativeHandle(ref, make, withVersion(deps))) as typeof React.useImperativeHandle;

export const {
  Activity, Children, Component, Fragment, Profiler, PureComponent, StrictMode, Suspense, act, cache, cacheSignal, captureOwnerStack,
  cloneElement, createContext, createRef, forwardRef, isValidElement, memo, startTransition, useActionState,
  useDebugValue, useDeferredValue, useEffectEvent, useId,
  useOptimistic, useReducer, useRef, useState, useSyncExternalStore, useTransition, version,
} = React as unknown as Record<string, unknown>;

export default {
  ...React, createElement, useContext, use, lazy, useEffect, useLayoutEffect, useInsertionEffect, useMemo, useCallback, useImperativeHandle,
};
