import { Component, type ReactNode } from "react";
import { toast } from "../lib/ui";

export type FrontFailure = (owner: string, what: string, error: Error, rendering: boolean) => void;
let report: FrontFailure = () => undefined;
/** Whoever keeps front plugins wants to know what failed of them: while it was rendered, or when it was called. */
export function onFrontFailure(fn: FrontFailure): void {
  report = fn;
}

/** What React's short messages mean, for those that authors of plugins meet. */
const meanings: Record<string, string> = {
  31: "objects are not valid as a React child", 130: "a component is not defined: is it imported and exported by the right name?",
  185: "too many updates: an effect or a render sets state each time", 300: "fewer hooks than in the render before",
  301: "too many renders: state is set while rendering", 310: "more hooks than in the render before", 321: "a hook was called outside a component",
};
const readable = (error: Error): Error => {
  const meaning = meanings[/React error #(\d+)/.exec(error.message)?.[1] ?? ""];
  return meaning ? new Error(meaning, { cause: error }) : error;
};

/** Something of `owner` failed when it was called. The page's own says so itself; of a plugin the hub is told, and all pages show it. */
export function callFailed(owner: string, what: string, e: unknown): void {
  const error = e instanceof Error ? e : new Error(e === null || e === undefined ? "it gave no reason" : String(e));
  if (owner === "afloat") toast(error.message, "error");
  else report(owner, what, error, false);
}

interface Props {
  what: string;
  owner: string;
  /** A new value gives the content another chance: the revision of what is inside. */
  reset?: unknown;
  /** What to show when it fails; an error card when left out. */
  instead?: ReactNode;
  children: ReactNode;
}

/** Keeps what fails inside from taking the page with it. */
export class Boundary extends Component<Props, { error: Error | null }> {
  override state: { error: Error | null } = { error: null };
  static getDerivedStateFromError(error: unknown): { error: Error } {
    return { error: error instanceof Error ? readable(error) : new Error(String(error)) };
  }
  override componentDidCatch(): void {
    if (this.state.error) report(this.props.owner, this.props.what, this.state.error, true);
  }
  override componentDidUpdate(before: Props): void {
    if (this.state.error && before.reset !== this.props.reset) this.setState({ error: null });
  }
  override render(): ReactNode {
    const { error } = this.state;
    if (!error) return this.props.children;
    if (this.props.instead !== undefined) return this.props.instead;
    return (
      <div className="error-card" role="alert">
        <strong>{this.props.what} failed</strong>
        <pre tabIndex={0}>{error.message}</pre>
        <button type="button" className="button" onClick={() => this.setState({ error: null })}>Try again</button>
      </div>
    );
  }
}
