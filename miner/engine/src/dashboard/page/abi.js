// Reads calls and events by the ABIs of contracts, and compares code with a compiler's output.
// Knows no elements and asks nobody; what the reader has given stays in this browser.

import { keccak256 } from "./keccak.js";

/** The most elements of a decoded value, so that a stranger's data cannot stop the page. */
const ELEMENTS_MAX = 500;
/** The key under which the browser keeps the ABIs that hold for every contract. */
const EVERYWHERE = "abi:*";

/** The functions and events that most tokens have. They are read without an ABI. */
const KNOWN = [
  "function transfer(address to,uint256 value)",
  "function transferFrom(address from,address to,uint256 value)",
  "function approve(address spender,uint256 value)",
  "function safeTransferFrom(address from,address to,uint256 id)",
  "function setApprovalForAll(address operator,bool approved)",
  "function mint(address to,uint256 value)",
  "function burn(uint256 value)",
  "function deposit()",
  "function withdraw(uint256 value)",
  "event Transfer(address indexed from,address indexed to,uint256 value)",
  "event Approval(address indexed owner,address indexed spender,uint256 value)",
  "event ApprovalForAll(address indexed owner,address indexed operator,bool approved)",
  "event OwnershipTransferred(address indexed before,address indexed after)",
].map((text) => {
  const [, kind, name, inputs] = /^(\w+) (\w+)\((.*)\)$/.exec(text);
  const input = (one) => {
    const words = one.split(" ");
    return { type: words[0], name: words[words.length - 1], indexed: words[1] === "indexed" };
  };
  return { type: kind, name, inputs: inputs === "" ? [] : inputs.split(",").map(input) };
});

/** The type as it stands in a signature. */
const typeOf = (input) => (input.type.startsWith("tuple") ? `(${(input.components ?? []).map(typeOf).join(",")})${input.type.slice(5)}` : input.type);

/** Name and types, as they are hashed. */
export const signature = (entry) => `${entry.name}(${(entry.inputs ?? []).map(typeOf).join(",")})`;

/** All functions and events in the JSON of an ABI, an artifact, or a compiler's output. */
export function entriesIn(value) {
  if (Array.isArray(value)) {
    const isEntry = (one) => ["function", "event"].includes(one?.type) && typeof one.name === "string" && Array.isArray(one.inputs ?? []);
    return value.filter(isEntry);
  }
  if (typeof value === "string" && value.trim().startsWith("[")) return entriesIn(JSON.parse(value));
  if (value === null || typeof value !== "object") return [];
  if (value.abi) return entriesIn(value.abi);
  return Object.values(value.contracts ?? value).flatMap((one) => (one !== null && typeof one === "object" ? entriesIn(one) : []));
}

const stored = (key) => {
  try {
    return JSON.parse(localStorage.getItem(key) ?? "[]");
  } catch {
    return [];
  }
};

/** Keeps the entries of a text for a contract, or for all if `address` is null. Returns their number. */
export function keepAbi(address, text) {
  const entries = entriesIn(JSON.parse(text));
  if (entries.length === 0) throw new Error("got no functions or events, expected an ABI, an artifact, or a compiler's output as JSON");
  const key = address === null ? EVERYWHERE : `abi:${address.toLowerCase()}`;
  const before = address === null ? stored(key) : [];
  const all = new Map([...before, ...entries].map((entry) => [`${entry.type} ${signature(entry)}`, entry]));
  localStorage.setItem(key, JSON.stringify([...all.values()]));
  return entries.length;
}

/** The entries that may be of a contract, those that were given for it first. */
function entriesOf(address, kind) {
  const own = address ? stored(`abi:${address.toLowerCase()}`) : [];
  return [...own, ...stored(EVERYWHERE), ...KNOWN].filter((entry) => entry.type === kind);
}

const wordAt = (data, at) => {
  if (at < 0 || at + 32 > data.length / 2) throw new Error("the data ends too early");
  return data.slice(2 * at, 2 * at + 64);
};
const numberAt = (data, at) => {
  const value = BigInt(`0x${wordAt(data, at)}`);
  if (value > BigInt(data.length)) throw new Error("a length or a place is outside of the data");
  return Number(value);
};

