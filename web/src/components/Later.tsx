// Components whose code is loaded with their first use.
//
// React's own lazy() is not used for the page's parts: once it has shown a fallback it waits 300 ms before it shows
// what was loaded, however soon that came. Here a part is drawn as soon as its code is there.
import { createElement, useEffect, useReducer, useState, type ComponentType } from "react";

export function later<P extends object>(load: () => Promise<ComponentType<P>>): ComponentType<P> {
  let made: ComponentType<P> | null = null;
  return function Later(props: P) {
    const [, show] = useReducer((n: number) => n + 1, 0);
    const [failed, setFailed] = useState(false);
    useEffect(() => {
      let on = true;
      if (!made) load().then((m) => { made = m; if (on) show(); }, () => { if (on) setFailed(true); });
      return () => { on = false; };
    }, []);
    if (made) return createElement(made, props);
    return failed ? <Missing /> : <p className="loading">Loading</p>;
  };
}

/** A browser does not ask again for a module that it could not load: only loading the page again helps. */
const Missing = () => (
  <div className="error-card" role="alert">
    <strong>This part of the page could not be loaded</strong>
    <p>The hub was away, or it was upgraded and has other files now. What you typed stays.</p>
    <button type="button" className="button" onClick={() => location.reload()}>Reload page</button>
  </div>
);
