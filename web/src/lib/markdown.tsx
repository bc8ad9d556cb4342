// Markdown as React elements. There is no HTML in between: marked gives tokens, each becomes an element
// made here, and raw HTML in the text is shown as the text it is. So nothing that a model writes can
// become markup, whatever it says.
//
// Links show where they lead and open in a new tab; only http, https and mailto are links at all. Images
// are never fetched: they become a link with their description. Each block is written from the side that its first
// letter asks for.
import { Lexer, type Token, type Tokens } from "marked";
import { memo, type ReactNode, useMemo } from "react";
import { Code } from "../components/Code";

const SAFE = /^(https?:|mailto:)/i;

function href(raw: string): string | null {
  try {
    const url = new URL(raw, "invalid:/");
    return SAFE.test(url.protocol) ? url.href : null;
  } catch {
    return null;
  }
}

function Link({ to, title, children }: { to: string; title?: string | null; children: ReactNode }) {
  const url = href(to);
  if (!url) return <span title={to}>{children}</span>;
  return <a href={url} title={title || url} target="_blank" rel="noreferrer noopener">{children}</a>;
}

const ENTITIES: Record<string, string> = { amp: "&", lt: "<", gt: ">", quot: '"', "#39": "'", nbsp: "\u00a0" };
/** marked leaves entities in text; a reader wants the characters. */
const plain = (text: string): string => text.replace(/&(amp|lt|gt|quot|#39|nbsp);/g, (all, name: string) => ENTITIES[name] ?? all);

function inline(tokens: Token[] | undefined): ReactNode[] {
  return (tokens ?? []).map((token, key) => {
    switch (token.type) {
      case "strong": return <strong key={key}>{inline(token.tokens)}</strong>;
      case "em": return <em key={key}>{inline(token.tokens)}</em>;
      case "del": return <del key={key}>{inline(token.tokens)}</del>;
      case "codespan": return <code key={key} dir="ltr">{(token as Tokens.Codespan).text}</code>;
      case "br": return <br key={key} />;
      case "link": {
        const link = token as Tokens.Link;
        return <Link key={key} to={link.href} title={link.title}>{inline(link.tokens)}</Link>;
      }
      case "image": {
        const image = token as Tokens.Image;
        return <Link key={key} to={image.href} title={image.title}>{`[image: ${image.text || image.href}]`}</Link>;
      }
      case "checkbox": return <input key={key} type="checkbox" checked={(token as Tokens.Checkbox).checked} readOnly aria-label="step" />;
      case "escape": return <span key={key}>{(token as Tokens.Escape).text}</span>;
      case "text": return "tokens" in token && token.tokens ? inline(token.tokens) : plain((token as Tokens.Text).text);
      default: return token.raw;
    }
  });
}

function List({ token }: { token: Tokens.List }) {
  const items = token.items.map((item, key) => (
    <li key={key} dir="auto" className={item.task ? "task" : undefined}>{blocks(item.tokens)}</li>
  ));
  return token.ordered ? <ol start={token.start === "" ? 1 : token.start}>{items}</ol> : <ul>{items}</ul>;
}

function Table({ token }: { token: Tokens.Table }) {
  return (
    <div className="table" tabIndex={0} role="group" aria-label="table">
      <table>
        <thead><tr>{token.header.map((c, i) => <th key={i} dir="auto" data-align={c.align ?? undefined}>{inline(c.tokens)}</th>)}</tr></thead>
        <tbody>
          {token.rows.map((row, r) => <tr key={r}>{row.map((c, i) => <td key={i} dir="auto" data-align={c.align ?? undefined}>{inline(c.tokens)}</td>)}</tr>)}
        </tbody>
      </table>
    </div>
  );
}

function block(token: Token): ReactNode {
  switch (token.type) {
    case "space": case "def": return null;
    case "heading": {
      // below the page's own headings, whatever the text claims
      const depth = Math.min(6, (token as Tokens.Heading).depth + 2);
      return <div role="heading" dir="auto" aria-level={depth} className={`h h${(token as Tokens.Heading).depth}`}>{inline(token.tokens)}</div>;
    }
    case "paragraph": return <p dir="auto">{inline(token.tokens)}</p>;
    case "text": return <>{inline(token.tokens ?? [token])}</>;
    case "checkbox": return <>{inline([token])}</>;
    case "code": return <Code text={(token as Tokens.Code).text} lang={(token as Tokens.Code).lang ?? ""} />;
    case "blockquote": return <blockquote>{blocks(token.tokens ?? [])}</blockquote>;
    case "list": return <List token={token as Tokens.List} />;
    case "table": return <Table token={token as Tokens.Table} />;
    case "hr": return <hr />;
    default: return <p dir="auto">{token.raw}</p>;
  }
}

const blocks = (tokens: Token[]): ReactNode[] => tokens.map((t, key) => <Block key={key} token={t} />);

/** A block renders again only when its text changed: while an answer streams, that is its last one. */
const Block = memo(({ token }: { token: Token }) => block(token), (a, b) => a.token.raw === b.token.raw && a.token.type === b.token.type);

/** marked calls itself for each quote inside a quote: thousands are more than the stack holds. */
function lex(text: string): Token[] | null {
  try {
    return new Lexer({ gfm: true }).lex(text);
  } catch {
    return null;
  }
}

export const Markdown = memo(function Markdown({ text }: { text: string }) {
  const tokens = useMemo(() => lex(text), [text]);
  return <div className="md">{tokens ? blocks(tokens) : <p dir="auto" className="unread">{text}</p>}</div>;
});
