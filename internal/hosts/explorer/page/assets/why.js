import { html, api, go, readQuery, useAsk, useState, useEffect, State, Subject, Ref, Field, Choice, Area, ActionFields, Terminal, Trouble, Notes, Busy, Copy, RuleText } from "./lib.js";

const answers = { Allow: "yes", Deny: "denied", NoOpinion: "no", Conditional: "if", NotAsked: "skipped" };
const words = { Allow: "allows", Deny: "denies", NoOpinion: "no opinion", Conditional: "depends", NotAsked: "not asked" };
const truths = { True: "yes", False: "no", Error: "denied", Unknown: "unknown" };

// Parts are the parts of a condition, each with its value.
export const Parts = ({ parts }) => html`<table class="parts"><caption class="sr">The parts of the condition and their values</caption>
  <thead class="sr"><tr><th>Part</th><th>Value</th></tr></thead>
  <tbody>${parts.map((p, i) => html`<tr key=${i} class=${p.error ? "bad" : p.value === "true" ? "true" : p.value === "false" ? "false" : ""}>
    <td style=${{ "--depth": p.depth || 0 }}><code>${p.expression}</code></td>
    <td><code>${p.error ? "✕ " + p.error : p.value === "true" ? "✓ true" : p.value === "false" ? "– false" : p.value}</code></td></tr>`)}</tbody></table>`;

export const ConditionNode = ({ of }) => html`<div class="condition">
  <p><span class="dim">${of.effect === "Deny" ? "denies if" : of.effect === "NoOpinion" ? "passes on if" : "allows if"}</span> ${of.description || (!of.condition && "condition " + of.id)}
    ${" "}<${State} is=${truths[of.value]} word=${{ True: "true", False: "false", Error: "fails", Unknown: "depends on the object" }[of.value]} /></p>
  ${of.condition && !(of.parts?.length > 1) && html`<pre class="cel">${of.condition}</pre>`}
  ${of.error && html`<p class="bad">${of.error}</p>`}
  ${of.parts?.length > 1 && html`<${Parts} parts=${of.parts} />`}
</div>`;

const subjectOf = (s) => (s.kind === "Group" ? { groupName: s.name } : s.kind === "ServiceAccount" ? { serviceAccount: s.namespace + "/" + s.name } : { userName: s.name });

const Rule = ({ of }) => html`<li class=${"rule" + (of.decides ? " decides" : "") + (of.yields ? " yields" : "")}>
  <div class="node">
    <div class="top"><${State} is=${of.effect === "Deny" ? "denied" : "yes"} word=${of.effect === "Deny" ? "deny" : "allow"} /><${RuleText} of=${of.rule} />${of.decides && html`<span class="flag">decides</span>`}${of.yields && html`<span class="flag weak">overridden by a cluster-wide grant</span>`}</div>
    <ol class="path" aria-label="How the subject comes by it">
      <li><${Subject} of=${subjectOf(of.subject)} /></li><li><${Ref} of=${of.binding} /></li><li><${Ref} of=${of.role} /> <span class="dim">rule ${of.ruleIndex}</span></li>
    </ol>
    ${of.condition && html`<${ConditionNode} of=${of.condition} />`}
  </div></li>`;

// Trace is a decision as a graph: the chain from top to bottom, and to the right of it what each part of it goes by.
export function Trace({ trace }) {
  const quiet = ["replicas", "policy-sync"];
  const chain = (trace.authorizers || []).filter((a) => !(a.answer === "NoOpinion" && !a.error && quiet.includes(a.name)));
  return html`<ol class="chain" aria-label="The chain of authorizers, in its order">${chain.map((a) => html`<li key=${a.name} class=${"step " + answers[a.answer] + (a.name === trace.decidedBy ? " decides" : "")}>
    <div class="head"><span class="dot" aria-hidden="true"></span><strong>${a.name}</strong> <${State} is=${answers[a.answer]} word=${words[a.answer]} />${a.name === trace.decidedBy && html` <span class="flag">decides</span>`}</div>
    ${a.reason && !a.rules?.length && !a.conditions?.length && a.answer !== "NotAsked" && html`<p class="dim">${a.reason}</p>`}
    ${a.error && html`<p class="bad">${a.error}</p>`}
    ${(a.rules?.length > 0 || a.conditions?.length > 0) && html`<ul class="rules">${(a.rules || []).map((r, i) => html`<${Rule} key=${i} of=${r} />`)}
      ${(a.conditions || []).map((c) => html`<li key=${c.id} class="rule"><div class="node"><${ConditionNode} of=${c} /></div></li>`)}</ul>`}
    ${a.moreRules > 0 && html`<p class="dim">and ${a.moreRules} more rules</p>`}
  </li>`)}</ol>`;
}

