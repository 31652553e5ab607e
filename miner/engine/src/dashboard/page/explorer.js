// The explorer: blocks, transactions and accounts. Every figure comes from the node's own methods.

import { readCall, readEvent, tokenAmount, tokenTransfers } from "./abi.js";
import { contractPanel } from "./contract.js";
import { facts, h, panel, show, table } from "./dom.js";
import { ago, coins, count, moment, money, number, percent, price, short } from "./format.js";
import { blockColumns, fate, link } from "./overview.js";

/** The most hex digits of a long value that are shown. */
const DIGITS_MAX = 8192;
const HASH = /^0x[0-9a-f]{64}$/i;
const ADDRESS = /^0x[0-9a-f]{40}$/i;
const EXPECTED = "expected a block number, a hash of 0x and 64 digits, or an address of 0x and 40 digits";

/** The path of the page of one MicroChain, which has an explorer of its own; empty elsewhere. */
export const chainPath = /^\/chain\/[^/]+/.exec(location.pathname)?.[0] ?? "";

/** The JSON of the explorer at a path. The error has the node's reason. */
async function ask(path) {
  const answer = await fetch(`${chainPath}/explorer/${path}`, { signal: AbortSignal.timeout(10000), cache: "no-store" });
  const value = await answer.json().catch(() => ({}));
  if (!answer.ok) throw Object.assign(new Error(value.error ?? `status ${answer.status}`), { code: answer.status });
  return value;
}

/** The explorer page. */
export class Explorer {
  constructor(root) {
    this.title = null;
    this.parts = null;
    this.asked = 0;
    this.node = null;
    /** The search gets the focus as soon as it is visible. */
    this.wantsSearch = false;
    this.input = h("input", { id: "search", type: "search", autocomplete: "off", spellcheck: "false", placeholder: "Block number, hash or address", "aria-describedby": "search-error" });
    this.error = h("p", { id: "search-error", class: "bad", role: "alert" });
    const form = h("form", { class: "search", role: "search" }, h("label", { for: "search" }, "Find a block, a transaction or an account"), h("div", null, this.input, h("button", { type: "submit" }, "Find")), this.error, h("p", { class: "quiet" }, "Press / on any page to come here."));
    this.view = h("div", { class: "view" });
    root.append(form, this.view);
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.find(this.input.value.trim());
    });
  }

  /** Gives the focus to the search, at the latest when the page is shown. */
  focusSearch() {
    this.wantsSearch = this.input.offsetParent === null;
    this.input.focus();
    this.input.select();
  }

  /** Goes to what was typed. */
  async find(text) {
    show(this.error);
    const digits = text.replaceAll(",", "");
    const to = (kind, name) => {
      const hash = `#/${kind}/${name}`;
      if (location.hash === hash) this.go([kind, name], true);
      else location.hash = hash;
    };
    if (/^\d+$/.test(digits)) return to("block", digits);
    if (ADDRESS.test(text)) return to("account", text.toLowerCase());
    if (!HASH.test(text)) return show(this.error, `got ${text === "" ? "nothing" : text}, ${EXPECTED}`);
    try {
      await ask(`transaction/${text}`);
      return to("transaction", text);
    } catch (error) {
      return to(error.code === 404 ? "block" : "transaction", text);
    }
  }

  /** Notes what the node has told of itself. A list of the newest blocks follows the head. */
  follow(node) {
    const moved = node?.head.hash !== this.node?.head.hash;
    this.node = node;
    if (moved && this.parts?.[0] === "blocks" && this.parts[1] === "latest") this.go(this.parts, false);
  }

  /** Shows what `parts` of the address name; null: another page is shown. `moves`: the reader has
   * come here by a link, so the focus goes to the heading. */
  async go(parts, moves) {
    this.parts = parts;
    this.asked += 1;
    const turn = this.asked;
    if (!parts) {
      this.title = null;
      return;
    }
    const searches = this.wantsSearch;
    if (searches) this.focusSearch();
    const [kind, name, ...rest] = parts;
    const pages = { blocks: blocksPage, block: blockPage, transaction: transactionPage, tx: transactionPage, account: accountPage, address: accountPage };
    const page = pages[kind];
    let content;
    try {
      if (!page || !name) throw new Error(`there is no page ${parts.join("/")}`);
      content = await page(name, rest, Date.now() / 1000);
    } catch (error) {
      content = { title: "Not found", body: panel("result", "Not found", null, h("p", { class: "bad" }, error.message), h("p", null, h("a", { href: "#/blocks/latest" }, "The last blocks"))) };
    }
    // The reader may have gone on meanwhile.
    if (turn !== this.asked) return;
    this.title = content.title;
    show(this.view, content.body);
    if (moves && !searches) {
      const heading = this.view.querySelector("h2");
      heading?.setAttribute("tabindex", "-1");
      heading?.focus({ preventScroll: true });
      scrollTo(0, 0);
    }
  }
}

