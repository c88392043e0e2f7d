// What stands where there is nothing, where something went wrong, and where somebody should act.
import { html } from '../../vendor/preact.js'

/** An empty place that says what to do next. */
export const Empty = ({ title, children }) => html`<div class="empty"><strong>${title}</strong><p>${children}</p></div>`

export function Trouble({ problem, retry }) {
  if (!problem) return null
  return html`<div class="note tone-bad" role="alert">
    <div><strong>${problem.message}</strong>${problem.advice && html` <span>${problem.advice}</span>`}</div>
    ${retry && html`<button type="button" onClick=${retry}>Try again</button>`}
  </div>`
}

export const Note = ({ tone = 'warn', children }) => html`<div class=${`note tone-${tone}`}><div>${children}</div></div>`

/** A page's head: what it is, one line of facts, its verbs. */
export const Head = ({ title, children, verbs }) => html`<header class="head">
  <div><h1>${title}</h1>${children && html`<p>${children}</p>`}</div>
  ${verbs && html`<div class="verbs">${verbs}</div>`}
</header>`

export const Panel = ({ title, extra, children, flush }) => html`<section class=${`panel${flush ? ' flush' : ''}`}>
  ${title && html`<div class="panel-head"><h2>${title}</h2>${extra}</div>`}
  <div class="panel-body">${children}</div>
</section>`

export const Facts = ({ of }) => html`<dl class="facts">${of.filter(Boolean).map(([name, value]) =>
  html`<div key=${name}><dt>${name}</dt><dd>${value ?? html`<span class="faint">–</span>`}</dd></div>`)}</dl>`

/** JSON as text. It is never HTML. */
export const Json = ({ value }) => html`<pre class="json" tabindex="0">${JSON.stringify(value, null, 2)}</pre>`
