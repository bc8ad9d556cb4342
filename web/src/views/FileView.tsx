// A file in the editor. It follows the disk: while nothing was typed, a change by the agent shows at once;
// after typing it is offered, so that no edit is lost on either side. A file that is renamed in the tree keeps its
// editor, and one that was deleted can be saved again.
import { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
import { bracketMatching, defaultHighlightStyle, HighlightStyle, indentOnInput, StreamLanguage, syntaxHighlighting, type LanguageSupport } from "@codemirror/language";
import { highlightSelectionMatches, search, searchKeymap } from "@codemirror/search";
import { Compartment, EditorState, Transaction, type Extension } from "@codemirror/state";
import { drawSelection, EditorView, highlightActiveLine, highlightActiveLineGutter, highlightSpecialChars, keymap, lineNumbers } from "@codemirror/view";
import { unifiedMergeView } from "@codemirror/merge";
import { tags } from "@lezer/highlight";
import { useEffect, useRef, useState } from "react";
import { Icon } from "../components/Icon";
import { explain, Problem } from "../lib/client";
import { readFile, useWritten, writeFile, type TextFile } from "../lib/files";
import { baseName, languageOf } from "../lib/format";
import { styleNonce } from "../lib/nonce";
import type { PanelProps } from "../lib/registry";
import { toast } from "../lib/ui";

const colours = HighlightStyle.define([
  { tag: [tags.keyword, tags.bool, tags.null, tags.operatorKeyword], class: "hl-keyword" },
  { tag: [tags.string, tags.regexp, tags.special(tags.string)], class: "hl-string" },
  { tag: [tags.comment, tags.meta], class: "hl-comment" },
  { tag: [tags.number, tags.attributeName, tags.propertyName], class: "hl-number" },
  { tag: [tags.typeName, tags.className, tags.function(tags.variableName), tags.heading, tags.tagName], class: "hl-title" },
]);

const languages: Record<string, () => Promise<LanguageSupport | Extension>> = {
  c: () => import("@codemirror/lang-cpp").then((m) => m.cpp()),
  cpp: () => import("@codemirror/lang-cpp").then((m) => m.cpp()),
  css: () => import("@codemirror/lang-css").then((m) => m.css()),
  javascript: () => import("@codemirror/lang-javascript").then((m) => m.javascript({ jsx: true })),
  jsx: () => import("@codemirror/lang-javascript").then((m) => m.javascript({ jsx: true })),
  typescript: () => import("@codemirror/lang-javascript").then((m) => m.javascript({ typescript: true })),
  tsx: () => import("@codemirror/lang-javascript").then((m) => m.javascript({ jsx: true, typescript: true })),
  json: () => import("@codemirror/lang-json").then((m) => m.json()),
  markdown: () => import("@codemirror/lang-markdown").then((m) => m.markdown()),
  python: () => import("@codemirror/lang-python").then((m) => m.python()),
  xml: () => import("@codemirror/lang-html").then((m) => m.html()),
  lua: () => import("@codemirror/legacy-modes/mode/lua").then((m) => StreamLanguage.define(m.lua)),
  bash: () => import("@codemirror/legacy-modes/mode/shell").then((m) => StreamLanguage.define(m.shell)),
  toml: () => import("@codemirror/legacy-modes/mode/toml").then((m) => StreamLanguage.define(m.toml)),
  yaml: () => import("@codemirror/legacy-modes/mode/yaml").then((m) => StreamLanguage.define(m.yaml)),
  go: () => import("@codemirror/legacy-modes/mode/go").then((m) => StreamLanguage.define(m.go)),
  rust: () => import("@codemirror/legacy-modes/mode/rust").then((m) => StreamLanguage.define(m.rust)),
};

/** What ends the lines of a text. Where they end in several ways a CR is a character like others, and so each stays as it was. */
function lineEnd(text: string): string {
  if (!text.includes("\n")) return text.includes("\r") ? "\r" : "\n";
  return /(^|[^\r])\n|\r(?!\n)/.test(text) ? "\n" : "\r\n";
}

function goTo(v: EditorView, line: number): void {
  const at = v.state.doc.line(Math.min(line, v.state.doc.lines)).from;
  v.dispatch({ selection: { anchor: at }, effects: EditorView.scrollIntoView(at, { y: "center" }) });
}

export default function FileView({ params, setTitle }: PanelProps) {
  const dir = String(params.dir ?? "");
  const path = String(params.path ?? "");
  const line = typeof params.line === "number" ? params.line : null;
  const host = useRef<HTMLDivElement>(null);
  const view = useRef<EditorView | null>(null);
  const saved = useRef<string | null>(null); // what the file held when it was read or written last
  const stamp = useRef<string | undefined>(undefined); // of that, and of nothing newer: a save fails when another wrote meanwhile
  const diffing = useRef(new Compartment());
  const named = useRef(new Compartment()); // what depends on the file's name
  const ends = useRef(new Compartment()); // of lines
  const [dirty, setDirty] = useState(false);
  const [comparing, setComparing] = useState(false);
  const [loaded, setLoaded] = useState(false); // until then there is nothing to type in, or to save
  const [error, setError] = useState<string | null>(null);
  const [gone, setGone] = useState(false);
  const [newer, setNewer] = useState<TextFile | null>(null); // what the disk has, to be decided on
  const [saves, setSaves] = useState(0);
  const tick = useWritten(dir, path);

  const save = async () => {
    const text = view.current?.state.sliceDoc();
    if (text === undefined || saved.current === null) return;
    try {
      stamp.current = await writeFile(dir, path, text, stamp.current);
      saved.current = text;
      setDirty(view.current?.state.sliceDoc() !== text); // more may have been typed meanwhile
      setSaves((n) => n + 1);
      setNewer(null);
      setGone(false);
      toast(`Saved ${path}`, "success");
    } catch (e) {
      if (e instanceof Problem && e.code === "CONFLICT") await look(); // shows what is there now, and asks
      else toast(`Not saved: ${explain(e)}`, "error");
    }
  };
  const latest = useRef(save);
  latest.current = save;

  const replace = ({ text, stamp: of }: TextFile) => {
    const v = view.current;
    if (!v) return;
    const first = saved.current === null;
    saved.current = text;
    stamp.current = of;
    const top = v.scrollDOM.scrollTop;
    v.dispatch({ effects: ends.current.reconfigure(EditorState.lineSeparator.of(lineEnd(text))) });
    const doc = v.state.toText(text);
    const at = Math.min(v.state.selection.main.head, doc.length);
    v.dispatch({
      changes: { from: 0, to: v.state.doc.length, insert: doc }, selection: { anchor: at },
      annotations: first ? Transaction.addToHistory.of(false) : undefined, // undoing it would leave nothing
    });
    v.scrollDOM.scrollTop = top;
    setLoaded(true);
    setDirty(false);
    setNewer(null);
  };

  useEffect(() => setTitle(`${dirty ? "● " : ""}${baseName(path)}`), [path, dirty]);
  useEffect(() => {
    const made = new EditorView({
      parent: host.current!,
      state: EditorState.create({
        extensions: [
          EditorView.cspNonce.of(styleNonce()),
          lineNumbers(), highlightSpecialChars(), history(), drawSelection(), indentOnInput(), bracketMatching(), highlightActiveLine(), highlightActiveLineGutter(),
          highlightSelectionMatches(), search({ top: true }), named.current.of([]), ends.current.of([]), diffing.current.of([]),
          syntaxHighlighting(colours), syntaxHighlighting(defaultHighlightStyle, { fallback: true }),
          keymap.of([{ key: "Mod-s", preventDefault: true, run: () => { void latest.current(); return true; } }, indentWithTab, ...defaultKeymap, ...historyKeymap, ...searchKeymap]),
          EditorView.updateListener.of((u) => { if (u.docChanged) setDirty(u.state.sliceDoc() !== saved.current); }),
        ],
      }),
    });
    view.current = made;
    return () => { made.destroy(); view.current = null; saved.current = null; };
  }, []);
  useEffect(() => {
    let on = true;
    const name = (support: Extension) => {
      if (on) view.current?.dispatch({ effects: named.current.reconfigure([support, EditorView.contentAttributes.of({ "aria-label": path })]) });
    };
    name([]);
    void languages[languageOf(path)]?.().then(name);
    return () => { on = false; };
  }, [path]);

  /** Look at the disk: take what is new there, or offer it when something was typed. */
  const look = async (on = () => true): Promise<void> => {
    try {
      const file = await readFile(dir, path);
      const v = view.current;
      if (!on() || !v) return;
      setError(null);
      setGone(false);
      const first = saved.current === null;
      const mine = v.state.sliceDoc();
      if (!first && (file.text === saved.current || file.text === mine)) { // the second: our own save, told of before it was answered
        stamp.current = file.stamp;
        saved.current = file.text;
        setDirty(file.text !== mine);
        setNewer(null);
      } else if (first || mine === saved.current) replace(file);
      else setNewer(file);
      if (first && line) goTo(v, line);
    } catch (e) {
      if (!on()) return;
      const lost = e instanceof Problem && e.status === 404 && saved.current !== null;
      if (lost) stamp.current = ""; // a save makes it anew, unless another did
      setGone(lost);
      setError(lost ? null : explain(e));
    }
  };
  useEffect(() => {
    let on = true;
    void look(() => on);
    return () => { on = false; };
  }, [dir, path, tick]);

  useEffect(() => {
    const v = view.current;
    if (v && line && saved.current !== null) goTo(v, line);
  }, [line]);

  useEffect(() => {
    const other = newer?.text ?? saved.current ?? "";
    view.current?.dispatch({ effects: diffing.current.reconfigure(comparing && dirty ? unifiedMergeView({ original: other, mergeControls: false }) : []) });
  }, [comparing, newer, dirty, saves]); // a save leaves nothing to compare but what was typed during it

  return (
    <div className="view">
      <header className="view-head">
        <h2 className="mono" title={`${dir}/${path}`}>{path}</h2><span className="grow" />
        {dirty && <button type="button" className="button" aria-pressed={comparing} onClick={() => setComparing(!comparing)}>Compare</button>}
        {loaded && <button type="button" className="button primary" disabled={!dirty && !gone} onClick={() => void save()}>Save</button>}
      </header>
      {gone && <p className="banner" role="alert"><Icon name="warning" /> The file is gone from the disk. Save writes it again.</p>}
      {error && <p className="banner error" role="alert">{error}</p>}
      {newer !== null && (
        <div className="banner" role="alert"><Icon name="warning" /> <span className="grow">The file changed on disk while you typed.</span>
          <button type="button" className="button" onClick={() => { replace(newer); setComparing(false); }}>Take the disk's</button>
          <button type="button" className="button" onClick={() => { saved.current = newer.text; stamp.current = newer.stamp; setNewer(null); setDirty(true); }}>Keep mine</button>
        </div>
      )}
      <div className="editor-host" ref={host} hidden={!loaded} />
    </div>
  );
}
