// A moment as "3 min ago", the exact one on hover. All of them are drawn again together, every few seconds.
import { html } from '../../vendor/preact.js'
import { ago, exact, span } from '../format.js'
import { clockAhead } from '../live.js'
import { observable, useValue } from '../observable.js'

const tick = observable(0)
setInterval(() => document.hidden || tick.set(tick.value + 1), 5000)

const now = () => Date.now() + clockAhead

/** `at` is milliseconds or RFC 3339. */
export function Ago({ at }) {
  useValue(tick)
  if (!at) return html`<span class="faint">–</span>`
  const ms = typeof at === 'number' ? at : Date.parse(at)
  return html`<time datetime=${new Date(ms).toISOString()} title=${exact(ms)}>${ago(now() - ms)}</time>`
}

/** How long something lasts by now. */
export function Since({ ms }) {
  useValue(tick)
  return html`<time title=${exact(ms)}>${span(now() - ms)}</time>`
}