const Remedy = ({ of }) => html`<section class="remedy" aria-label="What would change it"><h2>What would change it</h2>
  ${of.change?.length > 0 && html`<p>The smallest change of the object that would be allowed:</p><ul class="change">${of.change.map((c) => html`<li key=${c.path}><code>${c.path}${c.value && ": " + c.value}</code>${!c.value && " (remove it)"}</li>`)}</ul>`}
  ${of.remove?.length > 0 && html`<p>Denied by ${of.remove.length === 1 ? "this rule" : "these rules"}. Take the subject out of the binding, or the rule out of the role:</p><ul class="rules">${of.remove.map((r, i) => html`<${Rule} key=${i} of=${r} />`)}</ul>`}
  ${of.grant && html`<p>The smallest grant that is missing:</p><pre class="yaml">${of.grant}</pre>
    <p class="row"><${Copy} text=${of.grant} label="Copy YAML" /><button type="button" class="quiet" onClick=${() => go("plan", { yaml: of.grant })}>See its plan</button></p>`}
  ${of.note && html`<p class="dim">${of.note}</p>`}</section>`;

export function Verdict({ trace, status, withObject }) {
  const is = answers[trace.decision];
  const title = { yes: "Yes", denied: "No, it is denied", no: "No, nobody allows it", if: "It depends on the object" }[is];
  const because = trace.decision === "Allow" ? status?.allowReason : trace.decision === "Conditional" ? (trace.narrowedTo ? "The list is narrowed to " + trace.narrowedTo : "The conditions below decide. Give the object to see how.") : status?.denyReason;
  return html`<div class=${"verdict " + is} role="status" data-decision=${trace.decision}><${State} is=${is} /><div><strong>${title}</strong>${withObject && html`<span class="dim"> with this object</span>`}${because && html`<p>${because}</p>`}</div></div>`;
}

export function Why({ at, session, world }) {
  const [q, setQ] = useState({});
  const [object, setObject] = useState("");
  const [names, setNames] = useState([]);
  const [state, ask] = useAsk("why");
  const set = (part) => setQ((old) => ({ ...old, ...part }));
  const question = (from, text) => ({ verb: from.verb, resource: from.resource, name: from.name || "", subresource: from.subresource || "", namespace: from.namespace || "", subject: from.subject || "", stored: from.object === "stored", object: from.object === "pasted" ? text : "" });
  useEffect(() => {
    const from = readQuery();
    if (from.verb && from.resource) {
      setQ(from);
      if (from.object !== "pasted" || object) ask(question(from, object));
    } else setQ({ verb: "delete", resource: "pods", namespace: session.namespace, ...from });
  }, [at]);
  useEffect(() => {
    setNames([]);
    if (!world.resources.some((r) => r.name === q.resource)) return;
    const wait = setTimeout(() => api("objects", { resource: q.resource, namespace: q.namespace || "", name: "" }).then(setNames, () => {}), 250);
    return () => clearTimeout(wait);
  }, [q.resource, q.namespace, world]);
  const submit = (e) => {
    e?.preventDefault();
    const before = location.search;
    go("why", q);
    if (location.search === before) ask(question(q, object));
  };
  const review = state.result?.answer;
  return html`<section>
    <h1>Why?</h1>
    <p class="lead">How a decision comes about: the chain, the rules, the binding that brings each, and what every part of a condition is worth.</p>
    <form class="question" onSubmit=${submit}>
      <${Field} label="Subject" value=${q.subject} onInput=${(subject) => set({ subject })} width="13rem" placeholder=${session.user + " (you)"} />
      <${ActionFields} q=${q} set=${set} world=${{ ...world, names }} withName />
      <${Choice} label="Object" value=${q.object || ""} onInput=${(object) => set({ object })} options=${[["", "not known"], ["stored", "from the cluster"], ["pasted", "pasted"]]} />
      <button class="primary">Ask</button>
      ${q.object === "pasted" && html`<${Area} label="The object, as YAML or JSON" value=${object} onInput=${setObject} rows=${8} placeholder=${"apiVersion: v1\nkind: Pod\nmetadata: …"} />`}
      ${q.object === "stored" && !q.name && html`<p class="dim wide">Choose a name, so that it is known which object to read.</p>`}
    </form>
    <p class="hint">A subject is a user, group:NAME or serviceaccount:NAMESPACE/NAME, judged without further groups.</p>
    <${Busy} on=${state.busy} />
    <${Trouble} error=${state.error} retry=${submit} />
    ${review && html`<div class="answer" data-ready=${!state.busy}>
      <${Verdict} trace=${review.status.trace} status=${review.status} withObject=${review.spec.content} />
      <${Trace} trace=${review.status.trace} />
      ${review.status.trace.remedy && html`<${Remedy} of=${review.status.trace.remedy} />`}
      ${review.status.evaluationError && html`<p class="bad">${review.status.evaluationError}</p>`}
      <${Notes} notes=${state.result.notes} />
      <${Terminal} command=${state.result.command} note=${q.object === "pasted" ? "The object is read from standard input." : ""} />
    </div>`}
  </section>`;
}
