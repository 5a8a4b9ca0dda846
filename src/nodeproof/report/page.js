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
    if (p < 0.000051) return "<\u00a00.01\u00a0%";
    if (p > 0.999949 && K > 1) return ">\u00a099.99\u00a0%";
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
  const rowOf = (at) => (data.rows ? data.rows[at] : at);
  const byRow = new Map(data.names.map((_, at) => [rowOf(at), at]));
  const position = new Map(data.names.map((name, at) => [name, at]));
  const suspect = new Set(data.suspect);
  const excluded = new Set(data.excluded);
  // What is drawn, once it is there.
  let atlas = null;

  const scoreBar = (value, most, source) => {
    const bar = element("span", undefined, "says");
    const own = ["graph", "features", "labels"].includes(source) ? source : "kind";
    const fill = element("i", undefined, `source-${own}`);
    fill.style.setProperty("--at", sources.indexOf(source));
    const width = most > 0 ? 50 * Math.min(Math.abs(value) / most, 1) : 0;
    fill.style.width = `${width}%`;
    fill.style.left = value < 0 ? `${50 - width}%` : "50%";
    bar.append(fill);
    return bar;
  };

  // The address names the node that a reader has chosen, so that it can be passed on.
  const link = (name) => {
    try {
      history.replaceState(null, "", `#node=${encodeURIComponent(name)}`);
    } catch { /* Not every place that shows a page lets it change its address. */ }
  };
  const show = (at, { quiet = false } = {}) => {
    if (!quiet) link(data.names[at]);
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
    atlas?.mark(rowOf(at));
  };
  // Of a large graph, evidence is there for some nodes only.
  const showRow = (row) => {
    const at = byRow.get(row);
    if (at !== undefined) { show(at); return; }
    const about = atlas.about(row);
    const name = element("p", undefined, "node-name");
    name.append(element("b", about.name), ` is ${data.classes[about.code]}, with ${percent(about.p)}`);
    const given = about.given < 0 ? "It had no label." : `Its given label is ${data.classes[about.given]}${about.suspect ? ", which looks wrong" : ""}.`;
    box.replaceChildren(name, element("p", given), element("p",
      `What each source says is shown for ${data.names.length.toLocaleString("en")} of the ${data.n.toLocaleString("en")} nodes, and not for this one.`, "fine"));
    pick.value = about.name;
    link(about.name);
    atlas.mark(row);
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
    const text = pick.value.trim();
    const alike = matching(text).slice(0, 20).map((at) => data.names[at]);
    if (alike.length < 20 && data.rows && atlas) alike.push(...atlas.suggest(text.toLowerCase(), 20));
    options.replaceChildren(...[...new Set(alike)].slice(0, 20).map((name) => {
      const option = element("option");
      option.value = name;
      return option;
    }));
  };
  const choose = () => {
    const wanted = pick.value.trim();
    if (!wanted) return;
    const alike = matching(wanted);
    const exact = position.get(wanted), row = exact === undefined && atlas ? atlas.find(wanted) : -1;
    if (row >= 0) { showRow(row); return; }
    const at = exact ?? alike.find((v) => lower[v] === wanted.toLowerCase()) ?? alike[0];
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

  atlas = Explore.start({ ...data, percent, onPick: showRow });
  globalThis.nodeMap = atlas?.map;

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

  // A link to a node: #node=name.
  const follow = () => {
    const [, name] = location.hash.match(/^#node=(.+)$/) ?? [];
    if (!name) return false;
    try { pick.value = decodeURIComponent(name); } catch { pick.value = name; }
    choose();
    document.getElementById("node").scrollIntoView({ block: "nearest" });
    return true;
  };
  addEventListener("hashchange", follow);
  const first = document.querySelector("#suspect-table [data-node]");
  if (data.names.length) show(first ? Number(first.dataset.node) : doubtful[0], { quiet: true });
  follow();
})();
