// The page's icons: strokes on a 16 px grid, drawn for it.
export const iconPaths = {
  plus: "M8 3v10M3 8h10",
  search: "M7 12A5 5 0 1 0 7 2a5 5 0 0 0 0 10zM10.7 10.7 14 14",
  send: "M2.5 8h10M8.5 4l4 4-4 4",
  stop: "M4.5 4.5h7v7h-7z",
  copy: "M5.5 5.5h7v8h-7zM3.5 10.5v-8h7",
  check: "M3 8.5 6.5 12 13 4.5",
  close: "M4 4l8 8M12 4l-8 8",
  at: "M10.5 8a2.5 2.5 0 1 1-5 0 2.5 2.5 0 0 1 5 0zM10.5 5.5V9c0 2.6 3.5 1.8 3.5-1.5A6 6 0 1 0 11.5 12.8",
  more: "M3 8h1M7.5 8h1M12 8h1",
  chevron: "M6 4l4 4-4 4",
  down: "M4 6l4 4 4-4",
  folder: "M2 4.5v8h12v-7H8L6.5 3.5H2z",
  file: "M4 2h5l3 3v9H4zM9 2v3h3",
  plug: "M6 2v4M10 2v4M4 6h8v2a4 4 0 0 1-8 0zM8 12v2",
  bot: "M3 6h10v7H3zM8 6V3M6 9.2v.6M10 9.2v.6",
  chat: "M2.5 3h11v8h-6l-3 2.5V11h-2z",
  terminal: "M2 3h12v10H2zM4.5 6l2 2-2 2M8.5 10h3",
  gear: "M8 10.2a2.2 2.2 0 1 0 0-4.4 2.2 2.2 0 0 0 0 4.4zM8 2v1.6M8 12.4V14M2 8h1.6M12.4 8H14M3.8 3.8l1.1 1.1M11.1 11.1l1.1 1.1M12.2 3.8l-1.1 1.1M4.9 11.1l-1.1 1.1",
  sun: "M8 10.5a2.5 2.5 0 1 0 0-5 2.5 2.5 0 0 0 0 5zM8 2v1.3M8 12.7V14M2 8h1.3M12.7 8H14M3.8 3.8l.9.9M11.3 11.3l.9.9M12.2 3.8l-.9.9M4.7 11.3l-.9.9",
  contrast: "M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12zM8 2v12M8 5h4.5M8 8h6M8 11h4.5",
  moon: "M13 9.5A5.5 5.5 0 0 1 6.5 3 5.5 5.5 0 1 0 13 9.5z",
  menu: "M2.5 4h11M2.5 8h11M2.5 12h11",
  panel: "M2 3h12v10H2zM9.5 3v10",
  expand: "M9.5 3H13v3.5M6.5 13H3V9.5M13 3 9 7M3 13l4-4",
  back: "M9.5 3.5 5 8l4.5 4.5",
  undo: "M5.5 3 2.5 6l3 3M2.5 6H9a4 4 0 0 1 0 8H6",
  reload: "M13 8a5 5 0 1 1-1.5-3.5M13 2.5v3h-3",
  fork: "M4.5 2v5.5c0 2 7 1 7 3.5v3M11.5 2v4M4.5 9v5",
  edit: "M10.5 2.5l3 3-8 8h-3v-3z",
  trash: "M3 4.5h10M6 4.5V3h4v1.5M4.5 4.5l.5 9h6l.5-9",
  warning: "M8 2.5 14.5 13.5h-13zM8 6.5v3.5M8 11.8v.2",
  leaf: "M3 13c0-6 4-10 10-10 0 6-4 10-10 10zM3 13l5-5",
  activity: "M1.5 8.5h3l2-5 3 9 2-4h3",
  keyboard: "M1.5 4h13v8h-13zM4 6.5h.01M6.7 6.5h.01M9.3 6.5h.01M12 6.5h.01M5 9.5h6",
  help: "M6 6a2 2 0 1 1 2.8 1.8c-.5.2-.8.6-.8 1.2v.5M8 12v.2M8 14.5a6.5 6.5 0 1 0 0-13 6.5 6.5 0 0 0 0 13z",
  play: "M5 3.5v9l7-4.5z",
  merge: "M4.5 3v10M4.5 5.5c0 3 3 4.5 7 4.5M9.5 8l2 2-2 2",
} as const;
export type IconName = keyof typeof iconPaths;

export function Icon({ name }: { name: IconName }) {
  return (
    <svg className="icon" viewBox="0 0 16 16" width="16" height="16" aria-hidden="true" focusable="false">
      <path d={iconPaths[name]} fill={name === "stop" ? "currentColor" : "none"} stroke="currentColor" strokeWidth="1.4" strokeLinecap="round" strokeLinejoin="round" />
    </svg>
  );
}
