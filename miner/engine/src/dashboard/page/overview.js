// The overview: what the devices, the pool, the workers and the chain do. Builds elements from the
// status and the histories; knows nothing of requests.

import { RateChart, mean, sparkline, total } from "./chart.js";
import { bar, facts, h, panel, show, table } from "./dom.js";
import { ago, coins, count, large, moment, percent, rate, scaled, short, span, things } from "./format.js";

/** The name of a series of the history on the page. */
const SERIES_NAMES = { stratum: "Stratum workers" };
const STATE_WORDS = {
  searching: "good",
  preparing: "busy",
  waiting: "idle",
  resting: "idle",
  recovering: "busy",
  failed: "bad",
};

const nameOf = (series) => SERIES_NAMES[series] ?? series;
const sum = (list, value) => list.reduce((all, one) => all + (value(one) ?? 0), 0);
const dash = "–";

/** Hashes per second of the workers of the Stratum server; 0 without one. */
const workersRate = (status) => status.node?.stratum?.hashrate ?? 0;

/** Hashes per second of all that mines here: devices and workers. */
export const allRate = (status) => status.hashrate + workersRate(status);

/** A link to a block, a transaction or an account of the explorer. */
export function link(kind, name, text) {
  return h("a", { href: `#/${kind}/${encodeURIComponent(name)}`, title: String(name), class: "hash" }, text ?? short(String(name)));
}

/** The overview page. It keeps the chart and what the reader has chosen. */
export class Overview {
  constructor(root) {
    this.root = root;
    this.chart = new RateChart();
    this.range = "hour";
    this.series = "";
    this.status = null;
    this.histories = {};
    this.hero = h("section", { class: "panel hero", "aria-labelledby": "rate-title" });
    this.figures = h("div", { class: "hero-figures" });
    this.controls = h("div", { class: "controls" });
    this.hero.append(this.figures, h("div", { class: "hero-chart" }, this.controls, this.chart.figure));
    this.rest = h("div", { class: "rest" });
    this.controls.addEventListener("click", (event) => this.choose(event));
  }

  choose(event) {
    const button = event.target.closest("button");
    if (!button) return;
    if (button.dataset.range) this.range = button.dataset.range;
    else this.series = button.dataset.series;
    this.draw();
  }

  /** Shows a status, and the histories as far as they are here. */
  update(status, histories) {
    this.status = status;
    this.histories = histories;
    this.draw();
  }

  draw() {
    const { status } = this;
    if (!status) return;
    if (!this.hero.isConnected) this.root.replaceChildren(this.hero, this.rest);
    const node = status.node;
    show(this.figures, this.heroFigures());
    this.drawChart();
    show(
      this.rest,
      tiles(status, this.histories),
      this.devices(),
      node ? h("div", { class: "columns" }, workPanel(status), chainPanel(node, status.time_s)) : [poolPanel(status), workPanel(status)],
      node && workersPanel(node),
      node && h("div", { class: "columns blocks" }, blocksPanel(node, status.time_s), rewardsPanel(node, status.time_s)),
    );
  }

  heroFigures() {
    const { status } = this;
    const reported = Number(status.node?.reported_hashrate ?? 0);
    const [value, unit] = scaled(allRate(status), "H/s");
    const parts = [];
    if (status.node?.stratum) {
      parts.push(["This machine", rate(status.hashrate)], ["Stratum workers", rate(workersRate(status))]);
    }
    if (reported > 0) parts.push(["Others, by their own reports", rate(reported)]);
    for (const range of ["hour", "day"]) {
      const values = this.histories[range] ? total(this.histories[range]) : [];
      const average = mean(values);
      if (average !== null) parts.push([`Average, last ${range}`, rate(average)]);
      if (average !== null && range === "day") parts.push(["Highest, last day", rate(Math.max(...values))]);
    }
    return [
      h("h2", { id: "rate-title" }, "Hashrate"),
      h("p", { class: "big" }, h("span", { class: "value" }, value), " ", h("span", { class: "unit" }, unit)),
      facts(parts, "facts small"),
    ];
  }

