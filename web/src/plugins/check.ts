// Is what a module exports a front plugin? Checked whole before anything of it is used.
import { isValidElement } from "react";
import type { FrontPlugin } from "../../sdk";
import { kinds, type Kind } from "../lib/registry";

const isComponent = (v: unknown): boolean =>
  typeof v === "function" || (typeof v === "object" && v !== null && "$$typeof" in v);
const isFunction = (v: unknown): boolean => typeof v === "function";
const isText = (v: unknown): boolean => typeof v === "string" && v !== "";
const isPlain = (v: unknown): boolean => v === undefined || v === null || typeof v === "string";
/** What React draws, as far as one sees that without drawing it. */
const isDrawn = (v: unknown): boolean => isPlain(v) || typeof v === "number" || typeof v === "boolean" || Array.isArray(v) || isValidElement(v);

type Check = [field: string, ok: (v: unknown) => boolean, what: string];
const component: Check = ["component", isComponent, "a component"];
const title: Check = ["title", isText, "a text"];
const must: Record<Kind, Check[]> = {
  panels: [title, component],
  commands: [title, ["run", isFunction, "a function"], ["shortcut", isPlain, "a text"], ["group", isPlain, "a text"]],
  catalogs: [title, ["search", isFunction, "a function"], ["onSelect", isFunction, "a function"]],
  leftTabs: [title, ["icon", isDrawn, "an element or a text, like <Star />"], component],
  surfaceResolvers: [["kind", isText, "a text"], ["resolve", isFunction, "a function"]],
  bindings: [component],
  providers: [component],
  toolRenderers: [component],
};
const placements = ["center", "left", "right", "bottom", undefined];

/** The plugin, or an exception that names what is wrong. */
export function checkPlugin(exported: unknown, options: unknown): FrontPlugin {
  const made: unknown = typeof exported === "function" ? (exported as (o: unknown) => unknown)(options) : exported;
  if (typeof made !== "object" || made === null || Array.isArray(made)) {
    throw new Error("the module has no default export made by definePlugin()");
  }
  const plugin = made as Record<string, unknown>;
  for (const name of Object.keys(plugin)) {
    if (name !== "on" && !kinds.includes(name as Kind)) throw new Error(`'${name}' is not an output: there are ${kinds.join(", ")}, on`);
  }
  for (const kind of kinds) {
    const list = plugin[kind];
    if (list === undefined) continue;
    if (!Array.isArray(list)) throw new Error(`'${kind}' must be a list`);
    const seen = new Set<unknown>();
    list.forEach((output: Record<string, unknown> | null, i) => {
      const at = `${kind}[${i}]`;
      const name = kind === "toolRenderers" ? "tool" : "id";
      const id = output?.[name];
      if (typeof id !== "string" || !/^[\w.:-]{1,128}$/.test(id)) throw new Error(`${at}: '${name}' must be letters, digits, '-', '_', '.' or ':'`);
      if (seen.has(id)) throw new Error(`${at}: '${id}' is there twice`);
      seen.add(id);
      for (const [field, ok, what] of must[kind]) if (!ok(output![field])) throw new Error(`${at} '${id}': '${field}' must be ${what}`);
      if (kind === "panels" && !placements.includes(output!.placement as string)) throw new Error(`${at} '${id}': 'placement' is center, left, right or bottom`);
    });
  }
  return plugin as FrontPlugin;
}
