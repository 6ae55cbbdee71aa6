/* Puts the page together from the data that the report embeds. */

const KEYWORDS = new Set(['def', 'while', 'for', 'in', 'if', 'elif', 'else', 'return', 'not', 'and', 'or', 'break', 'continue', 'repeat', 'True', 'False', 'None', 'import', 'from', 'class', 'pass', 'is']);

const MODELS = { hvil: 'HVIL', exact: 'exact inference', lstm: 'LSTM', feedforward: 'feed-forward', stackrnn: 'Stack-RNN' };

function drawHead(data) {
  byId('title').textContent = data.title;
  const chips = [data.task, MODELS[data.model] || data.model, data.graph ? plural(data.graph.procedures.length, 'procedure') : 'no procedures'];
  byId('chips').append(...chips.filter(Boolean).map((text) => h('li', {}, text)));
}

/** The theme follows the system until the button is used; the choice is kept where the browser allows it. */
function listenTheme() {
  const root = document.documentElement;
  const system = matchMedia('(prefers-color-scheme: dark)');
  const button = byId('theme');
  let stored = null;
  try { stored = localStorage.getItem('hvil-theme'); } catch { /* not kept for files in some browsers */ }
  const dark = () => (root.dataset.theme ? root.dataset.theme === 'dark' : system.matches);
  const label = () => {
    button.textContent = dark() ? 'Light' : 'Dark';
    button.setAttribute('aria-label', `Switch to ${dark() ? 'light' : 'dark'} colours`);
  };
  if (stored === 'dark' || stored === 'light') root.dataset.theme = stored;
  button.addEventListener('click', () => {
    root.dataset.theme = dark() ? 'light' : 'dark';
    try { localStorage.setItem('hvil-theme', root.dataset.theme); } catch { /* as above */ }
    label();
  });
  system.addEventListener('change', label);
  label();
}

function drawSummary(data) {
  const { evaluation, facts } = data;
  const cards = [];
  const share = (measured, name, label, good, count, note) => {
    const value = measured[name];
    if (value === null || value === undefined) return;
    const interval = measured[`${name}_interval`];
    const between = interval ? `95% interval ${percent(interval[0])} to ${percent(interval[1])}` : '';
    const track = interval ? h('span', { class: `interval ${good}`, 'aria-hidden': 'true' }, h('i', {}), h('b', {})) : null;
    if (track) {
      track.style.setProperty('--low', interval[0]);
      track.style.setProperty('--high', interval[1]);
      track.style.setProperty('--value', value);
    }
    cards.push([label, percent(value), track, [between, count ? `${plural(count, 'trace')}` : '', note].filter(Boolean).join(' · ')]);
  };
  const continuous = Number.isFinite(evaluation.squared_error);
  if (continuous) share(evaluation, 'error', 'Wrong end', 'bad', evaluation.traces, 'that end before or after the teacher’s');
  else share(evaluation, 'error', 'Error', 'bad', evaluation.traces, 'with at least one wrong action, the end included');
  share(evaluation, 'error_actions', 'Error of actions', 'bad', null, 'of all actions, the end included');
  share(evaluation, 'error_unseen', 'Error on unseen traces', 'bad', evaluation.traces_unseen, 'not in the training set');
  share(evaluation, 'rollout_success', 'Successful roll-outs', 'good', null, '');
  const evaluated = cards.length;
  if (data.program) share(data.program, 'error', 'Error of the program', 'bad', data.program.traces, 'in place of the network');
  if (evaluated && cards.length > evaluated) cards.splice(1, 0, cards.pop()); // beside the network's
  if (continuous) {
    const explained = Number.isFinite(evaluation.explained) ? `${percent(evaluation.explained)} of the actions’ variance is explained` : '';
    cards.push(['Squared error', short(evaluation.squared_error), null, explained]);
  }
  if (!evaluated) {
    const label = facts.on_traces ? 'Traces followed without an error' : 'Successful episodes';
    cards.push([label, `${facts.success} of ${data.played}`, null, 'of those played for this report']);
  }
  for (const { name, error, interval } of data.baselines) {
    if (name !== data.model) share({ error, error_interval: interval }, 'error', `Error of ${name}`, 'bad', null, 'a baseline, on the same traces');
  }
  const steps = evaluation.php_steps_per_action;
  if (steps && data.graph) cards.push(['PHP steps per action', short(steps), null, 'calls, returns and actions']);
  const inUse = evaluation.procedures_in_use;
  if (inUse && data.graph) cards.push(['Procedures in use', `${short(inUse)} of ${data.graph.procedures.length}`, null, 'perplexity of their PHP steps']);
  const learned = facts.demonstrations ? `from ${plural(facts.demonstrations, 'demonstration')}` : '';
  cards.push(['Training', plural(facts.updates, 'update'), null, [learned, facts.seconds ? `in ${duration(facts.seconds)}` : ''].filter(Boolean).join(' ')]);
  byId('summary').append(h('dl', { class: 'cards' }, ...cards.map(([label, value, track, note]) =>
    h('div', { class: 'stat' }, h('dt', {}, term(label)), h('dd', {}, h('span', { class: 'value' }, value), track, note ? h('span', { class: 'small' }, note) : null)))));
}

