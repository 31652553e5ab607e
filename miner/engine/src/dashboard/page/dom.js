// Makes elements, and changes existing ones into new ones without losing focus or selection.
// All text goes into text nodes, so nothing that a chain or a worker says is ever read as markup.

const SVG = "http://www.w3.org/2000/svg";

/** Makes an element. `attributes` with the value false, null or undefined are left out. Children
 * are elements, texts, numbers, lists of them, or null. */
export function h(tag, attributes, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** The same for SVG. */
export function s(tag, attributes, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === false || value === null || value === undefined) continue;
    element.setAttribute(name, value === true ? "" : String(value));
  }
  append(element, children);
  return element;
}

function append(element, children) {
  for (const child of children) {
    if (Array.isArray(child)) append(element, child);
    else if (child !== null && child !== undefined && child !== false) {
      element.append(child instanceof Node ? child : String(child));
    }
  }
}

/** Gives `parent` these children. Elements that are already there are changed, not replaced. */
export function show(parent, ...children) {
  const fresh = parent.cloneNode(false);
  append(fresh, children);
  morphChildren(parent, fresh);
}

function morphChildren(old, fresh) {
  const wanted = [...fresh.childNodes];
  wanted.forEach((node, index) => {
    const present = old.childNodes[index];
    if (!present) old.append(node);
    else if (present.nodeName !== node.nodeName || keyOf(present) !== keyOf(node)) {
      present.replaceWith(node);
    } else if (node.nodeType === Node.TEXT_NODE) {
      if (present.data !== node.data) present.data = node.data;
    } else {
      morphAttributes(present, node);
      morphChildren(present, node);
    }
  });
  while (old.childNodes.length > wanted.length) old.lastChild.remove();
}

function keyOf(node) {
  return node.nodeType === Node.ELEMENT_NODE ? node.getAttribute("data-key") : null;
}

function morphAttributes(old, fresh) {
  for (const { name, value } of fresh.attributes) {
    if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  for (const { name } of [...old.attributes]) {
    // A part that the reader has opened stays open.
    const own = name === "open" && old.nodeName === "DETAILS";
    if (!fresh.hasAttribute(name) && !own) old.removeAttribute(name);
  }
}

/** A panel with a heading. */
export function panel(id, title, attributes, ...content) {
  const heading = `${id}-title`;
  return h(
    "section",
    { class: `panel ${attributes?.class ?? ""}`.trim(), "aria-labelledby": heading, "data-key": id },
    h("div", { class: "panel-head" }, h("h2", { id: heading }, title), attributes?.aside),
    content,
  );
}

/** A table. A column has `label`, `cell(row)`, and maybe `number` (digits, to the right), `wide`
 * (the whole width on narrow screens) and `head` (it names the row). On narrow screens each row
 * becomes a card, so the roles are named. */
export function table(caption, columns, rows, keyOfRow) {
  const headCell = (column) =>
    h("th", { scope: "col", role: "columnheader", class: column.number && "number" }, column.label);
  const cell = (row) => (column) => {
    const tag = column.head ? "th" : "td";
    const attributes = {
      role: column.head ? "rowheader" : "cell",
      scope: column.head && "row",
      "data-label": column.label,
      class: [column.number && "number", column.wide && "wide", column.head && "lead"]
        .filter(Boolean)
        .join(" "),
    };
    return h(tag, attributes, h("div", { class: "cell" }, column.cell(row)));
  };
  return h(
    "table",
    { class: "cards", role: "table" },
    h("caption", { class: "hidden" }, caption),
    h("thead", { role: "rowgroup" }, h("tr", { role: "row" }, columns.map(headCell))),
    h(
      "tbody",
      { role: "rowgroup" },
      rows.map((row) => h("tr", { role: "row", "data-key": keyOfRow(row) }, columns.map(cell(row)))),
    ),
  );
}

/** A list of names and values. Values that are null are left out. */
export function facts(pairs, className) {
  return h(
    "dl",
    { class: className ?? "facts" },
    pairs
      .filter((pair) => pair && pair[1] !== null && pair[1] !== undefined)
      .map(([name, value]) => h("div", null, h("dt", null, name), h("dd", null, value))),
  );
}

/** A bar that shows a part of a whole, from 0 to 1, with a name for those who do not see it. */
export function bar(label, part) {
  const percent = Math.max(0, Math.min(100, part * 100));
  return h("progress", { max: 100, value: percent.toFixed(1), "aria-label": label }, `${percent.toFixed(1)} %`);
}