  drawChart() {
    const history = this.histories[this.range];
    const names = (history?.series ?? []).map((one) => one.name);
    if (!names.includes(this.series)) this.series = "";
    const button = (kind, value, text) =>
      h("button", { type: "button", [`data-${kind}`]: value, "aria-pressed": String(this[kind] === value) }, text);
    show(
      this.controls,
      h("div", { class: "buttons", role: "group", "aria-label": "Time" }, button("range", "hour", "Last hour"), button("range", "day", "Last day")),
      names.length > 1
        ? h("div", { class: "buttons", role: "group", "aria-label": "Device" }, button("series", "", "All"), names.map((name) => button("series", name, nameOf(name))))
        : null,
    );
    const values = !history ? [] : this.series === "" ? total(history) : history.series.find((one) => one.name === this.series).rates;
    const what = this.series === "" ? "all devices" : nameOf(this.series);
    this.chart.update({
      values,
      label: `Hashrate of ${what}`,
      stepSecs: history?.step_s ?? 10,
      endSecs: history?.end_s ?? this.status.time_s,
      pointsMax: history?.points_max ?? 360,
      empty: this.range === "hour" ? "The first point comes after ten seconds." : "The first point comes after two minutes.",
      caption: history && `${what[0].toUpperCase()}${what.slice(1)}; each point is the mean of ${span(history.step_s)}.`,
    });
  }

  devices() {
    const { status } = this;
    if (status.devices.length === 0) return panel("devices", "Devices", null, noDevices(status));
    const history = this.histories.hour;
    const day = this.histories.day;
    const course = (device) => {
      const values = history?.series.find((one) => one.name === device.device)?.rates;
      return values?.filter((value) => value !== null).length > 1 ? sparkline(values, `hashrate of ${device.device} in the last hour`) : dash;
    };
    const dayMean = (device) => {
      const values = day?.series.find((one) => one.name === device.device)?.rates ?? [];
      return rate(mean(values) ?? device.average);
    };
    const columns = [
      { label: "Device", head: true, wide: true, cell: (device) => [h("strong", null, device.device), h("small", null, device.name)] },
      { label: "State", wide: true, cell: deviceState },
      { label: "Hashrate", number: true, wide: true, cell: (device) => h("strong", null, rate(device.hashrate)) },
      { label: "Average, last day", number: true, wide: true, cell: dayMean },
      { label: "Last hour", wide: true, cell: course },
      { label: "Accepted", number: true, cell: (device) => count(device.accepted) },
      { label: "Stale", number: true, cell: (device) => count(device.stale) },
      { label: "Rejected", number: true, cell: (device) => count(device.rejected) },
      { label: "Invalid", number: true, cell: (device) => warn(device.invalid) },
      { label: "Temperature", number: true, cell: (device) => unit(device.temperature_c, "°C", 0) },
      { label: "Power", number: true, cell: (device) => unit(device.power_w, "W", 0) },
      { label: "Fan", number: true, cell: (device) => unit(device.fan_percent, "%", 0) },
    ];
    return panel("devices", "Devices", null, table("Devices and what they do", columns, status.devices, (device) => device.device));
  }
}

function unit(value, name, digits) {
  return value === null || value === undefined ? dash : `${value.toFixed(digits)}\u00a0${name}`;
}

/** An amount of coins or of money, with four significant digits. */
function amount(value) {
  return value === null || value === undefined ? dash : value.toLocaleString("en-US", { maximumSignificantDigits: 4 });
}

/** A count that should be 0. */
function warn(number) {
  return number > 0 ? h("strong", { class: "bad" }, count(number)) : "0";
}