async function blocksPage(at, _, now) {
  const { head, blocks } = await ask(`blocks/${encodeURIComponent(at)}`);
  const last = blocks[blocks.length - 1]?.number ?? 0;
  const first = blocks[0]?.number ?? 0;
  const turn = h(
    "p",
    { class: "turn" },
    first < head ? h("a", { href: first + 25 >= head ? "#/blocks/latest" : `#/blocks/${first + 25}` }, "Newer") : h("span", { class: "quiet" }, "Newest"),
    last > 0 ? h("a", { href: `#/blocks/${last - 1}` }, "Older") : h("span", { class: "quiet" }, "Oldest"),
  );
  return {
    title: "Blocks",
    body: panel("result", `Blocks ${count(last)} to ${count(first)}`, { aside: turn }, table("Blocks, the newest first", blockColumns(now), blocks, (block) => block.hash)),
  };
}

async function blockPage(at, _, now) {
  const { head, block, payment } = await ask(`block/${encodeURIComponent(at)}`);
  const height = number(block.number);
  const time = number(block.timestamp);
  const turn = h(
    "p",
    { class: "turn" },
    height > 0 ? h("a", { href: `#/block/${height - 1}` }, "Previous") : null,
    height < head ? h("a", { href: `#/block/${height + 1}` }, "Next") : h("span", { class: "quiet" }, "Head"),
  );
  const columns = [
    { label: "Transaction", head: true, wide: true, cell: (one) => link("transaction", one.hash) },
    { label: "From", wide: true, cell: (one) => link("account", one.from) },
    { label: "To", wide: true, cell: (one) => (one.to ? link("account", one.to) : "new contract") },
    { label: "Value in coins", number: true, wide: true, cell: (one) => coins(one.value) },
    { label: "Gas limit", number: true, cell: (one) => count(number(one.gas)) },
    { label: "Gas price", number: true, cell: (one) => price(one.gasPrice) },
  ];
  return {
    title: `Block ${count(height)}`,
    body: [
      panel(
        "result",
        `Block ${count(height)}`,
        { aside: turn },
        facts([
          ["Hash", full(block.hash)],
          ["Parent", height > 0 ? link("block", block.parentHash, block.parentHash) : full(block.parentHash)],
          ["Time", `${moment(time)} (${ago(now - time)})`],
          ["Blocks on it", count(Math.max(head - height, 0))],
          ["Place in the chain", payment ? fate(payment.status, number(payment.uncleOf?.number)) : null],
          ["Mined by", link("account", block.miner, block.miner)],
          ["Extra data", extra(block.extraData)],
          ["Transactions", count(block.transactions.length)],
          ["Gas used", `${count(number(block.gasUsed))} of ${count(number(block.gasLimit))} (${percent(number(block.gasUsed), number(block.gasLimit))})`],
          ["Reward of the miner", payment ? `${money(payment.reward)}, and ${money(payment.fees)} of fees` : null],
          ["Difficulty", BigInt(block.difficulty).toLocaleString("en-US")],
          ["Total difficulty", block.totalDifficulty ? BigInt(block.totalDifficulty).toLocaleString("en-US") : null],
          ["Size", `${count(number(block.size))} bytes`],
          ["Uncles", block.uncles.length > 0 ? block.uncles.map((hash, index) => uncle(hash, payment?.uncles[index])) : "none"],
        ]),
        h(
          "details",
          null,
          h("summary", null, "Roots and seal"),
          facts([
            ["State root", full(block.stateRoot)],
            ["Transactions root", full(block.transactionsRoot)],
            ["Receipts root", full(block.receiptsRoot)],
            ["Uncles hash", full(block.sha3Uncles)],
            ["Nonce of the seal", full(block.nonce)],
            ["Mix hash", block.mixHash ? full(block.mixHash) : null],
          ]),
        ),
      ),
      panel(
        "transactions",
        "Transactions",
        null,
        block.transactions.length > 0
          ? table(`Transactions of block ${height}`, columns, block.transactions, (one) => one.hash)
          : h("p", { class: "empty" }, "This block has no transactions."),
      ),
    ],
  };
}