/** The element type and length of an array type; null for other types. */
function arrayOf(input) {
  const found = /^(.*)\[(\d*)\]$/.exec(input.type);
  return found && { element: { ...input, type: found[1] }, length: found[2] === "" ? null : Number(found[2]) };
}

function isDynamic(input) {
  const array = arrayOf(input);
  if (array) return array.length === null || isDynamic(array.element);
  if (input.type === "tuple") return (input.components ?? []).some(isDynamic);
  return input.type === "bytes" || input.type === "string";
}

/** Bytes of a value in the head of its tuple. */
function headLength(input) {
  if (isDynamic(input)) return 32;
  const array = arrayOf(input);
  if (array) return array.length * headLength(array.element);
  if (input.type === "tuple") return (input.components ?? []).reduce((sum, one) => sum + headLength(one), 0);
  return 32;
}

/** The values of `inputs`, whose heads begin at `base`. */
function decodeAll(inputs, data, base, left) {
  let head = base;
  return inputs.map((input) => {
    left.count -= 1;
    if (left.count < 0) throw new Error(`more than ${ELEMENTS_MAX} values`);
    const at = isDynamic(input) ? base + numberAt(data, head) : head;
    head += headLength(input);
    return decodeOne(input, data, at, left);
  });
}

function decodeOne(input, data, at, left) {
  const array = arrayOf(input);
  if (array) {
    const length = array.length ?? numberAt(data, at);
    if (length > left.count) throw new Error(`more than ${ELEMENTS_MAX} values`);
    const values = decodeAll(Array(length).fill(array.element), data, array.length === null ? at + 32 : at, left);
    return `[${values.join(", ")}]`;
  }
  if (input.type === "tuple") return `(${decodeAll(input.components ?? [], data, at, left).join(", ")})`;
  if (input.type === "bytes" || input.type === "string") {
    const bytes = data.slice(2 * (at + 32), 2 * (at + 32 + numberAt(data, at)));
    if (bytes.length < 2 * numberAt(data, at)) throw new Error("the data ends too early");
    if (input.type === "bytes") return `0x${bytes}`;
    const text = new TextDecoder().decode(Uint8Array.from(bytes.match(/../g) ?? [], (pair) => parseInt(pair, 16)));
    return JSON.stringify(text);
  }
  return plainValue(input.type, wordAt(data, at));
}

/** A value of one word. */
function plainValue(type, word) {
  if (type === "address" || type === "function") return `0x${word.slice(24)}`;
  if (type === "bool") return BigInt(`0x${word}`) === 0n ? "false" : "true";
  if (type.startsWith("bytes")) return `0x${word.slice(0, 2 * Number(type.slice(5)))}`;
  const value = BigInt(`0x${word}`);
  return (type.startsWith("int") ? BigInt.asIntN(256, value) : value).toString();
}

const decoded = (inputs, hex) => decodeAll(inputs, hex.replace(/^0x/, ""), 0, { count: ELEMENTS_MAX });

/** The parameters with their values, or null if the data are not those of the entry. */
function read(entry, values) {
  try {
    const all = values();
    return { signature: signature(entry), values: entry.inputs.map((input, at) => ({ name: input.name || `${at}`, type: typeOf(input), value: all[at] })) };
  } catch {
    return null;
  }
}

const first = (entries, reader) => {
  for (const entry of entries) {
    const found = reader(entry);
    if (found) return found;
  }
  return null;
};

/** The call that an input asks of a contract: its signature and values; null if no ABI has it. */
export function readCall(address, input) {
  const matches = (entry) => keccak256(signature(entry)).slice(0, 8) === input.slice(2, 10).toLowerCase();
  if (input.length < 10) return null;
  return first(entriesOf(address, "function").filter(matches), (entry) => read(entry, () => decoded(entry.inputs, input.slice(10))));
}

/** The event of a log: its signature and values; null if no ABI has it. */
export function readEvent({ address, topics, data }) {
  const matches = (entry) => entry.inputs.filter((input) => input.indexed).length === topics.length - 1 && `0x${keccak256(signature(entry))}` === topics[0]?.toLowerCase();
  return first(entriesOf(address, "event").filter(matches), (entry) =>
    read(entry, () => {
      const rest = decoded(entry.inputs.filter((input) => !input.indexed), data);
      let topic = 0;
      return entry.inputs.map((input) => {
        if (!input.indexed) return rest.shift();
        topic += 1;
        // Only the hash of a long value is in a topic.
        const isHash = isDynamic(input) || input.type === "tuple" || arrayOf(input);
        return isHash ? topics[topic] : plainValue(input.type, topics[topic].slice(2));
      });
    }),
  );
}

