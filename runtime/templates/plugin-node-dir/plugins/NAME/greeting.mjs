export function greeting(name, loud) {
  const text = `Hello, ${name}!`;
  return loud ? text.toUpperCase() : text;
}
