// The page's side of data-catalog: a left tab and a catalog to find data sets, a panel that shows one as a table.
import { definePlugin, openSurface, useHub, type CatalogItem, type PanelProps } from "afloat";
import { useEffect, useState } from "react";
import "./style.css";

interface DataSet {
  name: string;
  description?: string;
}
interface Table extends DataSet {
  columns: string[];
  rows: string[][];
  total: number;
}

const ROUTE = "/api/plugins/data-catalog/datasets";
const show = (name: string) => void openSurface({ kind: "dataset", target: name });

async function search(query: string): Promise<DataSet[]> {
  const answer = await fetch(`${ROUTE}?q=${encodeURIComponent(query)}`);
  return answer.ok ? ((await answer.json()) as { datasets: DataSet[] }).datasets : [];
}

function DataTab() {
  const [query, setQuery] = useState("");
  const [sets, setSets] = useState<DataSet[] | null>(null);
  useEffect(() => {
    let current = true;
    void search(query).then((found) => { if (current) setSets(found); });
    return () => { current = false; };
  }, [query]);
  return (
    <div className="data-tab">
      <input type="search" aria-label="Find data sets" placeholder="Find data sets" value={query} onChange={(e) => setQuery(e.target.value)} />
      {sets?.length === 0 && <p className="data-none">No data sets. Set <code>sqlite</code> or <code>csv_dir</code> in the plugin's options.</p>}
      <ul>
        {sets?.map((s) => (
          <li key={s.name}>
            <button type="button" onClick={() => show(s.name)}><strong>{s.name}</strong><span>{s.description}</span></button>
          </li>
        ))}
      </ul>
    </div>
  );
}

function DataPanel({ params, setTitle }: PanelProps) {
  const hub = useHub();
  const name = String(params.name ?? "");
  const [table, setTable] = useState<Table | null>(null);
  const [filter, setFilter] = useState("");
  useEffect(() => {
    let current = true;
    if (name) {
      setTitle(name);
      setFilter("");
      hub.api(`${ROUTE}/${encodeURIComponent(name)}`).then((t) => { if (current) setTable(t as Table); }, (e: Error) => hub.toast(e.message, "error"));
    }
    return () => { current = false; };
  }, [name, hub, setTitle]);
  if (!name) return <p className="data-none">Choose a data set in the tab "Data".</p>;
  if (!table) return <p className="data-none">Loading</p>;
  const wanted = filter.toLowerCase();
  const rows = table.rows.filter((r) => r.some((cell) => cell.toLowerCase().includes(wanted)));
  return (
    <div className="data-panel">
      <header>
        <h2>{table.name}</h2>
        <span>{table.total > table.rows.length ? `first ${table.rows.length} of ${table.total} rows` : `${table.total} rows`}</span>
        <input type="search" aria-label="Filter rows" placeholder="Filter rows" value={filter} onChange={(e) => setFilter(e.target.value)} />
      </header>
      <div className="data-table" tabIndex={0} role="region" aria-label={`Rows of ${table.name}`}>
        <table>
          <thead><tr>{table.columns.map((c) => <th key={c} scope="col">{c}</th>)}</tr></thead>
          <tbody>{rows.map((r, i) => <tr key={i}>{r.map((cell, k) => <td key={k}>{cell}</td>)}</tr>)}</tbody>
        </table>
      </div>
    </div>
  );
}

export default definePlugin({
  panels: [{ id: "dataset", title: "Data set", component: DataPanel }],
  leftTabs: [{ id: "data", title: "Data", component: DataTab }],
  catalogs: [{
    id: "datasets", title: "Data sets",
    search: async (query: string): Promise<CatalogItem[]> => (await search(query)).map((s) => ({ id: s.name, title: s.name, detail: s.description })),
    onSelect: (item: CatalogItem) => show(item.id),
  }],
  surfaceResolvers: [{
    id: "dataset", kind: "dataset",
    resolve: ({ target }) => (typeof target === "string" ? { panel: "dataset", params: { name: target }, score: 10 } : null),
  }],
});