/** An uncle, and what its miner got for it. */
function uncle(hash, paid) {
  return h("div", null, h("span", { class: "hash" }, hash), paid ? [" paid ", link("account", paid.miner), ` ${money(paid.reward)}`] : null);
}

async function transactionPage(hash, _, now) {
  const name = encodeURIComponent(hash);
  // The calls inside are found by running the transaction again, which may take too long.
  const [found, calls] = await Promise.all([ask(`transaction/${name}`), ask(`calls/${name}`).catch((error) => ({ error: error.message }))]);
  const { head, transaction, receipt, block_time: blockTime } = found;
  const height = number(transaction.blockNumber);
  const inBlock = Boolean(transaction.blockHash);
  const used = number(receipt?.gasUsed);
  // Receipts of old blocks do not tell whether the transaction succeeded.
  const outcome = { "0x0": ["failed", "bad"], "0x1": ["succeeded", "good"] }[receipt?.status] ?? ["in a block", "idle"];
  const state = inBlock ? outcome : ["waiting in the pool", "busy"];
  const time = number(blockTime);
  const known = new Set(["hash", "nonce", "blockHash", "blockNumber", "transactionIndex", "from", "to", "value", "gas", "gasPrice", "input", "v", "r", "s"]);
  const more = Object.entries(transaction).filter(([name, value]) => !known.has(name) && value !== null && typeof value !== "object");
  return {
    title: `Transaction ${short(transaction.hash)}`,
    body: [
      panel(
        "result",
        "Transaction",
        { aside: h("span", { class: `state ${state[1]}` }, state[0]) },
        facts([
          ["Hash", full(transaction.hash)],
          ["Block", inBlock ? [link("block", height, count(height)), ` (place ${count(number(transaction.transactionIndex))}, ${count(Math.max(head - height, 0))} blocks on it)`] : "none yet"],
          ["Time", time === null ? null : `${moment(time)} (${ago(now - time)})`],
          ["From", link("account", transaction.from, transaction.from)],
          ["To", transaction.to ? link("account", transaction.to, transaction.to) : "nobody: it creates a contract"],
          ["Created contract", receipt?.contractAddress ? link("account", receipt.contractAddress, receipt.contractAddress) : null],
          ["Value", money(transaction.value)],
          ["Fee", used === null ? null : money(BigInt(receipt.gasUsed) * BigInt(transaction.gasPrice))],
          ["Gas", used === null ? `at most ${count(number(transaction.gas))}` : `${count(used)} of at most ${count(number(transaction.gas))}`],
          ["Gas price", price(transaction.gasPrice)],
          ["Nonce", count(number(transaction.nonce))],
          ...more.map(([name, value]) => [name, h("span", { class: "hash" }, String(value).slice(0, 200))]),
        ]),
        transaction.to ? readings("Call", readCall(transaction.to, transaction.input)) : null,
        bytes("Input", transaction.input),
      ),
      transfersPanel(tokenTransfers(receipt?.logs ?? [])),
      inBlock ? callsPanel(calls) : null,
      receipt
        ? panel("logs", `Logs (${count(receipt.logs.length)})`, null, receipt.logs.length > 0 ? receipt.logs.map(logFacts) : h("p", { class: "empty" }, "This transaction has left no logs."))
        : null,
    ],
  };
}

