"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const K = data.classes.length;
  const sources = Object.keys(data.evidence);
  const reduced = matchMedia("(prefers-reduced-motion: reduce)").matches;

  const element = (tag, text, className) => {
    const made = document.createElement(tag);
    if (text !== undefined) made.textContent = text;
    if (className) made.className = className;
    return made;
  };
  const percent = (p) => {
    // Values this close to 0 or 1 were rounded.
    if (p === 0) return "<\u00a00.01\u00a0%";
    if (p === 1 && K > 1) return ">\u00a099.99\u00a0%";
    const near = Math.min(p, 1 - p);
    const digits = p === 1 || near >= 0.02 ? 0 : near >= 0.005 ? 1 : 2;
    return `${(100 * p).toFixed(digits)}\u00a0%`;
  };

  // Tables that sort: every header becomes a button.
  for (const table of document.querySelectorAll("table.sortable")) {
    const headers = [...table.tHead.rows[0].cells];
    headers.forEach((header, column) => {
      const button = element("button", header.textContent, "sort");
      button.type = "button";
      header.replaceChildren(button);
      header.setAttribute("aria-sort", "none");
      button.addEventListener("click", () => {
        const numeric = header.classList.contains("n") ||
          table.tBodies[0].rows[0]?.cells[column].dataset.value !== undefined;
        const before = header.getAttribute("aria-sort");
        // Numbers start with the largest, names with the first.
        const ascending = before === "none" ? !numeric : before === "descending";
        headers.forEach((other) => other.setAttribute("aria-sort", "none"));
        header.setAttribute("aria-sort", ascending ? "ascending" : "descending");
        const key = (row) => numeric
          ? Number(row.cells[column].dataset.value)
          : row.cells[column].textContent.trim();
        const order = numeric
          ? (a, b) => key(a) - key(b)
          : (a, b) => key(a).localeCompare(key(b), undefined, { numeric: true });
        const rows = [...table.tBodies[0].rows].sort(order);
        if (!ascending) rows.reverse();
        table.tBodies[0].append(...rows);
      });
    });
  }

  const filter = document.getElementById("filter");
  if (filter) {
    const rows = [...document.getElementById("suspect-table").tBodies[0].rows];
    const matches = document.getElementById("matches");
    filter.addEventListener("input", () => {
      const wanted = filter.value.trim().toLowerCase();
      let count = 0;
      for (const row of rows) {
        const found = row.textContent.toLowerCase().includes(wanted);
        row.hidden = !found;
        count += found;
      }
      matches.textContent = wanted ? `${count} of ${rows.length}` : "";
    });
  }

  // Single node: the evidence of each source.
  const box = document.getElementById("evidence");
  const pick = document.getElementById("pick");
  const options = document.getElementById("names");
  const map = document.getElementById("nodemap");
  const places = map ? map.dataset.places.split(" ").map(Number) : [];
  const position = new Map(data.names.map((name, at) => [name, at]));
  const suspect = new Set(data.suspect);
  const excluded = new Set(data.excluded);
  let current = -1;

  const scoreBar = (value, most, source) => {
    const bar = element("span", undefined, "says");
    const fill = element("i", undefined, `source-${source}`);
    const width = most > 0 ? 50 * Math.min(Math.abs(value) / most, 1) : 0;
    fill.style.width = `${width}%`;
    fill.style.left = value < 0 ? `${50 - width}%` : "50%";
    bar.append(fill);
    return bar;
  };

  const show = (at) => {
    current = at;
    const proba = data.proba.slice(at * K, at * K + K).map((p) => p / 1e4);
    const scores = Object.fromEntries(sources.map((source) =>
      [source, data.evidence[source].slice(at * K, at * K + K).map((s) => s / 100)]));
    const linked = data.linked && data.linked.slice(at * K, at * K + K).map((v) => v / 100);
    const order = proba.map((_, k) => k).sort((a, b) => proba[b] - proba[a]);
    const best = order[0];
    const most = Math.max(...Object.values(scores).flat().map(Math.abs), 1e-9);
    const name = element("p", undefined, "node-name");
    name.append(element("b", data.names[at]), ` is ${data.classes[best]}, with ${percent(proba[best])}`);
    const given = data.given[at];
    const facts = [];
    if (given >= 0) {
      const doubt = suspect.has(at) ? ", which looks wrong" : "";
      facts.push(`Its given label is ${data.classes[given]}${doubt}.`);
      if (excluded.has(at)) facts.push("No optimal labelling keeps this label: that is for the fitted models, and does not prove the label wrong.");
    } else facts.push("It had no label.");
    if (data.sure) {
      const proven = data.sure[at];
      facts.push(proven < 0 ? "Its class is not proven." : proven === best ? "Its class is proven." :
        `Every optimal labelling puts it in ${data.classes[proven]}.`);
    }
    const table = element("table", undefined, "scores");
    const head = table.createTHead().insertRow();
    // A source without evidence on this node, such as labels on most, has no column.
    const informative = sources.filter((source) => scores[source].some((score) => score !== 0));
    const titles = ["class", "probability", ...informative, ...(linked ? ["links"] : [])];
    titles.forEach((title) => {
      const cell = element("th", title);
      cell.scope = "col";
      head.append(cell);
    });
    const body = table.createTBody();
    const shown = order.slice(0, 8);
    if (given >= 0 && !shown.includes(given)) shown.push(given);
    for (const k of shown) {
      const row = body.insertRow();
      if (k === best) row.className = "chosen";
      const title = element("th");
      title.scope = "row";
      const swatch = element("span", undefined, "swatch");
      swatch.style.setProperty("--c", `var(--k${k})`);
      const named = element("span", undefined, "named");
      named.append(swatch, data.classes[k]);
      title.append(named);
      row.append(title, element("td", percent(proba[k])));
      for (const source of informative) {
        const cell = element("td");
        const value = scores[source][k];
        const number = `${value > 0 ? "+" : value < 0 ? "−" : ""}${Math.abs(value).toFixed(1)}`;
        cell.append(number, scoreBar(value, most, source));
        row.append(cell);
      }
      if (linked) row.append(element("td", linked[k].toFixed(1).replace(/\.0$/, "")));
    }
    const scroll = element("div", undefined, "scroll");
    scroll.tabIndex = 0;
    scroll.setAttribute("role", "region");
    scroll.setAttribute("aria-label", "Evidence for each class");
    scroll.append(table);
    const legend = element("p",
      "Score that each source adds to a class, relative to the average class: +1 makes it " +
      "e ≈ 2.7 times as likely. The probabilities also take into account the sizes of the classes " +
      "and that a node influences its neighbours, so they can differ from the sum of these scores.",
      "fine");
    if (order.length > shown.length) legend.textContent += ` The most likely of ${K} classes are shown.`;
    box.replaceChildren(name, element("p", facts.join(" ")), scroll, legend);
    pick.value = data.names[at];
    if (map) {
      const mark = document.getElementById("picked");
      mark.setAttribute("cx", places[2 * at]);
      mark.setAttribute("cy", places[2 * at + 1]);
    }
  };

  // Nodes whose names start with a text, then those that contain it, ignoring case.
  const lower = data.names.map((name) => name.toLowerCase());
  const matching = (text) => {
    const wanted = text.toLowerCase(), begin = [], contain = [];
    lower.forEach((name, at) => {
      const where = name.indexOf(wanted);
      if (where >= 0) (where === 0 ? begin : contain).push(at);
    });
    return [...begin, ...contain];
  };
  const suggest = () => {
    options.replaceChildren(...matching(pick.value.trim()).slice(0, 20).map((at) => {
      const option = element("option");
      option.value = data.names[at];
      return option;
    }));
  };
  const choose = () => {
    const wanted = pick.value.trim();
    if (!wanted) return;
    const alike = matching(wanted);
    const at = position.get(wanted) ??
      alike.find((v) => lower[v] === wanted.toLowerCase()) ?? alike[0];
    if (at !== undefined) { show(at); return; }
    const few = data.names.length < data.n ? " among those available here" : "";
    box.querySelector(".missing")?.remove();
    box.prepend(element("p", `There is no node ${wanted}${few}.`, "missing"));
  };
  pick.addEventListener("input", () => {
    suggest();
    box.querySelector(".missing")?.remove();
    if (position.has(pick.value)) show(position.get(pick.value));
  });
  pick.addEventListener("change", choose);
  pick.addEventListener("keydown", (event) => { if (event.key === "Enter") choose(); });
  pick.addEventListener("focus", () => pick.select());

  const top = (at) => Math.max(...data.proba.slice(at * K, at * K + K));
  const doubtful = data.names.map((_, at) => at).sort((a, b) => top(a) - top(b));
  let turn = 0;
  document.getElementById("doubtful").addEventListener("click", () => {
    show(doubtful[turn % doubtful.length]);
    turn += 1;
  });
  document.getElementById("random").addEventListener("click", () => {
    show(Math.floor(Math.random() * data.names.length));
  });
  document.addEventListener("click", (event) => {
    const asked = event.target.closest("[data-node]");
    if (!asked) return;
    show(Number(asked.dataset.node));
    document.getElementById("node").scrollIntoView({ behavior: reduced ? "auto" : "smooth" });
  });

  if (map) {
    const nearest = (x, y, allowed = () => true) => {
      let best = -1, least = Infinity;
      for (let at = 0; at < data.names.length; at += 1) {
        const dx = places[2 * at] - x, dy = places[2 * at + 1] - y;
        const distance = dx * dx + dy * dy;
        if (distance < least && allowed(dx, dy, at)) { best = at; least = distance; }
      }
      return best;
    };
    map.addEventListener("click", (event) => {
      const point = new DOMPoint(event.clientX, event.clientY).matrixTransform(map.getScreenCTM().inverse());
      const at = nearest(point.x, point.y);
      if (at >= 0) show(at);
    });
    const directions = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
    map.addEventListener("keydown", (event) => {
      const way = directions[event.key];
      if (!way) return;
      event.preventDefault();
      const [x, y] = current < 0 ? [240, 240] : [places[2 * current], places[2 * current + 1]];
      const ahead = (dx, dy, at) => {
        const along = dx * way[0] + dy * way[1];
        return at !== current && along > 0.01 && along >= Math.abs(dx * way[1] + dy * way[0]);
      };
      const at = nearest(x, y, ahead);
      if (at >= 0) show(at);
    });
  }

  for (const button of document.querySelectorAll("[data-copy]")) {
    button.addEventListener("click", async () => {
      const text = document.getElementById(button.dataset.copy);
      try {
        await navigator.clipboard.writeText(text.textContent);
        button.textContent = "copied";
      } catch {
        getSelection().selectAllChildren(text);
        button.textContent = "selected: press Ctrl-C";
      }
    });
  }

  const first = document.querySelector("#suspect-table [data-node]");
  if (data.names.length) show(first ? Number(first.dataset.node) : doubtful[0]);
})();