function noDevices(status) {
  if (status.node?.mining || status.node?.stratum) {
    return h("p", { class: "empty" }, "No device of this process mines. The node gives work to other machines.");
  }
  return status.node
    ? h("p", { class: "empty" }, "No device of this process mines. Start the node with ", h("code", null, "--mine"), ", call ", h("code", null, "miner_start"), ", or let other machines mine: ", h("code", null, "--stratum"), " or ", h("code", null, "mc_getWork"), ".")
    : h("p", { class: "empty" }, "The devices are being opened.");
}

function deviceState(device) {
  // A device that has found a block waits a moment for the next job.
  const between = device.state === "waiting" && device.hashrate > 0;
  const kind = between ? "good" : (STATE_WORDS[device.state] ?? "idle");
  const word = h("span", { class: `state ${kind}` }, between ? "between two jobs" : device.state);
  const epoch = device.epoch === null ? null : h("small", null, `epoch ${device.epoch}`);
  const { dataset } = device;
  const progress = dataset && [
    bar(`dataset of epoch ${dataset.epoch}`, dataset.done / Math.max(dataset.total, 1)),
    h("small", null, `dataset of epoch ${dataset.epoch}: ${percent(dataset.done, dataset.total)}`),
  ];
  return [word, epoch, device.reason && h("small", { class: "bad" }, device.reason), progress];
}

/** The figures that are looked at first. */
function tiles(status, histories) {
  const { devices, node } = status;
  const answered = status.accepted + status.stale + status.rejected;
  const power = devices.filter((device) => device.power_w !== null);
  const watts = sum(power, (device) => device.power_w);
  const hottest = Math.max(...devices.map((device) => device.temperature_c ?? -Infinity));
  const hot = devices.find((device) => device.temperature_c === hottest);
  const difficulty = Number(node ? node.head.difficulty : (status.job?.difficulty ?? NaN));
  const hashrate = mean(histories.hour ? total(histories.hour).slice(-30) : []) ?? allRate(status);
  const expected = hashrate > 0 && difficulty > 0 ? span(difficulty / hashrate) : dash;
  const tile = (name, value, detail) => h("div", { class: "tile" }, h("dt", null, name), h("dd", null, h("strong", null, value), detail && h("small", null, detail)));
  const rewards = node?.rewards;
  return h(
    "dl",
    { class: "tiles" },
    tile("Accepted", count(status.accepted), node ? "blocks of this machine" : `of ${count(status.found)} solutions found`),
    tile("Stale", count(status.stale), answered > 0 ? `${percent(status.stale, answered)} of answered` : "no answers yet"),
    tile("Rejected", h("span", { class: status.rejected + status.invalid > 0 ? "bad" : null }, count(status.rejected)), `${count(status.invalid)} invalid hits of devices`),
    tile(node ? "Expected time per block" : "Expected time per solution", expected, "difficulty / hashrate of five minutes"),
    tile("Temperature", hot ? unit(hottest, "°C", 0) : dash, hot ? `hottest: ${hot.device}` : "this system shows none"),
    tile("Power", power.length > 0 ? unit(watts, "W", 0) : dash, power.length > 0 ? `${rate(sum(power, (device) => device.hashrate) / Math.max(watts, 1e-9))} per watt` : "this system shows none"),
    status.day ? tile("Balance of a day", amount(status.day.balance), `${amount(status.day.income)} for ${amount(status.day.coins)} coins, ${amount(status.day.power_cost)} for ${unit(status.day.power_watts, "W", 0)}`) : null,
    rewards ? tile("Earned in the last day", coins(rewards.total, 4), `${things(rewards.blocks, "block")}, see below`) : null,
    tile("Running for", span(status.uptime_s), `version ${status.version}`),
  );
}

