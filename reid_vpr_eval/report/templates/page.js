"use strict";
const make = (tag, properties = {}, ...children) => {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
};
const SIGN = { right: "tick", wrong: "cross", missed: "lens", ignored: "dash" };
const sign = (role) => {
  const svg = document.getElementById("sign").content.cloneNode(true);
  svg.querySelector("use").setAttribute("href", "#" + SIGN[role]);
  return make("span", { className: "badge " + role }, svg);
};
const spoken = (role, rank) => ({
  query: "query", right: `rank ${rank}, right`, wrong: `rank ${rank}, wrong`,
  ignored: "ignored", missed: `missed positive at rank ${rank}`,
})[role];
const tile = ([role, rank, id, score, picture], pictures) => {
  const words = `${spoken(role, rank)}: ${id}`;
  const shown = picture < 0
    ? make("span", { className: "absent", role: "img", ariaLabel: `${words}, no picture` }, "no picture")
    : make("img", { src: pictures[picture][0], width: pictures[picture][1], height: pictures[picture][2], alt: words });
  const caption = make("figcaption");
  if (role === "query") caption.append("query");
  else caption.append(sign(role), make("b", {}, rank));
  if (score && role !== "ignored") caption.append(make("span", { className: "muted" }, score));
  return make("figure", { className: "tile " + role, title: id }, shown, caption);
};
for (const table of document.querySelectorAll("table.queries")) {
  const heads = [...table.tHead.rows[0].cells];
  const body = table.tBodies[0];
  const rows = [...body.rows];
  const stored = document.getElementById(table.dataset.lists);
  const lists = stored ? JSON.parse(stored.textContent) : { strips: {} };
  const opened = new Map();
  const close = (row) => {
    opened.get(row)?.remove();
    opened.delete(row);
    row.querySelector("button")?.setAttribute("aria-expanded", "false");
  };
  const open = (row, button) => {
    const found = lists.strips[row.dataset.row];
    const tiles = make("div", { className: "tiles" }, ...found.tiles.map((one) => tile(one, lists.pictures)));
    const more = found.hidden ? `, ${found.hidden} more ignored` : "";
    const strip = make("div", { className: table.dataset.shape }, make("p", { className: "caption" }, found.caption + more), tiles);
    const cell = make("td", { colSpan: heads.length }, strip);
    const below = make("tr", { className: "opened" }, cell);
    row.after(below);
    opened.set(row, below);
    button.setAttribute("aria-expanded", "true");
  };
  for (const row of rows) {
    if (!(row.dataset.row in lists.strips)) continue;
    const cell = row.cells[0];
    const button = make("button", { type: "button", className: "opens" }, ...cell.childNodes);
    button.setAttribute("aria-expanded", "false");
    button.addEventListener("click", () => (opened.has(row) ? close(row) : open(row, button)));
    cell.append(button);
  }
  heads.forEach((head, column) => {
    const number = head.hasAttribute("data-number");
    head.querySelector("button").addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const key = (row) => row.cells[column].dataset.sort ?? row.cells[column].textContent;
      const keyed = rows.map((row) => [key(row), row]);
      keyed.sort(([a], [b]) => {
        if (a === "" || b === "") return (a === "") - (b === "");
        const order = number ? a - b : a.localeCompare(b, "en", { numeric: true });
        return down ? -order : order;
      });
      [...opened.keys()].forEach(close);
      body.append(...keyed.map(([, row]) => row));
    });
  });
  const filter = document.getElementById(table.dataset.filter);
  const [text, outcome, said] = ["[type=search]", "select", "output"].map((what) => filter.querySelector(what));
  const texts = new Map(rows.map((row) => [row, row.textContent.toLowerCase()]));
  const apply = () => {
    const words = text.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const row of rows) {
      const fits = words.every((word) => texts.get(row).includes(word))
        && (!outcome.value || row.dataset.outcome === outcome.value);
      if (!fits) close(row);
      row.hidden = !fits;
      shown += fits;
    }
    said.textContent = `${shown.toLocaleString("en")} of ${rows.length.toLocaleString("en")} rows`;
  };
  filter.addEventListener("input", apply);
  filter.addEventListener("submit", (event) => event.preventDefault());
  filter.hidden = false;
  apply();
}
