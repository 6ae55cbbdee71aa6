/* The stack machine: frames of every step from the choices alone (Algorithm 1 of the paper), and names of choices. */

/** Names and colours of procedures and choices. */
class Names {
  constructor(data) {
    this.actions = data.actions;
    this.graph = data.graph;
    this.terminate = data.actions.length;
    this.slots = new Map();
    if (!data.graph) return;
    const used = new Map();
    for (const [, callee, count] of data.graph.edges) used.set(callee, (used.get(callee) || 0) + count);
    const order = data.graph.procedures.map((_, index) => index).filter((index) => index !== data.graph.root);
    order.sort((a, b) => (used.get(b) || 0) - (used.get(a) || 0) || a - b);
    order.forEach((procedure, place) => this.slots.set(procedure, place));
  }

  procedure(index) { return index < 0 ? 'the policy' : this.graph.procedures[index]; }

  /** The style class of a procedure; colours repeat with stripes. */
  style(index) {
    if (index < 0 || index === this.graph.root) return 'proc-root';
    const place = this.slots.get(index);
    return `proc-${place % 7}${place >= 7 ? ' striped' : ''}`;
  }

  callee(procedure, choice) { return this.graph.calls[procedure][choice - this.terminate - 1]; }

  kind(choice) { return choice < this.terminate ? 'action' : choice === this.terminate ? 'return' : 'call'; }

  choice(procedure, choice) {
    if (choice < 0) return 'none';
    if (choice < this.terminate) return this.actions[choice];
    if (choice === this.terminate) return procedure < 0 ? 'stop' : 'return';
    return `${this.procedure(this.callee(procedure, choice))}()`;
  }
}

/** An episode with the stack at each step, and every invocation as a span of steps. */
function unrolled(episode, names) {
  const steps = [];
  const spans = [];
  let time = 0;
  let before = -1;
  let stack = names.graph ? [{ procedure: names.graph.root, counter: 0, last: -1, span: null }] : [];
  if (stack.length) spans.push((stack[0].span = { procedure: stack[0].procedure, depth: 0, from: 0, to: 0 }));
  episode.steps.forEach(([choice, policy, posterior], index) => {
    for (const frame of stack) frame.span.to = index;
    const top = stack[stack.length - 1];
    const procedure = top ? top.procedure : -1;
    steps.push({
      index, time, choice, procedure, policy, posterior: posterior || null,
      frames: top ? stack.map(({ procedure, counter, last }) => ({ procedure, counter, last })) : [],
      last: top ? top.last : before, kind: names.kind(choice),
    });
    if (choice < names.terminate) { time += 1; before = choice; }
    if (!top) return;
    if (choice === names.terminate) { stack = stack.slice(0, -1); return; }
    top.counter += 1;
    top.last = choice;
    if (choice > names.terminate) {
      const callee = names.callee(procedure, choice);
      const span = { procedure: callee, depth: stack.length, from: index + 1, to: index + 1 };
      spans.push(span);
      stack = [...stack, { procedure: callee, counter: 0, last: -1, span }];
    }
  });
  const depth = spans.reduce((most, span) => Math.max(most, span.depth + 1), 0);
  return { ...episode, steps, spans: spans.filter((span) => span.from < steps.length), depth, times: time };
}