function workPanel(status) {
  const { node, job } = status;
  const next = node?.next ?? job;
  if (!next) {
    return panel("work", "Work", null, h("p", { class: "empty" }, "There is no work. It comes when a node or a pool gives a job."));
  }
  const inEpoch = next.number === null ? null : next.number - next.epoch_first;
  const blockTime = node ? meanBlockTime(node) : null;
  const left = inEpoch === null ? null : next.epoch_blocks - inEpoch;
  const active = status.devices.filter((device) => device.dataset);
  return panel(
    "work",
    "Work",
    null,
    facts([
      ["Block", next.number === null ? "unknown" : count(next.number)],
      ["Epoch", count(next.epoch)],
      ["Difficulty", large(node ? node.head.difficulty : job.difficulty)],
      job && ["Header hash", h("span", { class: "hash", title: job.header_hash }, short(job.header_hash))],
      job && ["Jobs so far", count(status.jobs)],
      node && ["Network hashrate", blockTime > 0 ? rate(Number(node.head.difficulty) / blockTime) : dash],
    ]),
    left === null
      ? null
      : h(
          "div",
          { class: "progress" },
          h("p", null, `Epoch ${next.epoch}: block ${count(inEpoch)} of ${count(next.epoch_blocks)}`),
          bar(`progress of epoch ${next.epoch}`, inEpoch / next.epoch_blocks),
          h("p", { class: "quiet" }, `${count(left)} blocks to the next epoch${blockTime > 0 ? `, about ${span(left * blockTime)}` : ""}. Each epoch needs a new dataset.`),
        ),
    active.map((device) =>
      h(
        "div",
        { class: "progress" },
        h("p", null, `Dataset of epoch ${device.dataset.epoch} for ${device.device}: ${percent(device.dataset.done, device.dataset.total)}`),
        bar(`dataset of ${device.device}`, device.dataset.done / Math.max(device.dataset.total, 1)),
      ),
    ),
    active.length === 0 && status.devices.length > 0 ? h("p", { class: "quiet" }, "No dataset is being made now.") : null,
  );
}

/** Seconds between two of the last blocks. */
function meanBlockTime(node) {
  const { blocks } = node;
  const times = blocks.filter((block) => block.number > 0).map((block) => block.time_s);
  return times.length > 1 ? (times[0] - times[times.length - 1]) / (times.length - 1) : 0;
}

function chainPanel(node, now) {
  const { head, sync, peers, pool } = node;
  const inbound = peers.inbound;
  const all = peers.inbound + peers.outbound;
  return panel(
    "chain",
    "Chain",
    null,
    node.failure && h("p", { class: "bad" }, `The chain takes no more blocks: ${node.failure}`),
    facts([
      ["Head", [link("block", head.number, count(head.number)), " ", h("small", null, ago(now - head.time_s))]],
      ["Hash", link("block", head.hash)],
      ["Peers", all > 0 ? `${all} (${inbound} came, ${peers.outbound} dialled)` : "none yet"],
      ["Waiting transactions", `${count(pool.pending)} pending, ${count(pool.queued)} queued`],
      ["Gas of the head", `${percent(head.gas_used, head.gas_limit)} of ${count(head.gas_limit)}`],
      ["Paid to", node.beneficiary ? link("account", node.beneficiary) : "nobody (--moacbase ADDRESS)"],
      ["Network", `${node.network.name} (id ${node.network.network_id}, chain id ${node.network.chain_id})`],
    ]),
    syncProgress(sync, all),
  );
}

function syncProgress(sync, peers) {
  if (sync.stage === "idle") {
    const text = peers > 0 ? "In step with all peers: there is nothing to download." : "There is nothing to download. Without peers, this node cannot know of a longer chain.";
    return h("p", { class: "quiet" }, text);
  }
  const whole = Math.max(sync.highest - sync.from, 1);
  const done = Math.min(Math.max(sync.head - sync.from, 0), whole);
  const left = sync.left_s === null ? "the time left is not known yet" : `about ${span(sync.left_s)} left`;
  return h(
    "div",
    { class: "progress" },
    h("p", null, `Synchronizing: block ${count(sync.head)} of ${count(sync.highest)} (${percent(done, whole)})`),
    bar("progress of the synchronization", done / whole),
    h("p", { class: "quiet" }, `headers up to ${count(sync.best_header)}, ${sync.blocks_per_s.toFixed(0)} blocks/s, ${left}`),
  );
}

