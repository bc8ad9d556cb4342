import { Component, type ReactNode } from "react";

export type FrontFailure = (owner: string, what: string, error: Error) => void;
let report: FrontFailure = () => undefined;
/** Whoever keeps front plugins wants to know what failed while it was rendered. */
export function onFrontFailure(fn: FrontFailure): void {
  report = fn;
}

interface Props {
  what: string;
  owner: string;
  /** A new value gives the content another chance: the revision of what is inside. */
  reset?: unknown;
  children: ReactNode;
}

/** Keeps what fails inside from taking the page with it, and shows an error card in its place. */
export class Boundary extends Component<Props, { error: Error | null }> {
  override state: { error: Error | null } = { error: null };
  static getDerivedStateFromError(error: unknown): { error: Error } {
    return { error: error instanceof Error ? error : new Error(String(error)) };
  }
  override componentDidCatch(error: Error): void {
    report(this.props.owner, this.props.what, error);
  }
  override componentDidUpdate(before: Props): void {
    if (this.state.error && before.reset !== this.props.reset) this.setState({ error: null });
  }
  override render(): ReactNode {
    const { error } = this.state;
    if (!error) return this.props.children;
    return (
      <div className="error-card" role="alert">
        <strong>{this.props.what} failed</strong>
        <pre tabIndex={0}>{error.message}</pre>
        <button type="button" className="button" onClick={() => this.setState({ error: null })}>Try again</button>
      </div>
    );
  }
}
