// Asks the program for its figures and shows the page that the address names.

import { h, show } from "./dom.js";
import { Explorer, chainPath } from "./explorer.js";
import { rate, span } from "./format.js";
import { Overview, allRate } from "./overview.js";
import { followedChain, scsState, showScs } from "./scs.js";

/** Milliseconds between two requests for the status, and after a failure. */
const POLL = 3000;
/** Milliseconds after which a history is asked for again. */
const HISTORY_POLL = { hour: 10000, day: 60000 };
/** Milliseconds for an answer. */
const TIMEOUT = 8000;

const element = (id) => document.getElementById(id);
const overview = new Overview(element("overview"));
const explorer = new Explorer(element("explorer"));
const histories = {};
const asked = { hour: 0, day: 0 };
let status = null;
let answeredAt = 0;
let timer = null;

/** The JSON at a path. */
async function fetchJson(path) {
  const answer = await fetch(path, { signal: AbortSignal.timeout(TIMEOUT), cache: "no-store" });
  if (!answer.ok) throw new Error(`${path}: status ${answer.status}`);
  return answer.json();
}

async function poll() {
  clearTimeout(timer);
  if (document.hidden) return;
  try {
    const wanted = Object.keys(HISTORY_POLL).filter((range) => Date.now() - asked[range] >= HISTORY_POLL[range]);
    const [fresh, ...lists] = await Promise.all([fetchJson("/status"), ...wanted.map((range) => fetchJson(`/history/${range}`))]);
    wanted.forEach((range, index) => {
      histories[range] = lists[index];
      asked[range] = Date.now();
    });
    status = fresh;
    answeredAt = Date.now();
    trouble(fresh.error ?? null);
    showStatus();
  } catch (error) {
    const since = answeredAt ? ` The figures are ${span((Date.now() - answeredAt) / 1000)} old.` : "";
    trouble(`No answer from the program: ${error.message}.${since} Asking again every ${POLL / 1000} seconds.`);
    document.body.classList.toggle("old", answeredAt > 0);
    showState("no answer", "bad");
  }
  timer = setTimeout(poll, POLL);
}

function trouble(text) {
  const place = element("trouble");
  place.hidden = text === null;
  show(place, text);
  if (text === null) document.body.classList.remove("old");
}

function showStatus() {
  const { node, scs } = status;
  show(element("program"), status.program);
  show(element("program-detail"), [node ? `${node.network.name} network, ` : "", `version ${status.version}, at ${location.host}`]);
  show(element("foot"), scs ? "" : "Hashrates of the last day are kept in memory and begin anew with the program. ", "This page loads nothing from elsewhere. ", h("a", { href: "/status" }, "The same figures as JSON"), ".");
  element("pages").hidden = !node && chainPath === "";
  if (scs) showScs(element("overview"), status);
  else overview.update(status, histories);
  explorer.follow(node ?? followedChain(scs, chainPath));
  showState(...stateOf(status));
  showTitle();
}

/** The state of the program in two words, and its colour. */
function stateOf({ node, scs, devices, endpoints }) {
  if (scs) return scsState(scs);
  const searching = devices.some((device) => device.state === "searching" || (device.state === "waiting" && device.hashrate > 0));
  const preparing = devices.some((device) => device.state === "preparing");
  if (node?.failure) return ["failed", "bad"];
  if (node && node.sync.stage !== "idle") return ["synchronizing", "busy"];
  if (node?.work_pause) return ["waiting for peers", "busy"];
  if (searching) return ["mining", "good"];
  if (preparing) return ["preparing", "busy"];
  if (devices.length > 0 && devices.every((device) => device.state === "failed")) return ["all devices failed", "bad"];
  if (!node && !endpoints.some((endpoint) => endpoint.active)) return ["no connection", "bad"];
  if (node) return [node.stratum?.logged_in > 0 ? "serving workers" : "following the chain", "good"];
  return ["waiting for work", "idle"];
}

function showState(text, kind) {
  const place = element("state");
  place.className = `pill ${kind}`;
  show(place, text);
}

function showTitle() {
  const overviewTitle = status && !status.scs ? rate(allRate(status)) : "Dashboard";
  const page = explorer.title ?? overviewTitle;
  document.title = status ? `${page} – ${status.program} at ${location.host}` : page;
}

/** Shows the page that the address names. */
function route(event) {
  const parts = location.hash.replace(/^#\/?/, "").split("/").map(decode);
  const isOverview = parts[0] === "" || parts[0] === "main";
  element("overview").hidden = !isOverview;
  element("explorer").hidden = isOverview;
  for (const page of element("pages").querySelectorAll("a")) {
    const current = (page.dataset.page === "overview") === isOverview;
    if (current) page.setAttribute("aria-current", "page");
    else page.removeAttribute("aria-current");
  }
  explorer.go(isOverview ? null : parts, Boolean(event)).then(showTitle);
  if (isOverview && event) scrollTo(0, 0);
}

/** A part of the address, or itself if it is no valid text. */
function decode(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

element("skip").addEventListener("click", (event) => {
  // The address names the page, so this link must not change it.
  event.preventDefault();
  element("main").focus();
});
document.addEventListener("keydown", (event) => {
  const typing = event.target.closest?.("input, textarea, select");
  if (event.key !== "/" || typing || event.ctrlKey || event.metaKey || event.altKey || element("pages").hidden) return;
  event.preventDefault();
  if (element("explorer").hidden) location.hash = "#/blocks/latest";
  explorer.focusSearch();
});
document.addEventListener("visibilitychange", () => document.hidden || poll());
addEventListener("hashchange", route);
route(null);
poll();
