// The one timeline: what happened, in order, each moment with its mark and the time since the one before.
// A moment is `{at, mark, title, detail}`.
import { html } from '../../vendor/preact.js'
import { exact, span } from '../format.js'
import { Mark } from './status.js'
import { Ago } from './time.js'

export function Timeline({ moments, running }) {
  return html`<ol class="timeline">
    ${moments.map((moment, n) => html`<li key=${n}>
      <${Mark} of=${moment.mark} />
      <div class="moment">
        <div class="moment-head">
          <strong>${moment.title}</strong>
          <span class="faint" title=${moment.at ? exact(moment.at) : ''}>
            ${n > 0 && moment.at && moments[n - 1].at ? `+${span(moment.at - moments[n - 1].at)}` : html`<${Ago} at=${moment.at} />`}
          </span>
        </div>
        ${moment.detail}
      </div>
    </li>`)}
    ${running && html`<li class="running"><span class="pulse" aria-hidden="true"></span><div class="moment faint">${running}</div></li>`}
  </ol>`
}
