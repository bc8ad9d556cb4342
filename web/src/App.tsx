export function App() {
  return <main>Afloat</main>;
}
