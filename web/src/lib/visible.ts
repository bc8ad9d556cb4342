// Text that a person judges, with nothing hidden in it: what src/base/visible.c does for terminals.
//
// Characters of no width and marks of writing direction make a text read as another one. They are shown as escapes,
// never dropped. Emoji are made of parts that such characters join: between and after symbols these stay.

const SYMBOL = "[\\u203c-\\u205f\\u2070-\\u2bff\\u{1f000}-\\u{1faff}]";
const UNSEEN =
  "[\\0-\\x08\\x0b-\\x1f\\x7f-\\x9f\\xad\\u034f\\u061c\\u115f\\u1160\\u17b4\\u17b5\\u180b-\\u180f\\u200b-\\u200f\\u2028-\\u202e\\u2060-\\u206f" +
  "\\u3164\\ufe00-\\ufe0f\\ufeff\\uffa0\\ufff0-\\ufffb\\u{1bca0}-\\u{1bca3}\\u{1d173}-\\u{1d17a}\\u{e0000}-\\u{e0fff}]";
const PARTS = new RegExp(`(?<=${SYMBOL}\\ufe0f?)\\u200d(?=${SYMBOL})|(?<=${SYMBOL})[\\ufe0e\\ufe0f]|(?<hidden>\\r(?!\\n)|(?!\\r)${UNSEEN})`, "gu");

const hex = (n: number, digits: number): string => n.toString(16).padStart(digits, "0");
const escaped = (c: string): string =>
  c < " " ? `\\x${hex(c.charCodeAt(0), 2)}` : Array.from({ length: c.length }, (_, i) => `\\u${hex(c.charCodeAt(i), 4)}`).join("");

/** `text` with escapes for what is not seen; line ends and tabs stay. */
export const visible = (text: string): string => text.replace(PARTS, (part: string, hidden: string | undefined) => (hidden === undefined ? part : escaped(hidden)));
