/* Helpers shared by the parts of the page. Text from data is only ever set as text, never as markup. */

const SVG = 'http://www.w3.org/2000/svg';

/** An element with attributes and children; strings become text. */
function make(space, tag, attributes, children) {
  const element = space ? document.createElementNS(space, tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value === true ? '' : value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}
const h = (tag, attributes, ...children) => make(null, tag, attributes, children);
const s = (tag, attributes, ...children) => make(SVG, tag, attributes, children);
const byId = (id) => document.getElementById(id);

const whole = new Intl.NumberFormat('en');
const plural = (count, word) => `${whole.format(count)} ${word}${count === 1 ? '' : 's'}`;

/** A share as a percentage, with as many digits as say something. */
function percent(value) {
  if (value === 0 || value === 1) return `${100 * value}%`;
  return `${(100 * value).toFixed(1)}%`;
}

/** A number in at most four significant digits. */
function short(value) {
  if (value === 0) return '0';
  if (value < 0) return `−${short(-value)}`;
  if (value >= 1e6 || value < 1e-3) return value.toExponential(1);
  return value >= 1000 ? whole.format(Math.round(value)) : String(Number(value.toPrecision(3)));
}

function duration(seconds) {
  if (seconds < 90) return `${seconds < 10 ? seconds.toFixed(1) : Math.round(seconds)} s`;
  return seconds < 5400 ? `${Math.round(seconds / 60)} min` : `${(seconds / 3600).toFixed(1)} h`;
}

const TERMS = {
  Error: 'Traces with at least one wrong action, the end included.',
  'Error of actions': 'Wrong actions of all, the end included, each after the observation that the teacher had.',
  'Wrong end': 'Traces that the policy ends before or after the teacher.',
  'Squared error': 'Mean squared distance of the policy’s action from the teacher’s, in the units of the data.',
  'Error on the training traces': 'The same error on the traces that it learned from.',
  'PHP steps per action': 'A PHP step is a call, an action or a return of a procedure.',
  'Procedures in use': 'The number of procedures that would share the PHP steps equally and be as varied (the perplexity).',
  'ELBO of a trace': 'A lower bound of the log-likelihood of a trace, in nats. The higher, the better.',
  Loss: 'What training makes small.',
  'Entropy of the posterior': 'How undecided the posterior is about the call structure of a trace, in nats.',
  'Entropy weight': 'What keeps the posterior undecided at first; it falls in the course of training.',
  'Negative log-likelihood per action': 'How unlikely the policy finds the teacher’s actions, in nats. The lower, the better.',
  'Log-likelihood': 'How likely the policy finds the teacher’s traces, in nats. The higher, the better.',
  'Log-likelihood per action, held-out traces': 'In nats; it decides when training stops, and which weights are kept.',
  'p, policy': 'How likely the policy finds each step, given what it sees now.',
  'q, posterior': 'How likely each step is, given the whole trace of the teacher.',
  τ: 'Steps that the procedure has taken so far.',
};

/** A word, explained to whoever points at it or taps it. */
function term(word, style = '') {
  const meaning = TERMS[word];
  return meaning ? h('abbr', { class: `term ${style}`, title: meaning, tabindex: 0 }, word) : h('span', { class: style || null }, word);
}

/** Text cut to about a width in pixels. */
function fitted(text, width, size = 7.1) {
  const room = Math.floor(width / size);
  if (text.length <= room) return text;
  return room < 2 ? '' : `${text.slice(0, room - 1)}…`;
}

/** Redraw when an element's width changes. */
function onWidth(element, draw) {
  let last = -1;
  new ResizeObserver(() => {
    const width = Math.floor(element.clientWidth);
    if (width && width !== last) { last = width; draw(width); }
  }).observe(element);
}