function poolPanel(status) {
  const columns = [
    { label: "Address", head: true, wide: true, cell: (endpoint) => h("span", { class: "hash" }, endpoint.url) },
    {
      label: "State",
      wide: true,
      cell: (endpoint) =>
        endpoint.active
          ? h("span", { class: "state good" }, "gives work")
          : h("span", { class: `state ${endpoint.failures > 0 ? "bad" : "idle"}` }, endpoint.failures > 0 ? "failing" : "in reserve"),
    },
    { label: "Connections", number: true, cell: (endpoint) => count(endpoint.connections) },
    { label: "Failures", number: true, cell: (endpoint) => count(endpoint.failures) },
    { label: "Skipped", number: true, cell: (endpoint) => count(endpoint.skipped) },
    { label: "Last error", wide: true, cell: (endpoint) => endpoint.last_error ?? dash },
  ];
  return panel(
    "pool",
    "Pool",
    null,
    table("Nodes and pools, the preferred one first", columns, status.endpoints, (endpoint) => endpoint.url),
    facts([
      ["Last answer after", status.last_answer_ms === null ? "no answer yet" : `${status.last_answer_ms.toFixed(1)}\u00a0ms`],
      ["Lost with a connection", count(status.lost)],
      ["Answers not understood", count(status.unknown)],
    ]),
  );
}

function workersPanel(node) {
  const { stratum } = node;
  if (!stratum) {
    return panel("workers", "Stratum workers", null, h("p", { class: "empty" }, "The Stratum server is off. Start the node with ", h("code", null, "--stratum"), " to let other machines mine for it."));
  }
  if (stratum.workers.length === 0) {
    return panel("workers", "Stratum workers", null, h("p", { class: "empty" }, "No worker has connected yet. The address for miners is in the banner of the node, after ", h("code", null, "stratum+tcp://"), "."));
  }
  const columns = [
    { label: "Worker", head: true, wide: true, cell: (worker) => h("span", { class: "name" }, worker.worker) },
    { label: "Connections", number: true, cell: (worker) => (worker.connections > 0 ? count(worker.connections) : h("span", { class: "state bad" }, "gone")) },
    { label: "Hashrate", number: true, wide: true, cell: (worker) => h("strong", null, rate(worker.hashrate)) },
    { label: "By its report", number: true, wide: true, cell: (worker) => (worker.reported_hashrate === null ? dash : rate(worker.reported_hashrate)) },
    { label: "Accepted", number: true, cell: (worker) => count(worker.accepted) },
    { label: "Stale", number: true, cell: (worker) => count(worker.stale) },
    { label: "Rejected", number: true, cell: (worker) => warn(worker.rejected) },
    { label: "Blocks", number: true, cell: (worker) => count(worker.blocks) },
    { label: "Last share", number: true, cell: (worker) => (worker.last_share_s === null ? "none" : ago(worker.last_share_s)) },
  ];
  const hidden = stratum.workers_known - stratum.workers.length;
  return panel(
    "workers",
    "Stratum workers",
    { aside: h("p", { class: "quiet" }, `${things(stratum.logged_in, "connection")} logged in, ${stratum.banned_addresses === 1 ? "1 address" : `${count(stratum.banned_addresses)} addresses`} banned`) },
    table("Workers of the Stratum server", columns, stratum.workers, (worker) => worker.worker),
    hidden > 0 && h("p", { class: "quiet" }, `${count(hidden)} workers with lower hashrates are not shown.`),
    h("p", { class: "quiet" }, "The hashrate of a worker follows from its shares of the last ten minutes."),
  );
}

