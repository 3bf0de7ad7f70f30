import { html, go, readQuery, useAsk, useState, useEffect, State, Field, Terminal, Trouble, Notes, Busy, Empty, More, inRow, objectName } from "./lib.js";

const results = { Allow: "yes", Deny: "denied", Undecided: "unknown" };
const words = { Allow: "allowed", Deny: "denied", Undecided: "not known" };
const what = (f) => f.path || f.resource + (f.apiGroup ? "." + f.apiGroup : "") + (f.subresource ? "/" + f.subresource : "");
const count = (n) => (n || 0).toLocaleString("en");

function Card({ rule }) {
  const s = rule.status || {}, flips = s.flips || [];
  return html`<article class=${"card " + (rule.denies ? "denied" : "yes")} data-rule=${rule.metadata.name}>
    <div class="top"><${State} is=${rule.denies ? "denied" : "yes"} word=${rule.denies ? "would deny" : "would allow"} /><h3>${rule.description || rule.metadata.name}</h3><span class="flag weak">${rule.enforcement}</span></div>
    <p class="origin">${rule.about.kind} ${objectName(rule.about)}${rule.about.rule != null ? " rule " + rule.about.rule : ""} · ${rule.metadata.name}</p>
    <dl class="figures"><div><dt>applied to</dt><dd>${count(s.applied)}</dd></div><div><dt>would allow</dt><dd>${count(s.wouldAllow)}</dd></div><div><dt>would deny</dt><dd>${count(s.wouldDeny)}</dd></div><div><dt>not known</dt><dd>${count(s.undecided)}</dd></div><div><dt>since</dt><dd>${s.since ? s.since.replace("T", " ").replace("Z", "") : "–"}</dd></div></dl>
    ${flips.length > 0 && html`<div class="scroll" tabindex="0" role="region" aria-label="Requests that would have been answered differently"><table class="grid"><caption class="sr">Requests that would have been answered differently</caption>
      <thead><tr><th scope="col">Time</th><th scope="col">User</th><th scope="col">Request</th><th scope="col">Was</th><th scope="col">Would be</th></tr></thead>
      <tbody><${More} items=${flips} first=${5} wrap=${inRow} render=${(f, i) => html`<tr key=${i}><td class="num">${(f.time || "").slice(11, 19)}</td><td>${f.user}</td>
        <td><button type="button" class="quiet" onClick=${() => go("why", { verb: f.verb, resource: f.path || f.resource + (f.apiGroup ? "." + f.apiGroup : ""), subresource: f.subresource, name: f.verb === "create" ? "" : f.name, namespace: f.namespace, subject: f.user })}>${f.verb} ${what(f)} ${f.name || ""}</button></td>
        <td><${State} is=${results[f.was]} word=${words[f.was]} /></td><td><${State} is=${results[f.would]} word=${words[f.would]} /></td></tr>`} /></tbody></table></div>`}
  </article>`;
}

export function Shadow({ at, world }) {
  const [q, setQ] = useState({});
  const [state, ask] = useAsk("shadow");
  useEffect(() => {
    const from = readQuery();
    setQ(from);
    ask({ namespace: from.namespace || "" });
  }, [at]);
  const submit = (e) => {
    e?.preventDefault();
    const before = location.search;
    go("shadow", q);
    if (location.search === before) ask({ namespace: q.namespace || "" });
  };
  const rules = state.result?.answer.items || [];
  return html`<section>
    <h1>Shadow</h1>
    <p class="lead">What rules that are not enforced yet would have done to the requests since they were written.</p>
    <form class="question" onSubmit=${submit}>
      <${Field} label="Namespace" value=${q.namespace} onInput=${(namespace) => setQ({ namespace })} list=${world.namespaces} width="14rem" placeholder="all" />
      <button class="primary">Ask</button>
    </form>
    <${Busy} on=${state.busy} />
    ${/unknown command/.test(state.error?.message) ? html`<${Empty} title="Everything is enforced">This release knows no rules that are only watched.<//>` : html`<${Trouble} error=${state.error} retry=${submit} />`}
    ${state.result && html`<div class="answer" data-ready=${!state.busy}>
      ${rules.length === 0 && html`<${Empty} title="Everything is enforced">A rule with enforcement: Shadow or Warn would be here, with what it would have changed.<//>`}
      ${rules.map((r) => html`<${Card} key=${(r.metadata.namespace || "") + "/" + r.metadata.name} rule=${r} />`)}
      <${Notes} notes=${state.result.notes} /><${Terminal} command=${state.result.command} />
    </div>`}
  </section>`;
}
