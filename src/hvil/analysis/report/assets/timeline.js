/* The flame-like timeline: one column a PHP step, the call stack hanging from the root, the steps written below. */

const ROW = 28;
const GAP = 3;
const BAND = 96;
const TICKS = 20;

class Timeline {
  constructor(names, actions) {
    this.names = names;
    this.actions = actions;
    this.detail = byId('detail');
    this.overview = byId('overview');
    this.start = 0;
    onWidth(this.detail.parentElement, () => { if (this.episode) this.layout(); });
    this.detail.addEventListener('pointermove', (event) => this.hover(this.columnAt(event)));
    this.detail.addEventListener('pointerleave', () => this.hover(null));
    this.detail.addEventListener('click', (event) => {
      const column = this.columnAt(event);
      if (column !== null) actions.go(column);
    });
    const seek = (event) => {
      const box = this.overview.getBoundingClientRect();
      const share = (event.clientX - box.left) / box.width;
      actions.go(Math.round(share * this.episode.steps.length));
    };
    this.overview.addEventListener('pointerdown', (event) => { this.overview.setPointerCapture(event.pointerId); seek(event); });
    this.overview.addEventListener('pointermove', (event) => { if (event.buttons) seek(event); });
  }

  /** The column under the pointer, or null. */
  columnAt(event) {
    const column = this.start + Math.floor((event.clientX - this.detail.getBoundingClientRect().left) / this.column);
    return column >= 0 && column < this.episode.steps.length ? column : null;
  }

  hover(column) {
    if (column !== this.hovered) { this.hovered = column; this.actions.peek(column); this.drawCursor(); }
  }

  show(episode) {
    this.episode = episode;
    this.cursor = 0;
    this.start = 0;
    this.hovered = null;
    this.layout();
  }

  /** Widths for the room there is; long episodes get an overview and a window that follows the cursor. */
  layout() {
    const width = Math.max(240, this.detail.parentElement.clientWidth);
    const count = this.episode.steps.length;
    this.width = width;
    this.column = Math.max(22, Math.min(44, width / (count + 0.5)));
    this.visible = Math.floor(width / this.column);
    this.long = count + 0.5 > width / this.column;
    this.overview.classList.toggle('hidden', !this.long);
    if (this.long) this.drawOverview();
    this.follow();
    this.draw();
  }

  move(cursor) {
    this.cursor = cursor;
    if (this.follow()) this.draw(); else this.drawCursor();
  }

  /** Keep the cursor in the inner part of the window; says whether the window moved. */
  follow() {
    const before = this.start;
    const margin = Math.floor(this.visible * 0.3);
    const most = Math.max(0, this.episode.steps.length - this.visible + 0.5);
    if (this.cursor < this.start + margin) this.start = this.cursor - margin;
    if (this.cursor > this.start + this.visible - margin) this.start = this.cursor - this.visible + margin;
    this.start = Math.max(0, Math.min(Math.ceil(most), this.start));
    return before !== this.start;
  }