/** Columns of a list of blocks. */
export function blockColumns(now) {
  return [
    { label: "Block", head: true, cell: (block) => link("block", block.number, count(block.number)) },
    { label: "Age", cell: (block) => h("span", { title: moment(block.time_s) }, block.number === 0 ? moment(block.time_s) : ago(now - block.time_s)) },
    { label: "Mined by", wide: true, cell: minedBy },
    { label: "Transactions", number: true, cell: (block) => count(block.transactions) },
    { label: "Uncles", number: true, cell: (block) => count(block.uncles) },
    { label: "Gas", number: true, cell: (block) => percent(block.gas_used, block.gas_limit) },
    { label: "Income in coins", number: true, cell: (block) => coins(block.income, 5) },
  ];
}

function minedBy(block) {
  if (block.number === 0) return "nobody: the first block";
  return [
    block.own || block.finder ? h("span", { class: "state good finder" }, block.finder ? `this node: ${block.finder}` : "this node") : null,
    " ",
    link("account", block.miner),
    block.extra ? [" ", h("small", { class: "name" }, block.extra)] : null,
  ];
}

function blocksPanel(node, now) {
  const more = h("a", { href: "#/blocks/latest" }, "All blocks");
  return panel("blocks", "Last blocks", { aside: more }, table("Last blocks, the newest first", blockColumns(now), node.blocks, (block) => block.hash));
}

/** The fate of a block: a word, and the block that pays it as an uncle. */
export function fate(name, nephew) {
  const [kind, text] = { canonical: ["good", "canonical"], uncle: ["good", "uncle"], side: ["busy", "lost the race; may become an uncle"], lost: ["bad", "lost"] }[name] ?? ["idle", name];
  return [h("span", { class: `state ${kind}` }, text), nephew === null ? null : [" of block ", link("block", nephew, count(nephew))]];
}

/** Blocks of this node whose place another block has. */
function lostRaces(node, now) {
  if (node.lost_races.length === 0) return h("p", { class: "quiet" }, "No block that was sealed here since the start has lost its place.");
  const columns = [
    { label: "Lost block", head: true, cell: (block) => link("block", block.hash, count(block.number)) },
    { label: "Age", cell: (block) => h("span", { title: moment(block.time_s) }, ago(now - block.time_s)) },
    { label: "What it is now", wide: true, cell: (block) => fate(block.fate, block.uncle_of) },
    { label: "Reward in coins", number: true, cell: (block) => coins(block.reward, 5) },
  ];
  return table("Blocks of this node that lost their place, the newest first", columns, node.lost_races, (block) => block.hash);
}

function rewardsPanel(node, now) {
  const { rewards } = node;
  if (!rewards) {
    return panel("rewards", "Rewards", null, h("p", { class: "empty" }, "This node has no address that could be paid. Give one with ", h("code", null, "--moacbase ADDRESS"), "."));
  }
  const { range } = rewards;
  const what = range
    ? `Summed over the canonical blocks ${count(range.first)} to ${count(range.last)}, since ${moment(range.first_time_s)}: the blocks of the last day, at most ${count(rewards.blocks_max)}.`
    : "There are no blocks of the last day.";
  return panel(
    "rewards",
    "Rewards of the last day",
    null,
    h("p", { class: "big" }, h("span", { class: "value" }, coins(rewards.total, 5)), " ", h("span", { class: "unit" }, "coins")),
    facts([
      ["Paid to", link("account", rewards.address)],
      ["Blocks mined", count(rewards.blocks)],
      ["Block rewards", coins(rewards.rewards)],
      ["Fees", coins(rewards.fees)],
      [`Uncles (${count(rewards.uncles)})`, coins(rewards.uncle_rewards)],
      ["Last own block", rewards.last_block ? [link("block", rewards.last_block.number, count(rewards.last_block.number)), " ", h("small", null, ago(now - rewards.last_block.time_s))] : "none"],
    ]),
    lostRaces(node, now),
    h("p", { class: "quiet" }, what, rewards.complete ? "" : " Older blocks are still being read.", " Blocks that this address mined, with fees and uncles; transfers do not count. A reorganization can take the newest ones back."),
  );
}
