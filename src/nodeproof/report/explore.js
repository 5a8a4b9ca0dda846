/* The map of a report: what it shows, filters, and the selection as a table and as a file. */
const Explore = (() => {
  const SUSPECT = 1, PROVEN = 2, FINE = 65535, LISTED = 200;
  const id = (name) => document.getElementById(name);
  const number = (value) => value.toLocaleString("en");

  const decode = (text, Type) => new Type(Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0)).buffer);
  const places = (text) => Float32Array.from(decode(text, Uint16Array), (value) => (2 * value) / FINE - 1);
  const unpackLinks = ({ counts, wide, low, high }) => {
    const of = decode(counts, wide ? Uint32Array : Uint16Array), ends = decode(low, Uint16Array), upper = decode(high, Uint8Array);
    const links = new Uint32Array(2 * ends.length);
    let at = 0;
    of.forEach((count, u) => {
      for (let k = 0; k < count; k += 1, at += 1) {
        links[2 * at] = u;
        links[2 * at + 1] = ends[at] + 65536 * upper[at];
      }
    });
    return links;
  };

  /* Draw the map of the page's data; `page` has what shows a node, and how to write per cent. */
  const start = (page) => {
    const { classes, atlas: found } = page;
    if (!found) return null;
    const layouts = {};
    for (const [name, { x, y }] of Object.entries(found.layouts)) layouts[name] = { x: places(x), y: places(y) };
    const rows = found.rows && decode(found.rows, Uint32Array);
    // The names of nodes with evidence are known, whatever else the page has room for.
    const byRow = new Map(page.rows ? page.rows.map((row, at) => [row, page.names[at]]) : []);
    const data = {
      size: found.size, classes, layouts, links: unpackLinks(found.links), names: null, rows,
      code: decode(found.code, Uint16Array), p: Float32Array.from(decode(found.p, Uint16Array), (value) => value / FINE),
      given: Int32Array.from(decode(found.given, Uint16Array), (value) => value - 1), flags: decode(found.flags, Uint8Array),
    };
    const rowOf = (i) => (rows ? rows[i] : i);
    data.names = found.names ?? (page.rows ? null : page.names);
    const nameOf = (i) => data.names?.[i] ?? (found.named ? String(rowOf(i)) : byRow.get(rowOf(i)) ?? `row ${rowOf(i)}`);
    if (!data.names && !found.named) data.names = Array.from({ length: data.size }, (_, i) => nameOf(i));
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue(name).trim();
    const map = NodeMap.draw(id("atlas"), data, {
      colours: () => ({
        classes: classes.map((_, k) => colour(`--k${k}`)),
        ink: colour("--ink"), paper: colour("--card"), quiet: colour("--muted"), faint: colour("--faint"), accent: colour("--accent"),
      }),
      label: `Map of ${number(data.size)} nodes; arrow keys move from node to node, plus and minus zoom, L is a lasso`,
      onPick: (i) => { if (i >= 0) page.onPick(rowOf(i)); },
      onSelect: (nodes) => list(nodes),
    });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => map.setColours());

    // ---- filters
    const form = id("filters"), chips = id("chips");
    const sizes = new Uint32Array(classes.length);
    for (const k of data.code) sizes[k] += 1;
    classes.forEach((name, k) => {
      const label = document.createElement("label"), input = document.createElement("input"), swatch = document.createElement("span"), count = document.createElement("small");
      Object.assign(input, { type: "checkbox", defaultChecked: true, value: k });
      swatch.className = "swatch";
      swatch.style.setProperty("--c", `var(--k${k})`);
      count.textContent = number(sizes[k]);
      label.append(input, swatch, name, count);
      chips.append(label);
    });
    const least = id("least"), most = id("most"), labelled = id("labelled"), proof = id("proven");
    const share = (input, otherwise) => (input.value === "" || !input.checkValidity() ? otherwise : Number(input.value) / 100);
    let mask = null;
    const filter = () => {
      const boxes = [...chips.querySelectorAll("input")], allowed = boxes.map((box) => box.checked);
      const low = share(least, 0), high = share(most, 1), what = labelled.value, proven = proof?.value ?? "any";
      const everything = allowed.every(Boolean) && low <= 0 && high >= 1 && what === "any" && proven === "any";
      let count = data.size;
      if (!everything) {
        count = 0;
        mask = new Uint8Array(data.size);
        for (let i = 0; i < data.size; i += 1) {
          const suspect = (data.flags[i] & SUSPECT) !== 0, sure = (data.flags[i] & PROVEN) !== 0;
          // Per cent are entered as they are read: rounded.
          const p = Math.round(1000 * data.p[i]) / 1000;
          mask[i] = allowed[data.code[i]] && p >= low - 1e-9 && p <= high + 1e-9
            && (what === "any" || (what === "suspect" ? suspect : what === "differs" ? data.given[i] >= 0 && data.given[i] !== data.code[i] : (data.given[i] >= 0) === (what === "given")))
            && (proven === "any" || sure === (proven === "yes"));
          count += mask[i];
        }
      } else mask = null;
      map.filter(mask);
      id("shown").textContent = everything ? `all ${number(data.size)} nodes shown` : `${number(count)} of ${number(data.size)} nodes shown`;
      id("select-shown").disabled = !count;
      id("reset").disabled = everything;
    };
    form.addEventListener("input", filter);
    form.addEventListener("submit", (event) => event.preventDefault());
    form.addEventListener("reset", () => setTimeout(filter));
    id("no-class").addEventListener("click", () => {
      const boxes = [...chips.querySelectorAll("input")], on = !boxes.some((box) => box.checked);
      for (const box of boxes) box.checked = on;
      filter();
    });
    id("select-shown").addEventListener("click", () => {
      const nodes = [];
      for (let i = 0; i < data.size; i += 1) if (!mask || mask[i]) nodes.push(i);
      map.select(nodes);
    });
    filter();

    // ---- the selection
    const columns = ["node", "class", "probability", "given label", "looks wrong", ...(found.proof ? ["proven"] : [])];
    const values = (i) => [
      nameOf(i), classes[data.code[i]], data.p[i], data.given[i] < 0 ? "" : classes[data.given[i]],
      data.flags[i] & SUSPECT ? "yes" : "", ...(found.proof ? [data.flags[i] & PROVEN ? "yes" : ""] : []),
    ];
    let selection = [];
    const list = (nodes) => {
      selection = nodes;
      id("selection").hidden = !nodes.length;
      id("selected").textContent = `${number(nodes.length)} selected ${nodes.length === 1 ? "node" : "nodes"}`;
      const table = id("selected-table"), head = document.createElement("tr"), body = document.createElement("tbody");
      for (const title of columns) {
        const cell = document.createElement("th");
        cell.scope = "col";
        cell.textContent = title;
        if (title === "probability") cell.className = "n";
        head.append(cell);
      }
      for (const i of nodes.slice(0, LISTED)) {
        const line = body.insertRow(), [name, ...others] = values(i), cell = document.createElement("th"), button = document.createElement("button");
        cell.scope = "row";
        button.type = "button";
        button.className = "link";
        button.textContent = name;
        button.addEventListener("click", () => map.pick(i));
        cell.append(button);
        line.append(cell);
        others.forEach((value, at) => {
          const made = line.insertCell();
          made.textContent = at === 1 ? page.percent(value) : value;
          if (at === 1) made.className = "n";
        });
      }
      table.tHead.replaceChildren(head);
      table.tBodies[0].replaceWith(body);
      id("unlisted").textContent = nodes.length > LISTED ? `The first ${LISTED} are listed; the file has them all.` : "";
    };
    // As in predictions.csv: text in quotes, numbers without.
    const quoted = (value) => `"${String(value).replaceAll('"', '""')}"`;
    const csv = () => [
      columns.map((title) => quoted(title.replaceAll(" ", "_"))).join(","),
      ...selection.map((i) => values(i).map((value, at) => (at === 2 ? value.toFixed(5) : quoted(value))).join(",")),
    ].join("\r\n") + "\r\n";
    id("save").addEventListener("click", () => {
      const link = document.createElement("a");
      link.href = URL.createObjectURL(new Blob([csv()], { type: "text/csv" }));
      link.download = "selection.csv";
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 10000);
    });
    id("clear").addEventListener("click", () => map.select([]));
    list([]);

    const indexOf = new Map(rows ? Array.from(rows, (row, i) => [row, i]) : []);
    const onMap = (row) => (rows ? indexOf.get(row) ?? -1 : row);
    let byName = null;
    return {
      map,
      mark: (row) => { const i = onMap(row); if (i >= 0) map.pick(i, { quiet: true }); },
      /* The row of the node of this name, -1 if it is not on the map. */
      find: (name) => {
        byName ??= new Map(Array.from({ length: data.size }, (_, i) => [nameOf(i), rowOf(i)]));
        return byName.get(name) ?? -1;
      },
      suggest: (text, count) => {
        const alike = [];
        for (let i = 0; i < data.size && alike.length < count; i += 1) if (nameOf(i).toLowerCase().includes(text)) alike.push(nameOf(i));
        return alike;
      },
      /* What the map knows of a node. */
      about: (row) => { const i = onMap(row); return i < 0 ? null : { name: nameOf(i), code: data.code[i], p: data.p[i], given: data.given[i], suspect: (data.flags[i] & SUSPECT) !== 0 }; },
    };
  };
  return { start };
})();
