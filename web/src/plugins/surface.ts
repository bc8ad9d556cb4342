// Open something by what it is: `{kind: "file", target: "src/main.c"}`. Resolvers of that kind say which panel they would
// open, and how sure they are; the highest score wins, the first in load order among equals.
import { callFailed } from "../components/Boundary";
import { within } from "../lib/client";
import { registry, type Surface, type SurfaceRequest } from "../lib/registry";
import { openPanel } from "../lib/ui";

const RESOLVE_MS = 1000; // whoever asks waits for the slowest

export interface Resolved extends Surface {
  resolver: string;
}

export async function resolveSurface(request: SurfaceRequest): Promise<Resolved | null> {
  const asked = registry.list("surfaceResolvers").filter((r) => r.kind === request.kind);
  const answers = await Promise.all(asked.map(async (r): Promise<Resolved | null> => {
    try {
      const found = await within(Promise.resolve(r.resolve(request)), RESOLVE_MS, `no answer after ${RESOLVE_MS / 1000} s`);
      return found && typeof found.panel === "string" ? { ...found, resolver: r.key } : null;
    } catch (e) {
      callFailed(r.owner, `surface resolver ${r.id}`, e);
      return null;
    }
  }));
  return answers.reduce<Resolved | null>((best, a) => (a && (!best || (a.score ?? 0) > (best.score ?? 0)) ? a : best), null);
}

/** Open it. The key of the panel, or an exception that says why there is none. */
export async function openSurface(request: SurfaceRequest): Promise<string> {
  const found = await resolveSurface(request);
  if (!found) throw new Error(`nothing here opens '${request.kind}'`);
  const panel = registry.find("panels", found.panel);
  if (!panel) throw new Error(`${found.resolver} names the panel '${found.panel}', which is not there`);
  openPanel(panel.key, found.params ?? {});
  return panel.key;
}
