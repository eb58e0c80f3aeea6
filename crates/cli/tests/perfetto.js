// SPDX-License-Identifier: MIT OR Apache-2.0
// In the browser of perfetto.py: loads trace.json in Perfetto's engine, asks it each of queries.json, and posts the rows to result. Messages
// are those of Perfetto's trace_processor.proto, as far as they are needed.

const varint = value => {
  const out = [];
  for (; value > 127; value = Math.floor(value / 128)) out.push(value % 128 + 128);
  return [...out, value];
};
const joined = parts => {
  const all = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  parts.reduce((at, part) => (all.set(part, at), at + part.length), 0);
  return all;
};
const number = (field, value) => [varint(field * 8), varint(value)];
const bytes = (field, value) => [varint(field * 8 + 2), varint(value.length), value];
const encode = text => new TextEncoder().encode(text);
const decode = data => new TextDecoder().decode(data);

// The fields of a message: pairs of a number, and a number or bytes.
function read(data) {
  const fields = [];
  let at = 0;
  const next = () => {
    for (let value = 0, scale = 1; ; scale *= 128) {
      const byte = data[at++];
      value += (byte & 127) * scale;
      if (byte < 128) return value;
    }
  };
  while (at < data.length) {
    const tag = next(), field = Math.floor(tag / 8), type = tag % 8;
    if (type === 0) {
      fields.push([field, next()]);
      continue;
    }
    const length = type === 1 ? 8 : type === 5 ? 4 : next();
    fields.push([field, data.subarray(at, at + length)]);
    at += length;
  }
  return fields;
}
const all = (fields, wanted) => fields.filter(([field]) => field === wanted).map(([, value]) => value);

function packed(data) {
  const values = [];
  for (let at = 0, value = 0n, shift = 0n; at < data.length; at++) {
    value |= BigInt(data[at] & 127) << shift;
    shift += 7n;
    if (data[at] < 128) {
      values.push(Number(BigInt.asIntN(64, value)));
      value = shift = 0n;
    }
  }
  return values;
}
function reals(data) {
  const view = new DataView(data.buffer, data.byteOffset);
  return Array.from({ length: data.length / 8 }, (_, at) => view.getFloat64(at * 8, true));
}

// Numbers of methods and fields.
const APPEND = 1, FINALIZE = 2, QUERY = 3, STATUS = 10;
const STREAM = { message: 1 };
const RPC = { seq: 1, request: 2, fatal: 5, data: 101, query: 103, appended: 201, answer: 203, finalized: 212 };
const RESULT = { columns: 1, error: 2, batches: 3 };
const BATCH = { cells: 1, integers: 2, reals: 3, texts: 5, last: 6 };

function refuse(errors) {
  for (const error of errors) if (error.length) throw new Error(decode(error));
}

class Engine {
  constructor() {
    const { port1, port2 } = new MessageChannel();
    this.port = port1;
    this.seq = 0;
    this.answered = () => {};
    port1.onmessage = event => all(read(event.data), STREAM.message).forEach(message => this.answered(read(message)));
    new Worker("engine_bundle.js").postMessage(port2, [port2]);
  }

  // It takes no message before it is compiled, and answers each that it took.
  async wake() {
    const waking = setInterval(() => this.send(number(RPC.request, STATUS)), 200);
    await new Promise(resolve => this.answered = resolve);
    clearInterval(waking);
    await new Promise(resolve => setTimeout(resolve, 400));
  }

  send(fields) {
    this.port.postMessage(joined(bytes(STREAM.message, joined([...number(RPC.seq, ++this.seq), ...fields]))));
  }

  // The messages that answer one, up to the last.
  answer(fields, isLast) {
    const got = [];
    return new Promise((resolve, reject) => {
      this.answered = message => {
        try {
          refuse(all(message, RPC.fatal));
          got.push(message);
          if (isLast(message)) resolve(got);
        } catch (error) {
          reject(error);
        }
      };
      this.send(fields);
    });
  }

  async load(trace) {
    const [appended] = await this.answer([...number(RPC.request, APPEND), ...bytes(RPC.data, trace)], () => true);
    all(appended, RPC.appended).forEach(result => refuse(all(read(result), 2)));
    const [finalized] = await this.answer(number(RPC.request, FINALIZE), () => true);
    all(finalized, RPC.finalized).forEach(result => refuse(all(read(result), 1)));
  }

  async rows(query) {
    const results = message => all(message, RPC.answer).map(read);
    const batches = message => results(message).flatMap(result => all(result, RESULT.batches)).map(read);
    const isLast = message => {
      results(message).forEach(result => refuse(all(result, RESULT.error)));
      return batches(message).some(batch => all(batch, BATCH.last)[0]);
    };
    const asked = joined(bytes(1, encode(query)));
    const messages = await this.answer([...number(RPC.request, QUERY), ...bytes(RPC.query, asked)], isLast);
    const columns = messages.flatMap(results).flatMap(result => all(result, RESULT.columns)).length;
    const cells = [];
    for (const batch of messages.flatMap(batches)) {
      const from = {
        2: all(batch, BATCH.integers).flatMap(packed),
        3: all(batch, BATCH.reals).flatMap(reals),
        4: all(batch, BATCH.texts).flatMap(texts => decode(texts).split("\0")),
      };
      for (const kind of all(batch, BATCH.cells).flatMap(packed)) cells.push(kind in from ? from[kind].shift() : null);
    }
    return Array.from({ length: cells.length / columns }, (_, row) => cells.slice(row * columns, (row + 1) * columns));
  }
}

async function main() {
  const engine = new Engine();
  await engine.wake();
  await engine.load(new Uint8Array(await (await fetch("trace.json")).arrayBuffer()));
  const found = [];
  for (const query of await (await fetch("queries.json")).json()) found.push(await engine.rows(query));
  return { found };
}

main().catch(error => ({ error: String(error) })).then(result => fetch("result", { method: "POST", body: JSON.stringify(result) }));