/** Source with keywords, calls and comments set apart. */
function highlighted(source) {
  const parts = [];
  const tokens = /(#[^\n]*|"[^"\n]*"|'[^'\n]*'|[A-Za-z_][A-Za-z0-9_]*(?=\()|[A-Za-z_][A-Za-z0-9_]*|\d+(?:\.\d+)?)/g;
  let end = 0;
  for (const match of source.matchAll(tokens)) {
    parts.push(source.slice(end, match.index));
    const [text] = match;
    const style = text[0] === '#' ? 'comment' : /^["']/.test(text) ? 'string' : KEYWORDS.has(text) ? 'keyword'
      : /^\d/.test(text) ? 'value' : source[match.index + text.length] === '(' ? 'name' : '';
    parts.push(style ? h('span', { class: style }, text) : text);
    end = match.index + text.length;
  }
  parts.push(source.slice(end));
  return parts;
}

/** The source line by line; each line knows the procedure in whose definition it stands. */
function programLines(program) {
  let definition = '';
  return program.source.split(/(?<=\n)/).map((text, number) => {
    const begins = /^def (\w+)/.exec(text);
    if (begins) [, definition] = begins;
    return h('span', { class: 'program-line', id: `line-${number}`, 'data-definition': definition }, ...highlighted(text));
  });
}

function drawProgram(program) {
  byId('program-source').classList.toggle('hidden', program.source === null);
  if (program.source !== null) byId('program-source').replaceChildren(h('code', {}, ...programLines(program)));
  byId('program-warning').classList.toggle('hidden', !program.warning);
  byId('program-warning').textContent = program.warning ? `${program.warning[0].toUpperCase()}${program.warning.slice(1)}.` : '';
  const agreements = [['policy_agreement', 'the policy'], ['teacher_agreement', 'the teacher']]
    .filter(([name]) => program[name] !== null)
    .map(([name, who]) => `${percent(program[name])} with ${who} (${program[`${name}_interval`].map(percent).join(' to ')})`);
  const error = program.error === null ? '' : `; its own error is ${percent(program.error)} of ${plural(program.traces, 'test trace')}`;
  const shown = program.source === null ? ' Its text is too long, too wide or too unfaithful for this page; hvil explain prints it.' : '';
  byId('program-facts').textContent = `${plural(program.lines, 'line')}${agreements.length ? `; agrees in ${agreements.join(', ')}` : ''}${error}.${shown}`;
  byId('program-notes').replaceChildren(...program.notes.map((note) => h('li', {}, note)));
}

function drawSettings(groups) {
  byId('settings-tables').append(...groups.map((group) => h('details', {}, h('summary', {}, `${group.name[0].toUpperCase()}${group.name.slice(1)}`),
    h('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': `${group.name} settings` },
      h('table', { class: 'plain settings' }, h('thead', {}, h('tr', {}, ...['setting', 'value', 'meaning'].map((name) => h('th', { scope: 'col' }, name)))),
        h('tbody', {}, ...group.rows.map((row) => h('tr', {}, h('th', { scope: 'row' }, row.name), h('td', {}, row.value), h('td', {}, row.help)))))))));
}

function main() {
  const data = JSON.parse(byId('data').textContent);
  const names = new Names(data);
  listenTheme();
  drawHead(data);
  drawSummary(data);
  byId('stack-panel').classList.toggle('hidden', !data.graph);
  byId('observation-panel').classList.toggle('hidden', !data.observations.length);
  byId('graph').classList.toggle('hidden', !data.graph);
  byId('program').classList.toggle('hidden', !data.program);
  byId('structure').classList.toggle('hidden', !data.graph && !data.program);
  byId('training').classList.toggle('hidden', !data.curves.length);
  if (data.program) drawProgram(data.program);
  new Player(data, names);
  if (data.graph) drawGraph(data, names);
  byId('effects').replaceChildren(...data.effects.map(([name, text]) => h('li', {}, `${name} returns with ${text}`)));
  byId('effects').classList.toggle('hidden', !data.effects.length);
  if (data.curves.length) drawCurves(data.curves);
  drawSettings(data.settings);
}

main();
