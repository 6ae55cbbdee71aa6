/* The player: one cursor over the PHP steps of an episode, and everything that shows it. */

const KINDS = {
  success: { sign: '✓', group: 'Success, as the teacher', one: 'A success' },
  failure: { sign: '✗', group: 'Failure', one: 'A failure' },
  other: { sign: '≠', group: 'Success, not as the teacher', one: 'Another way' },
};
/** The choices worth a row: the one that was taken, and those that p or q gives at least a thousandth. */
const likely = (chosen, p, q) => p.map((_, choice) => choice).filter((choice) => choice === chosen || p[choice] > 0 || (q && q[choice] > 0));

const kindOf = (episode) => (!episode.success ? 'failure' : episode.divergence === null ? 'success' : 'other');

class Player {
  constructor(data, names) {
    this.data = data;
    this.names = names;
    this.peeked = null;
    this.timer = null;
    this.timeline = new Timeline(names, { go: (step) => { this.pause(); this.go(step); }, peek: (step) => this.peek(step) });
    this.listEpisodes();
    this.listen();
    this.choose(0);
  }

  title(index) {
    const episode = this.data.episodes[index];
    return `${KINDS[kindOf(episode)].sign} trace ${episode.trace} · ${plural(episode.actions, 'action')}`;
  }

  /** All episodes by kind, and a button for the first of a kind: a success and a failure are one click away. */
  listEpisodes() {
    const { episodes } = this.data;
    for (const [kind, { sign, group, one }] of Object.entries(KINDS)) {
      const indices = episodes.map((_, index) => index).filter((index) => kindOf(episodes[index]) === kind);
      if (!indices.length) continue;
      byId('episode').append(h('optgroup', { label: group }, ...indices.map((index) => h('option', { value: index }, this.title(index)))));
      const button = h('button', { type: 'button', class: kind, 'data-episode': indices[0] }, `${sign} ${one}`);
      button.addEventListener('click', () => this.choose(indices[0]));
      byId('shortcuts').append(button);
    }
  }

