/* Training curves: small charts that share the axis of updates. */

const CURVE_NAMES = {
  error: 'Error', training_error: 'Error on the training traces', elbo: 'ELBO of a trace', loss: 'Loss', entropy: 'Entropy of the posterior',
  entropy_weight: 'Entropy weight', php_steps_per_action: 'PHP steps per action',
  nll_per_action: 'Negative log-likelihood per action', log_likelihood: 'Log-likelihood',
  held_out: 'Log-likelihood per action, held-out traces',
};
const CURVE_ORDER = ['error', 'training_error', 'held_out', 'elbo', 'php_steps_per_action', 'entropy', 'entropy_weight', 'nll_per_action', 'log_likelihood', 'loss'];

function drawCurves(curves) {
  const rank = (curve) => (CURVE_ORDER.includes(curve.name) ? CURVE_ORDER.indexOf(curve.name) : CURVE_ORDER.length);
  const sorted = [...curves].sort((a, b) => rank(a) - rank(b));
  const errors = sorted.filter((curve) => curve.name === 'error' || curve.name === 'training_error');
  const groups = [...(errors.length ? [errors] : []), ...sorted.filter((curve) => !errors.includes(curve)).map((curve) => [curve])];
  const last = Math.max(...curves.map((curve) => curve.points[curve.points.length - 1][0]));
  for (const group of groups) byId('curves').append(chart(group, last));
}

function chart(group, last) {
  const share = group[0].name.endsWith('error');
  const format = share ? percent : short;
  const title = group.length > 1 ? 'Error' : CURVE_NAMES[group[0].name] || group[0].name;
  const labels = group.map((curve) => (group.length < 2 ? '' : curve.name === 'error' ? 'test' : 'training'));
  const finals = group.map((curve, index) => {
    const value = format(curve.points[curve.points.length - 1][1]);
    return h('span', { class: `final line-${index}` }, h('span', { class: 'key' }), `${labels[index]} ${value}`.trim());
  });
  const readout = h('p', { class: 'readout', 'aria-hidden': 'true' }, '\u00a0');
  const svg = s('svg', { role: 'img', 'aria-label': `${title}: ${group.map((curve, index) => {
    const values = curve.points.map(([, value]) => value);
    return `${labels[index]} from ${format(values[0])} to ${format(values[values.length - 1])}, lowest ${format(Math.min(...values))}`;
  }).join('; ')}` });
  const figure = h('figure', { class: 'chart' }, h('figcaption', {}, term(title, 'chart-title'), ...finals), svg, readout);
  onWidth(figure, (width) => plot(svg, readout, group, labels, last, width, format, share));
  return figure;
}

function plot(svg, readout, group, labels, last, width, format, share) {
  const height = 150;
  const pad = { left: 48, right: 10, top: 8, bottom: 22 };
  const values = group.flatMap((curve) => curve.points.map(([, value]) => value));
  let low = Math.min(...values);
  let high = Math.max(...values);
  if (share || (low > 0 && low < 0.4 * high)) low = 0;
  if (high - low < 1e-9) { high += 0.5 * Math.abs(high) || 1; low -= share ? 0 : 0.5 * Math.abs(low); }
  const x = (update) => pad.left + (update / last) * (width - pad.left - pad.right);
  const y = (value) => pad.top + (1 - (value - low) / (high - low)) * (height - pad.top - pad.bottom);
  const ticks = niceTicks(low, high);
  const digits = ticks.length > 1 ? Math.max(0, -Math.floor(Math.log10(ticks[1] - ticks[0]) + 1e-9)) : 2;
  const label = (value) => (share ? `${Math.round(100 * value)}%` : Math.abs(value) >= 1000 || digits > 3 ? short(value) : value.toFixed(digits).replace('-', '−'));
  const grid = ticks.map((value) => s('g', { class: 'grid' },
    s('line', { x1: pad.left, x2: width - pad.right, y1: y(value), y2: y(value) }),
    s('text', { x: pad.left - 7, y: y(value) + 4, class: 'right' }, label(value))));
  const steps = [0, last / 2, last].map((update, index) => s('text', {
    x: x(update), y: height - 5, class: ['left', 'middle', 'right'][index] }, whole.format(Math.round(update))));
  const lines = group.map((curve, index) => s('path', { class: `line line-${index}`,
    d: curve.points.map(([update, value], place) => `${place ? 'L' : 'M'}${x(update).toFixed(1)} ${y(value).toFixed(1)}`).join('') }));
  const cross = s('g', { class: 'cross' });
  svg.setAttribute('width', width);
  svg.setAttribute('height', height);
  svg.setAttribute('viewBox', `0 0 ${width} ${height}`);
  svg.replaceChildren(...grid, s('g', { class: 'grid' }, ...steps), ...lines, cross);
  svg.onpointermove = (event) => {
    const update = ((event.clientX - svg.getBoundingClientRect().left - pad.left) / (width - pad.left - pad.right)) * last;
    const near = group.map((curve) => curve.points.reduce((best, point) => (Math.abs(point[0] - update) < Math.abs(best[0] - update) ? point : best)));
    cross.replaceChildren(...near.map(([at, value], index) => s('circle', { cx: x(at), cy: y(value), r: 4, class: `line-${index}` })));
    readout.textContent = `update ${whole.format(near[0][0])}: ${near.map(([, value], index) => `${labels[index]} ${format(value)}`.trim()).join(', ')}`;
  };
  svg.onpointerleave = () => { cross.replaceChildren(); readout.textContent = '\u00a0'; };
}

/** Two to six round numbers within a range. */
function niceTicks(low, high) {
  const rough = (high - low) / 4.5;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= rough);
  const ticks = [];
  for (let value = Math.ceil(low / step - 1e-9) * step; value <= high + step * 1e-6; value += step) ticks.push(Math.abs(value) < step * 1e-6 ? 0 : value);
  return ticks;
}
