// The overview of a server of application chains (SCS): its money for gas, and its MicroChains.

import { facts, h, panel, show, table } from "./dom.js";
import { ago, coins, count, short, span, things } from "./format.js";

const dash = "–";

/** The state of an SCS in a few words, and its colour. */
export function scsState(scs) {
  if (!scs.connected) return ["no VNODE", "bad"];
  if (scs.base_refusal) return ["VNODE not believed", "bad"];
  if (scs.balance_low) return ["little money for gas", "bad"];
  return [scs.chains.length > 0 ? "serving MicroChains" : "no MicroChain yet", scs.chains.length > 0 ? "good" : "idle"];
}

/** The chain whose page is at `path`, in the form in which a node tells its head; null without one. */
export function followedChain(scs, path) {
  const chain = scs?.chains.find((one) => path.toLowerCase() === `/chain/${one.address.toLowerCase()}`);
  return chain ? { head: { hash: chain.head } } : null;
}

/** An amount that was perhaps not read yet. */
const known = (sha, digits) => (sha === null ? dash : coins(sha, digits));

function accountPanel(scs) {
  const low = `This is less than ${coins(scs.balance_min)} coins. Without money for gas this SCS neither votes nor proposes: send coins to its id.`;
  return panel(
    "account",
    "Money for gas",
    null,
    h("p", { class: "big" }, h("span", { class: scs.balance_low ? "value bad" : "value" }, known(scs.balance, 4)), " ", h("span", { class: "unit" }, "coins")),
    scs.balance_low ? h("p", { class: "bad", role: "alert" }, low) : null,
    facts([
      ["Id, which is paid for gas", h("span", { class: "hash" }, scs.id)],
      scs.base_refusal ? ["Refused answer of the VNODE", h("span", { class: "bad", role: "alert" }, scs.base_refusal)] : null,
      ["VNODE", scs.connected ? "connected" : h("span", { class: "bad" }, "not connected")],
      ["Head of the base chain", scs.base_head === 0 ? dash : count(scs.base_head)],
    ]),
  );
}

function chainColumns(now, baseHead) {
  const flushed = (chain) => {
    if (chain.last_flush === null) return "not started";
    const since = Math.max(0, baseHead - chain.last_flush);
    return [`base block ${count(chain.last_flush)}`, h("small", null, `${things(since, "base block")} ago`)];
  };
  return [
    { label: "MicroChain", head: true, wide: true, cell: (chain) => h("a", { href: `/chain/${chain.address}#/blocks/latest`, title: chain.address, class: "hash" }, short(chain.address)) },
    { label: "Head", number: true, cell: (chain) => [count(chain.head), h("small", null, ago(now - chain.head_time_s))] },
    { label: "Members", number: true, cell: (chain) => [count(chain.members), h("small", null, chain.member ? "this SCS is one" : "this SCS is none")] },
    { label: "Last flush", cell: flushed },
    { label: "Votes", number: true, cell: (chain) => `${count(chain.votes)} of ${count(chain.members)}` },
    { label: "Waiting", number: true, cell: (chain) => count(chain.waiting) },
    { label: "Escrow in coins", number: true, cell: (chain) => known(chain.escrow, 4) },
    { label: "For rewards and gas, in coins", number: true, cell: (chain) => coins(chain.operation, 4) },
    { label: "Tokens outside DappBase", number: true, cell: (chain) => coins(chain.issued, 4) },
  ];
}

/** Shows the figures of an SCS in `root`. */
export function showScs(root, status) {
  const { scs } = status;
  const chains =
    scs.chains.length > 0
      ? [
          table("MicroChains and what they do", chainColumns(status.time_s, scs.base_head), scs.chains, (chain) => chain.address),
          h("p", { class: "quiet" }, "The name of a MicroChain leads to its blocks, transactions and accounts. Votes are those for the proposal in progress."),
        ]
      : h("p", { class: "empty" }, "This SCS serves no MicroChain. It joins those that choose it and that its options --join and --chains allow.");
  show(root, h("div", { class: "rest" }, accountPanel(scs), panel("chains", "MicroChains", null, chains), h("p", { class: "quiet" }, `Running for ${span(status.uptime_s)}.`)));
}