const TRANSFER = "0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef";

/** The transfers of tokens in logs. A token of ERC-721 has its id in a topic. */
export function tokenTransfers(logs) {
  const transfers = logs.filter(({ topics, data }) => topics[0]?.toLowerCase() === TRANSFER && (topics.length === 4 || (topics.length === 3 && data.length === 66)));
  return transfers.map(({ address, topics, data }) => ({
    token: address,
    from: `0x${topics[1].slice(26)}`,
    to: `0x${topics[2].slice(26)}`,
    amount: topics.length === 3 ? BigInt(data).toString() : null,
    id: topics.length === 4 ? BigInt(topics[3]).toString() : null,
  }));
}

/** An amount of a token with its decimals. */
export function tokenAmount(amount, decimals) {
  const digits = BigInt(amount).toString().padStart(Number(decimals ?? 0) + 1, "0");
  const at = digits.length - Number(decimals ?? 0);
  const whole = digits.slice(0, at).replace(/\B(?=(\d{3})+$)/g, ",");
  const rest = digits.slice(at).replace(/0+$/, "");
  return rest === "" ? whole : `${whole}.${rest}`;
}

/** The contracts in a compiler's output or an artifact: name, code as it is deployed, and the places
 * of immutable values. */
function codesIn(value, name) {
  if (value === null || typeof value !== "object") return [];
  const deployed = value.evm?.deployedBytecode ?? value.deployedBytecode ?? value["bin-runtime"];
  if (deployed) {
    const code = typeof deployed === "string" ? deployed : deployed.object;
    const places = deployed.immutableReferences ?? value.immutableReferences ?? {};
    return code ? [{ name: value.contractName ?? name, code: code.replace(/^0x/, ""), places: Object.values(places).flat() }] : [];
  }
  return Object.entries(value.contracts ?? value).flatMap(([key, one]) => codesIn(one, key));
}

/** The code without what the compiler appends: a hash of the sources and its version. */
function withoutMetadata(code) {
  const length = 2 * (parseInt(code.slice(-4), 16) + 2);
  return length <= code.length ? code.slice(0, -length) : code;
}

/** Compares the code of a contract with a compiler's output. Returns the name of the contract that
 * has this code, and whether its metadata are the same, too; null if there is none. */
export function verifiedBy(code, text) {
  const contracts = codesIn(JSON.parse(text), "contract");
  if (contracts.length === 0) throw new Error("got no deployed code, expected an artifact, or a compiler's output with evm.deployedBytecode or bin-runtime");
  const own = code.replace(/^0x/, "").toLowerCase();
  const matches = contracts.map(({ name, code: theirs, places }) => {
    // Immutable values and addresses of libraries are only known when the contract is made.
    const holes = [...places, ...[...theirs.matchAll(/__.{36}__/g)].map((match) => ({ start: match.index / 2, length: 20 }))];
    const masked = (hex) => holes.reduce((all, { start, length }) => all.slice(0, 2 * start) + "0".repeat(2 * length) + all.slice(2 * (start + length)), hex);
    const [one, other] = [masked(own), masked(theirs).toLowerCase()];
    if (one.length === other.length && one === other) return { name, exact: true };
    return withoutMetadata(one) === withoutMetadata(other) ? { name, exact: false } : null;
  });
  return matches.find((match) => match?.exact) ?? matches.find(Boolean) ?? null;
}

/** Keeps that the code of a contract was compared, by the hash of the code. */
export function keepVerified(address, code, match) {
  localStorage.setItem(`code:${address.toLowerCase()}`, JSON.stringify({ ...match, hash: keccak256(code) }));
}

/** The comparison that was kept for this code; null if there is none. */
export function keptVerified(address, code) {
  const kept = stored(`code:${address.toLowerCase()}`);
  return kept.hash === keccak256(code) ? kept : null;
}
