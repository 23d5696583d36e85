// A session of @ag-ui/client: node agui_client.mjs MODULES URL READER OPERATOR; the last line of stdout is what it saw.
import { createRequire } from "node:module";

const [modules, url, reader, operator] = process.argv.slice(2);
const { HttpAgent } = createRequire(`${modules}/any.js`)("@ag-ui/client");
const seen = {};

function agent(path, token, threadId, text) {
  const made = new HttpAgent({ url: url + path, headers: { Authorization: `Bearer ${token}` }, threadId });
  made.addMessage({ id: "m1", role: "user", content: text });
  return made;
}

async function ran(agent, how, on = () => {}) {
  const events = [];
  const onEvent = async ({ event }) => {
    events.push(event);
    await on(event, events);
  };
  const { result } = await agent.runAgent(how, { onEvent });
  return { types: events.map((event) => event.type), outcome: events.at(-1)?.outcome, result };
}

// A question, streamed, with its citation.
const copilot = agent("/agui", reader, "js", "what returns a fresh token?");
seen.question = await ran(copilot, { runId: "q1" });
seen.question.said = copilot.messages.at(-1).content;
seen.question.status = copilot.state.status;

// The same conversation goes on.
copilot.addMessage({ id: "m3", role: "user", content: "and who may do that?" });
seen.second = await ran(copilot, { runId: "q2" });

// An approval, and the run that goes on with it.
const writer = agent("/agui/writer", operator, "js writer", "go");
seen.interrupt = await ran(writer, { runId: "w1" });
const resume = writer.pendingInterrupts.map(({ id }) => ({
  interruptId: id,
  status: "resolved",
  payload: { verb: "respond", message: "the second" },
}));
seen.resumed = await ran(writer, { runId: "w2", resume });
seen.resumed.pending = writer.pendingInterrupts.length;

// Cancelled while its model is silent: the run is named in its state.
const stop = async (event) => {
  if (event.type !== "STATE_SNAPSHOT") return;
  const path = `/api/runs/${event.snapshot.run_id}/stop`;
  await fetch(url + path, { method: "POST", headers: { Authorization: `Bearer ${operator}` } });
};
seen.cancelled = await ran(agent("/agui/sleeper", operator, "js sleeper", "go"), { runId: "s1" }, stop);

// The connection is lost with the first event; the same run, sent again, is followed to its end.
const lost = agent("/agui", reader, "js lost", "list all documents");
seen.lost = await ran(lost, { runId: "l1" }, () => lost.abortRun()).catch((error) => ({ error: String(error) }));
seen.again = await ran(agent("/agui", reader, "js lost", "list all documents"), { runId: "l1" });

console.log(JSON.stringify(seen));
