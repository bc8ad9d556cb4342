// The official OpenAI library as a client: node openai_client.mjs BASE_URL TOKEN MODEL
// It asks for a tool, answers its call and asks again, once streamed and once whole, and prints what it saw as JSON.
import OpenAI from "openai";

const [baseURL, apiKey, model] = process.argv.slice(2);
const client = new OpenAI({ baseURL, apiKey, maxRetries: 0 });
const tools = [{
  type: "function", name: "list_files", description: "list files", strict: false,
  parameters: { type: "object", properties: {}, additionalProperties: false },
}];
const ask = { model, instructions: "be brief", tools };
const input = [{ role: "user", content: "what is here?" }];
const seen = { types: [] };

try {
  const stream = client.responses.stream({ ...ask, input });
  for await (const event of stream) seen.types.push(event.type);
  const first = await stream.finalResponse();
  const call = first.output.find((item) => item.type === "function_call");
  seen.call = call && { name: call.name, arguments: call.arguments };
  seen.first = { status: first.status, text: first.output_text, usage: first.usage };
  const more = [...input, ...first.output.map(({ parsed_arguments, ...item }) => item)];
  if (call) more.push({ type: "function_call_output", call_id: call.call_id, output: "a-file-to-see" });
  const second = await client.responses.create({ ...ask, input: more });
  seen.second = { status: second.status, text: second.output_text, usage: second.usage };
  seen.models = [];
  for await (const one of client.models.list()) seen.models.push(one.id);
} catch (e) {
  seen.error = { name: e.constructor.name, status: e.status, code: e.code, type: e.type, message: e.message };
}
console.log(JSON.stringify(seen));
