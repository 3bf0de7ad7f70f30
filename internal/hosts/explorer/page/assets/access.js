import { html, go, readQuery, useAsk, useState, useEffect, State, Field, Choice, Terminal, Trouble, Notes, Busy, Empty, More, inRow } from "./lib.js";

const looks = { Active: "yes", Pending: "if", Denied: "denied", Ended: "unknown" };
const order = ["Pending", "Active", "Denied", "Ended"];
const time = (t) => (t || "").replace("T", " ").replace("Z", "");
const open = (r) => r.status?.state === "Pending" || r.status?.state === "Active";
const length = (s) => (s % 3600 === 0 ? s / 3600 + " h" : s % 60 === 0 ? s / 60 + " min" : s + " s");

// what is the part of the role that was asked for.
const what = (s) => [(s.verbs || []).join(", "), (s.resourceKinds || []).join(", "), (s.resourceNames || []).join(", "), s.once ? "one write" : ""].filter(Boolean).join(" · ");

// Access is what was asked for: what waits for an approval, and what counts now. It changes nothing.
export function Access({ at, world }) {
  const [q, setQ] = useState({});
  const [state, ask] = useAsk("access");
  useEffect(() => {
    const from = readQuery();
    setQ(from);
    ask({ namespace: from.namespace || "" });
  }, [at]);
  const set = (change) => setQ({ ...q, ...change });
  const submit = (e) => {
    e?.preventDefault();
    const before = location.search;
    go("access", q);
    if (location.search === before) ask({ namespace: q.namespace || "" });
  };
  const all = state.result?.answer.items || [];
  const shown = all.filter((r) => q.show === "all" || open(r)).sort((a, b) => order.indexOf(a.status?.state) - order.indexOf(b.status?.state));
  return html`<section>
    <h1>Access</h1>
    <p class="lead">What people have asked for: what waits for an approval, and what counts now.</p>
    <form class="question" onSubmit=${submit}>
      <${Field} label="Namespace" value=${q.namespace} onInput=${(namespace) => set({ namespace })} list=${world.namespaces} width="14rem" placeholder="all" />
      <${Choice} label="Show" value=${q.show || ""} onInput=${(show) => set({ show })} options=${[["", "pending and active"], ["all", "all"]]} />
      <button class="primary">Ask</button>
    </form>
    <${Busy} on=${state.busy} /><${Trouble} error=${state.error} retry=${submit} />
    ${state.result && html`<div class="answer" data-ready=${!state.busy}>
      ${shown.length === 0 ? html`<${Empty} title="Nothing is asked for">${all.length === 0 ? "There are no requests that you may see." : "All requests that you may see are over."}<//>`
      : html`<div class="scroll" tabindex="0" role="region" aria-label="Access requests"><table class="grid"><caption class="sr">Access requests</caption>
        <thead><tr><th scope="col">State</th><th scope="col">Who</th><th scope="col">Request</th><th scope="col">Rule</th><th scope="col">For</th><th scope="col">Until</th><th scope="col">Reason</th><th scope="col">Approved by</th></tr></thead><tbody>
        <${More} items=${shown} first=${60} wrap=${inRow} words="requests" render=${(r) => html`<tr key=${r.metadata.uid} data-request=${r.metadata.namespace + "/" + r.metadata.name} data-state=${r.status?.state}>
          <td><${State} is=${looks[r.status?.state] || "unknown"} word=${(r.status?.state || "unknown").toLowerCase()} /></td><td>${r.spec.requester?.username}</td><th scope="row">${r.metadata.namespace}/${r.metadata.name}</th>
          <td>${r.spec.ruleRef.name}${what(r.spec) && html`<br /><span class="weak">${what(r.spec)}</span>`}</td><td class="num">${length(r.spec.durationSeconds)}</td><td class="num">${time(r.status?.until || (r.status?.state === "Pending" ? r.status?.pendingUntil : ""))}</td><td>${r.spec.reason}</td><td>${(r.status?.approvals || []).map((a) => a.by).join(", ")}</td></tr>`} /></tbody></table></div>`}
      <${Notes} notes=${state.result.notes} /><${Terminal} command=${state.result.command} />
    </div>`}
  </section>`;
}