function logFacts(log, index) {
  return h(
    "section",
    { class: "log", "aria-label": `Log ${index}` },
    facts([
      ["Contract", link("account", log.address, log.address)],
      ...log.topics.map((topic, at) => [`Topic ${at}`, full(topic)]),
    ]),
    readings("Event", readEvent(log)),
    bytes("Data", log.data),
  );
}

/** A call or an event as an ABI reads it. */
function readings(name, reading) {
  if (!reading) return null;
  const value = (one) => (one.type === "address" ? link("account", one.value, one.value) : h("span", { class: "hash" }, one.value));
  return facts([[name, full(reading.signature)], ...reading.values.map((one) => [`${one.name} (${one.type})`, value(one)])]);
}

/** The tokens that a transaction has moved; null if there are none. */
function transfersPanel(transfers) {
  const columns = [
    { label: "Token", head: true, wide: true, cell: (one) => link("account", one.token) },
    { label: "From", wide: true, cell: (one) => link("account", one.from) },
    { label: "To", wide: true, cell: (one) => link("account", one.to) },
    { label: "Units, or number", number: true, wide: true, cell: (one) => (one.id === null ? tokenAmount(one.amount, 0) : `number ${one.id}`) },
  ];
  const rows = transfers.map((one, at) => ({ ...one, at }));
  return rows.length > 0 ? panel("transfers", `Token transfers (${count(rows.length)})`, null, table("Tokens that this transaction has moved", columns, rows, (one) => one.at)) : null;
}

/** The calls that a transaction made inside. */
function callsPanel({ calls, error }) {
  if (error) return panel("calls", "Calls inside", null, h("p", { class: "empty" }, `The calls cannot be shown: ${error}`));
  const inner = calls.filter((one) => one.traceAddress.length > 0).map((one, at) => ({ ...one, at }));
  const columns = [
    { label: "Kind", head: true, cell: ({ type, action }) => (type === "suicide" ? "destroys itself" : (action.callType ?? type)) },
    { label: "From", wide: true, cell: ({ action }) => link("account", action.from ?? action.address) },
    { label: "To", wide: true, cell: ({ action, result }) => callee(action.to ?? result?.address ?? action.refundAddress) },
    { label: "Value in coins", number: true, wide: true, cell: ({ action }) => coins(action.value ?? action.balance ?? "0x0") },
    { label: "Function", wide: true, cell: ({ action }) => (action.input?.length >= 10 ? (readCall(action.to, action.input)?.signature ?? action.input.slice(0, 10)) : "–") },
    { label: "Outcome", cell: (one) => one.error ?? "succeeded" },
  ];
  return inner.length > 0 ? panel("calls", `Calls inside (${count(inner.length)})`, null, table("Calls that this transaction made", columns, inner, (one) => one.at)) : null;
}

function callee(address) {
  return address ? link("account", address) : "nobody";
}

/** The tokens of an account. */
function tokensPanel(tokens) {
  if (tokens === null || tokens.error) return null;
  const columns = [
    { label: "Token", head: true, wide: true, cell: (one) => [one.symbol ? h("span", { class: "name" }, `${one.symbol} `) : null, link("account", one.token)] },
    { label: "Balance", number: true, wide: true, cell: (one) => (one.balance === null ? "–" : tokenAmount(one.balance, one.decimals)) },
  ];
  return tokens.length > 0 ? panel("tokens", "Tokens", null, table("Tokens that came to this account", columns, tokens, (one) => one.token)) : null;
}

