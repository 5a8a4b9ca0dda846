"use strict";
/* A map of nodes to pan, zoom and select in. The report and the labelling app share it. */
const NodeMap = (() => {
  const SUSPECT = 1, MOST_LINKS = 12000, MANY = 20000, CLOSE = 14;
  // Nodes in the window that are named; beyond that, classes are, if they are not too many.
  const NAMED_NODES = 60, NAMED_CLASSES = 24;
  const PLACES = { links: "by links", classes: "by class" };

  const element = (tag, className, ...content) => {
    const made = document.createElement(tag);
    if (className) made.className = className;
    made.append(...content);
    return made;
  };
  const button = (text, label, action) => {
    const made = element("button", "", text);
    made.type = "button";
    made.setAttribute("aria-label", label);
    made.title = label;
    made.addEventListener("click", action);
    return made;
  };
  const probe = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgb = (colour) => {
    probe.fillStyle = colour;
    probe.fillRect(0, 0, 1, 1);
    return [...probe.getImageData(0, 0, 1, 1).data.slice(0, 3)];
  };

  const draw = (host, data, options) => {
    const n = data.size;
    const selected = new Uint8Array(n);
    let shown = null, selection = [], picked = -1, hovered = -1, lasso = null, lassoing = false;
    let place = Object.keys(data.layouts)[0], { x: X, y: Y } = data.layouts[place];
    let width = 1, height = 1, scale = 1, left = 0, top = 0, image = null, pixels = null, waiting = 0, colours;
    // Dots of the screen per unit of the page, and the size of the picture in dots.
    let ratio = 1, across = 1, down = 1;

    const canvas = element("canvas"), tip = element("div", "map-tip"), hint = element("div", "map-hint", "Click the map, or hold Ctrl, to zoom with the wheel");
    const stage = element("div", "map-stage", canvas, tip, hint);
    const context = canvas.getContext("2d");
    tip.hidden = hint.hidden = true;
    stage.tabIndex = 0;
    stage.setAttribute("role", "application");
    stage.setAttribute("aria-label", options.label);
    stage.setAttribute("aria-keyshortcuts", "ArrowLeft ArrowRight ArrowUp ArrowDown + - 0 L Space Escape");

    // ---- the view: page = left + scale * place
    const reach = (values) => values.reduce((most, value) => Math.max(most, Math.abs(value)), 1e-3);
    const fit = () => {
      scale = Math.min((width / 2 - 16) / reach(X), (height / 2 - 16) / reach(Y));
      left = width / 2;
      top = height / 2;
      redraw();
    };
    const zoom = (factor, x = width / 2, y = height / 2) => {
      const next = Math.min(Math.max(scale * factor, 40), 4e5);
      left = x - ((x - left) * next) / scale;
      top = y - ((y - top) * next) / scale;
      scale = next;
      redraw();
    };
    const pan = (dx, dy) => { left += dx; top += dy; redraw(); };
    const redraw = () => { if (!waiting) waiting = requestAnimationFrame(() => { waiting = 0; paint(); }); };

    // ---- drawing, into an array of pixels: fast without a graphics card, too
    const blend = (at, colour, share) => {
      pixels[at] += (colour[0] - pixels[at]) * share;
      pixels[at + 1] += (colour[1] - pixels[at + 1]) * share;
      pixels[at + 2] += (colour[2] - pixels[at + 2]) * share;
    };
    // Links are counted in each dot, and what lies on top of each other is drawn once.
    let crossed = new Uint16Array(0);
    const line = (x0, y0, x1, y1) => {
      const steps = Math.max(Math.abs(x1 - x0), Math.abs(y1 - y0)), dx = (x1 - x0) / steps, dy = (y1 - y0) / steps;
      if (!(steps >= 1)) return;
      // Only the steps within the window.
      let from = 0, to = steps;
      for (const [start, step, end] of [[x0, dx, across - 1], [y0, dy, down - 1]]) {
        if (step === 0) { if (start < 0 || start > end) return; continue; }
        const a = -start / step, b = (end - start) / step;
        from = Math.max(from, Math.min(a, b));
        to = Math.min(to, Math.max(a, b));
      }
      for (let k = Math.ceil(from), x = x0 + k * dx, y = y0 + k * dy; k <= to; k += 1, x += dx, y += dy) crossed[(y | 0) * across + (x | 0)] += 1;
    };
    const dot = (x, y, radius, colour, share) => {
      const x0 = Math.max(Math.floor(x - radius), 0), x1 = Math.min(Math.ceil(x + radius), across - 1);
      const y0 = Math.max(Math.floor(y - radius), 0), y1 = Math.min(Math.ceil(y + radius), down - 1);
      for (let j = y0; j <= y1; j += 1) for (let i = x0; i <= x1; i += 1) {
        const cover = radius + 0.5 - Math.sqrt((i - x) * (i - x) + (j - y) * (j - y));
        if (cover > 0) blend(4 * (j * across + i), colour, share * Math.min(cover, 1));
      }
    };
    // Very many nodes: how many there are of each class, the more the darker.
    let grid = new Float32Array(0);
    const paintDensity = () => {
      const side = 2 * ratio, columns = Math.ceil(across / side), cells = columns * Math.ceil(down / side);
      if (grid.length !== 5 * cells) grid = new Float32Array(5 * cells);
      grid.fill(0);
      for (let i = 0; i < n; i += 1) {
        if (!inside(i, 0)) continue;
        const at = 5 * (Math.floor((top + scale * Y[i]) * ratio / side) * columns + Math.floor((left + scale * X[i]) * ratio / side));
        if ((shown && !shown[i]) || (selection.length && !selected[i])) { grid[at + 4] += 1; continue; }
        const colour = colours.classes[data.code[i]];
        for (let k = 0; k < 3; k += 1) grid[at + k] += colour[k];
        grid[at + 3] += 1;
      }
      let most = 1, others = 1;
      for (let at = 0; at < grid.length; at += 5) { most = Math.max(most, grid[at + 3]); others = Math.max(others, grid[at + 4]); }
      const dark = (count, of) => 0.35 + 0.65 * Math.log(count) / Math.log(Math.max(of, 2));
      for (let at = 0; at < grid.length; at += 5) {
        const count = grid[at + 3];
        if (!count && !grid[at + 4]) continue;
        const cell = at / 5, x0 = (cell % columns) * side, y0 = Math.floor(cell / columns) * side;
        const colour = count ? [grid[at] / count, grid[at + 1] / count, grid[at + 2] / count] : colours.faint;
        const share = count ? dark(count, most) : dark(grid[at + 4], others);
        for (let y = y0; y < Math.min(y0 + side, down); y += 1) for (let x = x0; x < Math.min(x0 + side, across); x += 1) blend(4 * (y * across + x), colour, share);
      }
    };
    const inside = (i, margin) => {
      const x = left + scale * X[i], y = top + scale * Y[i];
      return x > -margin && y > -margin && x < width + margin && y < height + margin;
    };
    const paintLinks = () => {
      const { links } = data;
      if (place !== "links" || !links?.length) return;
      const near = [];
      for (let k = 0; k < links.length && near.length <= MOST_LINKS; k += 2) if (inside(links[k], 0) || inside(links[k + 1], 0)) near.push(k);
      if (near.length > MOST_LINKS) return;
      // The more links, the fainter each: nodes stay in sight.
      const share = Math.max(0.5 * Math.min(1, 1000 / near.length), 0.04);
      if (crossed.length !== across * down) crossed = new Uint16Array(across * down);
      crossed.fill(0);
      for (const k of near) {
        const u = links[k], v = links[k + 1];
        if (shown && !(shown[u] && shown[v])) continue;
        line(ratio * (left + scale * X[u]), ratio * (top + scale * Y[u]), ratio * (left + scale * X[v]), ratio * (top + scale * Y[v]));
      }
      const covered = Float32Array.from({ length: 256 }, (_, count) => 1 - (1 - share) ** count);
      for (let at = 0; at < crossed.length; at += 1) if (crossed[at]) blend(4 * at, colours.quiet, covered[Math.min(crossed[at], 255)]);
    };
    // Names, as many as have room: of few nodes their own, else of the classes.
    let middles = null;
    const findMiddles = () => {
      const sums = data.classes.map(() => [0, 0, 0]);
      for (let i = 0; i < n; i += 1) { const sum = sums[data.code[i]]; sum[0] += X[i]; sum[1] += Y[i]; sum[2] += 1; }
      middles = sums.map(([x, y, count], k) => ({ text: data.classes[k], x: x / count, y: y / count, count }))
        .filter(({ count }) => count).sort((a, b) => b.count - a.count);
    };
    const paintNames = (near, radius) => {
      const few = near <= NAMED_NODES;
      if (!few && data.classes.length > NAMED_CLASSES) return;
      if (!few && !middles) findMiddles();
      const placed = [], put = few ? [] : middles;
      for (let i = 0; few && i < n; i += 1) if (inside(i, 0) && allowed(i)) put.push({ text: map.nameOf(i), x: X[i], y: Y[i] });
      context.font = `${few ? "" : "600 "}${few ? 11 : 13}px system-ui, sans-serif`;
      context.textAlign = "center";
      context.lineJoin = "round";
      context.lineWidth = 3.5;
      context.strokeStyle = `rgb(${colours.paper.join(" ")} / .85)`;
      context.fillStyle = colours.inkText;
      for (const { text, x, y } of put) {
        const short = text.length > 24 ? `${text.slice(0, 23)}…` : text;
        const half = context.measureText(short).width / 2 + 2, px = left + scale * x, py = top + scale * y - (few ? radius + 4 : -4);
        if (px < 0 || py < 12 || px > width || py > height) continue;
        const at = Math.min(Math.max(px, half), width - half);
        if (placed.some(([ax, ay, ahalf]) => Math.abs(ax - at) < ahalf + half && Math.abs(ay - py) < 14)) continue;
        placed.push([at, py, half]);
        context.strokeText(short, at, py);
        context.fillText(short, at, py);
      }
    };
    const paint = () => {
      const began = performance.now();
      if (!image) return;
      new Uint32Array(pixels.buffer).fill((255 << 24) | (colours.paper[2] << 16) | (colours.paper[1] << 8) | colours.paper[0]);
      paintLinks();
      let near = 0;
      for (let i = 0; i < n; i += 1) near += inside(i, 0);
      const radius = Math.min(6, Math.max(1.2, 150 / Math.sqrt(near + 400)));
      if (near > MANY) paintDensity();
      else for (let i = 0; i < n; i += 1) {
        if (!inside(i, radius)) continue;
        const x = ratio * (left + scale * X[i]), y = ratio * (top + scale * Y[i]);
        if (shown && !shown[i]) { dot(x, y, ratio * radius, colours.faint, 0.45); continue; }
        if (data.flags[i] & SUSPECT) { dot(x, y, ratio * (radius + 2.5), colours.ink, 0.75); dot(x, y, ratio * (radius + 1), colours.paper, 1); }
        if (selected[i]) dot(x, y, ratio * (radius + 0.8), colours.ink, 1);
        dot(x, y, ratio * radius, colours.classes[data.code[i]], selection.length && !selected[i] ? 0.3 : 0.85);
      }
      context.setTransform(1, 0, 0, 1, 0, 0);
      context.putImageData(image, 0, 0);
      context.setTransform(ratio, 0, 0, ratio, 0, 0);
      paintNames(near, radius);
      context.lineWidth = 2;
      for (const i of [hovered, picked]) if (i >= 0) {
        context.strokeStyle = colours.inkText;
        context.beginPath();
        context.arc(left + scale * X[i], top + scale * Y[i], radius + 5, 0, 7);
        context.stroke();
      }
      if (lasso?.length) {
        context.strokeStyle = colours.accentText;
        context.setLineDash([5, 4]);
        context.beginPath();
        lasso.forEach(([x, y]) => context.lineTo(x, y));
        context.closePath();
        context.stroke();
        context.setLineDash([]);
      }
      map.lastFrame = performance.now() - began;
    };

    // ---- nodes
    const allowed = (i) => !shown || shown[i];
    const nearest = (x, y, most, fits = allowed) => {
      let best = -1, least = most * most;
      for (let i = 0; i < n; i += 1) {
        const dx = left + scale * X[i] - x, dy = top + scale * Y[i] - y, distance = dx * dx + dy * dy;
        if (distance < least && fits(i, dx, dy)) { best = i; least = distance; }
      }
      return best;
    };
    const pick = (i, { quiet = false } = {}) => {
      picked = i;
      if (i >= 0 && !inside(i, -10)) pan(width / 2 - left - scale * X[i], height / 2 - top - scale * Y[i]);
      redraw();
      if (!quiet) options.onPick?.(i);
    };
    const select = (nodes) => {
      selected.fill(0);
      for (const i of nodes) selected[i] = 1;
      selection = [];
      for (let i = 0; i < n; i += 1) if (selected[i]) selection.push(i);
      redraw();
      options.onSelect?.(selection);
    };
    const within = (path) => {
      const found = [];
      for (let i = 0; i < n; i += 1) {
        if (!allowed(i)) continue;
        const x = left + scale * X[i], y = top + scale * Y[i];
        let odd = false;
        for (let k = 0, j = path.length - 1; k < path.length; j = k, k += 1) {
          const [ax, ay] = path[k], [bx, by] = path[j];
          if (ay > y !== by > y && x < ((bx - ax) * (y - ay)) / (by - ay) + ax) odd = !odd;
        }
        if (odd) found.push(i);
      }
      return found;
    };

    // ---- mouse, fingers and keys
    const pointers = new Map();
    let moved = 0;
    const at = (event) => { const box = stage.getBoundingClientRect(); return [event.clientX - box.left, event.clientY - box.top]; };
    stage.addEventListener("pointerdown", (event) => {
      if (event.button) return;
      stage.setPointerCapture(event.pointerId);
      pointers.set(event.pointerId, at(event));
      moved = 0;
      lasso = pointers.size === 1 && (lassoing || event.shiftKey) ? [at(event)] : null;
    });
    stage.addEventListener("pointermove", (event) => {
      const [x, y] = at(event), before = pointers.get(event.pointerId);
      if (!before) {
        const i = nearest(x, y, CLOSE);
        if (i !== hovered) { hovered = i; redraw(); }
        stage.classList.toggle("over-node", i >= 0);
        tip.hidden = i < 0;
        if (i >= 0) {
          tip.textContent = `${map.nameOf(i)}: ${data.classes[data.code[i]]}, ${(100 * data.p[i]).toFixed(0)}\u00a0%`;
          tip.style.left = `${Math.min(x + 12, Math.max(width - tip.offsetWidth - 4, 0))}px`;
          tip.style.top = `${y > height - 50 ? y - 34 : y + 14}px`;
        }
        return;
      }
      moved += Math.abs(x - before[0]) + Math.abs(y - before[1]);
      if (lasso) { lasso.push([x, y]); redraw(); }
      else if (pointers.size === 2) {
        const [other] = [...pointers].filter(([id]) => id !== event.pointerId).map(([, place_]) => place_);
        const length = (a) => Math.hypot(a[0] - other[0], a[1] - other[1]);
        zoom(length([x, y]) / Math.max(length(before), 1), (x + other[0]) / 2, (y + other[1]) / 2);
      } else if (moved > 3) pan(x - before[0], y - before[1]);
      pointers.set(event.pointerId, [x, y]);
    });
    const up = (event) => {
      if (!pointers.delete(event.pointerId)) return;
      if (lasso) {
        const path = lasso;
        lasso = null;
        if (path.length > 2) select(within(path));
        redraw();
      } else if (event.type === "pointerup" && moved <= 3) {
        const i = nearest(...at(event), CLOSE);
        if (i >= 0) pick(i);
      }
    };
    stage.addEventListener("pointerup", up);
    stage.addEventListener("pointercancel", up);
    stage.addEventListener("pointerleave", () => { hovered = -1; tip.hidden = true; redraw(); });
    let hiding = 0;
    stage.addEventListener("wheel", (event) => {
      // A page that scrolls must not be caught by the map.
      if (!(event.ctrlKey || event.metaKey || document.activeElement === stage)) {
        hint.hidden = false;
        clearTimeout(hiding);
        hiding = setTimeout(() => { hint.hidden = true; }, 1200);
        return;
      }
      event.preventDefault();
      zoom(Math.exp(-Math.max(-120, Math.min(120, event.deltaY)) / 300), ...at(event));
    }, { passive: false });
    const ways = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
    const setLasso = (on) => {
      lassoing = on;
      stage.classList.toggle("lassoing", on);
      tool.setAttribute("aria-pressed", String(on));
    };
    const keys = {
      "+": () => zoom(1.4), "=": () => zoom(1.4), "-": () => zoom(1 / 1.4), 0: fit, l: () => setLasso(!lassoing),
      " ": () => { if (picked >= 0) select(selected[picked] ? selection.filter((i) => i !== picked) : [...selection, picked]); },
      Escape: () => { setLasso(false); lasso = null; select([]); },
    };
    stage.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      const way = ways[event.key];
      if (way && event.shiftKey) pan(-60 * way[0], -60 * way[1]);
      else if (way) {
        const [x, y] = picked < 0 ? [width / 2, height / 2] : [left + scale * X[picked], top + scale * Y[picked]];
        const i = nearest(x, y, 1e6, (k, dx, dy) => {
          const along = dx * way[0] + dy * way[1];
          return allowed(k) && k !== picked && along > 0.01 && along >= Math.abs(dx * way[1] + dy * way[0]);
        });
        if (i >= 0) pick(i);
      } else if (keys[event.key]) keys[event.key]();
      else return;
      event.preventDefault();
    });

    // ---- what stands above it
    const tool = button("Lasso", "Select with a lasso (L, or Shift and drag)", () => setLasso(!lassoing));
    tool.setAttribute("aria-pressed", "false");
    const bar = element("div", "map-bar", element("span", "map-zoom",
      button("+", "Zoom in", () => zoom(1.4)), button("−", "Zoom out", () => zoom(1 / 1.4)), button("Fit", "Show all nodes", fit)), tool);
    if (Object.keys(data.layouts).length > 1) {
      const places = element("fieldset", "map-places", element("legend", "", "Placed"));
      for (const name of Object.keys(data.layouts)) {
        const input = element("input");
        Object.assign(input, { type: "radio", name: `places-${host.id}`, value: name, checked: name === place });
        input.addEventListener("change", () => { place = name; ({ x: X, y: Y } = data.layouts[name]); middles = null; fit(); });
        places.append(element("label", "", input, PLACES[name] ?? name));
      }
      bar.append(places);
    }
    host.replaceChildren(element("div", "node-map", bar, stage));

    const map = {
      lastFrame: 0, pick, select, zoom, pan, fit, paint,
      get selection() { return selection; },
      get picked() { return picked; },
      rowOf: (i) => (data.rows ? data.rows[i] : i),
      nameOf: (i) => data.names?.[i] ?? String(map.rowOf(i)),
      placeOf: (i) => [left + scale * X[i], top + scale * Y[i]],
      update: (arrays) => { Object.assign(data, arrays); middles = null; redraw(); },
      filter: (mask) => { shown = mask; redraw(); },
      setColours: () => {
        const given = options.colours();
        colours = { classes: given.classes.map(rgb), inkText: given.ink, accentText: given.accent };
        for (const name of ["ink", "paper", "quiet", "faint", "accent"]) colours[name] = rgb(given[name]);
        redraw();
      },
    };
    map.setColours();
    new ResizeObserver(() => {
      const first = !image, before = [width, height];
      [width, height] = [Math.max(stage.clientWidth, 1), Math.max(stage.clientHeight, 1)];
      ratio = Math.min(Math.max(Math.round(devicePixelRatio), 1), 2);
      [across, down] = [canvas.width, canvas.height] = [ratio * width, ratio * height];
      image = context.createImageData(across, down);
      pixels = image.data;
      if (first) fit();
      else pan((width - before[0]) / 2, (height - before[1]) / 2);
    }).observe(stage);
    return map;
  };
  return { draw };
})();
