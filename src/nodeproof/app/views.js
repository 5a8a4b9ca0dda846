"use strict";
/* What the app shows: parts of the page from data, without state of their own. */
const Views = (() => {
  const SOURCES = { graph: "Links", features: "Features", labels: "Labels" };

  const element = (tag, className, ...content) => {
    const made = document.createElement(tag);
    if (className) made.className = className;
    made.append(...content.filter((part) => part !== null && part !== undefined).map((part) => (typeof part === "number" ? String(part) : part)));
    return made;
  };
  const number = (value) => value.toLocaleString("en");
  const count = (value, noun) => `${number(value)} ${noun}${value === 1 ? "" : "s"}`;
  const percent = (p) => {
    // Values this close to 0 or 1 would be rounded to them; they come with five digits.
    if (p < 0.000051) return "<\u00a00.01\u00a0%";
    if (p > 0.999949) return ">\u00a099.99\u00a0%";
    const near = Math.min(p, 1 - p);
    return `${(100 * p).toFixed(near >= 0.02 ? 0 : near >= 0.005 ? 1 : 2)}\u00a0%`;
  };
  const points = (p) => `${(100 * p).toFixed(1)}\u00a0%`;

  const swatch = (k) => {
    const made = element("span", "swatch");
    made.style.setProperty("--c", `var(--k${k})`);
    made.setAttribute("aria-hidden", "true");
    return made;
  };
  const named = (classes, k) => element("span", "named", swatch(k), element("span", "", classes[k]));
  const bar = (share, k) => {
    const made = element("span", "bar");
    made.style.setProperty("--w", `${Math.max(0, Math.min(1, share)) * 100}%`);
    made.style.setProperty("--c", k === undefined ? "var(--accent)" : `var(--k${k})`);
    made.setAttribute("aria-hidden", "true");
    return made;
  };
  const table = (titles, rows, numeric = []) => {
    const made = element("table");
    const head = made.createTHead().insertRow();
    titles.forEach((title, at) => {
      const cell = element("th", numeric.includes(at) ? "n" : "", title);
      cell.scope = "col";
      head.append(cell);
    });
    const body = made.createTBody();
    for (const row of rows) {
      const line = body.insertRow();
      row.forEach((content, at) => line.append(element("td", numeric.includes(at) ? "n" : "", content)));
    }
    return made;
  };
  const link = (text, action) => {
    const made = element("button", "link", text);
    made.type = "button";
    made.addEventListener("click", action);
    return made;
  };

  const tiles = (start, state) => {
    const last = state.rounds.at(-1);
    const first = state.rounds[0];
    const made = [];
    const tile = (value, text, more) => made.push(element("li", "", element("b", "", value), element("small", "", text), more ? element("small", "more", more) : null));
    if (last.accuracy) {
      const [estimate, low, high] = last.accuracy;
      const before = first.accuracy && state.rounds.length > 1 ? `; ${points(first.accuracy[0])} at the start` : "";
      tile(points(estimate), "estimated accuracy", `95\u00a0% interval ${points(low)} to ${points(high)}${before}`);
    } else tile(percent(last.mean), "mean probability", "too few labels to estimate accuracy");
    tile(number(state.suspects.length), "suspects left");
    tile(number(state.counts.labels), "labels");
    tile(number(state.counts.reviewed), "looked at", state.pending ? `${count(state.pending, "label")} not fitted yet` : null);
    return made;
  };

  // Bars to the right speak for a class, to the left against it.
  const evidence = (node, classes, shown) => {
    if (!node.evidence) return element("p", "fine", "What each source says is not saved for this node.");
    const sources = Object.keys(node.evidence);
    const most = Math.max(0.5, ...sources.flatMap((source) => shown.map((k) => Math.abs(node.evidence[source][k]))));
    const rows = shown.map((k) => [
      named(classes, k),
      ...sources.map((source) => {
        const value = node.evidence[source][k];
        const made = element("span", `says ${value < 0 ? "against" : "for"}`);
        made.style.setProperty("--w", `${(50 * Math.abs(value)) / most}%`);
        made.style.setProperty("--c", `var(--${source}, var(--muted))`);
        made.title = `${value > 0 ? "+" : ""}${value} nats`;
        return element("span", "says-cell", made, element("span", "hidden", made.title));
      }),
    ]);
    const made = table(["class", ...sources.map((source) => SOURCES[source] ?? source)], rows);
    made.className = "evidence";
    return element("div", "", element("h3", "", "What speaks for and against"), element("div", "scroll", made));
  };

  const neighbours = (node, classes, onPick) => {
    const { neighbours: found } = node;
    if (!found) return null;
    if (!found.count) return element("div", "", element("h3", "", "Neighbours"), element("p", "fine", "No links."));
    const parts = found.classes.map((size, k) => [size, k]).filter(([size]) => size).sort((a, b) => b[0] - a[0]);
    const stack = element("div", "stack");
    stack.setAttribute("aria-hidden", "true");
    for (const [size, k] of parts) {
      const piece = element("span");
      piece.style.setProperty("--c", `var(--k${k})`);
      piece.style.flexGrow = size;
      stack.append(piece);
    }
    const text = parts.slice(0, 4).map(([size, k]) => `${classes[k]}: ${number(size)}`).join(", ") + (parts.length > 4 ? ", …" : "");
    const titles = ["node", "class", "probability", "label", ...(found.weighted ? ["weight"] : [])];
    const rows = found.list.map((other) => [
      link(other.name, () => onPick(other.row)), named(classes, other.code), percent(other.p),
      other.label < 0 ? "–" : classes[other.label], ...(found.weighted ? [String(other.weight)] : []),
    ]);
    const box = element("div", "scroll", table(titles, rows, found.weighted ? [2, 4] : [2]));
    const more = found.count > found.list.length ? element("p", "fine", `${number(found.count - found.list.length)} more.`) : null;
    return element("div", "", element("h3", "", `Neighbours by class: ${text}`), stack, box, more);
  };

  const features = (node) => {
    if (!node.features?.length) return null;
    const most = Math.max(...node.features.map((feature) => Math.abs(feature.away)));
    const rows = node.features.map((feature) => {
      const made = element("span", `says ${feature.away < 0 ? "against" : "for"}`);
      made.style.setProperty("--w", `${(50 * Math.abs(feature.away)) / most}%`);
      made.style.setProperty("--c", "var(--features)");
      return [feature.name, String(feature.value), element("span", "says-cell", made, element("span", "hidden", `${feature.away} standard deviations`))];
    });
    const made = table(["feature", "value", "below or above the mean"], rows, [1]);
    made.className = "features";
    return element("div", "", element("h3", "", "Features that stand out"), element("div", "scroll", made));
  };

  const rounds = (state) => {
    const rows = state.rounds.map((round) => [
      round.round ? `refit ${round.round}` : "at the start",
      round.accuracy ? points(round.accuracy[0]) : "–",
      number(round.suspects),
      round.round ? number(round.labels) : "–",
      round.changes ? number(round.changes.count) : "–",
      round.round ? `${round.seconds.toFixed(1)}\u00a0s` : "–",
    ]).reverse();
    return table(["fit", "est. accuracy", "suspects", "labels changed", "nodes moved", "time"], rows, [1, 2, 3, 4, 5]);
  };

  const changes = (state, start, { onPick, onSelect, nameOf }) => {
    const { changes: found, notes } = state.rounds.at(-1);
    if (!found) return [];
    const told = notes.map((note) => element("p", "note", note));
    if (!found.count) return [...told, element("p", "fine", "The last refit changed the class of no node.")];
    const { classes } = start;
    const rows = found.moves.map(([from, to, size]) => [named(classes, from), named(classes, to), number(size)]);
    const some = found.nodes.slice(0, 12).map((row) => element("li", "", link(nameOf(row), () => onPick(row))));
    const mark = link(`Select ${found.nodes.length < found.count ? "the first " + number(found.nodes.length) : "them"} on the map`, () => onSelect(found.nodes));
    return [
      ...told,
      element("h3", "", `The last refit moved ${count(found.count, "node")}`),
      element("div", "scroll", table(["from", "to", "nodes"], rows, [2])),
      element("p", "moved-title", "Now most certain: "), element("ul", "moved", ...some), element("p", "", mark),
    ];
  };

  return { element, number, count, percent, points, swatch, named, bar, tiles, evidence, neighbours, features, rounds, changes };
})();
