"use strict";
(() => {
  const $ = (id) => document.getElementById(id);
  const { element, named, bar, number, count, percent } = Views;
  // Letters that mean something else are no keys of classes.
  const KEYS = [..."123456789acdefghijknopqvwxyz"];
  const MOST_SHOWN = 28, EVERY = 10;

  // A window keeps its name when the page is loaded again: it undoes its own labels.
  const window_ = sessionStorage.getItem("window") ?? crypto.randomUUID();
  sessionStorage.setItem("window", window_);
  // The token is in the cookie by now, and need not stay in the history.
  history.replaceState(null, "", location.pathname);

  let start, state, node = null, queue = "suspects", map = null, mapRound = -1, mapVersion = -1;
  // `wanted` is the node that is shown or on its way.
  let sent = 0, wanted = null, busy = Promise.resolve();
  // Nodes whose answer is on its way, and those whose answer was not saved.
  const saving = new Set(), unsaved = new Set();
  const skipped = new Set(), visited = [];

  const alert_ = (text) => {
    $("alert").textContent = text;
    $("alert").hidden = !text;
  };
  const call = async (path, body) => {
    const options = { headers: { "X-Window": window_ }, credentials: "same-origin" };
    if (body) {
      options.method = "POST";
      options.headers["Content-Type"] = "application/json";
      options.body = JSON.stringify(body);
    }
    let answer;
    try {
      answer = await fetch(path, options);
    } catch {
      throw Error("The app does not answer: is `nodeproof label` still running? What was confirmed is saved.");
    }
    const json = (answer.headers.get("Content-Type") ?? "").includes("json");
    const data = json ? await answer.json() : await answer.text();
    if (!answer.ok) throw Error(json ? data.error : data);
    return data;
  };
  // One request after the other: keys may come faster than answers.
  const inTurn = (work) => (busy = busy.then(work).catch((error) => alert_(error.message)));

  // ---- the map

  const decode = (text, Type) => {
    const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
    return new Type(bytes.buffer);
  };
  const arrays = (found) => ({
    code: decode(found.code, Uint32Array), p: decode(found.p, Float32Array), second: decode(found.second, Uint32Array),
    given: decode(found.given, Int32Array), flags: decode(found.flags, Uint8Array),
  });
  const colours = () => {
    const style = getComputedStyle(document.documentElement);
    const of = (name) => style.getPropertyValue(name).trim();
    return {
      classes: start.classes.map((_, k) => of(`--k${k}`)),
      ink: of("--ink"), paper: of("--map"), quiet: of("--muted"), faint: of("--faint"), accent: of("--accent"),
    };
  };
  const at = new Map();
  const onMap = (row) => (start.map?.rows ? at.get(row) ?? -1 : row);
  const openMap = async () => {
    const found = start.map;
    if (!found || typeof NodeMap === "undefined") {
      $("map-card").hidden = true;
      return;
    }
    const rows = found.rows ? decode(found.rows, Uint32Array) : null;
    rows?.forEach((row, i) => at.set(row, i));
    const layouts = {};
    for (const [name, { x, y }] of Object.entries(found.layouts)) {
      layouts[name] = { x: decode(x, Float32Array), y: decode(y, Float32Array) };
    }
    const data = {
      size: found.size, total: found.total, classes: start.classes, names: start.names, rows, layouts,
      links: decode(found.links, Uint32Array), totalLinks: found.totalLinks, density: null, proof: false,
      ...arrays(await call("/api/map")),
    };
    map = NodeMap.draw($("atlas"), data, {
      colours,
      label: `Map of ${data.size} nodes; arrow keys move from node to node`,
      onPick: (i) => { if (i >= 0) show(map.rowOf(i), { quiet: true }); },
      onSelect: (nodes) => selected(nodes),
    });
    mapRound = state.round;
    mapVersion = state.version;
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => map.setColours());
    globalThis.nodeMap = map;
  };
  let drawing = null;
  const refreshMap = () => {
    if (!map || (mapRound === state.round && mapVersion === state.version)) return;
    // The whole map only after a fit, and a second after the last of many labels.
    clearTimeout(drawing);
    drawing = setTimeout(() => inTurn(async () => {
      [mapRound, mapVersion] = [state.round, state.version];
      map.update(arrays(await call("/api/map")));
    }), mapRound === state.round ? 1000 : 0);
  };
  const selected = (nodes) => {
    $("selected").replaceChildren(...(nodes.length
      ? [`${count(nodes.length, "node")} selected.`]
      : ["Nothing is selected. Draw a lasso: ", element("kbd", "", "Shift"), " and drag."]));
    $("relabel-do").disabled = $("relabel-clear").disabled = !nodes.length;
  };

  // ---- state

  // Nobody waits for the choice of what to ask for.
  const idle = () => ["", "ask"].includes(state.job.what);
  const waiting = () => state[queue].filter((row) => !skipped.has(row) && !saving.has(row));
  const nameOf = (row) => {
    const i = onMap(row);
    return start.names ? start.names[i] ?? `row ${row}` : String(row);
  };

  const take = (next) => {
    const before = state;
    state = next;
    $("tiles").replaceChildren(...Views.tiles(start, state));
    for (const name of ["suspects", "asked"]) $(`count-${name}`).textContent = number(state[name].length);
    if (!before || before.rounds.length !== state.rounds.length) {
      const made = Views.rounds(state);
      made.id = "rounds";
      $("rounds").replaceWith(made);
      $("changes").replaceChildren(...Views.changes(state, start, {
        nameOf, onPick: (row) => show(row), onSelect: (rows) => map?.select(rows.map(onMap).filter((i) => i >= 0)),
      }));
    }
    $("undo").disabled = !state.counts.undoable;
    const { job } = state;
    const doing = { refit: "Fitting", write: "Writing the results", ask: "Choosing nodes to ask for" }[job.what];
    const done = state.written.length ? `Written: ${state.written.join(", ")}.` : "";
    const open = state.pending ? `${count(state.pending, "changed label")} not in the fit yet.` : "The fit has all labels.";
    $("job").textContent = doing ? `${doing}… ${job.seconds.toFixed(1)} s${job.sweep ? `, sweep ${job.sweep}` : ""}` : job.error ? `Not done: ${job.error}` : [open, done].filter(Boolean).join(" ");
    $("job").classList.toggle("running", Boolean(doing));
    $("refit").disabled = !start.refits || !idle() || !state.pending;
    $("write").disabled = !idle() || !start.refits || (!state.round && !state.pending);
    document.documentElement.dataset.job = job.what || "none";
    document.documentElement.dataset.round = state.round;
    place();
    refreshMap();
  };
  const place = () => {
    const left = waiting();
    const i = node ? left.indexOf(node.row) : -1;
    $("place").textContent = i >= 0 ? `${number(i + 1)} of ${number(left.length)}` : left.length ? `${number(left.length)} left` : "";
  };

  // ---- the node

  const show = async (row, { quiet = false } = {}) => {
    // Until it is there, keys mean nothing: they would label what was shown before.
    wanted = row;
    node = null;
    document.documentElement.dataset.node = "";
    await refresh();
    if (wanted === row && node && map && !quiet && onMap(row) >= 0) map.pick(onMap(row), { quiet: true });
  };
  const refresh = async () => {
    const row = wanted;
    let found;
    try {
      found = await call(`/api/node/${row}`);
    } catch (error) {
      alert_(error.message);
      return;
    }
    if (row !== wanted) return;
    node = found;
    draw();
    document.documentElement.dataset.node = row;
  };
  const best = (proba) => proba.indexOf(Math.max(...proba));
  const draw = () => {
    const { classes } = start;
    const guess = best(node.proba);
    const has = node.label >= 0;
    $("node-name").textContent = node.name;
    const p = node.proba[guess];
    $("said").replaceChildren(...(has
      ? [node.reviewed ? "Looked at, labelled " : "Labelled ", named(classes, node.label),
        guess === node.label ? `; the model agrees, ${percent(p)}.` : "; the model says ", ...(guess === node.label ? [] : [named(classes, guess), ` (${percent(p)}).`])]
      : ["No label; the model says ", named(classes, guess), ` (${percent(p)}).`]));
    const confirmed = has ? node.label : guess;
    $("confirm").replaceChildren(has ? "Keep " : "Confirm ", element("b", "", classes[confirmed]), " ", element("kbd", "", "Enter"));
    // In their own order, so that keys stay the same; of very many, the likely ones.
    let shown = classes.map((_, k) => k);
    if (shown.length > MOST_SHOWN) {
      shown = shown.sort((a, b) => node.proba[b] - node.proba[a]).slice(0, 12);
      if (has && !shown.includes(node.label)) shown.push(node.label);
      shown.sort((a, b) => a - b);
    }
    $("choices").replaceChildren(...shown.map((k) => {
      const made = element("button", "choice",
        KEYS[k] ? element("kbd", "", KEYS[k].toUpperCase()) : element("span"), named(classes, k),
        bar(node.proba[k], k), element("span", "p", percent(node.proba[k])),
        element("span", "marks", k === node.label ? element("span", "mark", "label") : null, k === guess ? element("span", "mark model", "model") : null));
      made.type = "button";
      made.dataset.class = k;
      made.setAttribute("aria-pressed", String(k === node.label));
      made.addEventListener("click", () => answer(k));
      return made;
    }));
    const likely = classes.map((_, k) => k).sort((a, b) => node.proba[b] - node.proba[a]).slice(0, 5);
    if (has && !likely.includes(node.label)) likely.push(node.label);
    const pick = (row) => { remember(); show(row); };
    $("evidence").replaceChildren(...[
      Views.evidence(node, classes, likely), Views.neighbours(node, classes, pick), Views.features(node),
    ].filter(Boolean));
    place();
  };
  const nothing = () => {
    node = wanted = null;
    const other = queue === "suspects" ? "asked" : "suspects";
    const left = state[queue].filter((row) => skipped.has(row)).length;
    $("node-name").textContent = left ? `${count(left, "skipped node")} left` : queue === "suspects" ? "No label looks wrong any more" : "Nothing more to ask for now";
    $("said").textContent = left ? "Skip once more to see them again." : state.pending && start.refits ? "Refit to see what follows from the new labels." : state[other].length ? "The other list has more." : "";
    $("choices").replaceChildren();
    $("evidence").replaceChildren();
    $("confirm").replaceChildren("Confirm ", element("kbd", "", "Enter"));
    document.documentElement.dataset.node = "none";
    place();
  };
  const remember = () => { if (node) visited.push(node.row); };
  const following = (but = node?.row) => {
    const row = waiting().find((other) => other !== but);
    return row === undefined ? nothing() : show(row);
  };

  // ---- actions

  const save = async (body) => {
    let found;
    try {
      found = await call("/api/label", body);
    } catch (error) {
      for (const row of body.nodes) unsaved.add(row);
      throw Error(`${error.message} Not saved: ${told(unsaved)}.`);
    } finally {
      for (const row of body.nodes) saving.delete(row);
    }
    for (const row of body.nodes) unsaved.delete(row);
    alert_(unsaved.size ? `Not saved: ${told(unsaved)}.` : "");
    take(found.state);
    document.documentElement.dataset.saved = ++sent;
  };
  const told = (rows) => {
    const names = Array.from(rows).slice(0, 5).map(nameOf).join(", ");
    return `the label${rows.size === 1 ? "" : "s"} of ${names}${rows.size > 5 ? ` and ${number(rows.size - 5)} more` : ""}`;
  };
  const answer = (k) => {
    if (!node) return;
    const { row, label, proba } = node;
    const kept = k === undefined ? (label >= 0 ? label : best(proba)) : k;
    remember();
    // The next node at once; the answer follows.
    saving.add(row);
    following(row);
    inTurn(async () => {
      await save({ nodes: [row], labels: [kept], kind: kept === label ? "confirm" : "label" });
      if ($("auto").checked && start.refits && state.pending >= EVERY && idle()) take((await call("/api/refit", {})).state);
    });
  };
  const actions = {
    confirm: () => answer(),
    skip: () => {
      if (!node) {
        if (wanted === null && skipped.size) {
          skipped.clear();
          following();
        }
        return;
      }
      const { row } = node;
      remember();
      skipped.add(row);
      following(row);
    },
    back: () => inTurn(() => { if (visited.length) return show(visited.pop()); }),
    undo: () => inTurn(async () => {
      const found = await call("/api/undo", {});
      take(found.state);
      for (const row of found.nodes) skipped.delete(row);
      document.documentElement.dataset.saved = ++sent;
      if (found.nodes.length) await show(found.nodes[0]);
    }),
    refit: () => { if (!$("refit").disabled) inTurn(async () => take((await call("/api/refit", {})).state)); },
    write: () => inTurn(async () => take((await call("/api/write", {})).state)),
  };
  const turn = (name) => {
    queue = name;
    for (const tab of document.querySelectorAll("[data-queue]")) tab.setAttribute("aria-pressed", String(tab.dataset.queue === name));
    return following(null);
  };
  const keys = {
    Enter: actions.confirm, s: actions.skip, ArrowRight: actions.skip, b: actions.back, ArrowLeft: actions.back,
    u: actions.undo, r: actions.refit, t: () => turn(queue === "suspects" ? "asked" : "suspects"),
    m: () => $("atlas").querySelector("[tabindex]")?.focus(),
    "/": () => { if (!$("finder").hidden) $("class-name").focus(); },
    "?": () => $("help").showModal(),
  };
  document.addEventListener("keydown", (event) => {
    const { target } = event;
    if ($("help").open) return;
    if (event.key === "z" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      actions.undo();
      return;
    }
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || event.repeat) return;
    if (target.closest("input:not([type=checkbox]), select, textarea")) return;
    if (event.key === "Enter" && target.closest("button, a, input")) return;
    const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
    const k = KEYS.indexOf(key);
    if (keys[key]) keys[key]();
    else if (k >= 0 && k < start?.classes.length) answer(k);
    else return;
    event.preventDefault();
  });
  for (const name of Object.keys(actions)) $(name).addEventListener("click", actions[name]);
  for (const tab of document.querySelectorAll("[data-queue]")) tab.addEventListener("click", () => turn(tab.dataset.queue));
  $("relabel").addEventListener("submit", (event) => {
    event.preventDefault();
    const nodes = Array.from(map.selection, (i) => map.rowOf(i));
    const k = Number($("relabel-class").value);
    if (!nodes.length) return;
    inTurn(async () => {
      await save({ nodes, labels: nodes.map(() => k), kind: "relabel" });
      map.select([]);
      if (nodes.includes(wanted)) await refresh();
    });
  });
  $("keys").addEventListener("click", () => $("help").showModal());
  $("relabel-clear").addEventListener("click", () => map.select([]));
  $("class-name").addEventListener("change", () => {
    const k = start.classes.indexOf($("class-name").value);
    if (k < 0) return;
    $("class-name").value = "";
    $("node").focus();
    answer(k);
  });

  // ---- other windows, and fits in the background

  const listen = () => {
    const events = new EventSource("/api/events");
    let asking = false;
    events.onmessage = (event) => {
      const news = JSON.parse(event.data);
      const same = news.version === state.version && news.round === state.round && news.job === state.job.what && !news.job;
      if (same || asking) return;
      asking = true;
      inTurn(async () => {
        const { round, version } = state;
        take(await call("/api/state"));
        asking = false;
        // A fit or another window may have changed what is shown.
        if (wanted === null) await following();
        else if (round !== state.round || version !== state.version) await refresh();
      }).finally(() => { asking = false; });
    };
  };

  const open = async () => {
    start = await call("/api/start");
    const sheet = new CSSStyleSheet();
    const set = (side) => start.colours.map((pair, k) => `--k${k}: ${pair[side]};`).join(" ");
    sheet.replaceSync(`:root { ${set(0)} } @media screen and (prefers-color-scheme: dark) { :root { ${set(1)} } }`);
    document.adoptedStyleSheets = [sheet];
    $("title").textContent = `${count(start.n, "node")}${start.links ? `, ${count(start.links, "link")}` : ""}, ${start.classes.length} classes`;
    $("relabel-class").replaceChildren(...start.classes.map((name, k) => {
      const made = element("option", "", name);
      made.value = k;
      return made;
    }));
    if (start.classes.length > 9) {
      $("finder").hidden = false;
      $("class-names").replaceChildren(...start.classes.map((name) => {
        const made = element("option");
        made.value = name;
        return made;
      }));
    }
    if (!start.refits) alert_("This model was saved without its data: labels can be checked and saved, but not fitted here.");
    else if (start.notes.length) alert_(start.notes.join(" "));
    take(start.state);
    await openMap();
    await turn(state.suspects.length ? "suspects" : "asked");
    listen();
    document.documentElement.dataset.app = "ready";
  };
  open().catch((error) => alert_(error.message));
})();