  draw() {
    const { names, episode, column, start } = this;
    const flame = 4 + episode.depth * (ROW + GAP);
    const height = flame + BAND + TICKS;
    const end = Math.min(episode.steps.length, start + this.visible + 1);
    const x = (step) => (step - start) * column;
    const top = 4;
    const parts = [];
    if (names.graph) {
      parts.push(s('defs', {}, s('pattern', { id: 'stripes', width: 7, height: 7, patternUnits: 'userSpaceOnUse', patternTransform: 'rotate(45)' },
        s('rect', { width: 2.4, height: 7, class: 'stripe' }))));
    }
    for (const span of episode.spans) {
      if (span.to < start || span.from >= end) continue;
      const left = Math.max(x(span.from), -8);
      const right = Math.min(x(span.to + 1), this.width + 8);
      const box = { x: left + 1, y: top + span.depth * (ROW + GAP), width: right - left - 2, height: ROW, rx: 5 };
      const style = names.style(span.procedure);
      const visibleLeft = Math.max(left, 0);
      parts.push(s('g', { class: style },
        s('rect', { ...box, class: 'frame' }),
        style.includes('striped') ? s('rect', { ...box, fill: 'url(#stripes)' }) : null,
        s('text', { x: visibleLeft + 8, y: box.y + ROW / 2, class: 'frame-name' },
          fitted(names.procedure(span.procedure), Math.min(right, this.width) - visibleLeft - 12))));
    }
    const labels = [];
    for (const step of episode.steps.slice(start, end)) {
      const middle = x(step.index) + column / 2;
      const style = step.kind === 'call' ? names.style(names.callee(step.procedure, step.choice)) : '';
      labels.push(s('g', { class: `step ${step.kind} ${style}` },
        s('rect', { x: x(step.index) + 1.5, y: flame + 3, width: column - 3, height: BAND - 6, rx: 4, class: 'cell' }),
        s('text', { transform: `translate(${middle} ${flame + BAND - 10}) rotate(-90)`, class: 'step-name' },
          fitted(names.choice(step.procedure, step.choice), BAND - 18, 6.5))));
      if (step.kind === 'action' && (column > 30 || step.time % 5 === 0)) {
        labels.push(s('text', { x: middle, y: flame + BAND + 13, class: 'tick' }, String(step.time)));
      }
    }
    this.mark = s('g');
    this.outline = s('g');
    const left = this.divergenceStep();
    const gone = left === null || left < start || left > end ? [] : [
      s('line', { x1: x(left), x2: x(left), y1: 0, y2: flame + BAND, class: 'divergence' })];
    this.detail.setAttribute('width', this.width);
    this.detail.setAttribute('height', height);
    this.detail.setAttribute('viewBox', `0 0 ${this.width} ${height}`);
    this.detail.replaceChildren(this.mark, ...parts, ...labels, ...gone, this.outline);
    this.flame = flame;
    this.drawCursor();
  }

  /** The first step at the time when the episode leaves the teacher's trace. */
  divergenceStep() {
    const { divergence, steps } = this.episode;
    if (divergence === null) return null;
    const found = steps.find((step) => step.time === divergence);
    return found ? found.index : null;
  }

  drawCursor() {
    const { column, start, cursor, hovered } = this;
    const box = (step, style) => s('rect', {
      x: (step - start) * column + 0.5, y: 1, width: step < this.episode.steps.length ? column - 1 : column / 2 - 2,
      height: this.flame + BAND + TICKS - 2, rx: 6, class: style });
    this.mark.replaceChildren(
      ...(hovered === null || hovered === cursor ? [] : [box(hovered, 'hovered')]), box(cursor, 'cursor'));
    this.outline.replaceChildren(box(cursor, 'cursor-line'));
    if (!this.long) return;
    const scale = this.width / this.episode.steps.length;
    this.window.setAttribute('x', start * scale);
    this.window.setAttribute('width', Math.min(this.width, this.visible * scale));
    this.needle.setAttribute('x1', cursor * scale);
    this.needle.setAttribute('x2', cursor * scale);
  }

  drawOverview() {
    const { names, episode, width } = this;
    const row = Math.max(4, Math.min(9, 44 / Math.max(1, episode.depth)));
    const flame = episode.depth * (row + 1);
    const height = flame + 12;
    const scale = width / episode.steps.length;
    const left = this.divergenceStep();
    this.window = s('rect', { y: 1, height: height - 2, rx: 4, class: 'window' });
    this.needle = s('line', { y1: 0, y2: height, class: 'needle' });
    const ticks = episode.steps.filter((step) => step.kind === 'action').map((step) => `M${(step.index + 0.5) * scale} ${flame + 4}v5`);
    this.overview.setAttribute('width', width);
    this.overview.setAttribute('height', height);
    this.overview.setAttribute('viewBox', `0 0 ${width} ${height}`);
    this.overview.replaceChildren(
      ...episode.spans.map((span) => s('rect', {
        x: span.from * scale, y: span.depth * (row + 1) + 2, height: row, rx: Math.min(1.5, scale),
        width: Math.max(0.7, (span.to + 1 - span.from) * scale - Math.min(1, scale / 3)), class: `frame ${names.style(span.procedure)}` })),
      s('path', { d: ticks.join(''), class: 'overview-actions' }),
      ...(left === null ? [] : [s('line', { x1: left * scale, x2: left * scale, y1: 0, y2: height, class: 'divergence' })]),
      this.window, this.needle);
  }
}
