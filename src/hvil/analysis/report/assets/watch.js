'use strict';
/* Asks for the state of the training now and then, and shows a newer report when there is one. */
(() => {
  const byId = (id) => document.getElementById(id);
  const SECONDS = 1;
  let shown = 0;

  function draw(state) {
    const percent = (value) => `${(100 * value).toFixed(1)}%`;
    const words = [`update ${state.update} of ${state.updates}`];
    if (state.restart !== null) words.push(`restart ${state.restart}`);
    if (state.loss !== null) words.push(`loss ${state.loss.toPrecision(4)}`);
    if (state.error !== null) words.push(`error ${percent(state.error)}`);
    byId('status').textContent = words.join(' · ');
    byId('progress').value = state.updates ? state.update / state.updates : 0;
    if (state.page > shown && (byId('follow').checked || !shown)) {
      shown = state.page;
      byId('report').src = `report?page=${shown}`;
      byId('report').classList.remove('hidden');
      byId('waiting').classList.add('hidden');
    }
  }

  async function look() {
    try {
      const answer = await fetch('state', { cache: 'no-store' });
      if (answer.ok) draw(await answer.json());
    } catch {
      byId('status').textContent = 'the fit is over; hvil report writes the page to keep';
      return;
    }
    setTimeout(look, 1000 * SECONDS);
  }

  look();
})();
