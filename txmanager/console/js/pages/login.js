// Logged out: what happened, and the one command that logs in.
import { html } from '../../vendor/preact.js'
import { Copy } from '../ui/copy.js'
import { Note } from '../ui/notes.js'

export const Login = ({ why }) => html`<main class="login">
  <div class="panel">
    <div class="brand"><img src="/console/icon.svg" alt="" /><h1>txmanager</h1></div>
    ${why && html`<${Note} tone="warn">${why}</${Note}>`}
    <p>Log in from a terminal that has the configuration and an API token:</p>
    <pre class="mono">txmanager console <${Copy} text="txmanager console" /></pre>
    <p class="faint">It opens this page with a code that works once, for a minute. The session then ends after 12 hours,
      with this tab, or when you log out. Your token never leaves the terminal.</p>
  </div>
</main>`
