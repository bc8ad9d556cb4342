import { createRoot } from "react-dom/client";
import "./style/app.css";
import { App } from "./App";

createRoot(document.getElementById("root")!).render(<App />);