  listen() {
    const on = (id, action) => byId(id).addEventListener('click', action);
    on('first', () => this.jump(0));
    on('back', () => this.jump(this.cursor - 1));
    on('forward', () => this.jump(this.cursor + 1));
    on('last', () => this.jump(this.end));
    on('play', () => this.toggle());
    byId('slider').addEventListener('input', (event) => this.jump(Number(event.target.value)));
    byId('episode').addEventListener('change', (event) => this.choose(Number(event.target.value)));
    byId('speed').addEventListener('change', () => { if (this.timer) { this.pause(); this.toggle(); } });
    document.addEventListener('keydown', (event) => this.key(event));
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest('select, textarea')) return;
    const scrolls = event.target.closest('.scroll, pre');
    const presses = event.target.closest('button, summary, a');
    const keys = {
      ArrowRight: () => this.jump(this.cursor + 1),
      ArrowLeft: () => this.jump(this.cursor - 1),
      ArrowDown: () => this.jump(this.nextAction()),
      ArrowUp: () => this.jump(this.previousAction()),
      Home: () => this.jump(0),
      End: () => this.jump(this.end),
      ']': () => this.choose((this.index + 1) % this.data.episodes.length),
      '[': () => this.choose((this.index + this.data.episodes.length - 1) % this.data.episodes.length),
    };
    if (!presses) keys[' '] = () => this.toggle();
    if (!keys[event.key] || (scrolls && event.key !== '[' && event.key !== ']')) return;
    // Without focus in the player, keys that scroll the page keep doing so.
    const inside = event.target.closest('#player');
    if (!inside && ['ArrowDown', 'ArrowUp', 'Home', 'End', ' '].includes(event.key)) return;
    event.preventDefault();
    keys[event.key]();
  }

  nextAction() {
    const found = this.episode.steps.find((step) => step.index > this.cursor && step.kind === 'action');
    return found ? found.index : this.end;
  }

  previousAction() {
    const found = this.episode.steps.filter((step) => step.index < this.cursor && step.kind === 'action');
    return found.length ? found[found.length - 1].index : 0;
  }

  choose(index) {
    this.pause();
    this.index = index;
    this.episode = unrolled(this.data.episodes[index], this.names);
    this.end = this.episode.steps.length;
    byId('episode').value = String(index);
    for (const button of byId('shortcuts').children) {
      button.setAttribute('aria-pressed', String(Number(button.dataset.episode) === index));
    }
    byId('slider').max = this.end;
    byId('episode-facts').replaceChildren(...this.facts());
    byId('picture').classList.toggle('hidden', !this.episode.pictures.length);
    this.tallest = 0;
    this.timeline.show(this.episode);
    this.peeked = null;
    this.go(0);
  }

  facts() {
    const { episode, names } = this;
    const verdict = h('strong', { class: episode.success ? 'good' : 'bad' }, episode.success ? 'Success' : 'Failure');
    const steps = names.graph ? `, ${plural(this.end + episode.left_out, 'PHP step')}` : '';
    const parts = [verdict, `: ${plural(episode.actions, 'action')}${steps}; ${episode.ending}.`];
    if (episode.divergence === null) parts.push(' It did exactly what the teacher did.');
    else parts.push(` It left the teacher’s trace at time ${episode.divergence}.`);
    if (episode.left_out) parts.push(` Only the first ${plural(this.end, 'step')} are shown.`);
    return parts;
  }

  jump(step) { this.pause(); this.go(step); }

  go(step) {
    this.cursor = Math.max(0, Math.min(this.end, step));
    this.timeline.move(this.cursor);
    this.show();
  }

  toggle() {
    if (this.timer) { this.pause(); return; }
    if (this.cursor >= this.end) this.go(0);
    this.setPlaying(true);
    this.timer = setInterval(() => {
      this.go(this.cursor + 1);
      if (this.cursor >= this.end) this.pause();
    }, Number(byId('speed').value));
  }

  pause() {
    clearInterval(this.timer);
    this.timer = null;
    this.setPlaying(false);
  }

  setPlaying(playing) {
    byId('play').setAttribute('aria-label', playing ? 'Pause' : 'Play');
    byId('play-path').setAttribute('d', playing ? 'M4 3h3v10H4zM9 3h3v10H9z' : 'M4 2.5 13 8l-9 5.5z');
    // While it plays, a screen reader is not told every step.
    byId('now').setAttribute('aria-live', playing ? 'off' : 'polite');
  }

  peek(step) { this.peeked = step; this.show(); }

  /** Show the step under the pointer, else the one at the cursor. */
  show() {
    const { episode } = this;
    const index = this.peeked === null ? this.cursor : this.peeked;
    const step = index < this.end ? episode.steps[index] : null;
    const time = step ? step.time : episode.times;
    const slider = byId('slider');
    const player = byId('player');
    slider.value = this.cursor;
    slider.style.setProperty('--share', `${this.end ? (100 * this.cursor) / this.end : 0}%`);
    slider.setAttribute('aria-valuetext', this.sentence(this.cursor));
    byId('now').textContent = this.sentence(index);
    byId('now').classList.toggle('peeking', this.peeked !== null);
    player.dataset.step = this.cursor;
    player.dataset.shown = index;
    player.dataset.time = time;
    this.showPicture(time);
    this.showDistribution(step);
    byId('stack').replaceChildren(...this.stack(step));
    this.showLine(step);
    this.showObservation(time);
    // Not `disabled`, which would take the focus away from the button that was just used.
    for (const id of ['first', 'back']) byId(id).setAttribute('aria-disabled', String(this.cursor === 0));
    for (const id of ['forward', 'last']) byId(id).setAttribute('aria-disabled', String(this.cursor === this.end));
  }

  sentence(index) {
    const { names, episode } = this;
    if (index >= this.end) {
      return `End of ${plural(this.end, 'step')}: ${episode.ending}. ${episode.success ? 'Success.' : 'Failure.'}`;
    }
    const step = episode.steps[index];
    const name = names.choice(step.procedure, step.choice);
    const does = { action: `takes the action ${name}`, call: `calls ${name}`, return: step.procedure < 0 ? 'stops' : 'returns' }[step.kind];
    const chance = step.policy[step.choice] === undefined ? '' : `, probability ${percent(step.policy[step.choice] / this.data.scale)}`;
    const wrong = episode.divergence === step.time && (step.kind === 'action' || (step.kind === 'return' && step.frames.length < 2));
    const teacher = step.time < episode.teacher.length ? `did ${names.actions[episode.teacher[step.time]]}` : 'was done';
    return `Step ${index + 1} of ${this.end}, time ${step.time}: ${names.procedure(step.procedure)} ${does}${chance}.${wrong ? ` Here the teacher ${teacher}.` : ''}`;
  }

  showPicture(time) {
    const { pictures } = this.episode;
    if (!pictures.length) return;
    const shown = Math.min(time, pictures.length - 1);
    const image = byId('picture-image');
    if (image.dataset.picture !== String(pictures[shown])) image.src = this.data.pictures[pictures[shown]];
    image.dataset.picture = pictures[shown];
    image.dataset.time = time;
    image.alt = `The environment at time ${time}`;
    byId('picture-caption').textContent = `time ${time} of ${this.episode.times}`;
  }

  /** The panel never shrinks within an episode, so that the page below does not jump at every step. */
  showDistribution(step) {
    const panel = byId('distribution');
    panel.replaceChildren(...this.distribution(step));
    this.tallest = Math.max(this.tallest, panel.lastChild.getBoundingClientRect().bottom - panel.getBoundingClientRect().top);
    panel.style.minHeight = `${this.tallest}px`;
  }

  /** One row a choice, with bars for p and q. */
  distribution(step) {
    if (!step) return [h('p', { class: 'empty' }, 'The episode is over.')];
    const { names, data } = this;
    const bar = (value, style) => {
      const fill = h('span', { class: `fill ${style}` });
      fill.style.setProperty('--value', `${Math.max(0, (100 * value) / data.scale)}%`);
      return h('span', { class: 'track' }, fill);
    };
    const cell = (values, choice, style) => {
      const value = values[choice];
      if (value === undefined || value < 0) return [h('td', { class: 'number impossible' }, h('span', { title: 'not possible here' }, '–'))];
      return [h('td', { class: 'number' }, bar(value, style), h('span', {}, percent(value / data.scale)))];
    };
    const q = step.posterior;
    const hasQ = Boolean(q) || this.data.episodes.some((episode) => episode.steps.some((entry) => entry.length > 2));
    const choices = likely(step.choice, step.policy, q);
    const others = step.policy.map((_, choice) => choice).filter((choice) => step.policy[choice] >= 0 && !choices.includes(choice));
    const rows = choices.map((choice) => h('tr', { class: choice === step.choice ? 'chosen' : '' },
      h('th', { scope: 'row' }, names.choice(step.procedure, choice), choice === step.choice ? h('span', { class: 'taken' }, ' taken') : null),
      ...cell(step.policy, choice, 'p'),
      ...(hasQ ? (q ? cell(q, choice, 'q') : [h('td', { class: 'number' }, '')]) : [])));
    const head = h('tr', {}, h('th', { scope: 'col' }, step.procedure < 0 ? 'action' : `step of ${names.procedure(step.procedure)}`),
      h('th', { scope: 'col' }, h('span', { class: 'key p' }), term('p, policy')),
      hasQ ? h('th', { scope: 'col' }, h('span', { class: 'key q' }), term('q, posterior')) : null);
    const less = others.length ? `Less than 0.1%: ${others.map((choice) => names.choice(step.procedure, choice)).join(', ')}. ` : '';
    const seen = !hasQ ? '' : q ? 'q has seen the teacher’s whole trace.' : 'No q here: the episode is no longer on the teacher’s trace.';
    return [h('table', { class: 'distribution' }, h('thead', {}, head), h('tbody', {}, ...rows)), h('p', { class: 'note' }, `${less}${seen}`)];
  }

  stack(step) {
    const { names } = this;
    if (!step || !step.frames.length) return [h('p', { class: 'empty' }, 'Empty.')];
    const rows = step.frames.map((frame, depth) => h('tr', { class: depth === step.frames.length - 1 ? 'active' : '' },
      h('th', { scope: 'row' }, h('span', { class: `swatch ${names.style(frame.procedure)}` }), this.defined(frame.procedure)),
      h('td', {}, String(frame.counter)), h('td', {}, names.choice(frame.procedure, frame.last))));
    const head = h('tr', {}, h('th', { scope: 'col' }, 'procedure'), h('th', { scope: 'col' }, term('τ')), h('th', { scope: 'col' }, 'last step'));
    return [h('table', { class: 'stack' }, h('thead', {}, head), h('tbody', {}, ...rows))];
  }

  /** The lines of the program that say what a step does, in the definition of the procedure that takes it. */
  showLine(step) {
    for (const line of document.querySelectorAll('.program-line.current')) line.classList.remove('current');
    const { program } = this.data;
    if (!program || !step || step.procedure < 0) return;
    const lines = this.definition(step.procedure);
    const does = step.kind === 'action' ? program.actions[step.choice]
      : step.kind === 'call' ? program.procedures[this.names.callee(step.procedure, step.choice)] : null;
    const words = (line) => line.textContent.split('#')[0].split(/\W+/);
    const found = lines.slice(1).filter((line) => words(line).includes(does === null ? 'return' : does));
    for (const line of found.length ? found : lines.slice(0, 1)) line.classList.add('current');
  }

  /** The lines of a procedure's definition; none if the program does without it. */
  definition(procedure) {
    const name = this.data.program && this.data.program.procedures[procedure];
    return [...document.querySelectorAll('.program-line')].filter((line) => name && line.dataset.definition === name);
  }

  /** The name of a procedure, with a link to its definition if the program has one. */
  defined(procedure) {
    const name = this.names.procedure(procedure);
    const [line] = this.definition(procedure);
    return line ? h('a', { href: `#${line.id}` }, name) : name;
  }

  showObservation(time) {
    const names = this.data.observations;
    const list = byId('observation');
    const flat = this.episode.observations[Math.min(time, this.episode.observations.length - 1)];
    if (!names.length || !flat) return;
    const values = new Map();
    for (let place = 0; place < flat.length; place += 2) values.set(flat[place], flat[place + 1]);
    const few = names.length <= 10;
    const shown = names.map((_, index) => index).filter((index) => few || values.has(index) || Array.isArray(this.data.kinds[index]));
    list.replaceChildren(...shown.map((index) => {
      const value = values.get(index) || 0;
      const kind = this.data.kinds[index];
      if (kind !== 'truth') {
        const text = Array.isArray(kind) ? (value in kind ? kind[value] : '(unknown)') : short(value);
        return h('li', { class: 'on' }, h('span', { class: 'sign', 'aria-hidden': 'true' }, '·'), `${names[index]} = ${text}`);
      }
      return h('li', { class: value ? 'on' : 'off' }, h('span', { class: 'sign', 'aria-hidden': 'true' }, value ? '●' : '○'),
        names[index], h('span', { class: 'hidden-text' }, value ? ': yes' : ': no'));
    }));
  }
}
