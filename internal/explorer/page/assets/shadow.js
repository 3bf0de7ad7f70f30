import { html, Empty } from "./lib.js";

export function Shadow() {
  return html`<section><h1>Shadow</h1><p class="lead">What rules that are only watched would have done.</p><${Empty} title="Nothing is watched">No server tells of shadow rules yet.<//></section>`;
}
