// The types for authors (afloat.d.ts) are those of the module itself (index.ts): each must fit the other.
import * as real from "./index";
import * as told from "afloat";

type Same<A, B> = A extends B ? (B extends A ? true : never) : never;
type Module<T> = { [K in keyof T]: T[K] };

export const functions: Same<keyof Module<typeof real>, keyof Module<typeof told>> = true;
export const plugin: Same<real.FrontPlugin, told.FrontPlugin> = true;
export const hub: Same<real.Hub, told.Hub> = true;
export const event: Same<real.HubEvent, told.HubEvent> = true;
export const life: Same<real.LifeEvent, told.LifeEvent> = true;
export const calls: [typeof told.useHub, typeof told.useKept, typeof told.openSurface, typeof told.definePlugin] =
  [real.useHub, real.useKept, real.openSurface, real.definePlugin];
