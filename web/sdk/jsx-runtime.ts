// JSX of front plugins: React's own, with components that keep their state when their module is replaced.
import * as runtime from "react/jsx-runtime";
import { standInFor } from "../src/plugins/family";

type Make = (type: unknown, props: unknown, key?: string) => unknown;
const wrap = (make: unknown): Make => (type, props, key) => (make as Make)(standInFor(type), props, key);

export const Fragment = runtime.Fragment;
export const jsx = wrap(runtime.jsx);
export const jsxs = wrap(runtime.jsxs);