async function accountPage(address, rest, now) {
  const before = rest[0] === "before" && rest[1] ? `/before/${encodeURIComponent(rest[1])}` : "";
  const account = await ask(`account/${encodeURIComponent(address)}${before}`);
  const { transactions } = account;
  const times = new Map((transactions.receipts ?? []).map((receipt) => [receipt.transactionHash, receipt]));
  const self = account.address.toLowerCase();
  const columns = [
    { label: "Transaction", head: true, wide: true, cell: (one) => link("transaction", one.hash) },
    { label: "Block", cell: (one) => link("block", number(one.blockNumber), count(number(one.blockNumber))) },
    { label: "Age", cell: (one) => age(times.get(one.hash), now) },
    { label: "Direction", cell: (one) => direction(one, self) },
    { label: "Other side", wide: true, cell: (one) => otherSide(one, self) },
    { label: "Value in coins", number: true, wide: true, cell: (one) => coins(one.value) },
  ];
  const oldest = transactions.txs?.length > 0 ? number(transactions.txs[transactions.txs.length - 1].blockNumber) : 0;
  const turn = h(
    "p",
    { class: "turn" },
    before ? h("a", { href: `#/account/${address}` }, "Newest") : null,
    transactions.txs && !transactions.lastPage && oldest > 0 ? h("a", { href: `#/account/${address}/before/${oldest}` }, "Older") : null,
  );
  return {
    title: `Account ${short(account.address)}`,
    body: [
      panel(
        "result",
        account.code_bytes > 0 ? "Contract" : "Account",
        null,
        facts([
          ["Address", full(account.address)],
          ["Balance", money(account.balance)],
          ["Transactions sent", count(number(account.nonce))],
          ["Code", account.code_bytes > 0 ? `${count(account.code_bytes)} bytes` : "none: this is no contract"],
        ]),
      ),
      account.code_bytes > 0 ? contractPanel(account.address, account.code) : null,
      tokensPanel(account.tokens),
      panel(
        "transactions",
        "Transactions",
        { aside: turn },
        transactions.error
          ? h("p", { class: "bad" }, `The transactions cannot be listed: ${transactions.error}`)
          : transactions.txs.length > 0
            ? table("Transactions of the account, the newest first", columns, transactions.txs, (one) => one.hash)
            : h("p", { class: "empty" }, "No transaction has changed this account. Rewards of blocks are not transactions."),
      ),
    ],
  };
}

function age(receipt, now) {
  const time = receipt?.timestamp;
  return time === undefined || time === null ? "–" : h("span", { title: moment(Number(time)) }, ago(now - Number(time)));
}

function direction(one, self) {
  const out = one.from?.toLowerCase() === self;
  const into = one.to?.toLowerCase() === self;
  return out && into ? "to itself" : out ? "out" : into ? "in" : "by a call";
}

function otherSide(one, self) {
  if (one.from?.toLowerCase() !== self) return link("account", one.from);
  return one.to ? link("account", one.to) : "new contract";
}

/** A value that may be long: its size, and its digits behind a button. */
function bytes(name, hex) {
  const size = (hex.length - 2) / 2;
  if (size === 0) return facts([[name, "none"]]);
  const cut = hex.length > DIGITS_MAX ? `${hex.slice(0, DIGITS_MAX)}…` : hex;
  return h("details", null, h("summary", null, `${name}: ${count(size)} bytes`), h("p", { class: "bytes" }, cut));
}

function full(hex) {
  return h("span", { class: "hash" }, hex);
}

/** Extra data as text, if it is text. */
function extra(hex) {
  const pairs = hex.slice(2).match(/../g) ?? [];
  if (pairs.length === 0) return "none";
  try {
    const text = new TextDecoder("utf-8", { fatal: true }).decode(Uint8Array.from(pairs, (pair) => parseInt(pair, 16)));
    // Control characters have no picture.
    return /\p{Cc}/u.test(text) ? full(hex) : h("span", { class: "name" }, text);
  } catch {
    return full(hex);
  }
}
