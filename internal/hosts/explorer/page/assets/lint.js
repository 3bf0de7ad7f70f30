import { html, go, readQuery, useAsk, useState, useEffect, State, Field, Terminal, Trouble, Notes, Busy, Empty, More, inRow } from "./lib.js";

const looks = { error: "denied", warning: "if", note: "unknown" };

// Lint is what is wrong with the policy of the server, worst first.
export function Lint({ at, session }) {
  const [q, setQ] = useState({});
  const [state, ask] = useAsk("lint");
  useEffect(() => {
    const from = readQuery();
    setQ(from);
    ask({ severity: from.severity || "warning", namespace: session.namespace });
  }, [at]);
  const submit = (e) => {
    e?.preventDefault();
    const before = location.search;
    go("lint", q);
    if (location.search === before) ask({ severity: q.severity || "warning", namespace: session.namespace });
  };
  const order = ["error", "warning", "note"];
  const findings = [...(state.result?.answer.findings || [])].sort((a, b) => order.indexOf(a.severity) - order.indexOf(b.severity));
  return html`<section>
    <h1>Lint</h1>
    <p class="lead">Rules that do not do what they seem to, and grants that are as good as every right.</p>
    <form class="question" onSubmit=${submit}>
      <${Field} label="Least severity" value=${q.severity} onInput=${(severity) => setQ({ severity })} list=${order} width="10rem" placeholder="warning" />
      <button class="primary">Ask</button>
    </form>
    <${Busy} on=${state.busy} words="Reading the policy and looking at every rule…" /><${Trouble} error=${state.error} retry=${submit} />
    ${state.result && html`<div class="answer" data-ready=${!state.busy}>
      ${findings.length === 0 ? html`<${Empty} title="Nothing to complain about">No rule was found that needs attention.<//>`
      : html`<div class="scroll" tabindex="0" role="region" aria-label="Findings"><table class="grid"><caption class="sr">Findings</caption>
        <thead><tr><th scope="col">Severity</th><th scope="col">Code</th><th scope="col">Where</th><th scope="col">What</th><th scope="col">What to do</th></tr></thead><tbody>
        <${More} items=${findings} first=${60} wrap=${inRow} words="findings" render=${(f, i) => html`<tr key=${i} data-code=${f.code}><td><${State} is=${looks[f.severity]} word=${f.severity} /></td><td>${f.code}</td><th scope="row">${f.object}${f.field ? " " + f.field : ""}</th><td>${f.message}</td><td>${f.remedy}</td></tr>`} /></tbody></table></div>`}
      <${Notes} notes=${state.result.notes} /><${Terminal} command=${state.result.command} />
    </div>`}
  </section>`;
}
