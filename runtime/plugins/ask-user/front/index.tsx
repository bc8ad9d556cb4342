// The page's side of ask-user: questions of a model, answered with a click or a line of text.
//
// A provider keeps the list for the whole page and brings the panel up when a question comes; the panel, the command
// and the surface `question` show it.
import { definePlugin, useHub, type Hub, type PanelProps } from "afloat";
import { createContext, useCallback, useContext, useEffect, useState, type ReactNode } from "react";
import "./style.css";

interface Question {
  id: string;
  question: string;
  choices?: string[];
}
interface Asked {
  questions: Question[];
  answer(id: string, text: string): Promise<void>;
}

const ROUTE = "/api/plugins/ask-user/questions";
const Questions = createContext<Asked>({ questions: [], answer: async () => undefined });

function QuestionsProvider({ children }: { children: ReactNode }) {
  const hub = useHub();
  const [questions, setQuestions] = useState<Question[]>([]);
  const load = useCallback(async () => {
    const found = (await hub.api(ROUTE).catch(() => ({ questions: [] }))) as { questions: Question[] };
    setQuestions(found.questions);
    if (found.questions.length > 0) hub.openPanel("ask-user.questions");
  }, [hub]);
  useEffect(() => {
    void load();
    return hub.on("user.ask-user", () => void load());
  }, [hub, load]);
  const answer = useCallback(async (id: string, text: string) => {
    await hub.api(`${ROUTE}/${id}`, { method: "POST", body: { answer: text } });
    setQuestions((all) => all.filter((q) => q.id !== id));
  }, [hub]);
  return <Questions value={{ questions, answer }}>{children}</Questions>;
}

function Card({ question }: { question: Question }) {
  const { answer } = useContext(Questions);
  const hub = useHub();
  const [text, setText] = useState("");
  const send = (value: string) => answer(question.id, value).catch((e: Error) => hub.toast(e.message, "error"));
  return (
    <li className="ask-user-card">
      <p>{question.question}</p>
      <div className="ask-user-choices">
        {(question.choices ?? []).map((c) => <button key={c} type="button" className="button" onClick={() => void send(c)}>{c}</button>)}
      </div>
      <form onSubmit={(e) => { e.preventDefault(); if (text.trim()) void send(text.trim()); }}>
        <input aria-label={`Answer to: ${question.question}`} value={text} onChange={(e) => setText(e.target.value)} placeholder="Your answer" />
        <button type="submit" className="button">Answer</button>
      </form>
    </li>
  );
}

function QuestionsPanel({ setTitle }: PanelProps) {
  const { questions } = useContext(Questions);
  useEffect(() => setTitle(questions.length > 0 ? `Questions (${questions.length})` : "Questions"), [questions.length, setTitle]);
  if (questions.length === 0) return <p className="ask-user-none">No questions. When a model asks one, it appears here.</p>;
  return <ul className="ask-user-list">{questions.map((q) => <Card key={q.id} question={q} />)}</ul>;
}

export default definePlugin({
  providers: [{ id: "questions", component: QuestionsProvider }],
  panels: [{ id: "questions", title: "Questions", placement: "right", component: QuestionsPanel }],
  commands: [{ id: "answer", title: "Answer a question", run: (hub: Hub) => hub.openPanel("ask-user.questions") }],
  surfaceResolvers: [{ id: "question", kind: "question", resolve: () => ({ panel: "questions", score: 10 }) }],
});
