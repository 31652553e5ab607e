// The panel in which the reader gives a contract's ABI, and a compiler's output to compare its code with.

import { keepAbi, keepVerified, keptVerified, verifiedBy } from "./abi.js";
import { facts, h, panel } from "./dom.js";

/** The most bytes of the files of a folder. */
const FOLDER_BYTES_MAX = 50_000_000;

const verifiedText = ({ name, exact }) =>
  exact ? `verified in this browser: ${name}, with the same metadata` : `verified in this browser: ${name}; only the metadata differ (names of files, or comments)`;

/** A button that does `work` with the text of a field, and says what came of it. */
function task(id, label, button, work) {
  const field = h("textarea", { id, rows: 4, spellcheck: "false" });
  const outcome = h("p", { role: "status" });
  const press = h("button", { type: "button" }, button);
  press.addEventListener("click", () => say(outcome, () => work(field.value)));
  return [h("label", { for: id }, label), field, press, outcome];
}

function say(place, work) {
  try {
    [place.textContent, place.className] = [work(), "good"];
  } catch (error) {
    [place.textContent, place.className] = [error.message, "bad"];
  }
}

/** Reads the ABIs of all JSON files of a folder. Files without one are passed over. */
async function readFolder(files) {
  const json = [...files].filter((file) => file.name.endsWith(".json"));
  const size = json.reduce((sum, file) => sum + file.size, 0);
  if (size > FOLDER_BYTES_MAX) throw new Error(`got ${size} bytes of JSON, expected at most ${FOLDER_BYTES_MAX}`);
  let kept = 0;
  for (const file of json) {
    try {
      keepAbi(null, await file.text());
      kept += 1;
    } catch {
      // Build folders have other files, too.
    }
  }
  if (kept === 0) throw new Error(`got ${json.length} JSON files, and no ABI in them`);
  return `ABIs of ${kept} files are kept in this browser`;
}

/** The panel of a contract's page. */
export function contractPanel(address, code) {
  const kept = keptVerified(address, code);
  const folder = h("input", { id: "abi-folder", type: "file", webkitdirectory: true, multiple: true });
  const outcome = h("p", { role: "status" });
  folder.addEventListener("change", async () => {
    const text = await readFolder(folder.files).catch((error) => error);
    say(outcome, () => {
      if (text instanceof Error) throw text;
      return text;
    });
  });
  return panel(
    "contract",
    "Source",
    { class: "contract" },
    facts([["Source", kept ? h("span", { class: "state good" }, verifiedText(kept)) : "not compared in this browser yet"]]),
    h(
      "details",
      null,
      h("summary", null, "Give an ABI"),
      task("abi", "ABI, artifact or compiler's output, as JSON", "Keep", (text) => `kept in this browser: ${keepAbi(address, text)} of functions and events`),
      h("label", { for: "abi-folder" }, "Or a folder with such files, for all contracts"),
      folder,
      outcome,
    ),
    h(
      "details",
      null,
      h("summary", null, "Compare with the compiler's output"),
      task("compiler-output", "Output of your own solc (--standard-json, or --combined-json bin-runtime), or an artifact", "Compare", (text) => {
        const match = verifiedBy(code, text);
        if (!match) throw new Error("none of these contracts has the code of this one");
        keepVerified(address, code, match);
        return verifiedText(match);
      }),
    ),
  );
}
