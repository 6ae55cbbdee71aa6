/* The call graph in layers, edges as wide as they were taken often, and the same as a table. */

const LAYER = 96;
const NODE = 46;

function drawGraph(data, names) {
  const { graph } = data;
  const taken = new Map(graph.edges.map(([caller, callee, count]) => [`${caller} ${callee}`, count]));
  const depth = new Map([[graph.root, 0]]);
  const layers = [[graph.root]];
  for (let level = 0; level < layers.length; level += 1) {
    for (const caller of layers[level]) {
      for (const callee of graph.calls[caller]) {
        if (!taken.has(`${caller} ${callee}`) || depth.has(callee)) continue;
        depth.set(callee, level + 1);
        (layers[level + 1] = layers[level + 1] || []).push(callee);
      }
    }
  }
  const unused = graph.procedures.filter((_, index) => !depth.has(index));
  const played = plural(graph.episodes, 'episode');
  const rest = unused.length > 12 ? ` and ${unused.length - 12} more` : '';
  const note = unused.length ? ` Never called: ${unused.slice(0, 12).join(', ')}${rest}.` : '';
  byId('graph-facts').textContent = `Calls made by the policy in ${played}.${note}`;

  const acts = new Map();
  for (const [procedure, action, count] of graph.acts) {
    acts.set(procedure, [...(acts.get(procedure) || []), [count, data.actions[action]]]);
  }
  const place = byId('graph-drawing');
  onWidth(place, (room) => place.replaceChildren(graphDrawing(graph, names, layers, depth, acts, room)));
  byId('graph-table').replaceChildren(graphTable(data, names));
}

function graphDrawing(graph, names, layers, depth, acts, room) {
  const widest = Math.max(...layers.map((layer) => layer.length));
  const gap = 14;
  const width = Math.max(92, Math.min(190, (room - gap * (widest + 1)) / widest));
  const total = Math.max(room, widest * (width + gap) + gap);
  const at = placed(graph, layers, width + gap, total);
  const height = (layers.length - 1) * LAYER + NODE + 18;
  const most = Math.max(1, ...graph.edges.map(([, , count]) => count));
  const edges = graph.edges.filter(([caller]) => depth.has(caller)).map(([caller, callee, count]) => {
    const from = at.get(caller);
    const to = at.get(callee);
    const down = to.y > from.y;
    const y0 = from.y + NODE;
    const bend = (to.y - y0) / 2;
    const side = from.x + width / 2;
    const path = caller === callee ? `M${side} ${from.y + 12}c26 -14 26 36 0 22`
      : down ? `M${from.x} ${y0}C${from.x} ${y0 + bend} ${to.x} ${to.y - bend} ${to.x} ${to.y}`
        : `M${side} ${from.y + NODE / 2}C${side + 40} ${from.y} ${to.x + width / 2 + 40} ${to.y + NODE} ${to.x + width / 2} ${to.y + NODE / 2}`;
    const label = caller === callee ? [side + 22, from.y + 27]
      : down ? [from.x + (to.x - from.x) * 0.62, y0 + (to.y - y0) * 0.62] : [Math.max(side, to.x + width / 2) + 34, (from.y + to.y + NODE) / 2];
    const text = whole.format(count);
    const half = 5 + text.length * 3.7;
    const line = s('path', { class: `edge ${names.style(callee)}`, d: path, 'stroke-width': 1.5 + 5 * Math.sqrt(count / most) });
    return [line, s('g', { class: 'edge-count' },
      s('rect', { x: label[0] - half, y: label[1] - 9, width: 2 * half, height: 18, rx: 9 }),
      s('text', { x: label[0], y: label[1] }, text))];
  });
  const nodes = [...at].map(([procedure, { x, y }]) => {
    const own = (acts.get(procedure) || []).sort((a, b) => b[0] - a[0]);
    const list = own.map(([count, name]) => `${name} ${whole.format(count)}`).join(' · ') || 'only calls';
    const style = names.style(procedure);
    const box = { x: x - width / 2, y, width, height: NODE, rx: 8 };
    return s('g', { class: `node ${style}` }, s('title', {}, `${names.procedure(procedure)}: ${list}`),
      s('rect', { ...box, class: 'frame' }), style.includes('striped') ? s('rect', { ...box, fill: 'url(#stripes)' }) : null,
      s('text', { x, y: y + 18, class: 'node-name' }, fitted(names.procedure(procedure), width - 12, 7.4)),
      s('text', { x, y: y + 34, class: 'node-acts' }, fitted(list, width - 10, 5.9)));
  });
  return s('svg', { width: total, height, viewBox: `0 0 ${total} ${height}`, role: 'img', 'aria-label': 'Call graph; the table below has the same numbers' }, ...edges.map(([line]) => line), ...nodes, ...edges.map(([, count]) => count));
}

/** Each procedure below its first caller where there is room, siblings side by side. */
function placed(graph, layers, space, total) {
  const at = new Map([[graph.root, { x: total / 2, y: 8 }]]);
  layers.slice(1).forEach((layer, index) => {
    const caller = (procedure) => layers[index].find((candidate) => graph.edges.some(([from, to]) => from === candidate && to === procedure));
    const callers = layer.map(caller);
    const wanted = layer.map((procedure, place) => {
      const siblings = layer.filter((_, other) => callers[other] === callers[place]);
      const roomy = Math.min(space + 40, total / layer.length);
      return at.get(callers[place]).x + (siblings.indexOf(procedure) - (siblings.length - 1) / 2) * roomy;
    });
    for (let place = 1; place < layer.length; place += 1) wanted[place] = Math.max(wanted[place], wanted[place - 1] + space);
    const beyond = Math.max(0, wanted[layer.length - 1] + space / 2 - total);
    let most = total - space / 2;
    for (let place = layer.length - 1; place >= 0; place -= 1) {
      wanted[place] = Math.max(space / 2 + place * space, Math.min(wanted[place] - (place === layer.length - 1 ? beyond : 0), most));
      most = wanted[place] - space;
      at.set(layer[place], { x: wanted[place], y: (index + 1) * LAYER + 8 });
    }
  });
  return at;
}

function graphTable(data, names) {
  const { graph } = data;
  const rows = [
    ...graph.edges.map(([caller, callee, count]) => [caller, `calls ${names.procedure(callee)}`, count]),
    ...graph.acts.map(([procedure, action, count]) => [procedure, data.actions[action], count]),
  ].sort((a, b) => a[0] - b[0] || b[2] - a[2]);
  return h('table', { class: 'plain' },
    h('thead', {}, h('tr', {}, ...['procedure', 'step', 'times'].map((name) => h('th', { scope: 'col' }, name)))),
    h('tbody', {}, ...rows.map(([procedure, step, count]) => h('tr', {},
      h('th', { scope: 'row' }, names.procedure(procedure)), h('td', {}, step), h('td', { class: 'right' }, whole.format(count))))));
}
